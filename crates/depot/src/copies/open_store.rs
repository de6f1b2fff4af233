//! Which kinds of places for copies there are.

use std::io;
use std::sync::Arc;

use super::folder::Folder;
use super::store::FileStore;

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
        "s3" => Ok(Arc::new(super::s3::S3Bucket::from_env(rest)?)),
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
