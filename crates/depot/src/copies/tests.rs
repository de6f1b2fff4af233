//! Copies in a directory: what is copied, what is removed, and what comes back.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::folder::Folder;
use super::store::FileStore;

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
    let missing = store.get("other", Path::new("/dev/null")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    store.remove("step-000000000005/a.safetensors").unwrap();
    store.remove("step-000000000005/a.safetensors").unwrap();
    assert_eq!(names(&*store), ["job.toml"]);
    assert!(!dir.path().join("to/step-000000000005").exists());
}
