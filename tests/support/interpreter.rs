//! Where Python is. Tests of other crates include this file as well.

use std::fs;
use std::path::{Path, PathBuf};

/// A Python with what `tests/python/requirements.txt` lists: the one that `PACELINE_PYTHON` names,
/// or the one that `cargo xtask setup` installs in `.venv`.
pub(crate) fn python_interpreter() -> PathBuf {
    if let Some(named) = std::env::var_os("PACELINE_PYTHON") {
        return named.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = fs::read(workspace.join(".venv/requirements.txt"));
    let required = fs::read(workspace.join("tests/python/requirements.txt"));
    assert!(
        matches!((installed, required), (Ok(installed), Ok(required)) if installed == required),
        "the Python packages that tests need are not installed: run `cargo xtask setup`, or set \
         PACELINE_PYTHON to an interpreter that has what tests/python/requirements.txt lists"
    );
    workspace.join(".venv/bin/python")
}
