//! Writes report data as HTML for people, as CSV for programs and as Markdown for a repository.

mod csv;
mod html;
mod index;
mod markdown;
mod table;
mod tables;

pub use csv::csv;
pub use html::html;
pub use index::{GENERATED_NOTICE, IndexConfig, index};
pub use markdown::markdown;
