//! A cache of generated digits: a sweep of a hundred runs draws them once, not three hundred times.
//!
//! Drawing the default set takes one core a third of a second, in every task of every run. So
//! larger sets are cached as IDX files, in a directory that appears by rename. The images are
//! mapped, so that all tasks of a machine share one copy. A set that cannot be cached or read back
//! is drawn: the cache is optional, and its absence is never an error.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache_dir::{cache_dir, remove_oldest};
use crate::digits::draw_sets;
use crate::error::DataError;
use crate::idx;
use crate::images::Images;
use crate::open_observer::OpenObserver;
use crate::train_test::TrainTest;

/// Smaller sets are drawn every time, which is faster than caching them.
const MIN_CACHED_EXAMPLES: usize = 5_000;
/// The cache holds at most this many sets, of 55 MB each at the default size; the oldest are
/// removed.
const MAX_SETS: usize = 8;
/// Part of a set's name, so that a later version that draws other images does not read these.
const VERSION: &str = "v1";
/// The names of the two parts of a set.
const PARTS: [&str; 2] = ["train", "test"];

/// The same sets as [`Digits::generate_sets`], read from the cache if it has them, else drawn and
/// added to the cache. `observer` follows that.
///
/// # Errors
/// Only [`DataError::Interrupted`].
///
/// [`Digits::generate_sets`]: crate::Digits::generate_sets
pub fn cached_digits(
    train_examples: usize,
    test_examples: usize,
    seed: u64,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<Images>, DataError> {
    match cache_dir() {
        Ok(cache) if train_examples + test_examples >= MIN_CACHED_EXAMPLES => {
            cached_in(&cache.join("digits"), train_examples, test_examples, seed, observer)
        }
        _ => draw_sets(train_examples, test_examples, seed, observer),
    }
}

fn cached_in(
    dir: &Path,
    train: usize,
    test: usize,
    seed: u64,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<Images>, DataError> {
    let set_dir = dir.join(format!("{VERSION}-seed{seed}-{train}-{test}"));
    let origin = || format!("generated from seed {seed}");
    if let Some(found) = cached_set(&set_dir, train, test, observer)? {
        return Ok(TrainTest { origin: origin(), ..found });
    }
    let set = draw_sets(train, test, seed, observer)?;
    // Another process may write the same set at the same time; the contents are equal.
    let unfinished = dir.join(format!(".part-{}-{seed}", std::process::id()));
    if write(&unfinished, &set).is_some() {
        remove_oldest(dir, MAX_SETS);
        let _ = fs::remove_dir_all(&set_dir);
        let _ = fs::rename(&unfinished, &set_dir);
    }
    let _ = fs::remove_dir_all(&unfinished);
    // What was written is mapped, and the drawn set is dropped.
    let written = cached_set(&set_dir, train, test, observer)?;
    Ok(written.map_or(set, |written| TrainTest { origin: origin(), ..written }))
}

/// The set in the cache, if it is there and whole.
fn cached_set(
    set_dir: &Path,
    train: usize,
    test: usize,
    observer: &mut dyn OpenObserver,
) -> Result<Option<TrainTest<Images>>, DataError> {
    let mut part = |part: &str, count: usize| match read(set_dir, part, observer) {
        Ok(images) if images.len() == count => Ok(Some(images)),
        Err(DataError::Interrupted) => Err(DataError::Interrupted),
        _ => Ok(None),
    };
    let (train, test) = (part(PARTS[0], train)?, part(PARTS[1], test)?);
    Ok(train.zip(test).map(|(train, test)| TrainTest::new(train, test)))
}

fn files(set_dir: &Path, part: &str) -> [PathBuf; 2] {
    ["images", "labels"].map(|what| set_dir.join(format!("{part}-{what}")))
}

fn read(set_dir: &Path, part: &str, observer: &mut dyn OpenObserver) -> Result<Images, DataError> {
    let [images, labels] = files(set_dir, part);
    idx::read_pair_observed(&images, &labels, 10, observer)
}

fn write(set_dir: &Path, set: &TrainTest<Images>) -> Option<()> {
    fs::create_dir_all(set_dir).ok()?;
    for (part, images) in PARTS.into_iter().zip([&set.train, &set.test]) {
        let [to_images, to_labels] = files(set_dir, part);
        idx::write_images(&to_images, images.rows(), images.cols(), images.pixels()).ok()?;
        idx::write_labels(&to_labels, images.labels()).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests;
