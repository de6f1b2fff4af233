//! How a run goes on from a checkpoint, whatever its mode and its number of tasks.
//!
//! If slots, batch and the way steps are counted are those of the checkpoint, everybody goes on
//! exactly where they were. If not, the plan is counted anew from the position that all slots had
//! come to together: none of the data that is still to come in the epoch comes twice, but for what
//! slots were apart. Parameters and optimizer slots are found by name and range, however many
//! files they lie in.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use paceline_exchange::{ChunkMarks, ResumeState, SlotMark, Store};
use paceline_model::{Layout, Model, OptimizerSpec, OptimizerState, Table};

use super::manifest::{Manifest, Origin};
use super::shelf::Checkpoint;
use crate::Failure;
use crate::cluster::calling::layout_digest;
use crate::job::{Mode, Plan};

/// Parameters that are read at a time.
const PIECE: usize = 1 << 20;

/// How a run walks through its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Slots of the plan.
    pub slots: usize,
    /// Examples that a slot takes a step.
    pub batch: usize,
    /// Whether the steps of the plan are the updates, or each slot counts its own.
    pub common_step: bool,
}

impl Shape {
    /// The shape of a plan with so many slots.
    pub fn of(plan: &Plan, slots: usize) -> Self {
        let common_step = match plan.cluster.mode {
            Mode::Single => slots == 1,
            Mode::Sync { .. } | Mode::Mirrored => true,
            Mode::Async | Mode::Bounded { .. } => false,
        };
        Self { slots, batch: plan.batch, common_step }
    }
}

/// The beginning of a run that goes on from a checkpoint.
#[derive(Clone, Debug)]
pub struct Resumption {
    checkpoint: Checkpoint,
    origin: Origin,
    /// Whether slots, batch and steps are those of the checkpoint.
    is_same: bool,
}

impl Resumption {
    /// Goes on in this shape.
    pub fn new(checkpoint: Checkpoint, shape: Shape) -> Self {
        let about = &checkpoint.manifest.about;
        let then = Shape { slots: about.slots, batch: about.batch, common_step: about.common_step };
        let is_same = then == shape;
        let origin = match is_same {
            true => about.origin,
            false => Origin {
                step: checkpoint.manifest.global_step(),
                position: position(&checkpoint.manifest),
            },
        };
        Self { checkpoint, origin, is_same }
    }

    /// Updates that have been made.
    pub fn step(&self) -> u64 {
        self.checkpoint.manifest.global_step()
    }

    /// The checkpoint itself.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// If the run had been asked to stop: after how many updates.
    pub fn stop_at(&self) -> Option<u64> {
        self.checkpoint.manifest.shards.first().and_then(|shard| shard.stop_at)
    }

    /// Where the plan begins to be counted.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// How far all slots together have come in the row of examples.
    pub fn position(&self) -> u64 {
        position(&self.checkpoint.manifest)
    }

    /// Refuses a checkpoint of another model, or one without the slots that are needed.
    pub fn check(&self, layout: &Layout, optimizer: &OptimizerSpec) -> Result<(), Failure> {
        let about = &self.checkpoint.manifest.about;
        let dir = self.checkpoint.dir.display();
        if about.layout_digest != hex(&layout_digest(layout)) {
            return Err(Failure::Usage(format!("{dir}: this is a checkpoint of another model")));
        }
        let (there, wanted) = (&about.optimizer_slots, optimizer.optimizer().state_names());
        match wanted.iter().find(|name| !there.iter().any(|slot| slot == **name)) {
            None => Ok(()),
            Some(name) => Err(Failure::Usage(format!(
                "{dir}: train.optimizer.kind = {:?} needs the slot {name:?}, but the checkpoint \
                 has {there:?}; go on with the optimizer that it was taken with",
                optimizer.optimizer().name()
            ))),
        }
    }

    /// The step of the plan that each slot goes on with.
    pub fn slot_steps(&self, slots: usize) -> Vec<u64> {
        match self.is_same {
            true => next_steps(&self.checkpoint.manifest),
            false => vec![self.origin.step; slots],
        }
    }

    /// Where a server goes on that holds this shard, in so many parts.
    pub fn resume(&self, shard: &Range<usize>, parts: usize, slots: usize) -> ResumeState {
        let manifest = &self.checkpoint.manifest;
        let first_step = self.origin.step;
        if !self.is_same {
            return ResumeState::anew(self.step(), first_step, parts, slots);
        }
        let is_it = |from: u64, to: u64| (from as usize, to as usize) == (shard.start, shard.end);
        let same = manifest.shards.iter().find(|entry| is_it(entry.from, entry.to));
        let parts = match same.filter(|entry| entry.parts.len() == parts) {
            Some(entry) => entry.parts.iter().map(ChunkMarks::from).collect(),
            // The parts were others. What any of them has, counts for all.
            None => {
                let marks = ChunkMarks { version: self.step(), slots: highest(manifest) };
                vec![marks; parts]
            }
        };
        ResumeState { first_step, chunks: parts, stop_at: None }
    }

