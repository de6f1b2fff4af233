//! Sparse rows from files of every format to the mapped cache, and every kind of bad file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod caching;
mod formats;
mod golden;
mod hostile;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_data::{DataError, SparseKind, SparseRows, SparseSpec, TrainTest, open_sparse};
use tempfile::TempDir;

/// A directory of its own for each test.
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

    /// Data of this kind in this room, cached in a place of its own.
    fn spec(&self, kind: SparseKind, name: &str) -> SparseSpec {
        SparseSpec { cache_dir: Some(self.path("cache")), ..SparseSpec::at(kind, self.path(name)) }
    }
}

fn open(spec: &SparseSpec) -> Result<TrainTest<SparseRows>, DataError> {
    open_sparse(spec, &mut |_| ())
}

/// Label, keys and values of every row; values also where all are 1.
type Row = (u32, Vec<u32>, Vec<f32>);

fn all(rows: &SparseRows) -> Vec<Row> {
    let row = |index| {
        let row = rows.row(index);
        let values = (0..row.keys.len()).map(|entry| row.value(entry)).collect();
        (row.label, row.keys.to_vec(), values)
    };
    (0..rows.len()).map(row).collect()
}

fn ones(label: u32, keys: &[u32]) -> Row {
    (label, keys.to_vec(), vec![1.0; keys.len()])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
