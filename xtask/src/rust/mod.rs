//! As much of Rust's grammar as the checks need: tokens with their lines.

mod lexer;
mod strip_tests;

pub(crate) use lexer::{RustToken, RustTokenKind, tokens};
pub(crate) use strip_tests::without_tests;
