//! What a place for copies can do.

use std::fmt::Debug;
use std::io;
use std::path::Path;

/// A place that keeps files by name. Names have the form `folder/file`, or `file`.
pub trait FileStore: Debug + Send + Sync {
    /// Keeps a copy of the file at a path. The copy appears complete or not at all.
    fn put(&self, name: &str, from: &Path) -> io::Result<()>;

    /// Writes the copy to a path. The error is [`NotFound`](io::ErrorKind::NotFound) if there is
    /// none.
    fn get(&self, name: &str, to: &Path) -> io::Result<()>;

    /// The content of a copy, in memory. Fails if it is longer than this many bytes.
    fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>>;

    /// The names of all copies.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes the copy, if there is one.
    fn remove(&self, name: &str) -> io::Result<()>;
}
