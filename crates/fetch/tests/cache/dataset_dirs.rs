//! Where data sets are found, and the errors if they are not.

use std::fs;
use std::path::Path;

use crate::mirror::{NAMES, content, dirs, gzip, spec};
use paceline_fetch::{DirKind, KnownDataset};
use tempfile::TempDir;

fn fill(dir: &Path, names: &[&str]) {
    fs::create_dir_all(dir).expect("writable");
    for (i, name) in names.iter().enumerate() {
        // Plain and gzip in turn: each file is searched for separately.
        let written = if i % 2 == 0 {
            fs::write(dir.join(name), content(name))
        } else {
            fs::write(dir.join(format!("{name}.gz")), gzip(&content(name)))
        };
        written.expect("writable");
    }
}

#[test]
fn the_cache_comes_before_debian_and_a_path_before_both() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let found = |path: Option<&Path>| dirs.locate(&spec(), path).map(|found| found.kind);

    fill(&dirs.debian.join("tiny"), &NAMES);
    assert_eq!(found(None).unwrap(), DirKind::Debian);
    fill(&dirs.cache.join("tiny"), &NAMES);
    assert_eq!(found(None).unwrap(), DirKind::Cache);
    let own = dir.path().join("own");
    fill(&own, &NAMES);
    assert_eq!(found(Some(&own)).unwrap(), DirKind::Given);

    let set = dirs.locate(&spec(), Some(&own)).unwrap().load(10).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (6, 4));
    assert_eq!(set.origin, own.display().to_string());
}

#[test]
fn an_unusable_path_is_an_error_even_if_the_cache_is_complete() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    fill(&dirs.cache.join("tiny"), &NAMES);
    let check = |path: &Path, says: &str| {
        let error = dirs.locate(&spec(), Some(path)).unwrap_err().to_string();
        let named = error.contains(path.to_str().unwrap());
        assert!(named && error.contains(says) && error.contains("data.path"), "{error}");
    };
    let own = dir.path().join("own");
    check(&own, "there is no such directory");
    fill(&own, &NAMES[..2]);
    check(&own, "it lacks test-images, test-labels");
    check(&own.join(NAMES[0]), "it is a file");
}

#[test]
fn a_missing_data_set_is_an_error_that_says_where_and_what_to_do() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    fill(&dirs.cache.join("tiny"), &NAMES[..3]);
    let error = dirs.locate(&spec(), None).unwrap_err().to_string();
    for says in [
        "(cache): lacks test-labels",
        "(Debian package): not there",
        "`paceline data get tiny`",
        "`apt-get install dataset-tiny`",
    ] {
        assert!(error.contains(says), "{error}");
    }
    let error = dirs.locate(KnownDataset::Mnist.spec(), None).unwrap_err().to_string();
    assert!(error.contains("`paceline data get mnist`") && !error.contains("apt-get"), "{error}");
}

#[test]
fn the_status_counts_files_and_bytes() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    fill(&dirs.cache.join("tiny"), &NAMES[..1]);
    let [cache, debian] = &dirs.status(&spec())[..] else { panic!("two directories") };
    assert_eq!((cache.kind, cache.exists, cache.bytes), (DirKind::Cache, true, 112));
    assert_eq!(cache.missing, NAMES[1..]);
    assert!(!debian.exists && !debian.is_complete());
    assert_eq!(dirs.status(KnownDataset::Mnist.spec()).len(), 1);
}

#[test]
fn files_of_two_data_sets_are_not_mixed() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let tiny = dirs.cache.join("tiny");
    fill(&tiny, &NAMES);
    paceline_data::idx::write_images(&tiny.join("test-images"), 2, 2, &[0; 16]).unwrap();
    let error = dirs.locate(&spec(), None).unwrap().load(10).unwrap_err().to_string();
    assert!(error.contains("images of 4 x 4 and of 2 x 2"), "{error}");
}
