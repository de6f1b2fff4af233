//! Finds arrays by name: the members of an `.npz` file, or the `.npy` files of a directory.

use std::path::{Path, PathBuf};

use paceline_data::sniff::{FileKind, sniff_file};
use paceline_data::{DataError, OpenObserver};

use crate::file_array::{FileArray, NpzFile, fault};

/// Where arrays are found by name.
pub(crate) enum ArraySource {
    Archive(PathBuf, NpzFile),
    Directory(PathBuf, Option<String>),
}

impl ArraySource {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        if path.is_dir() {
            return Ok(ArraySource::Directory(path.into(), None));
        }
        match sniff_file(path)? {
            FileKind::Zip => Ok(ArraySource::Archive(path.into(), NpzFile::open(path)?)),
            FileKind::Npy => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let name = name.trim_end_matches(".gz").trim_end_matches(".npy").to_owned();
                let dir = path.parent().unwrap_or(Path::new(""));
                Ok(ArraySource::Directory(dir.into(), Some(name)))
            }
            found => Err(DataError::WrongKind { path: path.into(), kind: "numpy", found }),
        }
    }

    /// The names of the inputs: that of the `.npy` file, if the path is one.
    pub(crate) fn with_own_name(&self, names: Vec<String>) -> Vec<String> {
        match self {
            ArraySource::Directory(_, Some(name)) => vec![name.clone()],
            _ => names,
        }
    }

    /// The first array of these names that is there.
    pub(crate) fn first_of(
        &self,
        names: &[String],
        observer: &mut dyn OpenObserver,
    ) -> Result<Option<FileArray>, DataError> {
        for name in names {
            let found = match self {
                ArraySource::Archive(_, archive) => archive.array(name, observer)?,
                ArraySource::Directory(dir, _) => {
                    // A name may be given with its extension, or the file may be gzip.
                    let files = ["", ".npy", ".npy.gz"].map(|end| dir.join(format!("{name}{end}")));
                    let file = files.iter().find(|file| file.is_file());
                    file.map(|file| FileArray::open(file, observer)).transpose()?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// As [`first_of`](Self::first_of); an error that names `key` if there is none.
    pub(crate) fn required(
        &self,
        names: &[String],
        key: &str,
        observer: &mut dyn OpenObserver,
    ) -> Result<FileArray, DataError> {
        if let Some(array) = self.first_of(names, observer)? {
            return Ok(array);
        }
        let mut there = self.names();
        there.truncate(20);
        let what = format!(
            "there is no array {}; it has {}; set {key} to a name",
            names.join(" or "),
            if there.is_empty() { "none".into() } else { there.join(", ") }
        );
        Err(fault(self.path(), what))
    }

    /// The archive or the directory.
    pub(crate) fn path(&self) -> &Path {
        match self {
            ArraySource::Archive(path, _) | ArraySource::Directory(path, _) => path,
        }
    }

    /// The names of all arrays, in alphabetical order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut there = match self {
            ArraySource::Archive(_, archive) => archive.names(),
            ArraySource::Directory(dir, _) => npy_names(dir),
        };
        there.sort();
        there
    }
}

/// The names of the arrays in a directory.
fn npy_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let stem = |name: String| {
        Some(name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".npy")?.to_owned())
    };
    names.filter_map(stem).collect()
}
