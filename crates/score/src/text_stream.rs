//! Standard input as a stream of text.

use std::io::{self, Cursor, Read};

use paceline_data::sniff::{FileKind, sniff};

use crate::error::ScoreError;

/// How many bytes tell what a stream is, if its first line is longer.
const HEAD_BYTES: usize = 64;
/// What one read asks for, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A stream whose first bytes look like text.
pub(crate) struct TextStream<R> {
    head: Cursor<Vec<u8>>,
    rest: R,
}

impl<R: Read> TextStream<R> {
    /// Looks at the first bytes of a stream, at no more than arrives with its first line.
    pub(crate) fn check(mut rest: R) -> Result<Self, ScoreError> {
        let mut head = Vec::new();
        while head.len() < HEAD_BYTES && !head.contains(&b'\n') {
            let start = head.len();
            head.resize(start + READ_BYTES, 0);
            let read = match rest.read(&mut head[start..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
                read => Some(read.map_err(unreadable)?),
            };
            head.truncate(start + read.unwrap_or(0));
            if read == Some(0) {
                break;
            }
        }
        let kind = sniff(&head);
        let is_text = !kind.is_certain() && kind != FileKind::Binary;
        if is_text || kind == FileKind::Empty {
            return Ok(Self { head: Cursor::new(head), rest });
        }
        Err(not_text(kind))
    }
}

impl<R: Read> Read for TextStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.rest.read(buffer),
            read => Ok(read),
        }
    }
}

fn unreadable(source: io::Error) -> ScoreError {
    ScoreError::Io { what: "cannot read standard input".into(), source }
}

/// Refuses a stream that is not text.
fn not_text(kind: FileKind) -> ScoreError {
    let remedy = match kind {
        FileKind::Utf16 | FileKind::CarriageReturns | FileKind::Gzip | FileKind::Packed => {
            kind.remedy()
        }
        FileKind::Office => "save its table as CSV",
        _ => "save it in a file and name the file instead of -",
    };
    ScoreError::Refused(format!(
        "standard input: this looks like {}, but only text can be read from a stream; {remedy}",
        kind.describe()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(content: &[u8]) -> String {
        match TextStream::check(content) {
            Ok(_) => panic!("{content:?} passes as text"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn text_passes_whole_and_other_kinds_are_named_with_a_remedy() {
        for text in ["", "1", "1 3:1\n", "a,b\r\n1,2\r\n", &"x,1\n".repeat(100_000)] {
            let mut read = String::new();
            let mut stream = TextStream::check(text.as_bytes()).unwrap();
            stream.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
        let parquet = refusal(b"PAR1\x15\x04\x15\x10");
        assert!(parquet.contains("a Parquet file") && parquet.contains("name the file"));
        assert!(refusal(b"\xff\xfea\0,\0b\0\n\0").contains("iconv"));
        assert!(refusal(&[0; 4096]).contains("a binary file"));
    }

    #[test]
    fn a_line_passes_before_the_next_one_arrives() {
        struct OneLine(bool);
        impl Read for OneLine {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(!std::mem::replace(&mut self.0, true), "it waits for a second line");
                buffer[..2].copy_from_slice(b"1\n");
                Ok(2)
            }
        }
        let mut line = [0; 8];
        assert_eq!(TextStream::check(OneLine(false)).unwrap().read(&mut line).unwrap(), 2);
    }
}
