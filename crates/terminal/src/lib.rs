//! Text that fits a terminal: its width, lines broken between words, tables, help
//! texts and progress bars.
//!
//! ```
//! use paceline_terminal::{columns, counted, wrap};
//!
//! let rows = [["task", "steps"], ["worker:0", "1,200"]];
//! let table = columns(&rows.map(|row| row.map(String::from).to_vec()));
//! assert_eq!(table, "task      steps\nworker:0  1,200\n");
//! assert_eq!(counted(2, "worker"), "2 workers");
//! assert_eq!(wrap("a line that is too long", 12, "  "), "a line that\n  is too\n  long");
//! ```

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod help;
mod progress_bar;
mod text_table;
mod width;

pub use help::wrap_help;
pub use progress_bar::{bar_target, bar_width, clock_time, fit_bar, fit_wait, without_details};
pub use text_table::{
    aligned, columns, counted, fitted, fitted_tables, fitted_text, grouped, shell_word, shown_name,
    with_long_last,
};
pub use width::{
    columns_of, message_width, output_width, wrap, wrap_comments, wrap_message, wrap_output,
};
