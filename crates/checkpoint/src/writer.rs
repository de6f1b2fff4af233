//! Copies a shard between two updates and writes it while training continues.
//!
//! There is one copy: a checkpoint that is due while the last one is still being written is
//! skipped, and reported as skipped. The thread that writes also allocates the copy's memory, so
//! that no update waits for the system. A checkpoint that fails does not end the run.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paceline_exchange::ChunkMarks;
use paceline_model::kernels::all_finite;
use paceline_model::{Layout, ParamTable};

use crate::buffer::{CheckpointBuffer, EntryRows, FileSum, ShardColumns, ShardRows, write_shard};
use crate::copy::{copy_entries, copy_table};
use crate::dir::CheckpointDir;
use crate::manifest::{CheckpointInfo, ShardEntry, ShardPiece, sync_dir};
use crate::remote::DeliveredShard;

/// Receives what became of each checkpoint: a message that it is written, or why it is not.
pub type ReportCheckpoint = dyn Fn(Result<&str, &str>) + Send + Sync;

/// Called several times a second while a task does nothing but wait for a checkpoint, with `false`,
/// and with `true` when the wait is over.
pub type CheckpointWait = dyn Fn(bool) + Send + Sync;

/// How often a task that waits says so.
const WAIT_REPORT: Duration = Duration::from_millis(100);

/// Everything that defines the checkpoints of one shard except the parameters.
pub struct CheckpointSpec {
    /// Where checkpoints are kept.
    pub dir: CheckpointDir,
    /// How many complete ones are kept.
    pub keep: usize,
    /// What all shards have in common. The step is set for each checkpoint.
    pub info: CheckpointInfo,
    /// Names and shapes of the parameters.
    pub layout: Layout,
    /// The shard's number.
    pub index: usize,
    /// The shard's range of the flat parameters.
    pub shard: Range<usize>,
    /// The shard's file name, without its extension.
    pub name: String,
}

/// A copy on its way to the disk.
struct CopiedShard {
    contents: ShardContents,
    generation: u64,
    buffer: CheckpointBuffer,
}

/// A shard that is on the disk.
struct WrittenShard {
    bytes: u64,
    /// How long it took.
    seconds: f64,
}

/// What identifies the contents of a shard: equal contents need not be written twice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShardContents {
    step: u64,
    marks: Vec<ChunkMarks>,
    /// The number of updates after which the run stops, if it was asked to.
    stop_at: Option<u64>,
}

/// Copies and writes the checkpoints of one shard. Dropping it waits for the last write.
pub struct CheckpointWriter {
    requests: Option<SyncSender<CopiedShard>>,
    spare: Receiver<CheckpointBuffer>,
    thread: Option<JoinHandle<()>>,
    report: Arc<ReportCheckpoint>,
    wait: Option<Arc<CheckpointWait>>,
    last: Option<ShardContents>,
    has_taken: bool,
    /// Checkpoints that were skipped because the one before was still being written.
    skipped: u64,
    generation: u64,
    layout: Layout,
    columns: ShardColumns,
    /// The copy's memory, if there was too little of it for the last checkpoint.
    too_small: Option<CheckpointBuffer>,
    /// The number of updates after which the run stops, if it was asked to.
    pub stop_at: Option<u64>,
}

impl CheckpointWriter {
    /// Starts the thread that writes.
    pub fn start(spec: CheckpointSpec, report: Arc<ReportCheckpoint>) -> io::Result<Self> {
        let generation = spec.info.generation;
        let (layout, columns) = (spec.layout.clone(), spec.columns());
        let (requests, incoming) = sync_channel::<CopiedShard>(1);
        let (outgoing, spare) = sync_channel(1);
        let reporter = report.clone();
        let write = move || spec.write_all(&incoming, &outgoing, &*reporter);
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(write)?;
        Ok(Self {
            requests: Some(requests),
            spare,
            thread: Some(thread),
            report,
            wait: None,
            last: None,
            has_taken: false,
            skipped: 0,
            generation,
            layout,
            columns,
            too_small: None,
            stop_at: None,
        })
    }

