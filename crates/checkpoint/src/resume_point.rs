//! The start of a run that resumes from a checkpoint, whatever its mode and number of tasks.
//!
//! If slots, batch size and the way of counting steps are those of the checkpoint, every slot
//! continues exactly where it was. If not, the plan counts from the position that all slots had
//! reached together: no example of the rest of the epoch is read twice, except where slots were
//! apart. Parameters and the optimizer's state are found by name and range, in however many files
//! they lie.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use paceline_exchange::{ChunkMarks, ResumeState, SlotMark};
use paceline_filemap::open_regular;
use paceline_model::{EntryColumn, KeyRun, Layout, OptimizerSpec, OptimizerState, ParamTable};

use crate::dir::Checkpoint;
use crate::error::CheckpointError;
use crate::layout_digest::layout_digest;
use crate::manifest::{Manifest, PlanOrigin, ShardEntry, TensorEntry, hex};
use crate::step_layout::StepLayout;

/// Parameters read at a time.
const PIECE: usize = 1 << 20;

/// The start of a run that resumes from a checkpoint.
#[derive(Clone, Debug)]
pub struct ResumePoint {
    checkpoint: Checkpoint,
    origin: PlanOrigin,
    /// Whether slots, batch size and steps are those of the checkpoint.
    is_same: bool,
}

/// A shard of a dense model.
#[derive(Debug)]
pub struct DenseShard {
    /// The parameters.
    pub params: Vec<f32>,
    /// Their optimizer, with its state.
    pub optimizer: OptimizerState,
}

impl ResumePoint {
    /// Resumes from `checkpoint` with this step layout.
    pub fn new(checkpoint: Checkpoint, steps: StepLayout) -> Self {
        let manifest = &checkpoint.manifest;
        let info = &manifest.info;
        let (slots, batch, common_step) = (info.slots, info.batch, info.common_step);
        let is_same = StepLayout { slots, batch, common_step } == steps;
        let origin = if is_same {
            info.origin
        } else {
            PlanOrigin { step: manifest.global_step(), position: position(manifest) }
        };
        Self { checkpoint, origin, is_same }
    }

    /// Updates made.
    pub fn step(&self) -> u64 {
        self.checkpoint.manifest.global_step()
    }

    /// The checkpoint itself.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The number of updates after which the run stops, if it had been asked to.
    pub fn stop_at(&self) -> Option<u64> {
        self.checkpoint.manifest.shards.first().and_then(|shard| shard.stop_at)
    }

    /// Where the plan starts to count.
    pub fn origin(&self) -> PlanOrigin {
        self.origin
    }

    /// How far all slots together have come in the sequence of examples.
    pub fn position(&self) -> u64 {
        position(&self.checkpoint.manifest)
    }

    /// Refuses a checkpoint of another model, or one without the state the optimizer needs.
    pub fn check(&self, layout: &Layout, optimizer: &OptimizerSpec) -> Result<(), CheckpointError> {
        let info = &self.checkpoint.manifest.info;
        let dir = self.checkpoint.dir.display();
        if info.layout_digest != hex(&layout_digest(layout)) {
            let difference = other_tensor(&info.tensors, layout);
            let difference = difference.map_or(String::new(), |text| format!(": {text}"));
            return Err(CheckpointError::Refused(format!(
                "{dir}: this is a checkpoint of another model{difference}; resume with the model \
                 and the data that the run began with"
            )));
        }
        let (found, optimizer) = (&info.optimizer_state, optimizer.optimizer());
        let wanted = optimizer.state_names();
        match wanted.iter().find(|name| !found.iter().any(|state| state == **name)) {
            None => Ok(()),
            Some(name) => Err(CheckpointError::Refused(format!(
                "{dir}: the optimizer {:?} needs the state {name:?}, but the checkpoint has \
                 {found:?}; resume with the optimizer it was taken with",
                optimizer.name()
            ))),
        }
    }

