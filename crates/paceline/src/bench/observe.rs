//! `paceline bench observe`: what it costs to be looked at.
//!
//! Softmax regression at batch 10 over one server and two workers, whose steps are as short as
//! steps get: with sampling as it is by default, ten times as often, and without, in turn.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::Failure;
use crate::cluster::launch::launch;
use crate::interrupt::Interrupt;
use crate::job::RawJob;
use crate::table::{aligned, grouped};
use crate::train::Options;

const TURNS: usize = 8;
/// Milliseconds between two looks; 0 for none.
const SAMPLE_MS: [u64; 3] = [0, 1000, 100];

/// Measures everything and renders it.
pub fn observe(interrupt: &Interrupt) -> Result<String, Failure> {
    let scratch = env::temp_dir().join(format!("paceline-bench-observe-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(Failure::at("make", &scratch))?;
    let measured = measure(&scratch, interrupt);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

fn measure(scratch: &Path, interrupt: &Interrupt) -> Result<String, Failure> {
    let mut best = [0f64; SAMPLE_MS.len()];
    for turn in 0..TURNS {
        // Nobody is always the first, which finds the machine as the last turn left it.
        for at in 0..SAMPLE_MS.len() {
            let way = (at + turn) % SAMPLE_MS.len();
            let run = scratch.join(format!("{way}-{turn}"));
            best[way] = best[way].max(steps_per_second(SAMPLE_MS[way], run, interrupt)?);
        }
    }
    let mut rows = vec![["observe.sample_ms", "steps/s", "ratio"].map(String::from).to_vec()];
    for (sample_ms, steps) in SAMPLE_MS.iter().zip(best) {
        let name = if *sample_ms == 0 { "0 (off)".into() } else { sample_ms.to_string() };
        rows.push(vec![name, grouped(steps as u64), format!("{:.3}", steps / best[0])]);
    }
    Ok(format!(
        "softmax regression at batch 10, async, 1 server and 2 workers, best of {TURNS} turns\n{}",
        aligned(&rows)
    ))
}

fn steps_per_second(sample_ms: u64, run: PathBuf, interrupt: &Interrupt) -> Result<f64, Failure> {
    let mut job = RawJob::built_in();
    job.set(&format!("observe.sample_ms={sample_ms}"));
    job.set("train.batch=10");
    job.set("train.stop={seconds=2}");
    job.set("train.evaluate.every=1000000");
    let options = Options { run_dir: Some(run), quiet: true, ..Options::default() };
    let finished = launch(&job, &job.check()?, &options, interrupt)?;
    Ok(finished.summary.steps_per_second)
}
