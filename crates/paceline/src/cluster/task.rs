//! One task of a run: finds its place, does its part, and ends by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use paceline_exchange::{ProcessName, Role as ClientRole};
use paceline_model::Model;

use super::crew::{self, Ended, process_id};
use super::mirror::{Beginning, Mirror};
use super::remote::{Remote, Waiter, link_config, server_addresses, token};
use super::shared::Shared;
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

/// In tests: `SLOT:FACTOR`, which slot is to be how many times slower; `*` is all.
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
    let slots = plan.cluster.slots(cluster.slots());
    let shape = Shape::of(plan, slots);
    let from = checkpoint.map(|checkpoint| Resumption::new(checkpoint, shape));
    let from = from.as_ref();
    // Who was launched is told by the launcher when the run is to end.
    let interrupted = || match leash {
        Some(leash) => leash.signal(),
        None => interrupt.signal(),
    };
    match cluster.task.role {
        Role::Ps => server::run(job, plan, cluster, &run, (shape, from)).map(|()| None),
        Role::Evaluator => evaluator::run(job, plan, cluster, &run, &interrupted).map(|()| None),
        Role::Chief | Role::Worker => {
            let data = load_data(job, plan, &mut |_| {})?;
            if let Some(from) = from.filter(|_| options.checkpoint.is_none()) {
                check_unfinished(plan, from, data.train_len())?;
            }
            let part = Part {
                job,
                plan,
                cluster,
                slots,
                home: cluster.slot(),
                token: token(plan)?,
                run: &run,
                data: &data,
                from,
                origin: from.map_or(Origin::default(), Resumption::origin),
                is_quiet: options.quiet || cluster.slot() != Some(0),
            };
            let finished = match plan.cluster.mode {
                Mode::Mirrored => part.train_mirrored(&interrupted)?,
                _ => part.train_on_servers(&interrupted, &|| leaves(interrupt, leash))?,
            };
            Ok(finished.filter(|_| leash.is_none()))
        }
    }
}

