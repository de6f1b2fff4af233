//! Builds a cache of rows from the files of a job, or from generated rows.
//!
//! The calling thread reads blocks and writes segments; other threads parse and encode. The first
//! block decides how keys are stored. A cache that an earlier process left unfinished is continued
//! after its last whole segment.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;

use paceline_generate::FIRST_TEST_ROW;

use super::blocks::BlockReader;
use super::cache::CacheWriter;
use super::collected_rows::CollectedRows;
use super::format::SparseFormat;
use super::pipeline::{Pipeline, SegmentMaker, SegmentSink, with_pipeline};
use super::row::RowBuffer;
use super::row_blocks::{
    FileBlock, FileRows, GeneratedBlock, GeneratedRows, ReaderBlock, ReaderRows, RowCollector,
    Submit,
};
use super::row_reader::RowReader;
use super::segment::{KeyCode, KeyEncoder, SegmentHeader, SourcePosition, encode_segment};
use super::spec::{IndexBase, SparseKind, SparseSpec};
use super::stream::{ReadOptions, ReadStop};
use crate::error::DataError;
use crate::open_observer::{OpenMeter, OpenObserver};
use crate::unpack;

/// How many rows a block of generated rows has.
const GENERATED_ROWS: u64 = 16_384;

/// The files of a job.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    pub(super) train: Vec<PathBuf>,
    pub(super) test: Vec<PathBuf>,
}

impl SourceFiles {
    /// All files, training files first.
    pub(super) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.train.iter().chain(&self.test)
    }
}

/// What a cache is built from.
#[derive(Clone, Copy)]
pub(super) struct BuildInputs<'a> {
    pub(super) spec: &'a SparseSpec,
    /// Reads the files, if they are not in a format of this crate.
    pub(super) reader: Option<&'a dyn RowReader>,
    pub(super) sources: &'a SourceFiles,
    pub(super) identity: &'a str,
    /// The unfinished cache.
    pub(super) part: &'a Path,
}

/// Writes a cache to `inputs.part`, and reports progress.
pub(super) fn build(
    inputs: &BuildInputs<'_>,
    observer: &mut dyn OpenObserver,
) -> Result<(), DataError> {
    let BuildInputs { spec, sources, identity, part, .. } = *inputs;
    let resumed = CacheWriter::resume(part, identity);
    let is_clicks = spec.kind == SparseKind::Clicks;
    let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
    let clicks = Path::new("clicks");
    let (action, what) = if is_clicks { ("generating", clicks) } else { ("reading", part) };
    let generated = spec.train_examples.unwrap_or(0) + spec.test_examples.unwrap_or(0);
    let total = if is_clicks { generated as u64 } else { sources.all().map(size).sum() };
    let mut meter = OpenMeter::new(observer, action, what, total);
    let is_libsvm = spec.kind == SparseKind::Libsvm;
    let mut first_index = u32::from(spec.index_base != IndexBase::Zero && is_libsvm);
    if let Some(writer) = &resumed {
        let rows = writer.rows();
        // The progress that follows has their number.
        meter.note("continuing after the rows that were converted before");
        meter.resume_rows(rows);
        first_index = writer.first_index();
    }
    let stop_at_zero = spec.index_base == IndexBase::Auto && first_index == 1;
    let mut build =
        CacheBuild { inputs: *inputs, first_index, stop_at_zero, meter: RefCell::new(meter) };
    let mut read = build.convert(resumed);
    if let Err(ReadStop::IndexZero) = read {
        // Rare, and usually found early, so starting again costs less than preparing for it in
        // every other file.
        let text = "an index 0 was found: indices count from 0; reading again";
        build.meter.borrow_mut().note(text);
        build.meter.borrow_mut().restart();
        (build.first_index, build.stop_at_zero) = (0, false);
        read = build.convert(None);
    }
    match read {
        Ok(()) => Ok(()),
        Err(ReadStop::Error(error)) => Err(error),
        Err(ReadStop::IndexZero | ReadStop::Sampled) => unreachable!("handled above"),
    }
}

struct CacheBuild<'a> {
    inputs: BuildInputs<'a>,
    first_index: u32,
    stop_at_zero: bool,
    meter: RefCell<OpenMeter<'a>>,
}

