//! The findings as documents: a page for people, a table for programs, text for a repository.

mod csv;
mod html;
mod index;
mod markdown;
mod tables;

pub use csv::csv;
pub use html::html;
pub use index::{GENERATED_NOTICE, index};
pub use markdown::markdown;
