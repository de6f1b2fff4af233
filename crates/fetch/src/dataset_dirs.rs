//! The directories that hold data sets on this machine.
//!
//! A data set is four files in one directory, each plain or with `.gz`. There are three candidate
//! directories: the one a job names, which is then the only one (a job that says where its data is
//! must not silently train on something else); the cache that `paceline data get` fills; and the
//! one that a Debian package installs.

use std::fmt;
use std::path::{Path, PathBuf};

use paceline_data::{DataError, Images, OpenObserver, TrainTest, cache_dir, idx, ignore_reports};

use crate::dataset_spec::{DatasetSpec, FileSpec};

/// The directories that are searched for data sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetDirs {
    /// Downloads, with a directory for each data set.
    pub cache: PathBuf,
    /// The directory that Debian's `dataset-*` packages install to, likewise.
    pub debian: PathBuf,
}

/// How the data set got into the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirKind {
    /// Named by the job, in `data.path`.
    Given,
    /// Filled by `paceline data get`.
    Cache,
    /// Filled by a Debian package.
    Debian,
}

impl fmt::Display for DirKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DirKind::Given => "data.path",
            DirKind::Cache => "cache",
            DirKind::Debian => "Debian package",
        })
    }
}

/// The four files of a data set, all in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// How the data set got into the directory.
    pub kind: DirKind,
    /// The directory.
    pub dir: PathBuf,
    /// Training images, training labels, test images, test labels.
    pub files: [PathBuf; 4],
}

/// Which files of a data set a directory has; for `paceline data list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirStatus {
    /// How the data set got into the directory.
    pub kind: DirKind,
    /// The directory.
    pub dir: PathBuf,
    /// Whether the directory exists.
    pub exists: bool,
    /// The files it lacks; empty if the data set can be used.
    pub missing: Vec<&'static str>,
    /// The size of the files it has, in bytes.
    pub bytes: u64,
}

impl DirStatus {
    /// Whether the directory has all four files.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// A directory in which a data set may be.
struct SearchedDir {
    kind: DirKind,
    dir: PathBuf,
}

/// What a directory has of a data set.
struct Inspected {
    status: DirStatus,
    /// The files, if all are there.
    files: Option<DatasetFiles>,
}

/// A file of a data set that is there.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    bytes: u64,
}

impl DatasetDirs {
    /// The directories that the environment variables of this process name.
    ///
    /// # Errors
    /// If there is no [`cache_dir`].
    pub fn from_env() -> Result<Self, DataError> {
        Ok(DatasetDirs { cache: cache_dir()?, debian: PathBuf::from("/usr/share/datasets") })
    }

    /// The directory of the cache that holds this data set.
    pub fn cached(&self, spec: &DatasetSpec) -> PathBuf {
        self.cache.join(spec.name)
    }

    /// Finds a data set: in `path` alone if it is given, else in the cache, else in Debian's
    /// directory.
    ///
    /// # Errors
    /// If a file is missing; the message says which file, where, and how to get it.
    pub fn locate(
        &self,
        spec: &DatasetSpec,
        path: Option<&Path>,
    ) -> Result<DatasetFiles, DataError> {
        if let Some(path) = path {
            return find_in(spec, path);
        }
        let mut looked = Vec::new();
        for SearchedDir { kind, dir } in self.searched(spec) {
            let Inspected { status, files } = inspect(spec, kind, &dir);
            match files {
                Some(files) => return Ok(files),
                None => looked.push(describe(&status)),
            }
        }
        Err(DataError::NotHere { name: spec.name, looked, advice: advice(spec) })
    }

    /// Which files of a data set each directory has.
    pub fn status(&self, spec: &DatasetSpec) -> Vec<DirStatus> {
        let searched = self.searched(spec).into_iter();
        searched.map(|searched| inspect(spec, searched.kind, &searched.dir).status).collect()
    }