impl CacheBuild<'_> {
    fn convert(&self, resumed: Option<CacheWriter>) -> Result<(), ReadStop> {
        let BuildInputs { spec, reader, sources, .. } = self.inputs;
        let train_files = sources.train.len();
        match (reader, spec.kind) {
            (Some(reader), _) => {
                let fields = spec.with_fields.then(|| reader.fields());
                let rows = ReaderRows { train_files, fields };
                self.run(resumed, &rows, |from, submit| self.read_blocks(reader, from, submit))
            }
            (None, SparseKind::Clicks) => {
                let (clicks, with_fields) = (spec.clicks(), spec.with_fields);
                let rows = GeneratedRows { clicks, with_fields };
                self.run(resumed, &rows, |from, submit| self.draw_rows(from, submit))
            }
            _ => {
                let format = match spec.kind {
                    SparseKind::TfRecord => SparseFormat::TfRecord,
                    SparseKind::Criteo => SparseFormat::Criteo,
                    SparseKind::Libffm => SparseFormat::Libffm,
                    _ => SparseFormat::Libsvm,
                };
                let (features, on_bad) = (spec.features, spec.on_bad);
                let first_index = self.first_index;
                let options = ReadOptions { format, features, first_index, on_bad };
                let files = sources.all().map(PathBuf::as_path).collect();
                let stop_at_zero = self.stop_at_zero;
                let names = &spec.feature_names;
                let rows = FileRows { files, train_files, options, stop_at_zero, names };
                self.run(resumed, &rows, |from, submit| self.read_files(format, from, submit))
            }
        }
    }

    /// Converts the blocks that `produce` submits from a position on.
    fn run<B: Send + Default>(
        &self,
        resumed: Option<CacheWriter>,
        collect: &impl RowCollector<B>,
        produce: impl Fn(SourcePosition, Submit<'_, B>) -> Result<(), ReadStop>,
    ) -> Result<(), ReadStop> {
        let BuildInputs { spec, identity, part, .. } = self.inputs;
        let writer = match resumed {
            Some(writer) => writer,
            None => {
                // Only the first block is read here: it decides how keys are stored.
                let mut sample = CollectedRows::default();
                let sampled = produce(SourcePosition::default(), &mut |fill| {
                    let mut block = B::default();
                    let is_block = fill(&mut block)?;
                    if is_block {
                        let mut row = row_buffer(spec);
                        collect.collect(&block, &mut sample, &mut row)?;
                    }
                    if sample.len() > 0 { Err(ReadStop::Sampled) } else { Ok(is_block) }
                });
                match sampled {
                    Ok(()) | Err(ReadStop::Sampled) => {}
                    Err(stop) => return Err(stop),
                }
                let code = KeyCode::for_sample(sample.keys(), sample.ends());
                self.meter.borrow_mut().restart();
                CacheWriter::create(part, identity, code, self.first_index)?
            }
        };
        let (position, code) = (writer.position(), writer.code().clone());
        let mut sink = CacheSink { writer, meter: &self.meter };
        let encoder = KeyEncoder::new(&code);
        let maker = EncodedRows { collect, encoder, spec };
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        with_pipeline(threads, &maker, &mut sink, |pipeline: &mut Pipeline<'_, '_, B>| {
            produce(position, &mut |fill| pipeline.submit(fill))
        })?;
        Ok(sink.writer.close(spec.features)?)
    }

    /// Reads the blocks of the files.
    fn read_files(
        &self,
        format: SparseFormat,
        from: SourcePosition,
        submit: Submit<'_, FileBlock>,
    ) -> Result<(), ReadStop> {
        for (file, path) in (0..).zip(self.inputs.sources.all()).skip(from.file as usize) {
            let is_first = file == from.file;
            let (offset, number) = if is_first { (from.offset, from.number) } else { (0, 0) };
            self.skip_done(file, from);
            self.meter.borrow_mut().set_what("reading", path);
            let metered = |content| MeteredRead { content, meter: &self.meter };
            let content = unpack::open_at(path, offset, metered).map_err(interrupted)?;
            if !content.is_gzip() {
                self.meter.borrow_mut().skip(offset);
            }
            let mut blocks = BlockReader::new(content, format.unit(), offset, number);
            while submit(&mut |block: &mut FileBlock| {
                block.file = file;
                let read = blocks.next(&mut block.input);
                read.map_err(|error| interrupted(DataError::io("read", path)(error)))
            })? {}
        }
        Ok(())
    }

    /// Counts the files that were converted before as done.
    fn skip_done(&self, file: u32, from: SourcePosition) {
        if file == from.file && file > 0 {
            let done = self.inputs.sources.all().take(file as usize);
            let bytes = done.map(|path| fs::metadata(path).map_or(0, |about| about.len())).sum();
            self.meter.borrow_mut().skip(bytes);
        }
    }

    /// Reads the blocks of files that another crate knows how to read.
    fn read_blocks(
        &self,
        reader: &dyn RowReader,
        from: SourcePosition,
        submit: Submit<'_, ReaderBlock>,
    ) -> Result<(), ReadStop> {
        for (file, path) in (0..).zip(self.inputs.sources.all()).skip(from.file as usize) {
            self.skip_done(file, from);
            self.meter.borrow_mut().set_what("reading", path);
            let metered = |content| MeteredRead { content, meter: &self.meter };
            let mut content = unpack::open_with(path, metered).map_err(interrupted)?;
            let mut blocks = reader.open(path, &mut content).map_err(interrupted)?;
            // What was converted before is read again, but not parsed.
            let done = if file == from.file { from.offset } else { 0 };
            while submit(&mut |block: &mut ReaderBlock| {
                block.file = file;
                loop {
                    if !blocks.next(&mut block.rows).map_err(interrupted)? {
                        return Ok(false);
                    }
                    if block.rows.end_offset > done {
                        return Ok(true);
                    }
                }
            })? {}
        }
        Ok(())
    }

    fn draw_rows(
        &self,
        from: SourcePosition,
        submit: Submit<'_, GeneratedBlock>,
    ) -> Result<(), ReadStop> {
        let spec = self.inputs.spec;
        let (train, test) = (spec.train_examples.unwrap_or(0), spec.test_examples.unwrap_or(0));
        self.meter.borrow_mut().skip(from.number);
        let sets = [(0, train as u64), (FIRST_TEST_ROW, FIRST_TEST_ROW + test as u64)];
        for (file, (first, end)) in (0..).zip(sets).skip(from.file as usize) {
            let mut next = if file == from.file { from.offset.max(first) } else { first };
            while next < end {
                let rows = next..end.min(next + GENERATED_ROWS);
                next = rows.end;
                self.meter.borrow_mut().add(rows.end - rows.start)?;
                let number = if file == 0 { next } else { train as u64 + next - first };
                let block = GeneratedBlock { file, rows, number };
                submit(&mut |place| {
                    *place = block.clone();
                    Ok(true)
                })?;
            }
        }
        Ok(())
    }
}

