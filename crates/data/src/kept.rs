//! Drawn digits, kept: a sweep of a hundred runs draws them once and not three hundred times.
//!
//! Drawing the default set takes a core a third of a second, in every task of every run; reading
//! it takes a tenth of that. So a set that is worth it is kept in the cache, as IDX files in a
//! directory that appears by rename. What cannot be kept, or cannot be read again, is drawn: the
//! cache is never needed and its absence never an error.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::digits::digits;
use crate::images::{ImageSet, Images};
use crate::{cache_dir, idx};

/// Sets of fewer images are drawn sooner than kept.
const WORTH_EXAMPLES: usize = 5_000;
/// So many sets are kept, of 55 MB each unless somebody asks for more images; the oldest go.
const MOST_SETS: usize = 8;
/// Part of a set's name: a later version that draws other images must not find these.
const VERSION: &str = "v1";
/// The two halves of a set.
const HALVES: [&str; 2] = ["train", "test"];

/// The digits of a seed, from the cache if they are there, else drawn and kept.
pub fn kept_digits(seed: u64, train: usize, test: usize) -> ImageSet {
    match cache_dir() {
        Ok(cache) if train + test >= WORTH_EXAMPLES => {
            kept_in(&cache.join("digits"), seed, train, test)
        }
        _ => digits(seed, train, test),
    }
}

fn kept_in(dir: &Path, seed: u64, train: usize, test: usize) -> ImageSet {
    let place = dir.join(format!("{VERSION}-seed{seed}-{train}-{test}"));
    let half = |name: &str, count: usize| {
        let images = read(&place, name)?;
        (images.len() == count).then_some(images)
    };
    if let (Some(train), Some(test)) = (half(HALVES[0], train), half(HALVES[1], test)) {
        return ImageSet { train, test, origin: format!("generated from seed {seed}") };
    }
    let set = digits(seed, train, test);
    // Whoever is first keeps it; what another process keeps at the same time is the same.
    let part = dir.join(format!(".part-{}-{seed}", std::process::id()));
    if keep(&part, &set).is_some() {
        make_room(dir);
        let _ = fs::remove_dir_all(&place);
        let _ = fs::rename(&part, &place);
    }
    let _ = fs::remove_dir_all(&part);
    set
}

fn files(place: &Path, half: &str) -> [PathBuf; 2] {
    ["images", "labels"].map(|what| place.join(format!("{half}-{what}")))
}

fn read(place: &Path, half: &str) -> Option<Images> {
    let [images, labels] = files(place, half);
    idx::read_pair(&images, &labels, 10).ok()
}

fn keep(part: &Path, set: &ImageSet) -> Option<()> {
    fs::create_dir_all(part).ok()?;
    for (half, images) in HALVES.into_iter().zip([&set.train, &set.test]) {
        let [to_images, to_labels] = files(part, half);
        idx::write_images(&to_images, images.rows(), images.cols(), images.pixels()).ok()?;
        idx::write_labels(&to_labels, images.labels()).ok()?;
    }
    Some(())
}

/// Removes the oldest sets, so that there is room for one more.
fn make_room(dir: &Path) {
    let age = |path: &PathBuf| {
        fs::metadata(path).and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_set =
        |path: &PathBuf| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.');
    let mut sets: Vec<_> = entries.filter(is_set).collect();
    sets.sort_by_key(age);
    let too_many = (sets.len() + 1).saturating_sub(MOST_SETS);
    for set in &sets[..too_many] {
        let _ = fs::remove_dir_all(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_digits_are_those_that_were_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let drawn = digits(7, 40, 10);
        for _ in 0..2 {
            let kept = kept_in(dir.path(), 7, 40, 10);
            assert!(kept.train == drawn.train && kept.test == drawn.test);
        }
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn what_is_damaged_is_drawn_and_kept_again() {
        let dir = tempfile::tempdir().unwrap();
        kept_in(dir.path(), 7, 40, 10);
        let file = dir.path().join("v1-seed7-40-10/train-images");
        fs::write(&file, "no images").unwrap();
        assert!(kept_in(dir.path(), 7, 40, 10).train == digits(7, 40, 10).train);
        assert!(fs::metadata(&file).unwrap().len() > 40 * 784);
    }

    #[test]
    fn only_so_many_sets_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..MOST_SETS as u64 + 3 {
            kept_in(dir.path(), seed, 2, 1);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MOST_SETS);
    }

    #[test]
    fn where_nothing_can_be_kept_digits_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(kept_in(&file, 7, 2, 1).train.len(), 2);
    }
}