    /// All parameters of a dense model as they were.
    pub fn params(&self, layout: &Layout) -> Result<Vec<f32>, Failure> {
        let mut params = vec![0.0; layout.len()];
        self.read(None, 0..layout.len(), &mut params)?;
        Ok(params)
    }

    /// A shard of a dense model as it was.
    pub fn dense(
        &self,
        layout: &Layout,
        optimizer: OptimizerSpec,
        shard: Range<usize>,
    ) -> Result<(Vec<f32>, OptimizerState), Failure> {
        self.check(layout, &optimizer)?;
        let mut params = vec![0.0; shard.len()];
        self.read(None, shard.clone(), &mut params)?;
        let mut restored = OptimizerState::new(optimizer.clone(), layout, shard.clone());
        let mut values = Vec::new();
        for (slot, name) in optimizer.optimizer().state_names().iter().enumerate() {
            for from in shard.clone().step_by(PIECE) {
                let piece = from..(from + PIECE).min(shard.end);
                values.resize(piece.len(), 0.0);
                self.read(Some(name), piece, &mut values)?;
                restored.write_state(slot, from - shard.start, &values);
            }
        }
        Ok((params, restored))
    }

    /// An empty table of a sparse model, filled with what was in it.
    pub fn fill(&self, layout: &Layout, table: Table) -> Result<Table, Failure> {
        self.check(layout, table.spec())?;
        let shard = table.range();
        table.resume(self.step());
        let mut values = Vec::new();
        for from in shard.clone().step_by(PIECE) {
            let piece = from..(from + PIECE).min(shard.end);
            values.resize(piece.len(), 0.0);
            self.read(None, piece.clone(), &mut values)?;
            table.write_range(piece.clone(), &values);
            // Behind the parameters: of FTRL the slots are what counts.
            for (slot, name) in table.state_names().iter().enumerate() {
                self.read(Some(name), piece.clone(), &mut values)?;
                table.write_state(slot, piece.clone(), &values);
            }
        }
        Ok(table)
    }

    /// A server's shard as it was.
    pub fn store(
        &self,
        plan: &Plan,
        model: &dyn Model,
        shard: Range<usize>,
    ) -> Result<Store, Failure> {
        let layout = model.layout();
        if plan.model.is_sparse() {
            return self
                .fill(layout, Table::new(plan.optimizer.clone(), layout, shard))
                .map(Store::sparse);
        }
        let (params, optimizer) = self.dense(layout, plan.optimizer.clone(), shard)?;
        Ok(Store::dense(params, optimizer))
    }

    /// Reads flat parameters, or a slot of them.
    fn read(
        &self,
        slot: Option<&str>,
        range: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), Failure> {
        let manifest = &self.checkpoint.manifest;
        let slots = &manifest.about.optimizer_slots;
        let column = match slot {
            None => 0,
            Some(name) => 1 + slots.iter().position(|slot| slot == name).unwrap_or(slots.len()),
        };
        for shard in &manifest.shards {
            let (start, end) = (shard.from as usize, shard.to as usize);
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from < to {
                let path = self.checkpoint.dir.join(&shard.file);
                let at = column * (end - start) + from - start;
                let place = &mut out[from - range.start..to - range.start];
                read_numbers(&path, at, place).map_err(Failure::at("read", &path))?;
            }
        }
        Ok(())
    }
}

/// Reads numbers of a safetensors file whose values lie as one row.
fn read_numbers(path: &std::path::Path, at: usize, out: &mut [f32]) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut header = [0; 8];
    file.read_exact(&mut header)?;
    let data = 8u64.saturating_add(u64::from_le_bytes(header));
    file.seek(SeekFrom::Start(data.saturating_add((at * size_of::<f32>()) as u64)))?;
    file.read_exact(bytemuck::cast_slice_mut(out))
}

/// For each slot, the furthest that any part had of it.
fn highest(manifest: &Manifest) -> Vec<SlotMark> {
    let mut marks = vec![SlotMark::default(); manifest.about.slots];
    for part in manifest.shards.iter().flat_map(|shard| &shard.parts) {
        for (mark, &(high, step)) in marks.iter_mut().zip(&part.slots) {
            if high > mark.last_sequence {
                *mark = SlotMark { last_sequence: high, step };
            }
        }
    }
    marks
}

/// The step of the plan that each slot would have gone on with.
fn next_steps(manifest: &Manifest) -> Vec<u64> {
    let first = manifest.about.origin.step;
    let after = |mark: SlotMark| if mark.last_sequence > 0 { mark.step + 1 } else { first };
    match manifest.about.common_step {
        true => vec![manifest.global_step(); manifest.about.slots],
        false => highest(manifest).into_iter().map(after).collect(),
    }
}

/// How far all slots together had come in the row of examples.
fn position(manifest: &Manifest) -> u64 {
    let about = &manifest.about;
    let steps = next_steps(manifest).into_iter().map(|step| step - about.origin.step.min(step));
    about.origin.position + steps.sum::<u64>() * about.batch as u64
}

/// A digest as text.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