/// Parses and encodes blocks.
struct EncodedRows<'a, C> {
    collect: &'a C,
    encoder: KeyEncoder,
    spec: &'a SparseSpec,
}

/// A buffer for the rows of some data.
fn row_buffer(spec: &SparseSpec) -> RowBuffer {
    let row = RowBuffer::new(spec.labels).with_fields(spec.with_fields);
    row.with_most_fields(spec.most_fields)
}

impl<B, C: RowCollector<B>> SegmentMaker<B> for EncodedRows<'_, C> {
    type Scratch = (CollectedRows, RowBuffer);

    fn scratch(&self) -> Self::Scratch {
        (CollectedRows::default(), row_buffer(self.spec))
    }

    fn make(
        &self,
        block: &B,
        (rows, row): &mut Self::Scratch,
        segment: &mut Vec<u8>,
    ) -> Result<SegmentHeader, ReadStop> {
        rows.clear();
        let header = self.collect.collect(block, rows, row)?;
        Ok(encode_segment(rows, &self.encoder, header, segment))
    }
}

/// Appends segments to a cache.
struct CacheSink<'a, 'o> {
    writer: CacheWriter,
    meter: &'a RefCell<OpenMeter<'o>>,
}

impl SegmentSink for CacheSink<'_, '_> {
    fn take(&mut self, header: &SegmentHeader, bytes: &[u8]) -> Result<(), DataError> {
        if header.rows > 0 || header.skipped > 0 {
            self.writer.append(header, bytes)?;
            self.meter.borrow_mut().set_rows(self.writer.rows());
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), DataError> {
        self.meter.borrow_mut().add(0)
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

/// Recovers the request to stop, which passed through the readers as one of their errors.
fn interrupted(error: DataError) -> ReadStop {
    let is_wish = |source: &io::Error| {
        let inner = source.get_ref().and_then(|inner| inner.downcast_ref());
        matches!(inner, Some(DataError::Interrupted))
    };
    match error {
        DataError::Io { source, .. } if is_wish(&source) => DataError::Interrupted.into(),
        error => error.into(),
    }
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
