//! The cache of rows is built once, shared, and rebuilt if it is stale or damaged.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::thread;

use paceline_data::sparse::{CacheRemoval, CachedRows};
use paceline_data::{
    DataError, OpenReport, SparseKind, SparseRows, SparseSpec, TrainTest, open_sparse,
};
use proptest::prelude::*;

use crate::{DataDir, all, ones, open};

/// Opens the data, and returns the remarks too.
fn open_reporting(spec: &SparseSpec) -> (TrainTest<SparseRows>, String) {
    let mut said = String::new();
    let mut observer = |report: OpenReport<'_>| {
        if let OpenReport::Note(line) = report {
            said += &format!("{line}\n");
        }
        ControlFlow::Continue(())
    };
    let set = open_sparse(spec, &mut observer).unwrap();
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
fn the_cache_is_built_once_and_not_beside_the_data() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n0 2:0.5\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let (first, said) = open_reporting(&spec);
    assert!(said.contains(" are cached in "), "{said}");
    let cache = cache_in(&dir.path("cache"));
    let built = fs::metadata(&cache).unwrap().modified().unwrap();
    let (again, said) = open_reporting(&spec);
    assert_eq!(said, "");
    assert_eq!(fs::metadata(&cache).unwrap().modified().unwrap(), built);
    assert_eq!(all(&first.train), all(&again.train));
    // Nothing else stays except the lock.
    assert_eq!(fs::read_dir(dir.path("cache")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(dir.dir.path()).unwrap().count(), 2, "the data and the cache");
}

#[test]
fn a_cache_in_the_directory_of_the_data_is_not_read_as_data() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n0 2:0.5\n");
    let cache_dir = Some(dir.dir.path().to_owned());
    let spec = |path| SparseSpec {
        cache_dir: cache_dir.clone(),
        ..SparseSpec::at(SparseKind::Libsvm, path)
    };
    open(&spec(dir.path("rows.svm"))).unwrap();
    assert_eq!(open(&spec(dir.dir.path().to_owned())).unwrap().train.len(), 2);
}

#[test]
fn a_cache_that_an_earlier_version_left_beside_the_data_is_named_and_kept() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    open(&spec).unwrap();
    let cache = cache_in(&dir.path("cache"));
    let earlier = dir.path(cache.file_name().unwrap().to_str().unwrap());
    fs::rename(&cache, &earlier).unwrap();
    let (_, said) = open_reporting(&spec);
    assert!(said.contains(&format!("{} is not used any more", earlier.display())), "{said}");
    assert!(earlier.exists() && cache.exists());
}

#[test]
fn a_cache_directory_that_cannot_be_used_is_an_error_that_names_the_key() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n");
    // A file in place of a directory: permissions do not stop a privileged user.
    dir.file("cache", "");
    let error = open(&dir.spec(SparseKind::Libsvm, "rows.svm")).unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("set data.cache"), "{error}");
}

#[test]
fn reading_that_is_interrupted_ends_at_once_and_leaves_no_cache() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1 7:1\n".repeat(400_000));
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let mut reports = 0;
    let mut observer = |report: OpenReport<'_>| match report {
        OpenReport::Progress(progress) => {
            reports += 1;
            assert_eq!((progress.action, progress.what), ("reading", "rows.svm"));
            assert!(progress.share < 1.0 && progress.rows < 400_000, "{progress:?}");
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    let error = open_sparse(&spec, &mut observer).unwrap_err();
    assert!(matches!(error, DataError::Interrupted), "{error}");
    assert_eq!(reports, 1);
    let left: Vec<_> = fs::read_dir(dir.path("cache")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "the lock: {left:?}");
    assert_eq!(open(&spec).unwrap().train.len(), 400_000);
}

