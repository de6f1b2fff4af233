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
use crate::metrics::Metrics;
use crate::progress::{Progress, write_line};
use crate::run::RunDir;
use crate::source::{Data, load_data};
use crate::summary::TaskSummary;
use crate::tester::Aside;
use crate::trace::{self, Tracer, recorded};
use crate::train::{
    Finished, Options, all_steps, announcement, check_unfinished, ending, save_model, signal_of,
    summarise, worker_summary, write_summary,
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

    /// After leaving: waits for the end of the run, if it may go back and need this worker again.
    fn linger(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// After the run has gone back: finds everybody anew, and where to go on.
    fn begin_again(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// How many gradients of this process had been used and were lost when the run went back.
    fn lost_pushes(&self) -> u64 {
        0
    }

    /// The step of the checkpoint that the run has gone back to; 0 for none.
    fn base_step(&self) -> u64 {
        0
    }

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
    let waits = plan.cluster.on_worker_loss == OnWorkerLoss::Wait;
    let checkpoint = match options.checkpoint() {
        // Who takes a lost worker's place may find newer ones in the stead of that one.
        Err(_) if waits && options.checkpoint.is_some() => {
            Options { checkpoint: None, ..options.clone() }.checkpoint()?
        }
        found => found?,
    };
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
        Role::Ps => server::run(job, plan, cluster, &run, (shape, from), leash).map(|()| None),
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
        // Who takes a lost task's place finds its folder there.
        (None, Some(dir)) if may_come_back(plan, cluster) => RunDir::rejoin(dir, &task)?,
        (None, Some(dir)) => RunDir::join(dir, &task)?,
        (None, None) => RunDir::create(None, &plan.name)?.with_task(&task)?,
    };
    if cluster.slot() == Some(0) {
        run.write_new("job.toml", job.explain().as_bytes())?;
    }
    Ok(run)
}

/// Whether a process of this task may take the place of one that was lost.
fn may_come_back(plan: &Plan, cluster: &Cluster) -> bool {
    match cluster.task.role {
        Role::Ps => plan.cluster.waits_for_servers,
        _ => plan.cluster.on_worker_loss == OnWorkerLoss::Wait,
    }
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
        let progress = if slot == 0 { progress.with_log(log.clone()) } else { progress };
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let mut board = Board::create(&run.task(&task), plan, &cluster.others())?;
        let tracer = Tracer::of(plan);
        let tracer = tracer.as_ref();
        let is_chief = slot == 0;
        if is_chief {
            progress.say(&announcement(plan, data, run.path()));
        }
        let say = |text: &str| if is_chief { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some();
        let origin = self.from.map_or(Origin::default(), Resumption::origin);
        let places = (slot, data.batches(plan, cluster.slots(), origin));
        let threads = plan.threads_here(cluster.workers_here());
        let number = (task.as_str(), cluster.number());
        let metrics = Metrics::start(plan, number, cluster.others(), &run.task(&task))?;
        if let Some(metrics) = &metrics {
            log.info(&format!("tells of itself at http://{}/metrics", metrics.address()));
        }
        let open = |board| Desk { metrics, ..Desk::open(Some(board), slowness(slot)) };
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
            let mut worker =
                build_dense_worker(plan, data, places, threads, (open(board), tracer))?;
            return self.train_over(&mut link, &mut worker, tracer, (progress, interrupted));
        }
        let config = link_config(self.job, plan, cluster, ClientRole::Worker, model.layout())?;
        let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
        begin(&mut board, link.next_step(), link.already_left())?;
        drop(model);
        let mut worker =
            build_worker::<Remote<'_>>(plan, data, places, threads, (open(board), tracer))?;
        self.train_over(&mut link, &mut *worker, tracer, (progress, interrupted))
    }

    /// Trains over a link that has found everybody, and leaves.
    fn train_over<L: SharedLink>(
        &self,
        link: &mut L,
        worker: &mut dyn Trainer<L>,
        tracer: Option<&Arc<Tracer>>,
        (progress, interrupted): (Progress, &dyn Fn() -> Option<i32>),
    ) -> Result<Option<Finished>, Failure> {
        let Self { plan, cluster, data, .. } = *self;
        let slots = cluster.slots();
        let origin = self.from.map_or(Origin::default(), Resumption::origin);
        let batches = data.batches(plan, slots, origin);
        let steps = all_steps(&batches, Shape::of(plan, slots), origin);
        let epoch_steps = plan.stop.epochs.map(|_| steps);
        if cluster.slot() != Some(0) {
            loop {
                let out = self.work(worker, link, None);
                let out = out.and_then(|work| self.leave(worker, &work, link));
                match out.and_then(|_| link.linger()) {
                    Err(Failure::Rewound) => self.go_back(worker, link, None)?,
                    Err(failure) => {
                        let _ = worker.desk().close(false);
                        return Err(failure);
                    }
                    Ok(()) => break,
                }
            }
            worker.desk().close(true)?;
            return Ok(None);
        }
        let examiner = recorded(tracer, build_examiner(plan, data, 1)?);
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
            loop {
                let work = self.work(worker, link, Some(&mut chief));
                match work.and_then(|work| self.conclude(worker, &work, link, &mut chief)) {
                    Err(Failure::Rewound) => self.go_back(worker, link, Some(&mut chief))?,
                    ended => {
                        chief.finish();
                        if ended.is_err() {
                            let _ = worker.desk().close(false);
                        }
                        return ended.map(Some);
                    }
                }
            }
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
        worker.run(link, chief)
    }

    /// The run has gone back to a checkpoint, and this worker goes with it.
    fn go_back<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        link: &mut L,
        mut chief: Option<&mut Chief<'_>>,
    ) -> Result<(), Failure> {
        loop {
            link.begin_again()?;
            worker.desk().work.lost = link.lost_pushes();
            let step = joined_at(link, self.plan, self.from).max(link.base_step());
            if let Some(board) = &mut worker.desk().board {
                board.resume_at(step)?;
            }
            match chief.as_deref_mut().map_or(Ok(()), |chief| chief.go_back(step, link)) {
                Err(Failure::Rewound) => {}
                gone_back => return gone_back,
            }
        }
    }

    /// Says goodbye to the others, with a report for the chief; the report, and whether a part of
    /// the timeline was left too.
    fn leave<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
    ) -> Result<(TaskSummary, bool), Failure> {
        let (sent_bytes, received_bytes) = link.moved_bytes();
        let task = self.cluster.task.to_string();
        let mine = worker_summary(&task, worker.desk(), work);
        let mine = TaskSummary { sent_bytes, received_bytes, ..mine };
        let report = serde_json::to_vec(&mine).unwrap_or_default();
        // Before the goodbye: the chief looks for it once everybody has left.
        let (peers, folder) = (self.cluster.peers(), self.run.task(&task));
        let has_part = worker.desk().leave_trace(&task, peers, &folder);
        link.leave(&report)?;
        Ok((mine, has_part))
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
        let (mine, has_part) = self.leave(worker, work, link)?;
        let tasks = link.collect(mine)?;
        link.refresh()?;
        let step = link.global_step();
        let score = chief.final_test(link, worker.desk().board.as_mut())?;
        chief.final_checkpoint(link)?;
        save_model(self.run, worker.layout(), link)?;
        worker.desk().close(true)?;
        chief.finish();
        let tasks_here = (self.cluster.slots(), self.cluster.count(Role::Ps));
        let reason = chief.reason().or(work.reason);
        let summary = summarise(self.plan, tasks_here, reason, step, chief, score, tasks);
        chief.note(&ending(&summary));
        write_summary(self.run, &summary)?;
        if let Some(window) = self.plan.observe_trace {
            let tasks: Vec<_> = summary.tasks.iter().map(|task| task.task.clone()).collect();
            let warnings = trace::conclude(self.run.path(), window, has_part, &tasks);
            warnings.iter().for_each(|warning| write_line(&format!("warning: {warning}")));
        }
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
