//! Tables in a directory of their own.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use paceline_data::{DataError, OpenReport};
use paceline_table::{ColumnChoice, ColumnSpec, OpenTable, TableSpec, open_table};

/// A directory with tables and their caches.
pub(crate) struct Tables(pub(crate) tempfile::TempDir);

impl Tables {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn spec(&self, path: &Path) -> TableSpec {
        TableSpec { cache_dir: Some(self.0.path().join("cache")), ..TableSpec::at(path) }
    }

    pub(crate) fn open(&self, content: impl AsRef<[u8]>) -> Result<OpenTable, DataError> {
        let path = self.write("table.csv", content);
        open(&self.spec(&path))
    }
}

pub(crate) fn open(spec: &TableSpec) -> Result<OpenTable, DataError> {
    open_table(spec, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))
}

pub(crate) fn declare(column: &str, choice: ColumnChoice) -> ColumnSpec {
    ColumnSpec { column: column.into(), choice }
}

/// The label, keys and values of each row.
pub(crate) fn rows(table: &OpenTable) -> Vec<(u32, Vec<u32>, Vec<f32>)> {
    let rows = &table.rows.train;
    let row = |index| {
        let row = rows.row(index);
        let values = (0..row.keys.len()).map(|index| row.value(index));
        (row.label, row.keys.to_vec(), values.collect())
    };
    (0..rows.len()).map(row).collect()
}
