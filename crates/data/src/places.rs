//! Where data sets are kept on this machine, and which of them is there.
//!
//! A data set is four files in one directory, each plain or with `.gz`. Three directories
//! come into question: the one a job names, which is then the only one (a job that says where
//! its data is must not silently train on something else); the cache that `paceline data get`
//! fills; and what Debian's packages install.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::catalog::{FileSpec, Spec};
use crate::images::ImageSet;
use crate::{DataError, idx};

/// The directories data sets are looked for in. A value, so that tests can point elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Downloads: one directory in it for each data set.
    pub cache: PathBuf,
    /// Where Debian's `dataset-*` packages put theirs, likewise.
    pub debian: PathBuf,
}

/// Whose directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Named by the job, in `data.path`.
    Given,
    /// Filled by `paceline data get`.
    Cache,
    /// Filled by a Debian package.
    Debian,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Given => "data.path",
            Place::Cache => "cache",
            Place::Debian => "Debian package",
        })
    }
}

/// A directory with all four files of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Whose directory it is.
    pub place: Place,
    /// The directory.
    pub dir: PathBuf,
    /// Training images, training labels, test images, test labels, as they are named there.
    pub files: [PathBuf; 4],
}

/// What one place holds of a data set; for `paceline data list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whose directory it is.
    pub place: Place,
    /// The directory.
    pub dir: PathBuf,
    /// Whether there is such a directory.
    pub exists: bool,
    /// The files that are not in it; none if the data set can be used.
    pub missing: Vec<&'static str>,
    /// What the files that are there take up, in bytes.
    pub bytes: u64,
}

impl Status {
    /// Whether all four files are there.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The directory downloads are kept in: `$PACELINE_CACHE`, else `$XDG_CACHE_HOME/paceline`,
/// else `$HOME/.cache/paceline`.
///
/// # Errors
/// If none of the three is set to an absolute path.
pub fn cache_dir() -> Result<PathBuf, DataError> {
    cache_dir_from(|name| env::var_os(name))
}

fn cache_dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, DataError> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative path in the two borrowed variables is ignored, as the XDG rules ask; in our
    // own it is what the user typed, and means what it means to any other command.
    let absolute = |name| set(name).filter(|path| path.is_absolute());
    set("PACELINE_CACHE")
        .or_else(|| absolute("XDG_CACHE_HOME").map(|dir| dir.join("paceline")))
        .or_else(|| absolute("HOME").map(|dir| dir.join(".cache").join("paceline")))
        .ok_or(DataError::NoCache)
}

impl Places {
    /// The places of this process's environment.
    ///
    /// # Errors
    /// If there is no [`cache_dir`].
    pub fn from_env() -> Result<Self, DataError> {
        Ok(Places { cache: cache_dir()?, debian: PathBuf::from("/usr/share/datasets") })
    }

    /// Where the cache keeps this data set.
    pub fn cached(&self, spec: &Spec) -> PathBuf {
        self.cache.join(spec.name)
    }

    /// Finds a data set: in `path` only if that is given, else in the cache, else among
    /// Debian's.
    ///
    /// # Errors
    /// If it is not there whole; the message says what is missing where, and how to get it.
    pub fn locate(&self, spec: &Spec, path: Option<&Path>) -> Result<Location, DataError> {
        if let Some(path) = path {
            return given(spec, path);
        }
        let mut looked = Vec::new();
        for (place, dir) in self.searched(spec) {
            match inspect(spec, place, &dir) {
                (_, Some(location)) => return Ok(location),
                (status, None) => looked.push(describe(&status)),
            }
        }
        Err(DataError::NotHere { name: spec.name, looked, advice: advice(spec) })
    }

    /// What each place holds of a data set.
    pub fn status(&self, spec: &Spec) -> Vec<Status> {
        self.searched(spec).into_iter().map(|(place, dir)| inspect(spec, place, &dir).0).collect()
    }

    fn searched(&self, spec: &Spec) -> Vec<(Place, PathBuf)> {
        let mut searched = vec![(Place::Cache, self.cached(spec))];
        if spec.debian.is_some() {
            searched.push((Place::Debian, self.debian.join(spec.name)));
        }
        searched
    }
}

