//! The page that shows runs while they train and afterwards.
//!
//! A [`RunPage`] answers the requests of the page: for the list of runs, and for everything about
//! the runs that a reader has chosen, first completely and then, over server-sent events, what has
//! changed. It only reads files, so it cannot disturb a run.
//!
//! From a file to the screen: `run_reader` reads a run's files, from where it stopped before,
//! into `series`, which hold any number of points in bounded memory; `live_verdict` judges a run
//! that has not ended; `run_updates` writes what the page has not received yet; `assets` holds
//! the files of the page, and `page_names` the names that its scripts look for.

mod assets;
mod curve_json;
mod curve_set;
mod live_verdict;
mod page_limits;
mod page_names;
mod resource_reader;
mod run_list;
mod run_page;
mod run_reader;
mod run_updates;
mod series;
mod text_file;

pub use run_page::RunPage;
