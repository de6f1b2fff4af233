//! The findings as documents: a page for people, a table for programs, text for a repository.

mod csv;
mod html;
mod markdown;
mod tables;

pub use csv::csv;
pub use html::html;
pub use markdown::markdown;
