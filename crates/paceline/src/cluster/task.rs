//! One task of a run: finds its place, does its part, and ends by itself.

use std::sync::Arc;
use std::thread;

use paceline_exchange::Role as ClientRole;

use super::mirror::{Beginning, Mirror};
use super::remote::{Remote, link_config};
use super::{Cluster, Leash, Role, evaluator, server};
use crate::Failure;
use crate::board::Board;
use crate::build::{Room, build_dense_worker, build_examiner, build_model, build_worker};
use crate::checkpoint::{Origin, Resumption, Shape};
use crate::chief::{Chief, Orders};
use crate::interrupt::Interrupt;
use crate::job::{Mode, OnWorkerLoss, Plan, RawJob};
use crate::link::Link;
use crate::log::Log;
use crate::progress::Progress;
use crate::run::RunDir;
use crate::source::{Data, load_data};
use crate::summary::TaskSummary;
use crate::tester::Aside;
use crate::train::{
    Finished, Options, all_steps, announcement, check_unfinished, save_model, signal_of, summarise,
    worker_summary, write_summary,
};
use crate::worker::{Desk, Trainer, Work};

/// What workers that share do together at the end of a run, wherever the parameters are.
pub(crate) trait SharedLink: Link {
    /// Leaves in good order, with a report for the chief.
    fn leave(&mut self, report: &[u8]) -> Result<(), Failure>;

    /// To the chief, after it has left: what all tasks did; this is its own part.
    fn collect(&mut self, mine: TaskSummary) -> Result<Vec<TaskSummary>, Failure>;

    /// Sees to it that what is looked at next is as it is now.
    fn refresh(&mut self) -> Result<(), Failure>;

    /// The chief's last word: the run is over.
    fn finish(&mut self) -> Result<(), Failure>;

