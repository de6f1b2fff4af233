//! Which pictures there are, and of which class: folders and list files.
//!
//! A collection is a folder for each class, or a list file; or two of these side by side, called
//! `train` and `val` (or `validation`, or `test`). Only names are read here. Names are sorted, so
//! every machine gives a picture the same number whatever order its file system likes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// More classes than anybody has; a list file's numbers are held to this.
const MOST_CLASSES: u32 = 100_000;

/// What the part to learn from is called, as a folder or, with `.txt`, as a list.
const TRAIN: &str = "train";

/// What the part to be judged on may be called; the first that is there is taken.
const TEST: [&str; 3] = ["val", "validation", "test"];

/// Pictures of one part: files, and their classes as places in `names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) root: PathBuf,
    pub(super) files: Vec<Box<Path>>,
    pub(super) labels: Vec<u32>,
    pub(super) names: Vec<String>,
}

/// The pictures to learn from and, if they are apart, those to be judged on. Both have the same
/// classes.
pub(super) fn list(path: &Path) -> Result<(Listing, Option<Listing>), DataError> {
    if fs::metadata(path).map_err(DataError::io("open", path))?.is_file() {
        return Ok((list_file(path)?, None));
    }
    let Some(train) = part(path, TRAIN)? else {
        return Ok((class_folders(path)?, None));
    };
    for name in TEST {
        if let Some(test) = part(path, name)? {
            let test = with_classes_of(test, &train)?;
            return Ok((train, Some(test)));
        }
    }
    Ok((train, None))
}

/// The part of this name, if there is one.
fn part(path: &Path, name: &str) -> Result<Option<Listing>, DataError> {
    let folder = path.join(name);
    // A class may be called "train", too; but its folder holds pictures, not folders.
    if folder.is_dir() && !subfolders(&folder)?.is_empty() {
        return class_folders(&folder).map(Some);
    }
    let file = path.join(format!("{name}.txt"));
    if file.is_file() { list_file(&file).map(Some) } else { Ok(None) }
}

/// Numbers the classes of `test` as those of `train`.
fn with_classes_of(mut test: Listing, train: &Listing) -> Result<Listing, DataError> {
    let numbers: BTreeMap<&str, u32> = train.names.iter().map(String::as_str).zip(0..).collect();
    let mut of_test = Vec::with_capacity(test.names.len());
    for name in &test.names {
        let number = numbers.get(name.as_str()).ok_or_else(|| DataError::Pictures {
            path: test.root.clone(),
            what: format!("class {name:?} is not among those to learn from"),
        })?;
        of_test.push(*number);
    }
    test.labels.iter_mut().for_each(|label| *label = of_test[*label as usize]);
    test.names.clone_from(&train.names);
    Ok(test)
}

/// A folder for each class.
fn class_folders(root: &Path) -> Result<Listing, DataError> {
    let wrong =
        |path: &Path, what: &str| DataError::Pictures { path: path.into(), what: what.into() };
    let (mut files, mut labels, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for folder in subfolders(root)? {
        let label = names.len() as u32;
        let pictures = entries(&root.join(&folder), |name, _| is_picture(Path::new(name)))?;
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
    entries(root, |_, path| path.is_dir())
}

/// The sorted names in a folder that are wanted; hidden ones never are.
fn entries(
    folder: &Path,
    wanted: impl Fn(&OsString, &Path) -> bool,
) -> Result<Vec<OsString>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DataError::io("list", folder))? {
        let entry = entry.map_err(DataError::io("list", folder))?;
        let name = entry.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && wanted(&name, &entry.path()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn is_picture(name: &Path) -> bool {
    let extension = name.extension().unwrap_or_default();
    ["jpg", "jpeg", "png"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// A picture and its class on each line.
fn list_file(path: &Path) -> Result<Listing, DataError> {
    let bad = |line, what: String| DataError::ListLine { path: path.into(), line, what };
    let mut files = Vec::new();
    let mut classes = Classes::default();
    let reader = BufReader::new(File::open(path).map_err(DataError::io("open", path))?);
    for (number, line) in (1..).zip(reader.lines()) {
        let line = line.map_err(DataError::io("read", path))?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // The class stands last, so that a file's name may have blanks in it.
        let (file, class) = line
            .rsplit_once([' ', '\t'])
            .ok_or_else(|| bad(number, format!("{line:?} is not a picture and its class")))?;
        classes.add(class).map_err(|what| bad(number, what))?;
        files.push(Path::new(file.trim_end()).into());
    }
    if files.is_empty() {
        return Err(DataError::Pictures { path: path.into(), what: "no picture in it".into() });
    }
    let (labels, names) = classes.numbered();
    let root = path.parent().unwrap_or(Path::new("")).into();
    Ok(Listing { root, files, labels, names })
}

/// The classes of a list, as they come: all numbers, or all names.
#[derive(Default)]
struct Classes {
    /// For each picture its class: the number, or the place in the order of coming.
    labels: Vec<u32>,
    places: BTreeMap<String, u32>,
}

impl Classes {
    fn add(&mut self, class: &str) -> Result<(), String> {
        let number = class.bytes().all(|byte| byte.is_ascii_digit());
        if !self.labels.is_empty() && number != self.places.is_empty() {
            return Err(format!("class {class:?}: some classes are numbers and others are not"));
        }
        let label = if number {
            class.parse().unwrap_or(u32::MAX)
        } else if let Some(&place) = self.places.get(class) {
            place
        } else {
            let place = self.places.len() as u32;
            self.places.insert(class.into(), place);
            place
        };
        if label >= MOST_CLASSES {
            return Err(format!("class {class:?}: more than {MOST_CLASSES} classes"));
        }
        self.labels.push(label);
        Ok(())
    }

    /// Labels by number, or by the names' alphabetical order, and the names.
    fn numbered(mut self) -> (Vec<u32>, Vec<String>) {
        if self.places.is_empty() {
            let classes = self.labels.iter().max().map_or(0, |most| most + 1);
            return (self.labels, (0..classes).map(|number| number.to_string()).collect());
        }
        let mut sorted = vec![0; self.places.len()];
        for (number, &place) in (0..).zip(self.places.values()) {
            sorted[place as usize] = number;
        }
        self.labels.iter_mut().for_each(|label| *label = sorted[*label as usize]);
        (self.labels, self.places.into_keys().collect())
    }
}
