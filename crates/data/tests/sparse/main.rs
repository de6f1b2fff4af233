//! Sparse rows from files of every format, from memory and from the cache, and every kind of bad
//! file.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod caching;
mod fields;
mod formats;
mod golden;
mod held_out;
mod hostile;
mod in_memory;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_data::{
    DataError, OpenReport, SparseKind, SparseRows, SparseSpec, TrainTest, open_sparse,
};
use tempfile::TempDir;

/// A temporary directory for the files of a test.
struct DataDir {
    dir: TempDir,
}

impl DataDir {
    fn new() -> Self {
        DataDir { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Data of this kind in this directory, with its cache in a subdirectory.
    fn spec(&self, kind: SparseKind, name: &str) -> SparseSpec {
        SparseSpec { cache_dir: Some(self.path("cache")), ..SparseSpec::at(kind, self.path(name)) }
    }
}

fn open(spec: &SparseSpec) -> Result<TrainTest<SparseRows>, DataError> {
    open_sparse(spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))
}

/// Label, keys and values of a row; values even if all are 1.
type TestRow = (u32, Vec<u32>, Vec<f32>);

fn all(rows: &SparseRows) -> Vec<TestRow> {
    let row = |index| {
        let row = rows.row(index);
        let values = (0..row.keys.len()).map(|entry| row.value(entry)).collect();
        (row.label, row.keys.to_vec(), values)
    };
    (0..rows.len()).map(row).collect()
}

fn ones(label: u32, keys: &[u32]) -> TestRow {
    (label, keys.to_vec(), vec![1.0; keys.len()])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
