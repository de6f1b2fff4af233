//! A checkpoint: its manifest, its only shard and the record of generations.
//!
//! Manifest and record are read as they are and, since most changes would end at a checksum, with
//! the checksums that belong to them.

use std::fs;
use std::sync::Arc;

use paceline_checkpoint::manifest::{FORMAT, TensorEntry, hex};
use paceline_checkpoint::{
    CheckpointDir, CheckpointInfo, CheckpointSpec, CheckpointWriter, PlanOrigin, ResumePoint,
    ServerNumber, StepLayout, layout_digest,
};
use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_factor::FactorMachine;
use paceline_model::{AdaGrad, EntryPolicy, Layout, Model, Momentum, OptimizerSpec, ParamTable};
use serde_json::Value;

use crate::file_targets::{joined, model_layout, split};
use crate::scratch::scratch_dir;

const STEP: u64 = 5;
const SHARD: &str = "ps-0.safetensors";
/// What precedes the checksum of a text.
const SEAL: &str = ",\n  \"crc32c\": \"";
const SLOTS: usize = 2;

/// Reads a checkpoint.
pub(crate) fn checkpoint(bytes: &[u8]) {
    let (record, rest) = split(bytes);
    let (manifest, shard) = split(rest);
    read_checkpoint(record, manifest, shard);
    let manifest = String::from_utf8_lossy(manifest);
    let record = sealed(&String::from_utf8_lossy(record));
    read_checkpoint(record.as_bytes(), sealed(&manifest).as_bytes(), shard);
    if let Some(manifest) = with_shard(&manifest, shard) {
        read_checkpoint(record.as_bytes(), manifest.as_bytes(), shard);
    }
}

fn read_checkpoint(record: &[u8], manifest: &[u8], shard: &[u8]) {
    let path = scratch_dir().join("checkpoints");
    let dir = CheckpointDir::new(&path);
    let place = dir.place(STEP);
    // Damaged checkpoints that were set aside, each under a new name, would slow every search.
    let _ = fs::remove_dir_all(place.with_extension("aside-1"));
    fs::create_dir_all(&place).expect("a directory in memory");
    for (path, content) in [
        (place.join("manifest.json"), manifest),
        (place.join(SHARD), shard),
        (path.join("generation.json"), record),
    ] {
        fs::write(path, content).expect("a file in memory");
    }
    let _ = (dir.manifest(STEP).map(|manifest| manifest.bytes()), dir.generation());
    if let Ok(checkpoint) = dir.verify(STEP) {
        for slots in [SLOTS, SLOTS + 1] {
            let steps = StepLayout { slots, batch: 10, common_step: slots == SLOTS };
            resume(&ResumePoint::new(checkpoint.clone(), steps), slots);
        }
    }
    let _ = dir.claim(ServerNumber { index: 0, count: 1 }, None, &mut |_| {});
}

/// What a run asks of the checkpoint that it resumes from.
fn resume(point: &ResumePoint, slots: usize) {
    let layout = model_layout();
    let all = 0..layout.len();
    let _ = (point.step(), point.position(), point.origin(), point.stop_at());
    let _ = (point.slot_steps(slots), point.server_state(&all, false, 1, slots));
    let optimizer = Momentum::new(0.1, 0.9);
    if point.check(&layout, &optimizer).is_ok() {
        let _ = (point.params(&layout), point.known_gradient(0, all.clone()));
        let _ = point.dense(&layout, optimizer, all);
    }
    let model = sparse_model();
    if point.check(model.layout(), &sparse_optimizer()).is_ok() {
        let _ = point.fill(model.layout(), empty_table(&model));
    }
}

fn sparse_model() -> FactorMachine {
    FactorMachine::new(50, 2)
}

fn sparse_optimizer() -> OptimizerSpec {
    AdaGrad::new(0.1)
}

/// A table that counts keys before they have an entry, and evicts entries.
fn empty_table(model: &FactorMachine) -> ParamTable {
    let policy = EntryPolicy { min_count: 2, evict_after: Some(100), ..EntryPolicy::default() };
    let keys = 0..model.layout().keys();
    ParamTable::allocate_with(sparse_optimizer(), model, keys, 1, policy).expect("a small table")
}

