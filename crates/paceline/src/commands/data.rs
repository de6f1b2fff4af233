//! `paceline data`: which data sets are there, and fetching them.

use paceline_data::{Known, Places, fetch};

use super::print;
use crate::Failure;
use crate::progress::write_line;
use crate::table::columns;

/// Shows every data set that a job can name, and where it is.
pub(super) fn list() -> Result<(), Failure> {
    let places = Places::from_env()?;
    let mut rows = vec![["data.kind", "state", "where"].map(String::from).to_vec()];
    rows.push(
        ["digits", "generated", "nowhere: made from the seed when needed"]
            .map(String::from)
            .to_vec(),
    );
    for known in Known::ALL {
        for status in places.status(known.spec()) {
            let state = if status.is_complete() {
                format!("complete, {} MB", status.bytes / 1_000_000)
            } else if status.exists {
                format!("lacks {}", status.missing.join(", "))
            } else {
                "not there".into()
            };
            let place = format!("{} ({})", status.dir.display(), status.place);
            rows.push(vec![known.name().to_owned(), state, place]);
        }
    }
    print(&columns(&rows))?;
    print(
        "\n`paceline data get NAME` fetches one; data.path in a job names a directory of its own\n",
    )
}

/// Fetches a data set into the cache, saying on standard error what it does.
pub(super) fn get(known: Known, mirrors: Vec<String>) -> Result<(), Failure> {
    let places = Places::from_env()?;
    let mut options = fetch::Options::new(known.spec());
    if !mirrors.is_empty() {
        options.mirrors = mirrors;
    }
    let mut report = |progress: fetch::Progress| {
        if !matches!(progress, fetch::Progress::Bytes { .. }) {
            write_line(&progress.to_string());
        }
    };
    let dir = fetch::get(known.spec(), &places, &options, &mut report)?;
    print(&format!("{} is in {}\n", known.name(), dir.display()))
}
