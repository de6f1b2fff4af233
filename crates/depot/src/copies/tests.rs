//! Copies in a directory: what is copied, what is removed, and what comes back.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use paceline_checkpoint::{Manifest, RemoteCheckpoints};

use super::folder::Folder;
use super::store::FileStore;
use super::stored_run::{StoredRun, folder};

fn names(store: &dyn FileStore) -> Vec<String> {
    let mut names = store.list().unwrap();
    names.sort();
    names
}

#[test]
fn a_directory_keeps_files_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn FileStore> = Arc::new(Folder::new(dir.path().join("to")));
    assert_eq!(names(&*store), [""; 0], "a place that does not exist yet is empty");
    let from = dir.path().join("from");
    fs::write(&from, "content").unwrap();
    store.put("step-000000000005/a.safetensors", &from).unwrap();
    store.put("job.toml", &from).unwrap();
    assert_eq!(names(&*store), ["job.toml", "step-000000000005/a.safetensors"]);
    let back = dir.path().join("back");
    store.get("job.toml", &back).unwrap();
    assert_eq!(fs::read_to_string(&back).unwrap(), "content");
    assert_eq!(store.read("job.toml", 7).unwrap(), b"content");
    let longer = store.read("job.toml", 6).unwrap_err();
    assert_eq!(longer.kind(), std::io::ErrorKind::InvalidData);
    assert!(Command::new("mkfifo").arg(dir.path().join("to/pipe")).status().unwrap().success());
    for refused in [store.read("pipe", 7).map(drop), store.get("pipe", &back)] {
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    }
    store.remove("pipe").unwrap();
    let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode();
    assert_eq!(mode("to") & 0o777, 0o700, "only its owner may read it");
    let missing = store.get("other", Path::new("/dev/null")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    store.remove("step-000000000005/a.safetensors").unwrap();
    store.remove("step-000000000005/a.safetensors").unwrap();
    assert_eq!(names(&*store), ["job.toml"]);
    assert!(!dir.path().join("to/step-000000000005").exists());
}

#[test]
fn a_link_in_the_directory_for_temporary_files_is_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let [from, other] = ["from", "other"].map(|name| dir.path().join(name));
    fs::write(&from, "a manifest").unwrap();
    fs::write(&other, "a file of the same user").unwrap();
    let store: Arc<dyn FileStore> = Arc::new(Folder::new(dir.path().join("to")));
    store.put(&format!("{}/{}", folder(5), Manifest::FILE), &from).unwrap();
    // Any user may make this link, since process numbers are easy to foresee.
    let planted = std::env::temp_dir().join(format!("paceline-{}.tmp", std::process::id()));
    let _ = symlink(&other, &planted);
    let read = StoredRun::new(store).manifest(Some(5));
    let _ = fs::remove_file(&planted);
    assert_eq!(read.unwrap().unwrap(), b"a manifest");
    assert_eq!(fs::read_to_string(&other).unwrap(), "a file of the same user");
}