/// A text with the checksum that belongs to it.
fn sealed(text: &str) -> String {
    let body = text.rfind(SEAL).map_or(text, |at| &text[..at]);
    format!("{body}{SEAL}{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes()))
}

/// A manifest with the length and the checksum of this shard.
fn with_shard(text: &str, shard: &[u8]) -> Option<String> {
    let mut manifest: Value = serde_json::from_str(text).ok()?;
    let entry = manifest.get_mut("shards")?.get_mut(0)?.as_object_mut()?;
    entry.insert("bytes".into(), shard.len().into());
    entry.insert("crc32c".into(), format!("{:08x}", crc32c::crc32c(shard)).into());
    manifest.as_object_mut()?.shift_remove("crc32c");
    let text = serde_json::to_string_pretty(&manifest).ok()?;
    Some(sealed(text.strip_suffix("\n}")?))
}

/// Writes a checkpoint of one shard, as a server does.
pub(crate) fn write_checkpoint(dir: &CheckpointDir) {
    let mut writer = writer(dir, model_layout(), &["momentum"]);
    writer.take(STEP, marks(), true, |out| out.fill(0.5));
}

/// Writes a checkpoint of a table that has some entries, and has counted another key.
fn write_table(dir: &CheckpointDir) {
    let model = sparse_model();
    let table = empty_table(&model);
    let (keys, bias) = ([3, 7, 20], model.layout().keys() as u32 - 1);
    for step in 0..2 {
        let keys = [&keys[..], &[bias]].concat();
        let mut numbers = vec![0.0; keys.len() * table.width()];
        table.read(&keys, &mut numbers);
        table.update(step, &keys, &numbers);
    }
    table.update(2, &[30], &vec![0.0; table.width()]);
    let states = table.state_names().to_vec();
    writer(dir, model.layout().clone(), &states).take_table(STEP, marks(), true, &table);
}

fn writer(dir: &CheckpointDir, layout: Layout, states: &[&str]) -> CheckpointWriter {
    let shard = 0..layout.len();
    let (info, name) = (info(&layout, states), "ps-0".into());
    let spec = CheckpointSpec { dir: dir.clone(), keep: 2, info, layout, index: 0, shard, name };
    CheckpointWriter::start(spec, Arc::new(|_| {})).expect("a thread")
}

fn marks() -> Vec<ChunkMarks> {
    let slots = vec![SlotMark { last_sequence: STEP, step: STEP - 1 }; SLOTS];
    vec![ChunkMarks { version: STEP, slots }]
}

fn info(layout: &Layout, states: &[&str]) -> CheckpointInfo {
    let entry = |tensor: &paceline_model::Tensor| TensorEntry {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
    };
    CheckpointInfo {
        format: FORMAT,
        paceline: "0".into(),
        step: STEP,
        mode: "sync".into(),
        seed: 1,
        slots: SLOTS,
        batch: 10,
        common_step: true,
        origin: PlanOrigin::default(),
        job_digest: "0".into(),
        layout_digest: hex(&layout_digest(layout)),
        optimizer_state: states.iter().map(|state| (*state).into()).collect(),
        known_gradients: 0,
        tensors: layout.tensors().iter().map(entry).collect(),
        shard_count: 1,
        is_spread: false,
        generation: 0,
    }
}

pub(crate) fn checkpoint_seeds() -> Vec<Vec<u8>> {
    [write_checkpoint, write_table].map(checkpoint_seed).into()
}

fn checkpoint_seed(write: fn(&CheckpointDir)) -> Vec<u8> {
    let path = scratch_dir().join("written");
    // Seeds that were asked for before are in the way.
    let _ = fs::remove_dir_all(&path);
    let dir = CheckpointDir::new(&path);
    write(&dir);
    let server = |index| ServerNumber { index, count: 2 };
    for index in [0, 1] {
        let _ = dir.claim(server(index), None, &mut |_| {});
    }
    let read = |path| fs::read(path).expect("a file that was just written");
    let (manifest, shard) = (dir.place(STEP).join("manifest.json"), dir.place(STEP).join(SHARD));
    let checkpoint = joined(&read(manifest), &read(shard));
    joined(&read(path.join("generation.json")), &checkpoint)
}
