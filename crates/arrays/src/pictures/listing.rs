//! The pictures of a collection and their classes, from directories and list files.
//!
//! A collection is a folder for each class, or a list file, or two of these side by side, called
//! `train` and `val` (or `validation`, or `test`). Only names are read here. Names are sorted, so a
//! picture has the same index on every machine, whatever the order of the file system.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use paceline_data::{DataError, OpenMeter, OpenObserver};

/// The greatest number of classes of a list file.
const MAX_CLASSES: u32 = 100_000;

/// The name of the training set: a folder or, with `.txt`, a list file.
const TRAIN: &str = "train";

/// The names of a test set; the first that exists is used.
const TEST: [&str; 3] = ["val", "validation", "test"];

/// Names that are listed between two looks at the clock.
const NAMES_PER_REPORT: usize = 1_000;

/// The pictures of one set: files, and their classes as indices into `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) root: PathBuf,
    pub(super) files: Vec<Box<Path>>,
    pub(super) labels: Vec<u32>,
    pub(super) names: Vec<String>,
}

/// The pictures of a collection. Both sets have the same classes.
pub(super) struct Listings {
    pub(super) train: Listing,
    /// `None` if the collection has no test set.
    pub(super) test: Option<Listing>,
}

/// Lists the pictures of a collection.
pub(super) fn list(path: &Path, observer: &mut dyn OpenObserver) -> Result<Listings, DataError> {
    if fs::metadata(path).map_err(DataError::io("open", path))?.is_file() {
        return Ok(Listings { train: list_file(path, observer)?, test: None });
    }
    let Some(train) = named_set(path, TRAIN, observer)? else {
        return Ok(Listings { train: class_folders(path, observer)?, test: None });
    };
    for name in TEST {
        if let Some(test) = named_set(path, name, observer)? {
            let test = Some(with_classes_of(test, &train)?);
            return Ok(Listings { train, test });
        }
    }
    Ok(Listings { train, test: None })
}

/// The set of this name, if the collection has one.
fn named_set(
    path: &Path,
    name: &str,
    observer: &mut dyn OpenObserver,
) -> Result<Option<Listing>, DataError> {
    let folder = path.join(name);
    // A class may be called "train" too, but its folder has pictures, not folders.
    if folder.is_dir() && !subfolders(&folder)?.is_empty() {
        return class_folders(&folder, observer).map(Some);
    }
    let file = path.join(format!("{name}.txt"));
    if file.is_file() { list_file(&file, observer).map(Some) } else { Ok(None) }
}

/// Gives the classes of `test` the numbers that they have in `train`.
fn with_classes_of(mut test: Listing, train: &Listing) -> Result<Listing, DataError> {
    let numbers: BTreeMap<&str, u32> = train.names.iter().map(String::as_str).zip(0..).collect();
    let mut of_test = Vec::with_capacity(test.names.len());
    for name in &test.names {
        let number = numbers.get(name.as_str()).ok_or_else(|| DataError::Pictures {
            path: test.root.clone(),
            what: format!("class {name:?} is not in the training set"),
        })?;
        of_test.push(*number);
    }
    test.labels.iter_mut().for_each(|label| *label = of_test[*label as usize]);
    test.names.clone_from(&train.names);
    Ok(test)
}