    /// Says when the task waits for the last checkpoints.
    #[must_use]
    pub fn on_wait(mut self, wait: Arc<CheckpointWait>) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Waits for the copy's memory, and says so. `None` if the thread has ended.
    fn wait_for_spare(&self) -> Option<CheckpointBuffer> {
        let spare = loop {
            match self.spare.recv_timeout(WAIT_REPORT) {
                Ok(spare) => break Some(spare),
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => self.wait.iter().for_each(|wait| wait(false)),
            }
        };
        self.wait.iter().for_each(|wait| wait(true));
        spare
    }

    /// The run continues from the start of this generation, and will reach the same steps again.
    pub fn enter_generation(&mut self, generation: u64) {
        (self.generation, self.last, self.stop_at) = (generation, None, None);
    }

    /// The step of the last checkpoint taken in this generation.
    pub fn last_step(&self) -> Option<u64> {
        self.last.as_ref().map(|contents| contents.step)
    }

    /// Takes a checkpoint: `copy` fills the columns, one behind the other. Returns whether one
    /// with these contents exists or is being written.
    ///
    /// The last checkpoint of a run waits until the one before it is written. Contents that were
    /// just taken are not taken again.
    pub fn take(
        &mut self,
        step: u64,
        marks: Vec<ChunkMarks>,
        is_last: bool,
        copy: impl FnOnce(&mut [f32]),
    ) -> bool {
        self.take_with(step, marks, is_last, |_, buffer| {
            copy(buffer.values_mut());
            Ok(())
        })
    }

    /// As [`take`](Self::take), of the shard's part of a table: if a key has several parameters, of
    /// the entries that exist.
    pub fn take_table(
        &mut self,
        step: u64,
        marks: Vec<ChunkMarks>,
        is_last: bool,
        table: &ParamTable,
    ) -> bool {
        let shard = self.columns.shard.clone();
        if table.width() == 1 {
            return self.take(step, marks, is_last, |out| copy_table(table, &shard, out));
        }
        self.take_with(step, marks, is_last, |writer, buffer| {
            let width = table.width();
            let shard = shard.start / width..shard.end.div_ceil(width);
            let (mut keys, mut counted) = (table.entry_keys(shard.clone()), table.counts(shard));
            let entry_marks = table.marks(&keys);
            let rows = EntryRows {
                entries: keys.len(),
                has_marks: !entry_marks.is_empty(),
                counted: counted.keys.len(),
            };
            buffer.fit(&writer.layout, &writer.columns, rows)?;
            copy_entries(table, &keys, buffer.values_mut());
            table.name_keys(&mut keys);
            table.name_keys(&mut counted.keys);
            let counts = bytemuck::cast_slice(&counted.cells);
            let numbers = [&keys[..], &entry_marks, &counted.keys, counts].concat();
            buffer.whole_numbers_mut().copy_from_slice(&numbers);
            Ok(())
        })
    }