    /// Whether another process had left for this slot already.
    fn already_left(&self) -> bool {
        false
    }
}

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
    // The launcher has chosen the checkpoint and made the run ready; without one, the chief does.
    let checkpoint = options.checkpoint()?;
    let is_led = options.checkpoint.is_some() || cluster.slot() != Some(0);
    let lead = match is_led {
        true => None,
        false => checkpoint.as_ref().map(|from| options.open_run(&plan.name, Some(from))),
    };
    let lead = lead.transpose()?;
    lead.as_ref().map_or(Ok(()), |run| run.write("job.toml", job.explain().as_bytes()))?;
    let run = join_run(job, plan, cluster, options)?;
    let shape = Shape::of(plan, cluster.slots());
    let from = checkpoint.map(|checkpoint| Resumption::new(checkpoint, shape));
    let from = from.as_ref();
    let interrupted = || interrupt.signal().or_else(|| leash.and_then(Leash::signal));
    match cluster.task.role {
        Role::Ps => server::run(job, plan, cluster, &run, (shape, from)).map(|()| None),
        Role::Evaluator => evaluator::run(job, plan, cluster, &run, &interrupted).map(|()| None),
        Role::Chief | Role::Worker => {
            let data = load_data(job, plan, &mut |_| {})?;
            if let Some(from) = from.filter(|_| options.checkpoint.is_none()) {
                check_unfinished(plan, from, data.train_len())?;
            }
            let part = Part { job, plan, cluster, run: &run, data: &data, from };
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
    let run = match (&options.resume, &options.run_dir) {
        (Some(dir), _) => RunDir::rejoin(dir, &task)?,
        // Who takes a lost worker's place finds its folder there.
        (None, Some(dir)) if plan.cluster.on_worker_loss == OnWorkerLoss::Wait => {
            RunDir::rejoin(dir, &task)?
        }
        (None, Some(dir)) => RunDir::join(dir, &task)?,
        (None, None) => RunDir::create(None, &plan.name)?.with_task(&task)?,
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
    data: &'a Data,
    /// What the run goes on from, if it does.
    from: Option<&'a Resumption>,
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
        let log = Arc::new(Log::create(run, cluster.task)?);
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let mut board = Board::create(&run.task(&task), plan)?;
        let is_chief = slot == 0;
        if is_chief {
            progress.say(&announcement(plan, data, run.path()));
        }
        let say = |text: &str| if is_chief { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some();
        let origin = self.from.map_or(Origin::default(), Resumption::origin);
        let places = (slot, data.batches(plan, cluster.slots(), origin));
        let threads = plan.threads_here(cluster.workers_here());
        let open = |board| Desk::open(Some(board), slowness(slot));
        // A process that takes a slot over finds it further than the run began.
        let begun = self.from.map_or(0, |from| from.slot_steps(cluster.slots())[slot]);
        let begin = |board: &mut Board, step: u64, has_left: bool| match self.from {
            _ if step != begun || has_left => Ok(()),
            Some(from) => board.resume_at(from.step()),
            None if is_chief => board.describe(plan, &model.graph()),
            None => Ok(()),
        };
        if plan.cluster.mode == Mode::Mirrored {
            let start = Beginning { job: self.job, plan, cluster, run, from: self.from };
            let mut link = Mirror::start(&start, &*model, log.clone(), &say, &gives_up)?;
            begin(&mut board, link.next_step(), link.already_left())?;
            let mut worker = build_dense_worker(plan, data, places, threads, open(board))?;
            return self.train_over(&mut link, &mut worker, progress, interrupted);
        }
        let config = link_config(self.job, plan, cluster, ClientRole::Worker, model.layout())?;
        let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
        begin(&mut board, link.next_step(), link.already_left())?;
        drop(model);
        let mut worker = build_worker::<Remote<'_>>(plan, data, places, threads, open(board))?;
        self.train_over(&mut link, &mut *worker, progress, interrupted)
    }

    /// Trains over a link that has found everybody, and leaves.
    fn train_over<L: SharedLink>(
        &self,
        link: &mut L,
        worker: &mut dyn Trainer<L>,
        progress: Progress,
        interrupted: &dyn Fn() -> Option<i32>,
    ) -> Result<Option<Finished>, Failure> {
        let Self { plan, cluster, data, .. } = *self;
        let slots = cluster.slots();
        let origin = self.from.map_or(Origin::default(), Resumption::origin);
        let batches = data.batches(plan, slots, origin);
        let steps = all_steps(&batches, Shape::of(plan, slots), origin);
        let epoch_steps = plan.stop.epochs.map(|_| steps);
        if cluster.slot() != Some(0) {
            let work = self.work(worker, link, None)?;
            self.leave(worker, &work, link)?;
            worker.desk().close(true)?;
            return Ok(None);
        }
        let examiner = build_examiner(plan, data, 1)?;
        thread::scope(|scope| {
            let mut chief = Chief::new(Orders {
                stop: plan.stop,
                evaluate: plan.evaluate,
                checkpoint: plan.checkpoint,
                begun_at: self.from.map_or(0, Resumption::step),
                joined_at: joined_at(link, plan, self.from),
                epoch_steps,
                examples_per_step: match plan.cluster.mode {
                    Mode::Sync { quorum } => plan.batch * quorum.unwrap_or(slots),
                    Mode::Mirrored => plan.batch * slots,
                    _ => plan.batch,
                },
                tests: Box::new(Aside::start(scope, examiner)),
                reproducible: plan.cluster.mode.is_together(),
                progress,
                interrupted: Box::new(interrupted),
            });
            let work = self.work(worker, link, Some(&mut chief));
            chief.finish();
            self.conclude(worker, &work?, link, &mut chief).map(Some)
        })
    }

    fn work<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        link: &mut L,
        chief: Option<&mut Chief<'_>>,
    ) -> Result<Work, Failure> {
        if link.already_left() {
            return Ok(Work::default());
        }
        worker.run(link, chief).inspect_err(|_| drop(worker.desk().close(false)))
    }

    /// Says goodbye to the others, with a report for the chief; the report.
    fn leave<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
    ) -> Result<TaskSummary, Failure> {
        let (sent_bytes, received_bytes) = link.moved_bytes();
        let task = self.cluster.task.to_string();
        let mine = worker_summary(&task, worker.desk(), work);
        let mine = TaskSummary { sent_bytes, received_bytes, ..mine };
        let report = serde_json::to_vec(&mine).unwrap_or_default();
        link.leave(&report)?;
        Ok(mine)
    }

    /// The chief's end: gathers what everybody did, tests and saves the model, and lets the
    /// servers go.
    fn conclude<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
        chief: &mut Chief<'_>,
    ) -> Result<Finished, Failure> {
        let mine = self.leave(worker, work, link)?;
        let tasks = link.collect(mine)?;
        link.refresh()?;
        let step = link.global_step();
        let score = chief.final_test(link, worker.desk().board.as_mut())?;
        worker.desk().close(true)?;
        chief.final_checkpoint(link)?;
        save_model(self.run, worker.layout(), link)?;
        let tasks_here = (self.cluster.slots(), self.cluster.count(Role::Ps));
        let reason = chief.reason().or(work.reason);
        let summary = summarise(self.plan, tasks_here, reason, step, chief, score, tasks);
        write_summary(self.run, &summary)?;
        link.finish()?;
        let run = self.run.path().to_owned();
        Ok(Finished { run, summary, signal: signal_of(reason) })
    }
}

/// The global step that a chief finds. Before its first pull a link of a sparse model knows it in
/// `sync` only, by the step that comes next.
fn joined_at(link: &impl Link, plan: &Plan, from: Option<&Resumption>) -> u64 {
    let known = match plan.cluster.mode.is_together() {
        true => link.next_step(),
        false => link.global_step(),
    };
    known.max(from.map_or(0, Resumption::step))
}

/// How many times slower than it could be this slot shall be.
fn slowness(slot: usize) -> f64 {
    let wanted = std::env::var(SLOW_VARIABLE).unwrap_or_default();
    let parsed = wanted
        .split_once(':')
        .and_then(|(who, factor)| (who.parse() == Ok(slot)).then(|| factor.parse().unwrap_or(1.0)));
    parsed.unwrap_or(1.0)
}
