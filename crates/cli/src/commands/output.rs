//! Standard output of the commands.

use std::io::{self, Write};

use paceline_record::flush_lines;

use crate::Failure;

/// Prints to standard output, after the messages before. A reader that closes the pipe early is not
/// an error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    flush_lines();
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Files { what: "cannot write to standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}
