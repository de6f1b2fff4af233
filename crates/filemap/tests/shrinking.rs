//! A mapped file that another program makes shorter.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use paceline_filemap::{EXIT_CODE, FileMap};

/// Names the file that a process of this test maps, shortens and reads.
const FILE: &str = "PACELINE_TEST_SHRINK";

#[test]
fn a_file_that_becomes_shorter_ends_its_reader_with_an_error() {
    if let Some(path) = std::env::var_os(FILE) {
        shrink_and_read(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("rows");
    let test = "a_file_that_becomes_shorter_ends_its_reader_with_an_error";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FILE, &path)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{:?} {errors}", output.status.signal());
    let named = format!("error: {} had 100000 bytes and has 10 now", path.display());
    assert!(errors.contains(&named), "{errors}");
}

fn shrink_and_read(path: &Path) -> ! {
    fs::write(path, vec![7; 100_000]).unwrap();
    // Another map of a file that stays as it is.
    let whole = path.with_extension("whole");
    fs::write(&whole, vec![8; 9_000]).unwrap();
    let maps = [FileMap::open(&whole).unwrap(), FileMap::open(path).unwrap()];
    File::options().write(true).open(path).unwrap().set_len(10).unwrap();
    // Several threads need the lost part at once, as in training.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let bytes = maps.iter().flat_map(|map| map.iter());
                let sum: u64 = bytes.map(|&byte| u64::from(byte)).sum();
                panic!("read {sum} in bytes that are gone");
            });
        }
    });
    unreachable!("a thread panics")
}

#[test]
fn a_file_that_is_replaced_stays_as_it_was_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let [path, new] = ["rows", "new"].map(|name| dir.path().join(name));
    fs::write(&path, vec![7; 50_000]).unwrap();
    let map = FileMap::open(&path).unwrap();
    fs::write(&new, b"short").unwrap();
    fs::rename(&new, &path).unwrap();
    assert!(map.iter().all(|&byte| byte == 7));
    assert_eq!(&FileMap::open(&path).unwrap()[..], b"short");
}
