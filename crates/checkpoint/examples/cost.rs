//! Measures a checkpoint of 61 million parameters with momentum: how long training waits for the
//! copy, and how fast the checkpoint reaches the disk compared with a plain write and sync of as
//! many bytes. Both alternate, and the best of each counts.
//!
//! ```text
//! cargo run --release --package paceline-checkpoint --example cost
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use paceline_checkpoint::manifest::TensorEntry;
use paceline_checkpoint::{
    CheckpointDir, CheckpointInfo, CheckpointSpec, CheckpointWriter, PlanOrigin,
};
use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::{Group, Layout};

const PARAMS: usize = 61_000_000;
const TURNS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in(".")?;
    let state = vec![0.5f32; 2 * PARAMS];
    let (mut copy, mut ours, mut plain) = (f64::MAX, f64::MAX, f64::MAX);
    for turn in 1..=TURNS {
        let report = Arc::new(|written: Result<&str, &str>| println!("{written:?}"));
        let mut writer = CheckpointWriter::start(spec(dir.path()), report)?;
        let marks = vec![ChunkMarks { version: turn, slots: vec![SlotMark::default()] }];
        let mut copied = Instant::now();
        writer.take(turn, marks, true, |out| {
            let start = Instant::now();
            out.copy_from_slice(&state);
            copied = Instant::now();
            copy = copy.min(start.elapsed().as_secs_f64());
        });
        drop(writer);
        ours = ours.min(copied.elapsed().as_secs_f64());
        plain = plain.min(write_plainly(&dir.path().join("plain"), &state)?);
    }
    let megabytes = size_of_val(&state[..]) as f64 / 1e6;
    println!("{:6.1} ms  the copy, while no worker is answered", 1e3 * copy);
    println!("{:6.0} MB/s  the checkpoint, with checksums, syncs and manifest", megabytes / ours);
    println!("{:6.0} MB/s  a plain write and a sync", megabytes / plain);
    println!("{:6.2}  of the plain speed", plain / ours);
    Ok(())
}

/// Writes the numbers and syncs; the seconds it took.
fn write_plainly(path: &Path, state: &[f32]) -> std::io::Result<f64> {
    let start = Instant::now();
    let mut file = File::create(path)?;
    let bytes: &[u8] = bytemuck::cast_slice(state);
    bytes.chunks(4 << 20).try_for_each(|chunk| file.write_all(chunk))?;
    file.sync_all()?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(seconds)
}

fn spec(dir: &Path) -> CheckpointSpec {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    let info = CheckpointInfo {
        format: 1,
        paceline: String::new(),
        step: 0,
        mode: "single".into(),
        seed: 1,
        slots: 1,
        batch: 1,
        common_step: true,
        origin: PlanOrigin::default(),
        job_digest: String::new(),
        layout_digest: String::new(),
        optimizer_state: vec!["momentum".into()],
        known_gradients: 0,
        tensors: vec![TensorEntry { name: "weight".into(), shape: vec![PARAMS] }],
        shard_count: 1,
        is_spread: false,
        generation: 0,
    };
    let (dir, name) = (CheckpointDir::new(dir), "worker-0".into());
    CheckpointSpec { dir, keep: 1, info, layout, index: 0, shard: 0..PARAMS, name }
}