/// Lists a directory with a folder for each class.
fn class_folders(root: &Path, observer: &mut dyn OpenObserver) -> Result<Listing, DataError> {
    let wrong =
        |path: &Path, what: &str| DataError::Pictures { path: path.into(), what: what.into() };
    let (mut files, mut labels, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let folders = subfolders(root)?;
    let mut meter = OpenMeter::new(observer, "listing", root, folders.len() as u64);
    for folder in folders {
        let label = names.len() as u32;
        let is_wanted = |name: &OsString, _: &Path| is_picture(Path::new(name));
        let pictures = entries(&root.join(&folder), is_wanted, || meter.add(0))?;
        meter.add(1)?;
        if pictures.is_empty() {
            return Err(wrong(&root.join(&folder), "no picture in this folder"));
        }
        labels.resize(labels.len() + pictures.len(), label);
        files.extend(pictures.iter().map(|name| Path::new(&folder).join(name).into_boxed_path()));
        names.push(folder.to_string_lossy().into_owned());
    }
    if names.is_empty() {
        return Err(wrong(root, "no folder in it"));
    }
    Ok(Listing { root: root.into(), files, labels, names })
}

fn subfolders(root: &Path) -> Result<Vec<OsString>, DataError> {
    entries(root, |_, path| path.is_dir(), || Ok(()))
}

/// The sorted names in a folder that `wanted` accepts, without hidden ones. Calls `listed` from
/// time to time.
fn entries(
    folder: &Path,
    wanted: impl Fn(&OsString, &Path) -> bool,
    mut listed: impl FnMut() -> Result<(), DataError>,
) -> Result<Vec<OsString>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io("list", folder))? {
        let entry = entry.map_err(DataError::io("list", folder))?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && wanted(&name, &entry.path()) {
            names.push(name);
            if names.len().is_multiple_of(NAMES_PER_REPORT) {
                listed()?;
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn is_picture(name: &Path) -> bool {
    let extension = name.extension().unwrap_or_default();
    ["jpg", "jpeg", "png"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Reads a list file: a picture and its class on each line.
fn list_file(path: &Path, observer: &mut dyn OpenObserver) -> Result<Listing, DataError> {
    let bad = |line, what: String| DataError::ListLine { path: path.into(), line, what };
    let mut files = Vec::new();
    let mut classes = ListClasses::default();
    let file = File::open(path).map_err(DataError::io("open", path))?;
    let bytes = file.metadata().map_or(0, |about| about.len());
    let mut meter = OpenMeter::new(observer, "reading", path, bytes);
    let reader = BufReader::new(file);
    for (number, line) in (1..).zip(reader.lines()) {
        let line = line.map_err(DataError::io("read", path))?;
        meter.add(line.len() as u64 + 1)?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // The class is last, so a file's name may contain spaces.
        let (file, class) =
            line.rsplit_once([' ', '\t']).ok_or_else(|| bad(number, no_class(line)))?;
        classes.add(class).map_err(|what| bad(number, what))?;
        files.push(Path::new(file.trim_end()).into());
    }
    if files.is_empty() {
        return Err(DataError::Pictures { path: path.into(), what: "no picture in it".into() });
    }
    let root = path.parent().unwrap_or(Path::new("")).into();
    Ok(classes.into_listing(root, files))
}

fn no_class(line: &str) -> String {
    format!(
        "{line:?} is not a picture and its class; a line is the path of a picture, a space and its \
         class"
    )
}

/// The classes of a list file: all numbers, or all names.
#[derive(Default)]
struct ListClasses {
    /// The class of each picture: its number, or for a name its rank by first occurrence.
    labels: Vec<u32>,
    ranks: BTreeMap<String, u32>,
}

impl ListClasses {
    fn add(&mut self, class: &str) -> Result<(), String> {
        let number = class.bytes().all(|byte| byte.is_ascii_digit());
        if !self.labels.is_empty() && number != self.ranks.is_empty() {
            return Err(format!("class {class:?}: some classes are numbers and others are not"));
        }
        let label = if number {
            class.parse().unwrap_or(u32::MAX)
        } else if let Some(&rank) = self.ranks.get(class) {
            rank
        } else {
            let rank = self.ranks.len() as u32;
            self.ranks.insert(class.into(), rank);
            rank
        };
        if label >= MAX_CLASSES {
            return Err(format!("class {class:?}: more than {MAX_CLASSES} classes"));
        }
        self.labels.push(label);
        Ok(())
    }

    /// The listing of these files. Classes that are numbers keep them; others are numbered in the
    /// alphabetical order of their names.
    fn into_listing(mut self, root: PathBuf, files: Vec<Box<Path>>) -> Listing {
        if self.ranks.is_empty() {
            let classes = self.labels.iter().max().map_or(0, |most| most + 1);
            let names = (0..classes).map(|number| number.to_string()).collect();
            return Listing { root, files, labels: self.labels, names };
        }
        let mut sorted = vec![0; self.ranks.len()];
        for (number, &rank) in (0..).zip(self.ranks.values()) {
            sorted[rank as usize] = number;
        }
        self.labels.iter_mut().for_each(|label| *label = sorted[*label as usize]);
        Listing { root, files, labels: self.labels, names: self.ranks.into_keys().collect() }
    }
}
