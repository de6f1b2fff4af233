//! The writer of TensorBoard event files.
//!
//! An event file is a TFRecord file of `Event` messages: a time, a step and a payload. A small
//! model makes 100,000 steps a second and may report its loss at each, so the scalar path
//! allocates nothing: the payload of a tag is encoded once, when its [`Tag`] is created, and an
//! event is that payload with three numbers inserted.
//!
//! Records are buffered. They are written when the buffer is full, or with the first event that
//! comes [`FLUSH_EVERY`] after the last flush, so that a live TensorBoard lags by seconds at most.
//! The buffer is written between records, so a reader never sees a partial one.
//!
//! One directory is one run of TensorBoard and should have one live writer.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline_model::OpNode;
use paceline_observe::unix_seconds;
use paceline_tfrecord::append_record;
use paceline_tfrecord::proto::ProtoWriter;

use super::histogram::Histogram;
use super::hparams::{self, HParam, SessionStatus};
use super::{file, graph, values};

/// The age of the last flush at which the next event flushes the buffer.
pub const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Some 800 scalars. A larger buffer does not make writing any cheaper.
const BUFFER_BYTES: usize = 64 << 10;

/// The content of the first record of every event file.
const FILE_VERSION: &str = "brain.Event:2";
/// `SessionLog.START`.
const SESSION_START: u64 = 1;

/// The next writer's id. Tags carry it, so that a tag of another writer is detected.
static NEXT_WRITER: AtomicU64 = AtomicU64::new(0);

/// Writes one event file.
///
/// Dropping the writer writes the buffer but ignores errors: call [`flush`](Self::flush) at the end
/// of a run.
#[derive(Debug)]
pub struct EventWriter {
    file: BufWriter<File>,
    /// The current record; kept to reuse its memory.
    record: Vec<u8>,
    id: u64,
    scalars: Vec<ScalarTag>,
    /// Tags of histograms whose metadata has been written.
    histograms: HashSet<String>,
    flushed_at_seconds: f64,
    written_bytes: u64,
}

/// A scalar's tag, created by [`EventWriter::tag`] and valid for that writer only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    writer: u64,
    index: usize,
}

#[derive(Debug)]
struct ScalarTag {
    name: String,
    /// The payload of the tag's first event, with metadata. `None` once that is written: later
    /// events need no metadata.
    first: Option<Vec<u8>>,
    later: Vec<u8>,
}

