//! What a checkpoint of 61 million parameters with momentum costs: how long training is held up for
//! the copy, and how fast it gets to the disk beside a plain write of as many bytes with a sync at
//! the end. Both in turns, so that a busy machine is busy for both; the best of each counts.
//!
//! ```text
//! cargo run --release --package paceline --example checkpoint_cost
//! ```

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::time::Instant;

use paceline::checkpoint::keeper::{Keeper, Terms};
use paceline::checkpoint::manifest::TensorEntry;
use paceline::checkpoint::{About, Origin, Shelf};
use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_model::{Group, Layout};

const PARAMS: usize = 61_000_000;
const TURNS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir_in(".")?;
    let state = vec![0.5f32; 2 * PARAMS];
    let mut keeper = Keeper::start(terms(dir.path()), Box::new(|told| println!("{told:?}")))?;
    let (mut copy, mut ours, mut plain) = (f64::MAX, f64::MAX, f64::MAX);
    for turn in 1..=TURNS {
        let marks = vec![ChunkMarks { version: turn, slots: vec![SlotMark::default()] }];
        let mut copied = Instant::now();
        keeper.take(turn, marks, true, |out| {
            let begun = Instant::now();
            out.copy_from_slice(&state);
            copied = Instant::now();
            copy = copy.min(begun.elapsed().as_secs_f64());
        });
        drop(keeper);
        ours = ours.min(copied.elapsed().as_secs_f64());
        keeper = Keeper::start(terms(dir.path()), Box::new(|_| {}))?;

        let path = dir.path().join("plain");
        let started = Instant::now();
        let mut file = File::create(&path)?;
        let bytes: &[u8] = bytemuck::cast_slice(&state);
        bytes.chunks(4 << 20).try_for_each(|chunk| file.write_all(chunk))?;
        file.sync_all()?;
        plain = plain.min(started.elapsed().as_secs_f64());
        std::fs::remove_file(path)?;
    }
    let megabytes = size_of_val(&state[..]) as f64 / 1e6;
    println!("{:6.1} ms  the copy, while nobody is answered", 1e3 * copy);
    println!("{:6.0} MB/s  the checkpoint, with checksums, syncs and manifest", megabytes / ours);
    println!("{:6.0} MB/s  a plain write and a sync", megabytes / plain);
    println!("{:6.2}  of the plain speed", plain / ours);
    Ok(())
}

fn terms(run: &std::path::Path) -> Terms {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    let about = About {
        format: 1,
        paceline: String::new(),
        step: 0,
        mode: "single".into(),
        seed: 1,
        slots: 1,
        batch: 1,
        common_step: true,
        origin: Origin::default(),
        job_digest: String::new(),
        layout_digest: String::new(),
        optimizer_slots: vec!["momentum".into()],
        tensors: vec![TensorEntry { name: "weight".into(), shape: vec![PARAMS] }],
        shard_count: 1,
        generation: 0,
    };
    let (shelf, name) = (Shelf::of(run), "worker-0".into());
    Terms { shelf, keep: 1, about, layout, index: 0, shard: 0..PARAMS, name }
}