    /// The step of the plan each slot continues with.
    pub fn slot_steps(&self, slots: usize) -> Vec<u64> {
        if self.is_same {
            next_steps(&self.checkpoint.manifest)
        } else {
            vec![self.origin.step; slots]
        }
    }

    /// The state of a server that holds `shard`, of keys that are spread or not
    /// ([`CheckpointInfo::is_spread`](crate::CheckpointInfo::is_spread)), in `chunks` chunks.
    pub fn server_state(
        &self,
        shard: &Range<usize>,
        is_spread: bool,
        chunks: usize,
        slots: usize,
    ) -> ResumeState {
        let manifest = &self.checkpoint.manifest;
        let first_step = self.origin.step;
        if !self.is_same {
            return ResumeState::anew(self.step(), first_step, chunks, slots);
        }
        let is_it = |from: u64, to: u64| {
            manifest.info.is_spread == is_spread
                && (from as usize, to as usize) == (shard.start, shard.end)
        };
        let same = manifest.shards.iter().find(|entry| is_it(entry.from, entry.to));
        let chunks = match same.filter(|entry| entry.chunks.len() == chunks) {
            Some(entry) => entry.chunks.iter().map(ChunkMarks::from).collect(),
            // The shards were cut differently: a push that any chunk has counts for all.
            None => {
                let marks = ChunkMarks { version: self.step(), slots: highest(manifest) };
                vec![marks; chunks]
            }
        };
        ResumeState { first_step, chunks, stop_at: None }
    }

    /// All parameters of a dense model.
    pub fn params(&self, layout: &Layout) -> Result<Vec<f32>, CheckpointError> {
        let mut params = vec![0.0; layout.len()];
        self.read(None, 0..layout.len(), &mut params)?;
        Ok(params)
    }

    /// A shard of a dense model, with its optimizer's state.
    pub fn dense(
        &self,
        layout: &Layout,
        optimizer: OptimizerSpec,
        shard: Range<usize>,
    ) -> Result<DenseShard, CheckpointError> {
        self.check(layout, &optimizer)?;
        let mut params = vec![0.0; shard.len()];
        self.read(None, shard.clone(), &mut params)?;
        let names = optimizer.optimizer().state_names().to_vec();
        let mut restored = OptimizerState::new(optimizer, layout, shard.clone());
        let mut values = Vec::new();
        for (state, name) in names.into_iter().enumerate() {
            for from in shard.clone().step_by(PIECE) {
                let piece = from..(from + PIECE).min(shard.end);
                values.resize(piece.len(), 0.0);
                self.read(Some(name), piece, &mut values)?;
                restored.write_state(state, from - shard.start, &values);
            }
        }
        Ok(DenseShard { params, optimizer: restored })
    }

    /// A slot's gradient as the servers knew it; `None` unless gradients travelled as changes and
    /// the slot continues where it was.
    pub fn known_gradient(
        &self,
        slot: usize,
        shard: Range<usize>,
    ) -> Result<Option<Vec<f32>>, CheckpointError> {
        let info = &self.checkpoint.manifest.info;
        if !self.is_same || slot >= info.known_gradients {
            return Ok(None);
        }
        let mut known = vec![0.0; shard.len()];
        self.read_column(1 + info.optimizer_state.len() + slot, shard, &mut known)?;
        Ok(Some(known))
    }

