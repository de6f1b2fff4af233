//! `paceline bench observe`: the cost of observation.
//!
//! Softmax regression at batch 10 over one server and two workers has the shortest steps of all
//! jobs. It runs without any observation, with the default, with metrics, and with a timeline of
//! all steps. The setups alternate, and each turn is compared with the corresponding turn of
//! another setup, because the speed of a machine changes over time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use paceline_observe::{Sample, Sampler, columns};
use paceline_record::ResourceTable;

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::launch::launch;
use crate::train_options::TrainOptions;
use paceline_job::RawJob;
use paceline_terminal::{aligned, grouped};

const TURNS: usize = 15;
/// Samples, the fastest of which counts, and step notes that are timed together.
const SAMPLES: usize = 200;
const NOTES: u64 = 10_000;

/// What is observed.
struct ObserveSetup {
    name: &'static str,
    settings: &'static [&'static str],
    bare: bool,
    /// The setup it is compared with.
    baseline: usize,
}

const SETUPS: [ObserveSetup; 4] = [
    ObserveSetup { name: "nothing", settings: &["observe.sample_ms=0"], bare: true, baseline: 0 },
    ObserveSetup { name: "phases and sampling", settings: &[], bare: false, baseline: 0 },
    ObserveSetup {
        name: "the same and metrics",
        settings: &["observe.http=127.0.0.1:0"],
        bare: false,
        baseline: 0,
    },
    ObserveSetup {
        name: "phases, sampling and a timeline",
        settings: &["observe.trace={from=0, steps=10000}"],
        bare: false,
        baseline: 1,
    },
];

/// Measures everything and renders it.
pub(crate) fn observe(interrupt: &Interrupt) -> Result<String, Failure> {
    let scratch = env::temp_dir().join(format!("paceline-bench-observe-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(Failure::at("make", &scratch))?;
    let measured = measure(&scratch, interrupt);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

fn measure(scratch: &Path, interrupt: &Interrupt) -> Result<String, Failure> {
    let mut speeds: [Vec<f64>; SETUPS.len()] = Default::default();
    for turn in 0..TURNS {
        // The setups take turns at being first, which depends on the state of the machine.
        for at in 0..SETUPS.len() {
            let setup = (at + turn) % SETUPS.len();
            let run = scratch.join(format!("{setup}-{turn}"));
            speeds[setup].push(steps_per_second(&SETUPS[setup], run, interrupt)?);
        }
    }
    let head = ["", "steps/s, best", "median", "compared with", "best by best", "median of ratios"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (setup, own) in SETUPS.iter().zip(&speeds) {
        let baseline = &speeds[setup.baseline];
        let ratios = own.iter().zip(baseline).map(|(own, baseline)| own / baseline).collect();
        rows.push(vec![
            setup.name.into(),
            grouped(best(own) as u64),
            grouped(median(own.clone()) as u64),
            SETUPS[setup.baseline].name.into(),
            format!("{:.3}", best(own) / best(baseline)),
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
    Sampler::start(every, peers, move |sample: &Sample| drop(table.write(sample)))
}

/// The cost of a sample and of a step's note alone: on a busy machine, the runs above vary by more.
fn bare_costs(scratch: &Path) -> Result<String, Failure> {
    let never = Duration::from_secs(3600);
    let sampler = start_sampler(scratch, never, &["ps:0".into()])
        .map_err(Failure::at("make the table of resources in", scratch))?;
    let best = |turn: &dyn Fn()| {
        let times = (0..SAMPLES).map(|_| {
            let begun = Instant::now();
            turn();
            begun.elapsed()
        });
        times.min().unwrap_or_default()
    };
    let sample = best(&|| sampler.begin());
    let notes = best(&|| {
        for step in 0..NOTES {
            sampler.gauges().at_step(step);
            sampler.gauges().moved(0, step, step);
            std::hint::black_box(sampler.has_news());
        }
    });
    // One sample per second.
    let share = 100.0 * sample.as_secs_f64();
    Ok(format!(
        "a sample takes {:.0} us, {share:.3} % of a core's time at 1000 ms; \
         a step's note {:.1} ns\n",
        1e6 * sample.as_secs_f64(),
        1e9 * notes.as_secs_f64() / NOTES as f64
    ))
}

/// Steps per turn. All of them fit into a timeline.
const STEPS: u64 = 80_000;

fn steps_per_second(
    setup: &ObserveSetup,
    run: PathBuf,
    interrupt: &Interrupt,
) -> Result<f64, Failure> {
    let mut job = RawJob::built_in();
    setup.settings.iter().for_each(|setting| job.set(setting));
    job.set("train.batch=10");
    job.set(&format!("train.stop={{steps={STEPS}}}"));
    job.set("train.evaluate.every=1000000");
    let (run_dir, bare) = (Some(run), setup.bare);
    let options = TrainOptions { run_dir, bare, quiet: true, ..TrainOptions::default() };
    let finished = launch(&job, &job.check()?, &options, interrupt)?;
    Ok(finished.summary.steps_per_second)
}
