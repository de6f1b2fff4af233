//! As much of Rust's grammar as the checks need: tokens with their lines.

mod lexer;
mod tests_removed;

pub(crate) use lexer::{Token, TokenKind, tokens};
pub(crate) use tests_removed::without_tests;
