//! Takes copies between two updates, and has them written while training goes on.
//!
//! There is one copy: a checkpoint that is due while the last one is still being written is left
//! out, and that is told. The thread that writes also makes the copy's memory, so that no update
//! waits for the system to find it. Whatever goes wrong with a checkpoint, the run goes on.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use paceline_exchange::{ChunkMarks, Store, shard_ranges};
use paceline_model::{Layout, Table};

use super::manifest::{About, FORMAT, Origin, Piece, ShardEntry, TensorEntry, sync_dir};
use super::resumption::{Shape, hex};
use super::shard::{Columns, Sheet, write_shard};
use super::shelf::Shelf;
use crate::cluster::calling::layout_digest;
use crate::job::{Plan, RawJob};
use paceline_record::RunDir;

/// Who is told what becomes of checkpoints: that one is there, or why it is not.
pub type Tell = Box<dyn Fn(Result<&str, &str>) + Send + Sync>;

/// Everything that defines the checkpoints of one shard but the parameters.
pub struct Terms {
    /// Where they are kept.
    pub shelf: Shelf,
    /// How many are kept.
    pub keep: usize,
    /// What all shards have in common; the step is each checkpoint's own.
    pub about: About,
    /// What the parameters are called.
    pub layout: Layout,
    /// Which of the shards this is.
    pub index: usize,
    /// Which of the flat parameters it has.
    pub shard: std::ops::Range<usize>,
    /// What its file is called, before the ending.
    pub name: String,
}

/// A copy on its way to the disk.
struct Copied {
    step: u64,
    marks: Vec<ChunkMarks>,
    generation: u64,
    stop_at: Option<u64>,
    sheet: Sheet,
}

/// Takes and writes the checkpoints of one shard. Dropping it waits for what is being written.
pub struct Keeper {
    orders: Option<SyncSender<Copied>>,
    spare: Receiver<Sheet>,
    thread: Option<JoinHandle<()>>,
    tell: Arc<Tell>,
    /// What was in the last one that was taken: its step, the marks and when the run was to stop.
    last: Option<(u64, Vec<ChunkMarks>, Option<u64>)>,
    /// Whether any was taken yet.
    has_taken: bool,
    generation: u64,
    /// If the run has been asked to stop: after how many updates.
    pub stop_at: Option<u64>,
}

impl Keeper {
    /// Starts the thread that writes.
    pub fn start(terms: Terms, tell: Tell) -> io::Result<Self> {
        let tell = Arc::new(tell);
        let told = tell.clone();
        let generation = terms.about.generation;
        let (orders, incoming) = sync_channel::<Copied>(1);
        let (outgoing, spare) = sync_channel(1);
        let write = move || {
            let columns =
                Columns { shard: terms.shard.clone(), slots: terms.about.optimizer_slots.clone() };
            let mut sheet = match Sheet::new(&terms.layout, &columns) {
                Ok(sheet) => sheet,
                Err(error) => return told(Err(&format!("no memory for checkpoints: {error}"))),
            };
            while outgoing.send(sheet).is_ok() {
                let Ok(mut copied) = incoming.recv() else { return };
                let step = copied.step;
                match terms.write(&columns, &mut copied) {
                    Ok((bytes, seconds)) => {
                        let megabytes = bytes as f64 / 1e6;
                        let text = format!("{megabytes:.1} MB in {seconds:.3} s");
                        told(Ok(&format!("checkpoint of step {step}: {text}")));
                    }
                    Err(error) => {
                        let text = format!("cannot write the checkpoint of step {step}: {error}");
                        told(Err(&text));
                    }
                }
                sheet = copied.sheet;
            }
        };
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(write)?;
        let (orders, thread) = (Some(orders), Some(thread));
        let (last, has_taken, stop_at) = (None, false, None);
        Ok(Self { orders, spare, thread, tell, last, has_taken, generation, stop_at })
    }

    /// The run goes on from the beginning of this generation, and comes to the same steps again.
    pub fn enter(&mut self, generation: u64) {
        (self.generation, self.last, self.stop_at) = (generation, None, None);
    }

