//! `paceline bench observe`: what it costs to be looked at.
//!
//! Softmax regression at batch 10 over one server and two workers, whose steps are as short as
//! steps get: with nothing that could be left out, as it is by default, with metrics as well, and
//! with a timeline of all steps. The ways take turns many times, and what counts is how each turn
//! compares with the turn before it, as machines are faster at one time than at another.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use paceline_observe::{Sample, Sampler, columns};
use paceline_record::ResourceTable;

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::job::RawJob;
use crate::launch::launch;
use crate::table::{aligned, grouped};
use crate::train_options::TrainOptions;

const TURNS: usize = 15;
/// Looks of which the quickest counts, and notes that are timed together.
const LOOKS: usize = 200;
const NOTES: u64 = 10_000;

/// A way to be looked at.
struct Way {
    name: &'static str,
    settings: &'static [&'static str],
    bare: bool,
    /// The way that it is compared with.
    beside: usize,
}

const WAYS: [Way; 4] = [
    Way { name: "nothing", settings: &["observe.sample_ms=0"], bare: true, beside: 0 },
    Way { name: "phases and sampling", settings: &[], bare: false, beside: 0 },
    Way {
        name: "the same and metrics",
        settings: &["observe.http=127.0.0.1:0"],
        bare: false,
        beside: 0,
    },
    Way {
        name: "phases, sampling and a timeline",
        settings: &["observe.trace={from=0, steps=10000}"],
        bare: false,
        beside: 1,
    },
];

/// Measures everything and renders it.
pub fn observe(interrupt: &Interrupt) -> Result<String, Failure> {
    let scratch = env::temp_dir().join(format!("paceline-bench-observe-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(Failure::at("make", &scratch))?;
    let measured = measure(&scratch, interrupt);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

fn measure(scratch: &Path, interrupt: &Interrupt) -> Result<String, Failure> {
    let mut speeds: [Vec<f64>; WAYS.len()] = Default::default();
    for turn in 0..TURNS {
        // Nobody is always the first, which finds the machine as the last turn left it.
        for at in 0..WAYS.len() {
            let way = (at + turn) % WAYS.len();
            let run = scratch.join(format!("{way}-{turn}"));
            speeds[way].push(steps_per_second(&WAYS[way], run, interrupt)?);
        }
    }
    let head = ["", "steps/s, best", "median", "beside", "best by best", "median of ratios"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (way, own) in WAYS.iter().zip(&speeds) {
        let beside = &speeds[way.beside];
        let ratios = own.iter().zip(beside).map(|(own, beside)| own / beside).collect();
        rows.push(vec![
            way.name.into(),
            grouped(best(own) as u64),
            grouped(median(own.clone()) as u64),
            WAYS[way.beside].name.into(),
            format!("{:.3}", best(own) / best(beside)),
            format!("{:.3}", median(ratios)),
        ]);
    }
    Ok(format!(
        "softmax regression at batch 10, async, 1 server and 2 workers, {TURNS} turns of {} steps\n\
         {}\n{}",
        grouped(STEPS),
        aligned(&rows),
        bare_costs(scratch)?
    ))
}

fn best(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// A sampler with its table.
fn start_sampler(dir: &Path, every: Duration, peers: &[String]) -> std::io::Result<Sampler> {
    let mut table = ResourceTable::create(dir, columns(peers))?;
    Sampler::start(every, peers, move |sample: &Sample| table.write(sample))
}

/// What a look and a note cost by themselves: on a busy machine the runs above differ by more
/// than that.
fn bare_costs(scratch: &Path) -> Result<String, Failure> {
    let never = Duration::from_secs(3600);
    let sampler = start_sampler(scratch, never, &["ps:0".into()])
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
            sampler.gauges().at_step(step);
            sampler.gauges().moved(0, step, step);
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

/// Steps of a turn. All of them fit into a timeline.
const STEPS: u64 = 80_000;

fn steps_per_second(way: &Way, run: PathBuf, interrupt: &Interrupt) -> Result<f64, Failure> {
    let mut job = RawJob::built_in();
    way.settings.iter().for_each(|setting| job.set(setting));
    job.set("train.batch=10");
    job.set(&format!("train.stop={{steps={STEPS}}}"));
    job.set("train.evaluate.every=1000000");
    let (run_dir, bare) = (Some(run), way.bare);
    let options = TrainOptions { run_dir, bare, quiet: true, ..TrainOptions::default() };
    let finished = launch(&job, &job.check()?, &options, interrupt)?;
    Ok(finished.summary.steps_per_second)
}