    /// Fills an empty table of a sparse model.
    pub fn fill(&self, layout: &Layout, table: ParamTable) -> Result<ParamTable, CheckpointError> {
        self.check(layout, table.spec())?;
        let shard = table.range();
        table.resume(self.step());
        if table.width() > 1 {
            // A task without the coordinator's disk has fetched only the files that it needs.
            let Manifest { info, shards } = &self.checkpoint.manifest;
            let own: Vec<_> =
                table.key_runs().into_iter().map(|run| layout.params_of(run.keys)).collect();
            for shard in shards {
                if info.is_spread || own.iter().any(|own| shard.overlaps(own)) {
                    self.fill_entries(shard, &table)?;
                }
            }
            return Ok(table);
        }
        let mut values = Vec::new();
        for from in shard.clone().step_by(PIECE) {
            let piece = from..(from + PIECE).min(shard.end);
            values.resize(piece.len(), 0.0);
            self.read(None, piece.clone(), &mut values)?;
            table.write_range(piece.clone(), &values);
            // After the parameters: FTRL's parameters follow from its state.
            for (state, name) in table.state_names().iter().enumerate() {
                self.read(Some(name), piece.clone(), &mut values)?;
                table.write_state(state, piece.clone(), &values);
            }
        }
        Ok(table)
    }

    /// Fills a table with the entries of a shard's file that it holds.
    fn fill_entries(&self, shard: &ShardEntry, table: &ParamTable) -> Result<(), CheckpointError> {
        let (count, width) = (shard.entries.unwrap_or(0) as usize, table.width());
        let states = &self.checkpoint.manifest.info.optimizer_state;
        let path = self.checkpoint.dir.join(&shard.file);
        let read = |at: usize, out: &mut [f32]| {
            read_numbers(&path, at, out).map_err(CheckpointError::at("read", &path))
        };
        let whole_numbers = |at: usize, count: usize| {
            let mut numbers = vec![0u32; count];
            let place = (1 + states.len()) * shard.entries.unwrap_or(0) as usize * width + at;
            read(place, bytemuck::cast_slice_mut(&mut numbers)).map(|()| numbers)
        };
        // A file with a checksum that belongs to it may still have been made by another program.
        let rising = |keys: Vec<u32>| {
            if keys.is_sorted_by(|left, right| left < right) {
                return Ok(keys);
            }
            let text = format!("{}: its keys do not rise", path.display());
            Err(CheckpointError::Refused(text))
        };
        let keys = rising(whole_numbers(0, count)?)?;
        let marks = if shard.has_marks {
            // The periods of the run may have been shorter before.
            let updates = shard.chunks.iter().map(|chunk| chunk.version).max();
            let last = table.mark_of(updates.unwrap_or(self.step()).saturating_sub(1));
            whole_numbers(count, count)?.into_iter().map(|mark| mark.min(last)).collect()
        } else {
            // The run did not evict entries before.
            vec![table.mark_of(self.step()); count]
        };
        let at = count * (1 + usize::from(shard.has_marks));
        let counted = rising(whole_numbers(at, shard.counted)?)?;
        let counts = whole_numbers(at + shard.counted, shard.counted)?;
        let at_once = (PIECE / width).max(1);
        let mut values = Vec::new();
        for run in table.key_runs() {
            let (rows, own) = placed(&keys, &run);
            table.create_entries(&own);
            for from in rows.clone().step_by(at_once) {
                let some = from..(from + at_once).min(rows.end);
                let own = &own[some.start - rows.start..some.end - rows.start];
                values.resize(own.len() * width, 0.0);
                read(some.start * width, &mut values)?;
                table.write_entries(own, EntryColumn::Params, &values);
                for (state, name) in table.state_names().iter().enumerate() {
                    let column = 1 + states.iter().position(|found| found == name).unwrap_or(0);
                    read((column * count + some.start) * width, &mut values)?;
                    table.write_entries(own, EntryColumn::State(state), &values);
                }
            }
            table.set_marks(&own, &marks[rows]);
            let (rows, own) = placed(&counted, &run);
            table.set_counts(&own, &counts[rows]);
        }
        Ok(())
    }

    /// Reads flat parameters, or a state of the optimizer.
    fn read(
        &self,
        state: Option<&str>,
        range: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let states = &self.checkpoint.manifest.info.optimizer_state;
        let column = match state {
            None => 0,
            Some(name) => 1 + states.iter().position(|state| state == name).unwrap_or(states.len()),
        };
        self.read_column(column, range, out)
    }