    fn searched(&self, spec: &DatasetSpec) -> Vec<SearchedDir> {
        let mut searched = vec![SearchedDir { kind: DirKind::Cache, dir: self.cached(spec) }];
        if spec.debian.is_some() {
            let dir = self.debian.join(spec.name);
            searched.push(SearchedDir { kind: DirKind::Debian, dir });
        }
        searched
    }
}

impl DatasetFiles {
    /// Reads the four files.
    ///
    /// # Errors
    /// If a file is damaged, or the files do not belong together.
    pub fn load(&self, classes: usize) -> Result<TrainTest<Images>, DataError> {
        self.load_observed(classes, &mut ignore_reports())
    }

    /// As [`load`](Self::load), but says how far it has got, and stops if it is asked to.
    pub(crate) fn load_observed(
        &self,
        classes: usize,
        observer: &mut dyn OpenObserver,
    ) -> Result<TrainTest<Images>, DataError> {
        let [train_images, train_labels, test_images, test_labels] = &self.files;
        let train = idx::read_pair_observed(train_images, train_labels, classes, observer)?;
        let test = idx::read_pair_observed(test_images, test_labels, classes, observer)?;
        let shape = |images: &Images| (images.rows(), images.cols());
        if shape(&train) != shape(&test) {
            let ((a, b), (c, d)) = (shape(&train), shape(&test));
            return Err(DataError::Mismatch {
                first: train_images.clone(),
                second: test_images.clone(),
                what: format!("images of {a} x {b} and of {c} x {d} pixels"),
            });
        }
        Ok(TrainTest { train, test, origin: self.dir.display().to_string() })
    }

    /// The height and width of the images. Reads only a header.
    ///
    /// # Errors
    /// If the header of the training images is damaged.
    pub fn image_size(&self) -> Result<(usize, usize), DataError> {
        idx::read_image_size(&self.files[0])
    }
}

/// Finds a data set in the directory that a job names.
pub(crate) fn find_in(spec: &DatasetSpec, path: &Path) -> Result<DatasetFiles, DataError> {
    let Inspected { status, files } = inspect(spec, DirKind::Given, path);
    files.ok_or_else(|| DataError::Directory {
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
fn inspect(spec: &DatasetSpec, kind: DirKind, dir: &Path) -> Inspected {
    let found = spec.files.each_ref().map(|file| find(dir, file));
    let pairs = || spec.files.iter().zip(&found);
    let status = DirStatus {
        kind,
        dir: dir.into(),
        exists: dir.exists(),
        missing: pairs().filter(|(_, found)| found.is_none()).map(|(file, _)| file.name).collect(),
        bytes: found.iter().flatten().map(|found| found.bytes).sum(),
    };
    let files = match found {
        [Some(a), Some(b), Some(c), Some(d)] => {
            let files = [a, b, c, d].map(|found| found.path);
            Some(DatasetFiles { kind, dir: dir.into(), files })
        }
        _ => None,
    };
    Inspected { status, files }
}

/// A file of a data set, plain or with `.gz`; the plain one if both exist, as it is
/// faster to read.
pub(crate) fn find(dir: &Path, file: &FileSpec) -> Option<FoundFile> {
    [dir.join(file.name), dir.join(format!("{}.gz", file.name))].into_iter().find_map(|path| {
        let meta = path.metadata().ok()?;
        meta.is_file().then_some(FoundFile { path, bytes: meta.len() })
    })
}

/// Why a directory cannot be used, in one line.
fn describe(status: &DirStatus) -> String {
    let (kind, dir) = (status.kind, status.dir.display());
    if !status.exists {
        format!("{dir} ({kind}): not there")
    } else {
        format!("{dir} ({kind}): lacks {}", status.missing.join(", "))
    }
}

/// How to get a data set.
fn advice(spec: &DatasetSpec) -> String {
    let get = format!("`paceline data get {}`", spec.name);
    match spec.debian {
        Some(package) => format!("Run {get} or `apt-get install {package}`."),
        None => format!("Run {get}, or set data.path to a directory that has it."),
    }
}