impl EventWriter {
    /// Creates a new event file in `dir`, which is created if needed. Existing files are not
    /// touched.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let mut writer = Self {
            file: BufWriter::with_capacity(BUFFER_BYTES, file::create(dir)?),
            record: Vec::new(),
            id: NEXT_WRITER.fetch_add(1, Ordering::Relaxed),
            scalars: Vec::new(),
            histograms: HashSet::new(),
            flushed_at_seconds: 0.0,
            written_bytes: 0,
        };
        writer.event(0, |event| event.string(3, FILE_VERSION))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Creates the tag of this name for [`scalar`](Self::scalar). Slashes group tags, as in
    /// `train/loss`. Call it once, before the loop.
    pub fn tag(&mut self, name: &str) -> Tag {
        let known = self.scalars.iter().position(|tag| tag.name == name);
        let index = known.unwrap_or_else(|| {
            self.scalars.push(ScalarTag {
                name: name.into(),
                first: Some(values::scalar_prefix(name, true)),
                later: values::scalar_prefix(name, false),
            });
            self.scalars.len() - 1
        });
        Tag { writer: self.id, index }
    }

    /// Records the value of a scalar at a step, now.
    ///
    /// # Panics
    ///
    /// If `tag` was created by another writer.
    #[inline]
    pub fn scalar(&mut self, tag: &Tag, step: u64, value: f32) -> io::Result<()> {
        self.scalar_at(tag, step, value, unix_seconds())
    }

    /// Records the value of a scalar at a step and a time in seconds since 1970. A caller that
    /// writes many scalars at once reads the clock only once.
    ///
    /// # Panics
    ///
    /// If `tag` was created by another writer.
    pub fn scalar_at(
        &mut self,
        tag: &Tag,
        step: u64,
        value: f32,
        wall_seconds: f64,
    ) -> io::Result<()> {
        assert_eq!(tag.writer, self.id, "the tag belongs to another writer");
        let tag = &mut self.scalars[tag.index];
        self.record.clear();
        append_record(&mut self.record, |out| {
            event_head(out, wall_seconds, step);
            out.extend_from_slice(tag.first.as_ref().unwrap_or(&tag.later));
            out.extend_from_slice(&value.to_le_bytes());
        });
        self.file.write_all(&self.record)?;
        self.written_bytes += self.record.len() as u64;
        tag.first = None;
        self.flush_if_due(wall_seconds)
    }

    /// Records a histogram at a step.
    pub fn histogram(&mut self, tag: &str, step: u64, histogram: &Histogram) -> io::Result<()> {
        let describe = !self.histograms.contains(tag);
        self.event(step, |event| values::histogram(event, tag, histogram, describe))?;
        if describe {
            self.histograms.insert(tag.into());
        }
        Ok(())
    }

    /// Records the model's graph. Call it at most once in a run.
    pub fn graph(&mut self, nodes: &[OpNode]) -> io::Result<()> {
        self.event(0, |event| event.bytes(4, &graph::encode(nodes)))
    }

    /// Records the hyper-parameters of the run in this directory.
    pub fn hparams_start(&mut self, hparams: &[HParam]) -> io::Result<()> {
        let content = hparams::encode_start(hparams, unix_seconds());
        self.event(0, |event| values::hparams(event, hparams::START_TAG, &content))
    }

    /// Declares the columns of the HParams tab: the names of hyper-parameters, and the tags of
    /// scalars that are results, in their order.
    pub fn hparams_columns(&mut self, hparams: &[HParam], metrics: &[&str]) -> io::Result<()> {
        let content = hparams::encode_columns(hparams, metrics);
        self.event(0, |event| values::hparams(event, hparams::COLUMNS_TAG, &content))
    }

    /// Records how the run in this directory ended.
    pub fn hparams_end(&mut self, status: SessionStatus) -> io::Result<()> {
        let content = hparams::encode_end(status, unix_seconds());
        self.event(0, |event| values::hparams(event, hparams::END_TAG, &content))
    }

    /// Records that training starts, or starts again, with this step. Call it before anything else
    /// is written.
    ///
    /// TensorBoard then discards what earlier files of the directory have of this and later steps:
    /// steps that a failed process made after the checkpoint, and that are made again.
    pub fn session_start(&mut self, step: u64) -> io::Result<()> {
        // TensorBoard takes the first of these in a run as the run's beginning and discards
        // nothing. Two of them have the same effect whether or not there was one before.
        for _ in 0..2 {
            self.event(step, |event| event.message(7, |log| log.uint64(1, SESSION_START)))?;
        }
        Ok(())
    }

    /// Writes the buffer to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.flushed_at_seconds = unix_seconds();
        Ok(())
    }

    /// The length of all records so far, those in the buffer included.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Drops the writer without writing the buffer, after a failure: the rest of the disk belongs
    /// to others.
    pub fn discard(self) {
        drop(self.file.into_parts());
    }

    fn event(&mut self, step: u64, encode: impl FnOnce(&mut ProtoWriter<'_>)) -> io::Result<()> {
        let wall_seconds = unix_seconds();
        self.record.clear();
        append_record(&mut self.record, |out| {
            event_head(out, wall_seconds, step);
            encode(&mut ProtoWriter::new(out));
        });
        self.file.write_all(&self.record)?;
        self.written_bytes += self.record.len() as u64;
        self.flush_if_due(wall_seconds)
    }

    fn flush_if_due(&mut self, wall_seconds: f64) -> io::Result<()> {
        let since = wall_seconds - self.flushed_at_seconds;
        // A negative time means that the clock was set back: flush, to measure from the new time.
        if (0.0..FLUSH_EVERY.as_secs_f64()).contains(&since) {
            return Ok(());
        }
        self.file.flush()?;
        self.flushed_at_seconds = wall_seconds;
        Ok(())
    }
}

/// Writes the fields that every event begins with.
fn event_head(out: &mut Vec<u8>, wall_seconds: f64, step: u64) {
    let mut event = ProtoWriter::new(out);
    event.double(1, wall_seconds);
    event.uint64(2, step);
}
