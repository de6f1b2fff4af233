//! `paceline data`: which data sets are there, fetching them, and making some up.

use std::time::{Duration, Instant};

use paceline_data::sparse::{Clicks, FIRST_TEST_ROW, write_clicks_file};
use paceline_data::{DatasetDirs, KnownDataset, fetch};

use super::print;
use crate::Failure;
use crate::cli::MakeClicks;
use crate::interrupt::Interrupt;
use crate::progress::write_line;
use crate::table::{columns, grouped};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Shows every data set that a job can name, and where it is.
pub(super) fn list() -> Result<(), Failure> {
    let places = DatasetDirs::from_env()?;
    let mut rows = vec![["data.kind", "state", "where"].map(String::from).to_vec()];
    for made in ["digits", "clicks", "fake-images"] {
        let row = [made, "generated", "nowhere: made from the seed when needed"];
        rows.push(row.map(String::from).to_vec());
    }
    for read in ["libsvm", "tfrecord", "criteo", "images"] {
        rows.push([read, "files of yours", "where data.path says"].map(String::from).to_vec());
    }
    for known in KnownDataset::ALL {
        for status in places.status(known.spec()) {
            let state = if status.is_complete() {
                format!("complete, {} MB", status.bytes / 1_000_000)
            } else if status.exists {
                format!("lacks {}", status.missing.join(", "))
            } else {
                "not there".into()
            };
            let place = format!("{} ({})", status.dir.display(), status.kind);
            rows.push(vec![known.name().to_owned(), state, place]);
        }
    }
    print(&columns(&rows))?;
    print(
        "\n`paceline data get NAME` fetches one; data.path in a job names a directory of its own\n",
    )
}

/// Fetches a data set into the cache, saying on standard error what it does.
pub(super) fn get(known: KnownDataset, mirrors: Vec<String>) -> Result<(), Failure> {
    let places = DatasetDirs::from_env()?;
    let mut options = fetch::FetchOptions::new(known.spec());
    if !mirrors.is_empty() {
        options.mirrors = mirrors;
    }
    let mut report = |progress: fetch::FetchProgress| {
        if !matches!(progress, fetch::FetchProgress::Bytes { .. }) {
            write_line(&progress.to_string());
        }
    };
    let dir = fetch::fetch_dataset(known.spec(), &places, &options, &mut report)?;
    print(&format!("{} is in {}\n", known.name(), dir.display()))
}

/// Writes made-up clicks to a file, which is there whole in the end or not at all.
pub(super) fn make(args: &MakeClicks) -> Result<(), Failure> {
    let deaf = |error| Failure::Training(format!("cannot listen for signals: {error}"));
    let interrupt = Interrupt::listen().map_err(deaf)?;
    let clicks = Clicks::new(args.features as usize, args.seed);
    let first = if args.test { FIRST_TEST_ROW } else { 0 };
    let rows = first..first + args.rows;
    let mut told = Instant::now();
    let mut go_on = |so_far| {
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            write_line(&format!("{} of {} rows", grouped(so_far), grouped(args.rows)));
        }
        interrupt.signal().is_none()
    };
    let path = &args.file;
    let whole = write_clicks_file(&clicks, rows, args.format.into(), args.gzip, path, &mut go_on)?;
    match interrupt.signal() {
        Some(signal) if !whole => Err(Failure::Signal { signal }),
        _ => print(&format!("{} rows are in {}\n", grouped(args.rows), path.display())),
    }
}
