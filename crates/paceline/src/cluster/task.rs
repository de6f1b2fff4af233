//! One task of a run: finds its place, does its part, and ends by itself.

use std::thread;

use paceline_data::ImageSet;
use paceline_exchange::{Report, Role as ClientRole};
use paceline_observe::{Phase, PhaseClock};

use super::remote::{Remote, link_config};
use super::{Cluster, Leash, Role, evaluator, server};
use crate::Failure;
use crate::board::Board;
use crate::chief::{Chief, Orders};
use crate::interrupt::Interrupt;
use crate::job::{Mode, Plan, RawJob};
use crate::link::Link;
use crate::log::Log;
use crate::progress::Progress;
use crate::run::RunDir;
use crate::source::{Shape, load_data};
use crate::summary::TaskSummary;
use crate::tester::Aside;
use crate::train::{
    Finished, Options, announcement, batch_plan, build_model, build_tester, save_model, signal_of,
    summarise, worker_summary, write_summary,
};
use crate::worker::{Work, Worker};

/// In tests: `SLOT:FACTOR`, which worker is to be how many times slower.
const SLOW_VARIABLE: &str = "PACELINE_TEST_SLOW";

/// Runs this process's task of the cluster. The chief that was not launched has a result.
pub fn run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    options: &Options,
    interrupt: &Interrupt,
    leash: Option<&Leash>,
) -> Result<Option<Finished>, Failure> {
    let run = join_run(job, plan, cluster, options)?;
    let interrupted = || interrupt.signal().or_else(|| leash.and_then(Leash::signal));
    match cluster.task.role {
        Role::Ps => server::run(job, plan, cluster, &run).map(|()| None),
        Role::Evaluator => evaluator::run(job, plan, cluster, &run, &interrupted).map(|()| None),
        Role::Chief | Role::Worker => {
            let data = load_data(job, plan)?;
            let part = Part { job, plan, cluster, run: &run, data: &data };
            let progress = Progress::new(options.quiet || cluster.slot() != Some(0));
            let finished = part.train(progress, &interrupted)?;
            Ok(finished.filter(|_| leash.is_none()))
        }
    }
}

/// The run directory of this task, with a new folder of the task's own in it. Tasks of one run
/// may share the directory, or have one on each machine.
fn join_run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    options: &Options,
) -> Result<RunDir, Failure> {
    let task = cluster.task.to_string();
    let run = match &options.run_dir {
        Some(dir) => RunDir::join(dir, &task)?,
        None => RunDir::create(None, &plan.name)?.with_task(&task)?,
    };
    if cluster.slot() == Some(0) {
        run.write_new("job.toml", job.explain().as_bytes())?;
    }
    Ok(run)
}

/// A worker's part in a run.
struct Part<'a> {
    job: &'a RawJob,
    plan: &'a Plan,
    cluster: &'a Cluster,
    run: &'a RunDir,
    data: &'a ImageSet,
}

