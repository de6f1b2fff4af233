//! `paceline bench observe`: what it costs to be looked at.
//!
//! Softmax regression at batch 10 over one server and two workers, whose steps are as short as
//! steps get: with sampling as it is by default, ten times as often, and without, in turn.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use paceline_observe::Sampler;

use crate::Failure;
use crate::cluster::launch::launch;
use crate::interrupt::Interrupt;
use crate::job::RawJob;
use crate::table::{aligned, grouped};
use crate::train::Options;

const TURNS: usize = 8;
/// Looks of which the quickest counts, and notes that are timed together.
const LOOKS: usize = 200;
const NOTES: u64 = 10_000;
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
        "softmax regression at batch 10, async, 1 server and 2 workers, best of {TURNS} turns\n{}\n{}",
        aligned(&rows),
        bare_costs(scratch)?
    ))
}

/// What a look and a note cost by themselves: on a busy machine the runs above differ by more
/// than that.
fn bare_costs(scratch: &Path) -> Result<String, Failure> {
    let never = Duration::from_secs(3600);
    let sampler = Sampler::start(scratch, never)
        .map_err(Failure::at("make the table of resources in", scratch))?;
    let best = |turn: &dyn Fn()| {
        let times = (0..LOOKS).map(|_| {
            let begun = Instant::now();
            turn();
            begun.elapsed()
        });
        times.min().unwrap_or_default()
    };
    let look = best(&|| sampler.begin());
    let notes = best(&|| {
        for step in 0..NOTES {
            sampler.gauges().set(step, step, step);
            std::hint::black_box(sampler.has_news());
        }
    });
    // One look a second.
    let share = 100.0 * look.as_secs_f64();
    Ok(format!(
        "a look takes {:.0} us, {share:.3} % of a core's time at 1000 ms; \
         a step's note {:.1} ns\n",
        1e6 * look.as_secs_f64(),
        1e9 * notes.as_secs_f64() / NOTES as f64
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
