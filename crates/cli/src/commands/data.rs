//! `paceline data`: lists, fetches and generates data sets.

use std::path::PathBuf;
use std::time::Instant;

use paceline_data::sparse::{
    CacheRemoval, CachedRows, Clicks, FIRST_TEST_ROW, row_cache_dir, write_clicks_file,
};
use paceline_fetch::{DatasetDirs, FetchOptions, FetchProgress, KnownDataset, fetch_dataset};
use paceline_table::{ColumnSpec, TableSpec, describe_stream, describe_table};

use super::output::print;
use crate::Failure;
use crate::data_args::{DescribeArgs, MakeClicksArgs};
use crate::data_display::DataDisplay;
use crate::fetch_display::FetchDisplay;
use crate::interrupt::Interrupt;
use crate::stop_source::StopSource;
use paceline_terminal::{
    counted, grouped, output_width, with_long_last, wrap_comments, wrap_output,
};

/// Lists every data set that a job can name, and its location.
pub(super) fn list() -> Result<(), Failure> {
    let places = DatasetDirs::from_env()?;
    let mut rows = vec![["data.kind", "state", "where"].map(String::from).to_vec()];
    for made in ["digits", "clicks", "fake-images"] {
        let row = [made, "generated", "from the seed, when needed"];
        rows.push(row.map(String::from).to_vec());
    }
    for read in ["table", "libsvm", "libffm", "tfrecord", "criteo", "numpy", "images"] {
        rows.push([read, "your files", "data.path in the job"].map(String::from).to_vec());
    }
    for known in KnownDataset::ALL {
        let mut all = places.status(known.spec());
        if all.iter().any(|status| status.is_complete()) {
            all.retain(|status| status.is_complete());
        }
        for status in all {
            let mut place = format!("{} ({})", status.dir.display(), status.kind);
            let state = if status.is_complete() {
                format!("complete, {} MB", status.bytes / 1_000_000)
            } else if status.exists {
                // The last column is the one that wraps.
                place.push_str(&format!(", lacks {}", status.missing.join(", ")));
                "incomplete".into()
            } else {
                "missing".into()
            };
            rows.push(vec![known.name().to_owned(), state, place]);
        }
    }
    print(&with_long_last(&rows, output_width()))?;
    let text = "`paceline data get mnist` or `paceline data get fashion-mnist` fetches a set into \
                the cache. In a job, data.path names another directory.";
    print(&format!("\n{}\n", wrap_output(text, "")))
}

/// Fetches a data set into the cache, and reports progress on standard error.
pub(super) fn get(known: KnownDataset, mirrors: Vec<String>) -> Result<(), Failure> {
    let places = DatasetDirs::from_env()?;
    let mut options = FetchOptions::new(known.spec());
    if !mirrors.is_empty() {
        options.mirrors = mirrors;
    }
    let mut display = FetchDisplay::default();
    let mut report = |progress: FetchProgress| display.show(&progress);
    let dir = fetch_dataset(known.spec(), &places, &options, &mut report)?;
    drop(display);
    print(&format!("{} is in {}\n", known.name(), dir.display()))
}

/// Prints how the columns of a table would be used.
pub(super) fn describe(args: &DescribeArgs) -> Result<(), Failure> {
    let mut spec = TableSpec::at(&args.file);
    spec.format.header = args.no_header.then_some(false);
    spec.columns = args.label.iter().map(|column| ColumnSpec::label(column)).collect();
    if args.file.as_os_str() == "-" {
        let text = describe_stream(&spec, &mut std::io::stdin().lock())?;
        return print(&wrap_comments(&text));
    }
    let stop = StopSource { interrupt: Interrupt::default(), channel: None };
    let text = describe_table(&spec, &mut DataDisplay::new(false, &stop))?;
    print(&wrap_comments(&text))
}

/// Removes cached rows, or lists them if `dry_run`.
pub(super) fn clean(cache: Option<PathBuf>, dry_run: bool) -> Result<(), Failure> {
    let dir = cache.map_or_else(row_cache_dir, Ok)?;
    let mut rows = Vec::new();
    let (mut bytes, mut files) = (0, 0u64);
    for cached in CachedRows::list(&dir)? {
        let unknown = if cached.path.exists() { "of another version" } else { "unfinished" };
        let removal = if dry_run { CacheRemoval::Removed } else { cached.remove()? };
        let in_use = match removal {
            CacheRemoval::Removed => String::new(),
            CacheRemoval::InUse(holder) => format!(" (stays: {holder} writes it)"),
        };
        if in_use.is_empty() {
            bytes += cached.bytes;
            files += 1;
        }
        let source = cached.source.as_deref().unwrap_or(unknown);
        rows.push(vec![size(cached.bytes), format!("{source}{in_use}")]);
    }
    print(&with_long_last(&rows, output_width()))?;
    let done = if dry_run { "would remove" } else { "removed" };
    let caches = if files == 1 { "cache" } else { "caches" };
    let (files, bytes) = (grouped(files), size(bytes));
    let text = format!("{done} {files} {caches} of rows, {bytes}, in {}", dir.display());
    print(&format!("{}\n", wrap_output(&text, "  ")))
}

/// A size for people.
pub(super) fn size(bytes: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Writes generated clicks to a file. If it fails or is interrupted, no file remains.
pub(super) fn make(args: &MakeClicksArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let clicks = Clicks::new(args.features as usize, args.seed);
    let clicks = clicks.with_interactions(args.interactions);
    let first = if args.test { FIRST_TEST_ROW } else { 0 };
    let rows = first..first + args.rows;
    let path = &args.file;
    let stop = StopSource { interrupt: interrupt.clone(), channel: None };
    let mut display = DataDisplay::new(false, &stop);
    let begun = Instant::now();
    let mut should_continue = |so_far| {
        let (name, so_far, all) = (path.display(), grouped(so_far), grouped(args.rows));
        display.show(&format!("writing {name}: {so_far} of {all} rows"), begun.elapsed());
        interrupt.signal().is_none()
    };
    let whole =
        write_clicks_file(&clicks, rows, args.format.into(), args.gzip, path, &mut should_continue);
    drop(display);
    let whole = whole?;
    match interrupt.signal() {
        Some(signal) if !whole => Err(Failure::Signal { signal }),
        _ => print(&format!("{} in {}\n", counted(args.rows, "row"), path.display())),
    }
}
