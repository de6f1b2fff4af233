//! Builds a cache of rows from the files of a job, or from generated rows, in one pass.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::cache::CacheWriter;
use super::clicks::{ClickRow, Clicks, FIRST_TEST_ROW};
use super::format::SparseFormat;
use super::row::SparseRow;
use super::spec::{IndexBase, SparseKind, SparseSpec};
use super::stream::{ReadOptions, ReadStop, read};
use crate::error::DataError;
use crate::open_observer::{OpenMeter, OpenObserver};
use crate::unpack;

/// How many rows are generated between two checks of the clock.
const ROWS_PER_CHECK: u64 = 1024;

/// The files of a job.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    pub(super) train: Vec<PathBuf>,
    pub(super) test: Vec<PathBuf>,
}

/// Writes a cache to `part`, and reports progress.
pub(super) fn build(
    spec: &SparseSpec,
    sources: &SourceFiles,
    identity: &str,
    part: &Path,
    observer: &mut dyn OpenObserver,
) -> Result<(), DataError> {
    if spec.kind == SparseKind::Clicks {
        return generate(spec, identity, part, observer);
    }
    let files = || sources.train.iter().chain(&sources.test);
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
    let first = files().next().map_or(Path::new(""), |file| file);
    let meter = OpenMeter::new(observer, "reading", first, files().map(size).sum());
    let build = CacheBuild { spec, sources, identity, meter: RefCell::new(meter) };
    let is_libsvm = spec.kind == SparseKind::Libsvm;
    let stop_at_zero = spec.index_base == IndexBase::Auto && is_libsvm;
    let first_index = u32::from(spec.index_base != IndexBase::Zero && is_libsvm);
    let mut read = build.read_all(CacheWriter::create(part)?, first_index, stop_at_zero);
    if let Err(ReadStop::IndexZero) = read {
        // Rare, and usually found early, so starting again costs less than preparing for it in
        // every other file.
        let text = "an index 0 was found: indices count from 0; reading again";
        build.meter.borrow_mut().note(text);
        build.meter.borrow_mut().restart();
        read = build.read_all(CacheWriter::create(part)?, 0, false);
    }
    match read {
        Ok(()) => Ok(()),
        Err(ReadStop::Error(error)) => Err(error),
        Err(ReadStop::IndexZero) => unreachable!("reported only if `stop_at_zero` is set"),
    }
}

struct CacheBuild<'a> {
    spec: &'a SparseSpec,
    sources: &'a SourceFiles,
    identity: &'a str,
    meter: RefCell<OpenMeter<'a>>,
}

impl CacheBuild<'_> {
    fn read_all(
        &self,
        mut writer: CacheWriter,
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
        writer.set_first_index(first_index);
        let mut skipped = 0;
        for (files, training) in [(&self.sources.train, true), (&self.sources.test, false)] {
            for file in files {
                self.meter.borrow_mut().set_what("reading", file);
                let metered = |content| MeteredRead { content, meter: &self.meter };
                let content = unpack::open_with(file, metered);
                let content = content.map_err(|error| interrupted(error.into()))?;
                let mut take = |row: SparseRow<'_>| {
                    writer.push(row)?;
                    self.meter.borrow_mut().set_rows(writer.rows());
                    Ok(())
                };
                let read = read(content, file, &options, stop_at_zero, &mut take);
                skipped += read.map_err(interrupted)?.skipped;
            }
            if training {
                writer.end_training_set();
            }
        }
        Ok(writer.close(spec.features, skipped, self.identity, &mut self.meter.borrow_mut())?)
    }
}

/// Reports how much of a file has been read. The file's own bytes count, packed or not: their
/// number is known in advance.
struct MeteredRead<'m, 'o, R> {
    content: R,
    meter: &'m RefCell<OpenMeter<'o>>,
}

impl<R: Read> Read for MeteredRead<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Limited, so that reading never pauses for long.
        let most = buffer.len().min(1 << 20);
        let read = self.content.read(&mut buffer[..most])?;
        self.meter.borrow_mut().add(read as u64).map_err(io::Error::other)?;
        Ok(read)
    }
}

/// Recovers the wish to stop, which passed through the readers as an error of theirs.
fn interrupted(stop: ReadStop) -> ReadStop {
    let is_wish = |source: &io::Error| {
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
        matches!(inner, Some(DataError::Interrupted))
    };
    match stop {
        ReadStop::Error(DataError::Io { source, .. }) if is_wish(&source) => {
            DataError::Interrupted.into()
        }
        stop => stop,
    }
}

fn generate(
    spec: &SparseSpec,
    identity: &str,
    part: &Path,
    observer: &mut dyn OpenObserver,
) -> Result<(), DataError> {
    let mut writer = CacheWriter::create(part)?;
    let clicks = Clicks::new(spec.features.unwrap_or_default(), spec.seed);
    let mut row = ClickRow::default();
    let (train, test) = (spec.train_examples.unwrap_or(0), spec.test_examples.unwrap_or(0));
    let all = (train + test) as u64;
    let mut meter = OpenMeter::new(observer, "generating", Path::new("clicks"), all);
    for (first, count) in [(0, train), (FIRST_TEST_ROW, test)] {
        for index in first..first + count as u64 {
            clicks.draw(index, &mut row);
            writer.push(row.row())?;
            if writer.rows().is_multiple_of(ROWS_PER_CHECK) {
                meter.set_rows(writer.rows());
                meter.add(ROWS_PER_CHECK)?;
            }
        }
        if first == 0 {
            writer.end_training_set();
        }
    }
    writer.close(spec.features, 0, identity, &mut meter)
}
