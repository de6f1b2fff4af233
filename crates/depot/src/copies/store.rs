//! What a place for copies can do.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::folder::Folder;

/// A place that keeps files by name. Names have the form `folder/file`, or `file`.
pub trait FileStore: Debug + Send + Sync {
    /// Keeps a copy of the file at a path. The copy appears complete or not at all.
    fn put(&self, name: &str, from: &Path) -> io::Result<()>;

    /// Writes the copy to a path. The error is [`NotFound`](io::ErrorKind::NotFound) if there is
    /// none.
    fn get(&self, name: &str, to: &Path) -> io::Result<()>;

    /// The names of all copies.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Removes the copy, if there is one.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Opens the place with this name: a directory, or `s3://BUCKET/PREFIX`.
///
/// # Errors
/// If the name is of an unknown kind, or settings that it needs are missing from the environment.
pub fn open_store(name: &str) -> io::Result<Arc<dyn FileStore>> {
    let Some((scheme, rest)) = name.split_once("://") else {
        return Ok(Arc::new(Folder::new(name)));
    };
    match scheme {
        #[cfg(feature = "s3")]
        "s3" => Ok(Arc::new(super::s3::Bucket::from_env(rest)?)),
        #[cfg(not(feature = "s3"))]
        "s3" => {
            let text = "this program was built without the feature s3, which s3:// needs";
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("{text}: {rest}")))
        }
        _ => {
            let text = format!("{scheme}:// is not known; use a directory or s3://BUCKET/PREFIX");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
    }
}