/// Whether this process was asked to leave the run. One that was launched asks its launcher first:
/// a signal that goes to all of them is for the run, and not for each.
fn leaves(interrupt: &Interrupt, leash: Option<&Leash>) -> bool {
    match leash {
        None => interrupt.signal().is_some(),
        Some(leash) => {
            if interrupt.signal().is_some() {
                leash.ask_to_leave();
            }
            leash.may_leave()
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

/// A worker process's part in a run.
pub(super) struct Part<'a> {
    pub(super) job: &'a RawJob,
    pub(super) plan: &'a Plan,
    pub(super) cluster: &'a Cluster,
    /// How many slots there are, whoever fills them.
    pub(super) slots: usize,
    /// Its place among the workers that the run began with, if it has one.
    pub(super) home: Option<usize>,
    pub(super) token: Vec<u8>,
    pub(super) run: &'a RunDir,
    pub(super) data: &'a Data,
    /// What the run goes on from, if it does.
    pub(super) from: Option<&'a Resumption>,
    pub(super) origin: Origin,
    /// Nothing is shown but what goes wrong.
    pub(super) is_quiet: bool,
}

/// A slot that is to be filled by a thread of this process.
pub(super) struct Shift {
    pub(super) slot: usize,
    pub(super) incarnation: u64,
    /// How many slots this process fills, this one among them.
    pub(super) threads_among: usize,
    /// The slot is to be given back between two steps.
    pub(super) called_back: Arc<AtomicBool>,
    /// Whether it writes the process's events.
    pub(super) has_board: bool,
}

impl Part<'_> {
    /// Where the servers are.
    pub(super) fn servers(&self) -> Result<Vec<String>, Failure> {
        server_addresses(self.plan, self.cluster)
    }

    fn train_mirrored(
        &self,
        interrupted: &dyn Fn() -> Option<i32>,
    ) -> Result<Option<Finished>, Failure> {
        let Self { plan, cluster, data, run, .. } = *self;
        let slot = self.home.unwrap_or(0);
        let log = Arc::new(Log::create(run, cluster.task)?);
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let mut board = Board::create(&run.task(&cluster.task.to_string()), plan)?;
        let say = |text: &str| if slot == 0 { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some();
        let progress = self.progress(slot);
        let places = (slot, data.batches(plan, self.slots, self.origin));
        let threads = plan.threads_here(cluster.workers_here());
        let start = Beginning { job: self.job, plan, cluster, run, from: self.from };
        let mut link = Mirror::start(&start, &*model, log.clone(), &say, &gives_up)?;
        self.begin_board(&mut board, slot, &link, &*model)?;
        let desk = Desk::open(Some(board), slowness(slot));
        let mut worker = build_dense_worker(plan, data, places, threads, desk)?;
        if slot == 0 {
            return self.lead(&mut link, &mut worker, progress, interrupted, |mine| mine).map(Some);
        }
        let work = work(&mut worker, &mut link, None)?;
        link.leave(&encode(&self.told(&mut worker, &work, &link)))?;
        worker.desk.close(true)?;
        Ok(None)
    }

    /// Fills slots, as server 0 has it.
    fn train_on_servers(
        &self,
        interrupted: &(dyn Fn() -> Option<i32> + Sync),
        leaves: &dyn Fn() -> bool,
    ) -> Result<Option<Finished>, Failure> {
        let log = Log::create(self.run, self.cluster.task)?;
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        let is_chief = self.home == Some(0);
        let say = |text: &str| if is_chief { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some();
        let process = ProcessName { id: process_id(), name: self.cluster.task.to_string() };
        let waiter = &mut Waiter { say: &say, gives_up: Some(&gives_up) };
        let roster = crew::enrol(self, process.clone(), model.layout(), waiter)?;
        drop(model);
        let shared = Shared::new(log, process, interrupted);
        crew::run(self, roster, &shared, leaves)
    }

    /// Works in a slot until its plan is through, or it is to be given back. What a thread of
    /// this process does.
    pub(super) fn fill(&self, shift: &Shift, shared: &Shared<'_>) -> Result<Ended, Failure> {
        match self.fill_slot(shift, shared) {
            // Another process fills the slot: that is its affair then.
            Err(Failure::Taken(why)) if shift.slot > 0 => {
                shared.log.info(&why);
                Ok(Ended::GivenUp)
            }
            // Everybody is to go; why is known already.
            Err(_) if shift.slot > 0 && shared.is_halted() => Ok(Ended::GivenUp),
            ended => ended,
        }
    }

    fn fill_slot(&self, shift: &Shift, shared: &Shared<'_>) -> Result<Ended, Failure> {
        let Self { plan, cluster, data, run, slots, .. } = *self;
        let slot = shift.slot;
        let is_chief = slot == 0;
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let folder = run.task(&cluster.task.to_string());
        let mut board = shift.has_board.then(|| Board::create(&folder, plan)).transpose()?;
        let progress = self.progress(slot);
        let say = |text: &str| if is_chief { shared.log.warn(text) } else { shared.log.info(text) };
        let is_early = || !shared.has_started.load(Ordering::Relaxed) && self.home.is_some();
        let gives_up = || shared.is_halted() || is_early() && (shared.interrupted)().is_some();
        let mut config = link_config(self.job, plan, cluster, ClientRole::Worker, model.layout())?;
        config.client.token.clone_from(&self.token);
        config.client.slot = slot as u32;
        config.client.incarnation = shift.incarnation;
        config.client.process = shared.process.clone();
        let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
        shared.has_started.store(true, Ordering::Relaxed);
        let called_back =
            || shift.called_back.load(Ordering::Relaxed) && !is_chief || shared.is_halted();
        let halted = || shared.is_halted();
        link.obey(&called_back, &halted);
        if let Some(board) = &mut board {
            self.begin_board(board, slot, &link, &*model)?;
        }
        drop(model);
        let places = (slot, data.batches(plan, slots, self.origin));
        let threads = plan.threads_here(cluster.workers_here() * shift.threads_among);
        shared.open_books();
        let desk = Desk::open(board, slowness(slot));
        let mut worker = build_worker::<Remote<'_>>(plan, data, places, threads, desk)?;
        if is_chief {
            let all = |mine: TaskSummary| shared.add(&mine);
            let interrupted = &|| (shared.interrupted)();
            let finished = self.lead(&mut link, &mut *worker, progress, interrupted, all)?;
            return Ok(Ended::Finished(Box::new(finished)));
        }
        let work = work(&mut *worker, &mut link, None)?;
        if shared.is_halted() {
            return Ok(Ended::GivenUp);
        }
        let report = encode(&shared.add(&self.told(&mut *worker, &work, &link)));
        let is_through = work.reason.is_some() || link.is_stopping() || link.already_left();
        match is_through {
            true => link.leave(&report)?,
            false => link.release(&report)?,
        }
        worker.desk().close(true)?;
        Ok(if is_through { Ended::Left } else { Ended::GivenUp })
    }

    /// Tells what is trained, or where the run goes on. A process that takes a slot over finds it
    /// further than the run began, and has nothing to tell.
    fn begin_board(
        &self,
        board: &mut Board,
        slot: usize,
        link: &impl SharedLink,
        model: &dyn Model,
    ) -> Result<(), Failure> {
        let begun = self.from.map_or(0, |from| from.slot_steps(self.slots)[slot]);
        match self.from {
            _ if link.next_step() != begun || link.already_left() => Ok(()),
            Some(from) => board.resume_at(from.step()),
            None if slot == 0 => board.describe(self.plan, &model.graph()),
            None => Ok(()),
        }
    }

    /// Where the chief shows how far it is, and what is about to be trained.
    fn progress(&self, slot: usize) -> Progress {
        let progress = Progress::new(self.is_quiet || slot != 0);
        if slot == 0 {
            progress.say(&announcement(self.plan, self.data, self.run.path()));
        }
        progress
    }

    /// Trains as the chief, and ends the run. What it did itself goes through `all`, which adds
    /// what its process did otherwise.
    fn lead<L: SharedLink>(
        &self,
        link: &mut L,
        worker: &mut dyn Trainer<L>,
        progress: Progress,
        interrupted: &dyn Fn() -> Option<i32>,
        all: impl Fn(TaskSummary) -> TaskSummary,
    ) -> Result<Finished, Failure> {
        let Self { plan, data, slots, origin, .. } = *self;
        let batches = data.batches(plan, slots, origin);
        let steps = all_steps(&batches, Shape::of(plan, slots), origin);
        let epoch_steps = plan.stop.epochs.map(|_| steps);
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
            let work = work(worker, link, Some(&mut chief));
            chief.finish();
            let work = work?;
            if link.is_called_back() {
                return Err(Failure::Lost("another slot of this process has failed".into()));
            }
            self.conclude(worker, &work, link, &mut chief, all)
        })
    }

    /// What was done in a slot.
    fn told<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &L,
    ) -> TaskSummary {
        let (sent_bytes, received_bytes) = link.moved_bytes();
        let task = self.cluster.task.to_string();
        let mine = worker_summary(&task, worker.desk(), work);
        TaskSummary { sent_bytes, received_bytes, ..mine }
    }

    /// The chief's end: gathers what everybody did, tests and saves the model, and lets the
    /// servers go.
    fn conclude<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
        chief: &mut Chief<'_>,
        all: impl Fn(TaskSummary) -> TaskSummary,
    ) -> Result<Finished, Failure> {
        let mine = all(self.told(worker, work, link));
        link.leave(&encode(&mine))?;
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

/// Trains, unless another process has left for this slot already.
fn work<L: SharedLink>(
    worker: &mut dyn Trainer<L>,
    link: &mut L,
    chief: Option<&mut Chief<'_>>,
) -> Result<Work, Failure> {
    if link.already_left() {
        return Ok(Work::default());
    }
    worker.run(link, chief).inspect_err(|_| drop(worker.desk().close(false)))
}

/// A report as it travels.
fn encode(report: &TaskSummary) -> Vec<u8> {
    serde_json::to_vec(report).unwrap_or_default()
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
    let parsed = wanted.split_once(':').and_then(|(who, factor)| {
        (who == "*" || who.parse() == Ok(slot)).then(|| factor.parse().unwrap_or(1.0))
    });
    parsed.unwrap_or(1.0)
}
