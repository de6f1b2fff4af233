//! Making a cache of rows: everything that a job's files say, or that is made up, in one pass.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cache::CacheWriter;
use super::clicks::{ClickRow, Clicks, FIRST_TEST_ROW};
use super::format::SparseFormat;
use super::row::SparseRow;
use super::spec::{IndexBase, SparseKind, SparseSpec};
use super::stream::{ReadOptions, Stop, read};
use crate::error::DataError;
use crate::unpack;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How many rows pass between two looks at the clock.
const LOOK_EVERY: u64 = 4096;

/// The files of a job.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) train: Vec<PathBuf>,
    pub(super) test: Vec<PathBuf>,
}

/// Writes a cache to `part`.
pub(super) fn build(
    spec: &SparseSpec,
    sources: &Sources,
    identity: &str,
    part: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), DataError> {
    let mut building = Building { spec, say, told: Instant::now() };
    if spec.kind == SparseKind::Clicks {
        return building.make_up(CacheWriter::create(part)?, identity);
    }
    let guess = spec.index_base == IndexBase::Auto && spec.kind == SparseKind::Libsvm;
    let first = u32::from(spec.index_base != IndexBase::Zero && spec.kind == SparseKind::Libsvm);
    match building.read_all(CacheWriter::create(part)?, sources, identity, first, guess) {
        Ok(()) => Ok(()),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::FromZero) => {
            // Rare and found early as a rule, so beginning again is cheaper than what every
            // other file would pay for being ready for it.
            (building.say)("an index 0 was found: indices count from 0; reading again");
            match building.read_all(CacheWriter::create(part)?, sources, identity, 0, false) {
                Ok(()) => Ok(()),
                Err(Stop::Error(error)) => Err(error),
                Err(Stop::FromZero) => unreachable!("nobody asked for it"),
            }
        }
    }
}

struct Building<'a> {
    spec: &'a SparseSpec,
    say: &'a mut dyn FnMut(&str),
    told: Instant,
}

impl Building<'_> {
    fn read_all(
        &mut self,
        mut writer: CacheWriter,
        sources: &Sources,
        identity: &str,
        first_index: u32,
        watch_for_zero: bool,
    ) -> Result<(), Stop> {
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
                    self.tell(writer.rows(), file);
                    Ok(())
                };
                skipped += read(content, file, &options, watch_for_zero, &mut take)?.skipped;
            }
            if training {
                writer.end_of_training();
            }
        }
        Ok(writer.close(spec.features, skipped, identity)?)
    }

    fn make_up(&mut self, mut writer: CacheWriter, identity: &str) -> Result<(), DataError> {
        let spec = self.spec;
        let clicks = Clicks::new(spec.features.unwrap_or_default(), spec.seed);
        let mut row = ClickRow::default();
        let (train, test) = (spec.train_examples.unwrap_or(0), spec.test_examples.unwrap_or(0));
        for (first, count) in [(0, train), (FIRST_TEST_ROW, test)] {
            for index in first..first + count as u64 {
                clicks.draw(index, &mut row);
                writer.push(row.row())?;
                self.tell(writer.rows(), Path::new("clicks"));
            }
            if first == 0 {
                writer.end_of_training();
            }
        }
        writer.close(spec.features, 0, identity)
    }

    fn tell(&mut self, rows: u64, file: &Path) {
        if rows.is_multiple_of(LOOK_EVERY) && self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            (self.say)(&format!("caching rows of {}: {rows} so far", file.display()));
        }
    }
}
