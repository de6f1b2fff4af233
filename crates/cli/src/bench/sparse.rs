//! `paceline bench sparse`: real runs of sparse logistic regression at the size of a click log.
//!
//! The rows are generated clicks, mapped from their cache and larger than the processor's caches:
//! 39 features out of 33,762,578, a few of them popular and most of them rare.

use std::path::Path;
use std::{env, fs};

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::train::train;
use crate::train_options::TrainOptions;
use paceline_job::RawJob;
use paceline_record::Summary;
use paceline_terminal::{aligned, grouped};

const TURNS: usize = 3;

/// Rows/s of each optimizer with several batches, on one and two threads, and over servers.
pub(crate) fn sparse(interrupt: &Interrupt) -> Result<String, Failure> {
    let scratch = env::temp_dir().join(format!("paceline-bench-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(Failure::at("make", &scratch))?;
    let bench = SparseBench { scratch: &scratch, interrupt };
    let measured = bench.single().and_then(|text| Ok(text + "\n" + &bench.shared()?));
    let _ = fs::remove_dir_all(&scratch);
    measured
}

struct SparseBench<'a> {
    scratch: &'a Path,
    interrupt: &'a Interrupt,
}

impl SparseBench<'_> {
    fn single(&self) -> Result<String, Failure> {
        let head = ["optimizer", "batch", "rows/s", "2 threads", "ratio"];
        let phases = ["input", "pull", "compute", "push"];
        let mut rows = vec![head.into_iter().chain(phases).map(String::from).collect::<Vec<_>>()];
        for (rule, batch) in
            [("sgd", 1), ("sgd", 100), ("sgd", 1_000), ("adagrad", 100), ("ftrl", 100)]
        {
            let rule_setting = format!("train.optimizer.kind={rule}");
            let batch_setting = format!("train.batch={batch}");
            let settings = ["cluster.mode=single", &rule_setting, &batch_setting];
            let (mut one, mut two) = (None, None);
            for _ in 0..TURNS {
                self.keep_faster(&mut one, &settings)?;
                self.keep_faster(&mut two, &[&settings[..], &["train.threads=2"]].concat())?;
            }
            let (Some(one), Some(two)) = (one, two) else { continue };
            let mut row = vec![
                rule.into(),
                batch.to_string(),
                grouped(one.examples_per_second as u64),
                grouped(two.examples_per_second as u64),
                format!("{:.2}", two.examples_per_second / one.examples_per_second),
            ];
            let micros = |phase: &str| {
                let spent = one.tasks[0].phases.get(phase).and_then(|spent| spent.as_f64());
                format!("{:.1}", 1e6 * spent.unwrap_or_default() / one.global_steps as f64)
            };
            row.extend(phases.iter().map(|phase| micros(phase)));
            rows.push(row);
        }
        let title = "logistic regression, 33,762,578 features, 39 per row, mode single; phases in \
                     us per step of one thread\n";
        Ok(String::from(title) + &aligned(&rows))
    }

    fn shared(&self) -> Result<String, Failure> {
        let head = ["mode", "batch", "rows/s", "bytes per step", "server's peak", "worker's peak"];
        let mut rows = vec![head.map(String::from).to_vec()];
        for (mode, batch) in
            [("async", 100), ("sync", 100), ("bounded", 100), ("async", 1_000), ("sync", 1_000)]
        {
            let mode_setting = format!("cluster.mode={mode}");
            let batch_setting = format!("train.batch={batch}");
            let mut best = None;
            for _ in 0..TURNS {
                self.keep_faster(&mut best, &[&mode_setting, &batch_setting])?;
            }
            let Some(best) = best else { continue };
            let peak = |role: &str| {
                let tasks = best.tasks.iter().filter(|task| task.task.starts_with(role));
                let most = tasks.filter_map(|task| task.peak_rss_bytes).max().unwrap_or_default();
                format!("{} MB", most / 1_000_000)
            };
            rows.push(vec![
                mode.into(),
                batch.to_string(),
                grouped(best.examples_per_second as u64),
                grouped(best.bytes_per_step as u64),
                peak("ps"),
                peak("worker"),
            ]);
        }
        Ok(String::from("the same over loopback, 1 server and 2 workers, sgd\n") + &aligned(&rows))
    }

    /// Makes a run, and keeps its summary if it is the fastest so far.
    fn keep_faster(&self, best: &mut Option<Summary>, settings: &[&str]) -> Result<(), Failure> {
        let mut job = RawJob::built_in();
        let common = [
            "data.kind=clicks",
            "data.train_examples=1000000",
            "train.stop={seconds=2}",
            "train.evaluate.every=1000000000",
            "observe.every=100",
        ];
        common.iter().chain(settings).for_each(|setting| job.set(setting));
        let run = self.scratch.join("run");
        let options =
            TrainOptions { run_dir: Some(run.clone()), quiet: true, ..TrainOptions::default() };
        let finished = train(&job, &options, self.interrupt, None)?;
        fs::remove_dir_all(&run).map_err(Failure::at("remove", &run))?;
        if let Some(finished) = finished {
            let speed = |summary: &Summary| summary.examples_per_second;
            if best.as_ref().is_none_or(|best| speed(best) < speed(&finished.summary)) {
                *best = Some(finished.summary);
            }
        }
        Ok(())
    }
}