    fn read_column(
        &self,
        column: usize,
        range: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        for shard in &self.checkpoint.manifest.shards {
            let (start, end) = (shard.from as usize, shard.to as usize);
            let (from, to) = (start.max(range.start), end.min(range.end));
            if from < to {
                let path = self.checkpoint.dir.join(&shard.file);
                let at = column * (end - start) + from - start;
                let place = &mut out[from - range.start..to - range.start];
                read_numbers(&path, at, place).map_err(CheckpointError::at("read", &path))?;
            }
        }
        Ok(())
    }
}

/// Where the keys of a run are in a rising list, and their places in the table that holds them.
fn placed(keys: &[u32], run: &KeyRun) -> (Range<usize>, Vec<u32>) {
    let below = |end: usize| keys.partition_point(|&key| (key as usize) < end);
    let rows = below(run.keys.start)..below(run.keys.end);
    let places = keys[rows.clone()].iter().map(|key| key.wrapping_add(run.offset()));
    (rows, places.collect())
}

/// Reads numbers of a safetensors file whose values lie as one row.
fn read_numbers(path: &Path, at: usize, out: &mut [f32]) -> io::Result<()> {
    let mut file = open_regular(path)?;
    let mut header = [0; 8];
    file.read_exact(&mut header)?;
    let data = 8u64.saturating_add(u64::from_le_bytes(header));
    file.seek(SeekFrom::Start(data.saturating_add((at * size_of::<f32>()) as u64)))?;
    file.read_exact(bytemuck::cast_slice_mut(out))
}

/// The first tensor that a checkpoint and a layout do not have in common, for a message.
fn other_tensor(found: &[TensorEntry], layout: &Layout) -> Option<String> {
    for tensor in layout.tensors() {
        let (name, shape) = (&tensor.name, &tensor.shape);
        match found.iter().find(|entry| entry.name == *name) {
            None => return Some(format!("it has no tensor {name:?}, which is {shape:?}")),
            Some(entry) if entry.shape != *shape => {
                let other = &entry.shape;
                return Some(format!(
                    "its tensor {name:?} is {other:?}, and the model has {shape:?}"
                ));
            }
            Some(_) => {}
        }
    }
    let unknown = |entry: &&TensorEntry| layout.tensors().iter().all(|t| t.name != entry.name);
    let TensorEntry { name, .. } = found.iter().find(unknown)?;
    Some(format!("it has a tensor {name:?}, which the model lacks"))
}

/// For each slot, the last push that any chunk has.
fn highest(manifest: &Manifest) -> Vec<SlotMark> {
    let mut marks = vec![SlotMark::default(); manifest.info.slots];
    for chunk in manifest.shards.iter().flat_map(|shard| &shard.chunks) {
        for (mark, &(last_sequence, step)) in marks.iter_mut().zip(&chunk.slots) {
            if last_sequence > mark.last_sequence {
                *mark = SlotMark { last_sequence, step };
            }
        }
    }
    marks
}

/// The step of the plan each slot was about to make.
fn next_steps(manifest: &Manifest) -> Vec<u64> {
    if manifest.info.common_step {
        return vec![manifest.global_step(); manifest.info.slots];
    }
    let first = manifest.info.origin.step;
    let after =
        |mark: SlotMark| if mark.last_sequence > 0 { mark.step.saturating_add(1) } else { first };
    highest(manifest).into_iter().map(after).collect()
}

/// How far all slots together had come in the sequence of examples.
fn position(manifest: &Manifest) -> u64 {
    let info = &manifest.info;
    let steps = next_steps(manifest).into_iter().map(|step| step - info.origin.step.min(step));
    let steps = steps.fold(0, u64::saturating_add);
    info.origin.position.saturating_add(steps.saturating_mul(info.batch as u64))
}
