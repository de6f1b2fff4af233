//! The cache of rows: made once, used by all, and never believed when it is stale or damaged.

use std::fs;
use std::path::PathBuf;
use std::thread;

use paceline_data::{SparseKind, SparseRows, SparseSpec, TrainTest, open_sparse};
use proptest::prelude::*;

use crate::{DataDir, all, ones, open};

/// The data, and what was said.
fn open_saying(spec: &SparseSpec) -> (TrainTest<SparseRows>, String) {
    let mut said = String::new();
    let set = open_sparse(spec, &mut |line| said = format!("{said}{line}\n")).unwrap();
    (set, said)
}

/// The one cache in a directory.
fn cache_in(dir: &std::path::Path) -> PathBuf {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut caches: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "paceline-rows")).collect();
    assert_eq!(caches.len(), 1, "{caches:?}");
    caches.remove(0)
}

#[test]
fn it_is_made_once_beside_the_data() {
    let dir = DataDir::new();
    let path = dir.file("rows.svm", "1 1:1\n0 2:0.5\n");
    let spec = SparseSpec::at(SparseKind::Libsvm, &path);
    let (first, said) = open_saying(&spec);
    assert!(said.contains("making "), "{said}");
    let cache = cache_in(dir.dir.path());
    let made = fs::metadata(&cache).unwrap().modified().unwrap();
    let (again, said) = open_saying(&spec);
    assert_eq!(said, "");
    assert_eq!(fs::metadata(&cache).unwrap().modified().unwrap(), made);
    assert_eq!(all(&first.train), all(&again.train));
    // It is not taken for data, and nothing else is left but the lock.
    assert_eq!(fs::read_dir(dir.dir.path()).unwrap().count(), 3);
    let whole = SparseSpec::at(SparseKind::Libsvm, dir.dir.path());
    assert_eq!(open(&whole).unwrap().train.len(), 2);
}

#[test]
fn changed_data_and_other_options_make_it_stale() {
    let dir = DataDir::new();
    let path = dir.file("rows.svm", "1 1:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    open(&spec).unwrap();
    fs::write(&path, "1 1:1\n0 2:1\n").unwrap();
    let (set, said) = open_saying(&spec);
    assert!(said.contains("stale: made of `train 6 "), "{said}");
    assert_eq!(all(&set.train), [ones(1, &[0]), ones(0, &[1])]);
    // The same length, another time.
    fs::write(&path, "0 1:1\n0 2:1\n").unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(open(&spec).unwrap().train.row(0).label, 0);
    // Other options have a cache of their own, so jobs do not take turns in making one.
    let wider = SparseSpec { features: Some(7), ..spec.clone() };
    assert_eq!(open(&wider).unwrap().train.features(), 7);
    let (set, said) = open_saying(&spec);
    assert_eq!((set.train.features(), said.as_str()), (2, ""));
}

#[test]
fn a_bad_row_leaves_no_cache() {
    let dir = DataDir::new();
    let path = dir.file("rows.svm", "1 1:1\nbad\n");
    let spec = SparseSpec::at(SparseKind::Libsvm, &path);
    assert!(open(&spec).is_err());
    let names: Vec<_> =
        fs::read_dir(dir.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the data and the lock: {names:?}");
}

#[test]
fn many_who_want_it_at_once_make_one() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1 7:1\n".repeat(50_000));
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let said: Vec<String> = thread::scope(|scope| {
        let open = || {
            let (set, said) = open_saying(&spec);
            assert_eq!((set.train.len(), set.train.entries()), (50_000, 100_000));
            said
        };
        let openers: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert_eq!(said.iter().filter(|said| said.contains("making ")).count(), 1, "{said:?}");
}

#[test]
fn rows_stay_usable_while_their_cache_is_replaced() {
    let dir = DataDir::new();
    let path = dir.file("rows.svm", "1 1:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let old = open(&spec).unwrap();
    fs::write(&path, "0 5:1\n0 6:1\n").unwrap();
    let new = open(&spec).unwrap();
    assert_eq!(all(&old.train), [ones(1, &[0])]);
    assert_eq!(all(&new.train), [ones(0, &[4]), ones(0, &[5])]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_damage_is_noticed_and_mended(at: prop::sample::Index, flip in 1u8.., cut: bool) {
        let dir = DataDir::new();
        dir.file("rows.svm", "1 1:1 5:2.5\n0 2:1\n1\n");
        let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
        let expected = all(&open(&spec).unwrap().train);
        let cache = cache_in(&dir.path("cache"));
        let good = fs::read(&cache).unwrap();
        let mut bad = good.clone();
        let at = at.index(bad.len());
        if cut { bad.truncate(at) } else { bad[at] ^= flip }
        fs::write(&cache, &bad).unwrap();
        let (set, said) = open_saying(&spec);
        prop_assert_eq!(all(&set.train), expected);
        // Bytes between the sections are the only ones that nothing depends on.
        if said.contains("making ") {
            prop_assert_eq!(fs::read(&cache).unwrap(), good);
        } else {
            prop_assert!(!cut && good[at] == 0, "byte {at} was not missed");
        }
    }
}
