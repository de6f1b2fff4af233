//! What generated data sets are drawn from: keyed random numbers, the shapes of digits, clicks.
//!
//! Everything here is a pure function of a seed and an index, with the same bits on every machine.
//! The crate `paceline-data` makes data sets of it.
//!
//! ```
//! use paceline_generate::{ClickRow, Clicks};
//!
//! // Row 4,711 of an endless set of click data, which depends on the seed alone.
//! let clicks = Clicks::new(1_000_000, 1);
//! let mut row = ClickRow::default();
//! clicks.draw(4_711, &mut row);
//! assert_eq!(row.keys.len(), 39);
//! ```

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod click_bounds;
mod click_field;
mod clicks;
pub mod glyphs;
mod pair_effects;
pub mod random;

pub use click_bounds::ClickBounds;
pub use click_field::{CLICK_FIELDS, COUNT_FIELDS};
pub use clicks::{CLICKS_VERSION, ClickRow, Clicks, FIRST_TEST_ROW, MIN_FEATURES};
pub use random::Random;
