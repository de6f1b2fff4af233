//! Builds a cache of rows from the files of a job, or from generated rows, in one pass.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::CacheWriter;
use super::clicks::{ClickRow, Clicks, FIRST_TEST_ROW};
use super::format::SparseFormat;
use super::row::SparseRow;
use super::spec::{IndexBase, SparseKind, SparseSpec};
use super::stream::{ReadOptions, ReadStop, read};
use crate::error::DataError;
use crate::unpack;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How many rows are written between two checks of the clock.
const ROWS_PER_CHECK: u64 = 4096;

/// The files of a job.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    pub(super) train: Vec<PathBuf>,
    pub(super) test: Vec<PathBuf>,
}

/// Writes a cache to `part`, and reports progress about once a second.
pub(super) fn build(
    spec: &SparseSpec,
    sources: &SourceFiles,
    identity: &str,
    part: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<(), DataError> {
    let mut build = CacheBuild { spec, identity, report, reported: Instant::now() };
    if spec.kind == SparseKind::Clicks {
        return build.generate(CacheWriter::create(part)?);
    }
    let is_libsvm = spec.kind == SparseKind::Libsvm;
    let stop_at_zero = spec.index_base == IndexBase::Auto && is_libsvm;
    let first_index = u32::from(spec.index_base != IndexBase::Zero && is_libsvm);
    let mut read = build.read_all(CacheWriter::create(part)?, sources, first_index, stop_at_zero);
    if let Err(ReadStop::IndexZero) = read {
        // Rare, and usually found early, so starting again costs less than preparing for it in
        // every other file.
        (build.report)("an index 0 was found: indices count from 0; reading again");
        read = build.read_all(CacheWriter::create(part)?, sources, 0, false);
    }
    match read {
        Ok(()) => Ok(()),
        Err(ReadStop::Error(error)) => Err(error),
        Err(ReadStop::IndexZero) => unreachable!("reported only if `stop_at_zero` is set"),
    }
}

struct CacheBuild<'a> {
    spec: &'a SparseSpec,
    identity: &'a str,
    report: &'a mut dyn FnMut(&str),
    /// When progress was last reported.
    reported: Instant,
}

impl CacheBuild<'_> {
    fn read_all(
        &mut self,
        mut writer: CacheWriter,
        sources: &SourceFiles,
        first_index: u32,
        stop_at_zero: bool,
    ) -> Result<(), ReadStop> {
        let spec = self.spec;
        let format = match spec.kind {
            SparseKind::TfRecord => SparseFormat::TfRecord,
            SparseKind::Criteo => SparseFormat::Criteo,
            SparseKind::Libsvm | SparseKind::Clicks => SparseFormat::Libsvm,
        };
        let options =
            ReadOptions { format, features: spec.features, first_index, on_bad: spec.on_bad };
        let mut skipped = 0;
        for (files, training) in [(&sources.train, true), (&sources.test, false)] {
            for file in files {
                let content = unpack::open(file)?;
                let mut take = |row: SparseRow<'_>| {
                    writer.push(row)?;
                    self.report_progress(writer.rows(), file);
                    Ok(())
                };
                skipped += read(content, file, &options, stop_at_zero, &mut take)?.skipped;
            }
            if training {
                writer.end_training_set();
            }
        }
        Ok(writer.close(spec.features, skipped, self.identity)?)
    }

    fn generate(&mut self, mut writer: CacheWriter) -> Result<(), DataError> {
        let spec = self.spec;
        let clicks = Clicks::new(spec.features.unwrap_or_default(), spec.seed);
        let mut row = ClickRow::default();
        let (train, test) = (spec.train_examples.unwrap_or(0), spec.test_examples.unwrap_or(0));
        for (first, count) in [(0, train), (FIRST_TEST_ROW, test)] {
            for index in first..first + count as u64 {
                clicks.draw(index, &mut row);
                writer.push(row.row())?;
                self.report_progress(writer.rows(), Path::new("clicks"));
            }
            if first == 0 {
                writer.end_training_set();
            }
        }
        writer.close(spec.features, 0, self.identity)
    }

    fn report_progress(&mut self, rows: u64, file: &Path) {
        if rows.is_multiple_of(ROWS_PER_CHECK) && self.reported.elapsed() >= REPORT_EVERY {
            self.reported = Instant::now();
            (self.report)(&format!("caching rows of {}: {rows} so far", file.display()));
        }
    }
}