    fn take_with(
        &mut self,
        step: u64,
        marks: Vec<ChunkMarks>,
        is_last: bool,
        copy: impl FnOnce(&Self, &mut CheckpointBuffer) -> io::Result<()>,
    ) -> bool {
        let contents = ShardContents { step, marks, stop_at: self.stop_at };
        if self.last.as_ref() == Some(&contents) {
            return true;
        }
        // Before the first checkpoint no write can be under way: the thread merely has to start.
        let must_wait = is_last || !self.has_taken;
        let too_small = self.too_small.take();
        let spare = if too_small.is_some() {
            too_small
        } else if must_wait {
            self.wait_for_spare()
        } else {
            self.spare.try_recv().ok()
        };
        let Some(mut buffer) = spare else {
            self.skipped += 1;
            if self.skipped == 1 {
                let text = "was skipped: the previous one is still being written; the end says \
                            how many follow";
                (self.report)(Err(&format!("the checkpoint of step {step} {text}")));
            }
            return false;
        };
        if let Err(error) = copy(self, &mut buffer) {
            (self.report)(Err(&format!("no memory for the checkpoint of step {step}: {error}")));
            self.too_small = Some(buffer);
            return false;
        }
        (self.last, self.has_taken) = (Some(contents.clone()), true);
        if let Some(requests) = &self.requests {
            // The queue has room: the thread has handed out its only buffer.
            let generation = self.generation;
            let _ = requests.send(CopiedShard { contents, generation, buffer });
        }
        true
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        self.requests = None;
        if let more @ 1.. = self.skipped.saturating_sub(1) {
            let checkpoints = if more == 1 { "checkpoint was" } else { "checkpoints were" };
            let text = format!("{more} more {checkpoints} skipped: writing one takes too long");
            (self.report)(Err(&text));
        }
        // The thread hands the memory out once more, and then ends.
        while self.wait_for_spare().is_some() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CheckpointSpec {
    /// Writes one copy after another, until no more can come.
    fn write_all(
        &self,
        incoming: &Receiver<CopiedShard>,
        outgoing: &SyncSender<CheckpointBuffer>,
        report: &ReportCheckpoint,
    ) {
        let columns = self.columns();
        let mut buffer = match CheckpointBuffer::new(&self.layout, &columns) {
            Ok(buffer) => buffer,
            Err(error) => return report(Err(&format!("no memory for checkpoints: {error}"))),
        };
        while outgoing.send(buffer).is_ok() {
            let Ok(mut copied) = incoming.recv() else { return };
            let step = copied.contents.step;
            match self.write(&columns, &mut copied) {
                Ok(WrittenShard { bytes, seconds }) => {
                    let megabytes = bytes as f64 / 1e6;
                    let text = format!("{megabytes:.1} MB in {seconds:.3} s");
                    report(Ok(&format!("checkpoint of step {step}: {text}")));
                }
                Err(error) => {
                    let text = format!("cannot write the checkpoint of step {step}: {error}");
                    report(Err(&text));
                }
            }
            buffer = copied.buffer;
        }
    }

    fn columns(&self) -> ShardColumns {
        let states = self.info.optimizer_state.clone();
        let (shard, known_gradients) = (self.shard.clone(), self.info.known_gradients);
        ShardColumns { shard, states, known_gradients }
    }

    /// Writes a shard, and the manifest if the other shards are there; then removes old
    /// checkpoints.
    fn write(&self, columns: &ShardColumns, copied: &mut CopiedShard) -> io::Result<WrittenShard> {
        let start = Instant::now();
        let step = copied.contents.step;
        if !all_finite(copied.buffer.values_mut()) {
            let why = "its numbers are not all finite, so no run could continue from it";
            return Err(io::Error::other(why));
        }
        let place = self.dir.make_place(step)?;
        let file = self.dir.free_name(step, self.index, &self.name);
        let path = place.join(&file);
        let FileSum { bytes, crc32c } =
            write_shard(&path, &self.layout, columns, step, &mut copied.buffer)?;
        sync_dir(&place)?;
        let rows = match copied.buffer.rows() {
            ShardRows::All => None,
            ShardRows::Entries(rows) => Some(rows),
        };
        let shard = ShardEntry {
            file,
            bytes,
            crc32c: format!("{crc32c:08x}"),
            from: self.shard.start as u64,
            to: self.shard.end as u64,
            entries: rows.map(|rows| rows.entries as u64),
            has_marks: rows.is_some_and(|rows| rows.has_marks),
            counted: rows.map_or(0, |rows| rows.counted),
            chunks: copied.contents.marks.iter().map(Into::into).collect(),
            stop_at: copied.contents.stop_at,
        };
        let generation = copied.generation;
        let info = CheckpointInfo { step, generation, ..self.info.clone() };
        let piece = ShardPiece { info, shard };
        if let Some(remote) = &self.dir.remote {
            let (index, name) = (self.index, self.name.clone());
            self.dir.deliver(remote, &DeliveredShard { index, name, piece })?;
            return Ok(WrittenShard { bytes, seconds: start.elapsed().as_secs_f64() });
        }
        let mut seconds = start.elapsed().as_secs_f64();
        self.dir.seal(&piece.info, || {
            let is_complete = self.dir.complete(step, self.index, &piece, &self.name)?;
            seconds = start.elapsed().as_secs_f64();
            if is_complete { self.dir.prune(self.keep) } else { Ok(()) }
        })?;
        Ok(WrittenShard { bytes, seconds })
    }
}