impl Part<'_> {
    fn train(
        &self,
        progress: Progress,
        interrupted: &dyn Fn() -> Option<i32>,
    ) -> Result<Option<Finished>, Failure> {
        let Self { plan, cluster, data, run, .. } = *self;
        let task = cluster.task.to_string();
        let slot = cluster.slot().unwrap_or(0);
        let log = Log::create(run, cluster.task)?;
        let model = build_model(plan, Shape::of(data));
        let mut board = Board::create(&run.task(&task), plan)?;
        let config = link_config(self.job, plan, cluster, ClientRole::Worker, model.layout())?;
        let is_chief = slot == 0;
        if is_chief {
            board.describe(plan, &model.graph())?;
            progress.say(&announcement(plan, data, run.path()));
        }
        let say = |text: &str| if is_chief { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some();
        let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
        let batches = batch_plan(plan, data.train.len(), cluster.slots());
        let epoch_steps = plan.stop.epochs.map(|_| match plan.cluster.mode {
            Mode::Sync { .. } => batches.steps(),
            _ => batches.steps() * cluster.slots() as u64,
        });
        let clock = PhaseClock::start(Phase::Input);
        let slowness = slowness(slot);
        let mut worker =
            Worker { slot, batches, images: &data.train, model, board, clock, slowness };
        if !is_chief {
            let work = self.work(&mut worker, &mut link, None)?;
            self.leave(&worker, &work, &mut link)?;
            worker.board.finish(true)?;
            return Ok(None);
        }
        thread::scope(|scope| {
            let mut chief = Chief::new(Orders {
                stop: plan.stop,
                evaluate: plan.evaluate,
                epoch_steps,
                examples_per_step: match plan.cluster.mode {
                    Mode::Sync { quorum } => plan.batch * quorum.unwrap_or(cluster.slots()),
                    _ => plan.batch,
                },
                tests: Box::new(Aside::start(scope, build_tester(plan, data))),
                reproducible: matches!(plan.cluster.mode, Mode::Sync { .. }),
                progress,
                interrupted: Box::new(interrupted),
            });
            let work = self.work(&mut worker, &mut link, Some(&mut chief));
            chief.finish();
            self.conclude(&mut worker, &work?, &mut link, &mut chief).map(Some)
        })
    }

    fn work(
        &self,
        worker: &mut Worker<'_>,
        link: &mut Remote<'_>,
        chief: Option<&mut Chief<'_>>,
    ) -> Result<Work, Failure> {
        worker.run(link, chief).inspect_err(|_| drop(worker.board.finish(false)))
    }

    /// Says goodbye to the servers, with a report for the chief.
    fn leave(
        &self,
        worker: &Worker<'_>,
        work: &Work,
        link: &mut Remote<'_>,
    ) -> Result<(), Failure> {
        let (link, mut attendant) = link.link();
        let (sent_bytes, received_bytes) = link.moved_bytes();
        let task = self.cluster.task.to_string();
        let mine = worker_summary(&task, worker, work);
        let mine = TaskSummary { sent_bytes, received_bytes, ..mine };
        let report = serde_json::to_vec(&mine).unwrap_or_default();
        Ok(link.leave(&report, &mut attendant)?)
    }

    /// The chief's end: gathers what everybody did, tests and saves the model, and lets the
    /// servers go.
    fn conclude(
        &self,
        worker: &mut Worker<'_>,
        work: &Work,
        link: &mut Remote<'_>,
        chief: &mut Chief<'_>,
    ) -> Result<Finished, Failure> {
        self.leave(worker, work, link)?;
        let tasks = {
            let (link, mut attendant) = link.link();
            let reports = link.collect(&mut attendant)?;
            link.pull(&mut attendant)?;
            tasks_of(reports)
        };
        let step = link.global_step();
        let score = chief.final_test(step, link.params(), &mut worker.board)?;
        worker.board.finish(true)?;
        save_model(self.run, worker.model.layout(), link.params(), step)?;
        let tasks_here = (self.cluster.slots(), self.cluster.count(Role::Ps));
        let reason = chief.reason().or(work.reason);
        let summary = summarise(self.plan, tasks_here, reason, step, chief, score, tasks);
        write_summary(self.run, &summary)?;
        let (link, mut attendant) = link.link();
        link.finish(&mut attendant)?;
        let run = self.run.path().to_owned();
        Ok(Finished { run, summary, signal: signal_of(reason) })
    }
}

/// All tasks' reports: the workers' as server 0 has them, and each server's own.
fn tasks_of(reports: Vec<Vec<Report>>) -> Vec<TaskSummary> {
    let from_all = reports.into_iter().enumerate().flat_map(|(server, reports)| {
        reports.into_iter().filter(move |report| server == 0 || report.slot.is_none())
    });
    from_all.filter_map(|report| serde_json::from_slice(&report.bytes).ok()).collect()
}

/// How many times slower than it could be this slot shall be.
fn slowness(slot: usize) -> f64 {
    let wanted = std::env::var(SLOW_VARIABLE).unwrap_or_default();
    let parsed = wanted
        .split_once(':')
        .and_then(|(who, factor)| (who.parse() == Ok(slot)).then(|| factor.parse().unwrap_or(1.0)));
    parsed.unwrap_or(1.0)
}