    /// Takes a checkpoint: `copy` fills the columns, one behind the other. The last one of a run
    /// waits for the one before it, and is the one before it if neither the step nor a mark has
    /// changed since. Says whether there is one.
    pub fn take(
        &mut self,
        step: u64,
        marks: Vec<ChunkMarks>,
        is_last: bool,
        copy: impl FnOnce(&mut [f32]),
    ) -> bool {
        let what = Some((step, marks, self.stop_at));
        if self.last == what {
            return true;
        }
        // Before the first one there is none to be in the way: the thread merely has to begin.
        let spare = match is_last || !self.has_taken {
            true => self.spare.recv().ok(),
            false => self.spare.try_recv().ok(),
        };
        let Some(mut sheet) = spare else {
            let text = "was left out: the last one is still being written";
            (self.tell)(Err(&format!("the checkpoint of step {step} {text}")));
            return false;
        };
        copy(sheet.values_mut());
        (self.last, self.has_taken) = (what.clone(), true);
        if let (Some(orders), Some((step, marks, stop_at))) = (&self.orders, what) {
            // There is room: the thread has handed out its only buffer.
            let generation = self.generation;
            let _ = orders.send(Copied { step, marks, generation, stop_at, sheet });
        }
        true
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Terms {
    /// The terms of one of so many shards of a run; none if no checkpoints are taken.
    pub fn new(
        run: &RunDir,
        (job, plan): (&RawJob, &Plan),
        layout: &Layout,
        (shape, origin): (Shape, Origin),
        (index, shard_count): (usize, usize),
        name: &str,
    ) -> Option<Self> {
        let keep = plan.checkpoint?.keep;
        let tensors = layout
            .tensors()
            .iter()
            .map(|tensor| TensorEntry { name: tensor.name.clone(), shape: tensor.shape.clone() });
        let about = About {
            format: FORMAT,
            paceline: env!("CARGO_PKG_VERSION").into(),
            step: 0,
            mode: plan.cluster.mode.name().into(),
            seed: plan.seed,
            slots: shape.slots,
            batch: shape.batch,
            common_step: shape.common_step,
            origin,
            job_digest: hex(&job.digest()),
            layout_digest: hex(&layout_digest(layout)),
            optimizer_slots: plan
                .optimizer
                .optimizer()
                .state_names()
                .iter()
                .map(|&s| s.into())
                .collect(),
            tensors: tensors.collect(),
            shard_count,
            generation: Shelf::of(run.path()).generation(),
        };
        let shard = shard_ranges(layout.len(), shard_count)[index].clone();
        let (shelf, layout, name) = (Shelf::of(run.path()), layout.clone(), name.to_owned());
        Some(Self { shelf, keep, about, layout, index, shard, name })
    }

    /// Writes a shard, and the manifest if it was the last one: how many bytes, and how many seconds
    /// it took. Then old checkpoints go.
    fn write(&self, columns: &Columns, copied: &mut Copied) -> io::Result<(u64, f64)> {
        let begun = Instant::now();
        let step = copied.step;
        let place = self.shelf.make_place(step)?;
        let file = self.free_name(step);
        let path = place.join(&file);
        let (bytes, crc) = write_shard(&path, &self.layout, columns, step, &mut copied.sheet)?;
        sync_dir(&place)?;
        let shard = ShardEntry {
            file,
            bytes,
            crc32c: format!("{crc:08x}"),
            from: self.shard.start as u64,
            to: self.shard.end as u64,
            parts: copied.marks.iter().map(Into::into).collect(),
            stop_at: copied.stop_at,
        };
        let generation = copied.generation;
        let about = About { step, generation, ..self.about.clone() };
        let piece = Piece { about, shard };
        let mut seconds = begun.elapsed().as_secs_f64();
        self.shelf.seal(&piece.about, || {
            let is_complete = self.shelf.complete(step, self.index, &piece, &self.name)?;
            seconds = begun.elapsed().as_secs_f64();
            if is_complete { self.shelf.prune(self.keep) } else { Ok(()) }
        })?;
        Ok((bytes, seconds))
    }

    /// A name for the shard's file that neither a complete checkpoint of this step nor the shard's
    /// own piece of one has: what is there stays whole until the new one is.
    fn free_name(&self, step: u64) -> String {
        let taken = self.shelf.files(step, self.index);
        let name = |n: u32| match n {
            1 => format!("{}.safetensors", self.name),
            n => format!("{}-{n}.safetensors", self.name),
        };
        (1..).map(name).find(|name| !taken.contains(name)).unwrap_or_else(|| name(1))
    }
}

/// Copies a server's shard into columns.
pub fn copy_store(store: &Store, out: &mut [f32]) {
    match store {
        Store::Dense(dense) => {
            let slots = dense.optimizer().states().map(|(_, slot)| slot);
            copy_dense(dense.params(), slots, out);
        }
        Store::Sparse(sparse) => copy_table(sparse.table(), out),
    }
}

/// Copies dense parameters and their slots into columns.
pub(crate) fn copy_dense<'a>(
    params: &'a [f32],
    slots: impl Iterator<Item = &'a [f32]>,
    out: &mut [f32],
) {
    let columns = [params].into_iter().chain(slots);
    for (column, place) in columns.zip(out.chunks_exact_mut(params.len().max(1))) {
        place.copy_from_slice(column);
    }
}

/// Copies a table into columns. A common factor of its parameters must have been multiplied out
/// before ([`Table::fold`]), in the table itself: so whoever goes on from here has the same bits,
/// killed or not.
pub(crate) fn copy_table(table: &Table, out: &mut [f32]) {
    let mut columns = out.chunks_exact_mut(table.len().max(1));
    if let Some(params) = columns.next() {
        table.read_range(table.range(), params);
    }
    for (slot, place) in columns.enumerate() {
        table.read_state(slot, table.range(), place);
    }
}