#[test]
fn a_process_that_waits_names_the_one_that_reads_and_can_be_interrupted() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    open(&spec).unwrap();
    let cache = cache_in(&dir.path("cache"));
    fs::remove_file(&cache).unwrap();
    let lock = fs::File::options().write(true).open(cache.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    fs::write(cache.with_extension("lock"), "worker:0 (process 7)").unwrap();
    let mut observer = |report: OpenReport<'_>| match report {
        OpenReport::Waiting { holder, what } => {
            assert_eq!((holder, what), ("worker:0 (process 7)", "rows.svm"));
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    let error = open_sparse(&spec, &mut observer).unwrap_err();
    assert!(matches!(error, DataError::Interrupted), "{error}");
}

#[test]
fn caches_are_listed_and_removed_and_other_files_stay() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\n");
    open(&dir.spec(SparseKind::Libsvm, "rows.svm")).unwrap();
    let clicks = SparseSpec {
        features: Some(100),
        train_examples: Some(10),
        cache_dir: Some(dir.path("cache")),
        ..SparseSpec::new(SparseKind::Clicks)
    };
    let kept = open(&clicks).unwrap();
    let others = ["notes.txt", "rows.lock", ".x.0123456789ab.part", "y.0123456789ab.paceline-rows"];
    for name in others {
        dir.file(&format!("cache/{name}"), "mine");
    }
    // An interrupted process left an unfinished cache and its lock.
    dir.file("cache/.z.svm.00112233aabb.part", "half");
    dir.file("cache/.z.svm.00112233aabb.lock", "process 1");
    let caches = CachedRows::list(&dir.path("cache")).unwrap();
    let sources: Vec<_> = caches.iter().map(|cache| cache.source.as_deref()).collect();
    let rows = fs::canonicalize(dir.path("rows.svm")).unwrap();
    assert_eq!(sources, [rows.to_str(), None, Some("generated clicks")]);
    assert!(caches.iter().all(|cache| cache.bytes > 0));

    // One that is being built stays.
    let busy = fs::File::options().write(true).open(caches[1].path.with_extension("lock")).unwrap();
    busy.lock().unwrap();
    let removed: Vec<_> = caches.iter().map(|cache| cache.remove().unwrap()).collect();
    let in_use = CacheRemoval::InUse("process 1".into());
    assert_eq!(removed, [CacheRemoval::Removed, in_use, CacheRemoval::Removed]);
    drop(busy);
    assert_eq!(caches[1].remove().unwrap(), CacheRemoval::Removed);
    let mut left: Vec<_> =
        fs::read_dir(dir.path("cache")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    let mut expected = others.to_vec();
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(kept.train.len(), 10, "rows stay usable");
    assert!(CachedRows::list(&dir.path("absent")).unwrap().is_empty());
}

#[test]
fn changed_data_makes_the_cache_stale_and_other_options_have_their_own() {
    let dir = DataDir::new();
    let path = dir.file("rows.svm", "1 1:1\n");
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    open(&spec).unwrap();
    fs::write(&path, "1 1:1\n0 2:1\n").unwrap();
    let (set, said) = open_reporting(&spec);
    assert!(said.contains("stale: built from `train 6 "), "{said}");
    assert_eq!(all(&set.train), [ones(1, &[0]), ones(0, &[1])]);
    // The same size, another modification time.
    fs::write(&path, "0 1:1\n0 2:1\n").unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(open(&spec).unwrap().train.row(0).label, 0);
    // Other options have their own cache, so two jobs do not rebuild it in turn.
    let wider = SparseSpec { features: Some(7), ..spec.clone() };
    assert_eq!(open(&wider).unwrap().train.features(), 7);
    let (set, said) = open_reporting(&spec);
    assert_eq!((set.train.features(), said.as_str()), (2, ""));
}

#[test]
fn a_bad_row_leaves_no_cache() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1\nbad\n");
    assert!(open(&dir.spec(SparseKind::Libsvm, "rows.svm")).is_err());
    let names: Vec<_> =
        fs::read_dir(dir.path("cache")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "the lock: {names:?}");
}

#[test]
fn concurrent_readers_build_one_cache() {
    let dir = DataDir::new();
    dir.file("rows.svm", "1 1:1 7:1\n".repeat(50_000));
    let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
    let said: Vec<String> = thread::scope(|scope| {
        let open = || {
            let (set, said) = open_reporting(&spec);
            assert_eq!((set.train.len(), set.train.entries()), (50_000, 100_000));
            said
        };
        let openers: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert_eq!(said.iter().filter(|said| said.contains(" are cached in ")).count(), 1, "{said:?}");
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
    fn any_damage_is_noticed_and_repaired(at: prop::sample::Index, flip in 1u8.., cut: bool) {
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
        let (set, said) = open_reporting(&spec);
        prop_assert_eq!(all(&set.train), expected);
        // Only the padding between the sections may change unnoticed.
        if said.contains(" are cached in ") {
            prop_assert_eq!(fs::read(&cache).unwrap(), good);
        } else {
            prop_assert!(!cut && good[at] == 0, "damage to byte {at} went unnoticed");
        }
    }
}