impl Location {
    /// Reads the four files.
    ///
    /// # Errors
    /// If one of them is damaged, or they do not belong together.
    pub fn load(&self, classes: usize) -> Result<ImageSet, DataError> {
        let [train_images, train_labels, test_images, test_labels] = &self.files;
        let train = idx::read_pair(train_images, train_labels, classes)?;
        let test = idx::read_pair(test_images, test_labels, classes)?;
        let shape = |images: &crate::Images| (images.rows(), images.cols());
        if shape(&train) != shape(&test) {
            let ((a, b), (c, d)) = (shape(&train), shape(&test));
            return Err(DataError::Mismatch {
                first: train_images.clone(),
                second: test_images.clone(),
                what: format!("images of {a} x {b} and of {c} x {d} pixels"),
            });
        }
        Ok(ImageSet { train, test, origin: self.dir.display().to_string() })
    }

    /// The height and width of the images, from no more than a header.
    ///
    /// # Errors
    /// If the file of training images has no sound header.
    pub fn image_size(&self) -> Result<(usize, usize), DataError> {
        idx::read_image_size(&self.files[0])
    }
}

/// The data set in the directory that a job names; no other place is looked at.
pub(crate) fn given(spec: &Spec, path: &Path) -> Result<Location, DataError> {
    let (status, location) = inspect(spec, Place::Given, path);
    location.ok_or_else(|| DataError::Directory {
        path: path.into(),
        name: spec.name,
        what: if !status.exists {
            String::from("there is no such directory")
        } else if path.is_dir() {
            format!("it lacks {}", status.missing.join(", "))
        } else {
            String::from("it is a file")
        },
        files: spec.files.iter().map(|file| file.name).collect(),
    })
}

/// Looks for the four files in one directory.
fn inspect(spec: &Spec, place: Place, dir: &Path) -> (Status, Option<Location>) {
    let found = spec.files.each_ref().map(|file| find(dir, file));
    let pairs = || spec.files.iter().zip(&found);
    let status = Status {
        place,
        dir: dir.into(),
        exists: dir.exists(),
        missing: pairs().filter(|(_, found)| found.is_none()).map(|(file, _)| file.name).collect(),
        bytes: found.iter().flatten().map(|(_, bytes)| bytes).sum(),
    };
    let location = match found {
        [Some((a, _)), Some((b, _)), Some((c, _)), Some((d, _))] => {
            Some(Location { place, dir: dir.into(), files: [a, b, c, d] })
        }
        _ => None,
    };
    (status, location)
}

/// The path and size of a file, plain or with `.gz`; a plain one is quicker to read.
pub(crate) fn find(dir: &Path, file: &FileSpec) -> Option<(PathBuf, u64)> {
    [dir.join(file.name), dir.join(format!("{}.gz", file.name))].into_iter().find_map(|path| {
        let meta = path.metadata().ok()?;
        meta.is_file().then_some((path, meta.len()))
    })
}

/// Why a place does not serve, in one line.
fn describe(status: &Status) -> String {
    let (place, dir) = (status.place, status.dir.display());
    if !status.exists {
        format!("{dir} ({place}): not there")
    } else {
        format!("{dir} ({place}): lacks {}", status.missing.join(", "))
    }
}

/// How to come by a data set.
fn advice(spec: &Spec) -> String {
    let get = format!("`paceline data get {}`", spec.name);
    match spec.debian {
        Some(package) => format!("Run {get} or `apt-get install {package}`."),
        None => format!("Run {get}, or set data.path to a directory that has it."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let lookup = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(cache_dir_from(lookup).ok(), expected.map(PathBuf::from), "{variables:?}");
        };
        let home = ("HOME", "/home/ada");
        check(&[home], Some("/home/ada/.cache/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "/fast")], Some("/fast/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "not/absolute")], Some("/home/ada/.cache/paceline"));
        check(&[home, ("PACELINE_CACHE", "")], Some("/home/ada/.cache/paceline"));
        check(&[home, ("XDG_CACHE_HOME", "/fast"), ("PACELINE_CACHE", "/own")], Some("/own"));
        check(&[("PACELINE_CACHE", "here")], Some("here"));
        check(&[], None);
    }
}
