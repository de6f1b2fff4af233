use super::*;
use crate::{Digits, idx};

fn words(patches: &Patches) -> Vec<u64> {
    (**patches.words()).as_ref().to_vec()
}

/// Digits in plain files, as a job reads them.
fn stored(dir: &Path) -> Images {
    let [images, labels] = ["images", "labels"].map(|name| dir.join(name));
    let drawn = Digits::generate_sets(30, 1, 7).train;
    idx::write_images(&images, 28, 28, drawn.pixels()).unwrap();
    idx::write_labels(&labels, drawn.labels()).unwrap();
    let read = idx::read_pair(&images, &labels, 10).unwrap();
    assert!(read == drawn && read.file().is_some(), "the file is mapped");
    read
}

#[test]
fn patches_of_a_file_are_written_once_and_equal_those_in_memory() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let images = stored(data.path());
    let own = Patches::of(&images).unwrap();
    let file = images.file().unwrap();
    let modified = || fs::metadata(cache.path().join(name_of(file))).unwrap().modified().unwrap();
    let mut written = None;
    for _ in 0..2 {
        let shared = Patches::shared_in(cache.path(), &images, file).unwrap();
        assert_eq!((words(&shared), shared.starts()), (words(&own), own.starts()));
        assert_eq!(shared.labels(), own.labels());
        assert_eq!(*written.get_or_insert_with(modified), modified());
    }
}

#[test]
fn a_damaged_or_foreign_file_of_patches_is_written_again() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let images = stored(data.path());
    let file = images.file().unwrap();
    let own = Patches::of(&images).unwrap();
    Patches::shared_in(cache.path(), &images, file).unwrap();
    let path = cache.path().join(name_of(file));
    let sound = fs::read(&path).unwrap();
    let mut flipped = sound.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let mut claims = sound.clone();
    claims[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
    for broken in [&b""[..], &sound[..sound.len() - 8], &flipped, &claims, b"something else"] {
        fs::write(&path, broken).unwrap();
        assert!(open(&path, &images).is_none());
        let shared = Patches::shared_in(cache.path(), &images, file).unwrap();
        assert_eq!(words(&shared), words(&own));
        assert_eq!(fs::read(&path).unwrap(), sound);
    }
}

#[test]
fn without_a_cache_each_process_has_its_own_patches() {
    let dir = tempfile::tempdir().unwrap();
    let images = stored(dir.path());
    let occupied = dir.path().join("images");
    let own = Patches::shared_in(&occupied, &images, images.file().unwrap()).unwrap();
    assert_eq!(words(&own), words(&Patches::of(&images).unwrap()));
}
