//! A worker process's part in a run, wherever the parameters are: what it begins with, how the
//! chief leads, how everybody goes back with the run, and how they leave.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::ProcessName;
use paceline_model::Model;

use super::attendants::Waiter;
use super::calling::server_addresses;
use super::crew::{self, process_id};
use super::mirror::{Beginning, Mirror};
use super::shared::Shared;
use super::{Cluster, Role};
use crate::Failure;
use crate::build::{Room, build_dense_worker, build_examiner, build_model};
use crate::checkpoint::{Origin, Resumption, Shape};
use crate::chief::{Chief, Orders};
use crate::job::{Mode, Plan, RawJob};
use crate::link::Link;
use crate::metrics::Metrics;
use crate::progress::{Progress, write_line};
use crate::source::Data;
use crate::tester::Aside;
use crate::trace::{Tracer, recorded};
use crate::train::{
    Finished, all_steps, announcement, description, ending, event_log_config, save_model,
    signal_of, summarise, worker_summary, write_summary,
};
use crate::worker::{Desk, Trainer, Work};
use paceline_observe::{Recorder, RunStart};
use paceline_record::RunDir;
use paceline_record::TaskLog;
use paceline_record::TaskSummary;
use paceline_record::timeline::finish_timeline;
use paceline_record::{EventLog, EventLogConfig, examples_per_step};

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

/// How long a chief that comes back to a run whose summary it finds looks for servers that have not
/// heard of the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// In tests: `SLOT:FACTOR`, which slot is to be how many times slower; `*` is all.
const SLOW_VARIABLE: &str = "PACELINE_TEST_SLOW";

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
    /// When this process came to the run.
    pub(super) came: Instant,
}

impl Part<'_> {
    /// Where the servers are.
    pub(super) fn servers(&self) -> Result<Vec<String>, Failure> {
        server_addresses(self.plan, self.cluster)
    }

    /// Whether this process has come too late: the run is over, and nobody is to be found any more.
    /// Of a run that goes on from a checkpoint the summary may be that of an earlier session.
    pub(super) fn is_late(&self) -> bool {
        let has_waited = self.home != Some(0) || self.came.elapsed() >= FAREWELL;
        self.from.is_none() && has_waited && self.run.has_ended()
    }

    /// Takes what has come of finding the others; none if there is nothing left to do with them.
    fn unless_late<T>(
        &self,
        log: &TaskLog,
        found: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match found {
            Err(Failure::Lost(_)) if self.is_late() => {
                log.warn("the run is over");
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    pub(super) fn train_mirrored(
        &self,
        interrupted: &dyn Fn() -> Option<i32>,
    ) -> Result<Option<Finished>, Failure> {
        let Self { plan, cluster, data, run, .. } = *self;
        let slot = self.home.unwrap_or(0);
        let log = Arc::new(TaskLog::create(run, cluster.task)?);
        let progress = self.progress(slot, &log);
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let mut board = self.event_log(slot, &*model)?;
        let tracer = plan.observe_trace.map(Tracer::new);
        let say = |text: &str| if slot == 0 { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some() || self.is_late();
        let places = (slot, data.batches(plan, self.slots, self.origin));
        let threads = plan.threads_here(cluster.workers_here());
        let metrics = self.metrics(&log)?;
        let start = Beginning { job: self.job, plan, cluster, run, from: self.from };
        let link = Mirror::start(&start, &*model, log.clone(), &say, &gives_up);
        let Some(mut link) = self.unless_late(&log, link)? else { return Ok(None) };
        self.begin_board(&mut board, slot, &link)?;
        let desk = Desk { metrics, ..Desk::open(Some(board), slowness(slot)) };
        let mut worker = build_dense_worker(plan, data, places, threads, (desk, tracer.as_ref()))?;
        let all = |mine| mine;
        if slot == 0 {
            let lead = (progress, interrupted);
            return self.lead(&mut link, &mut worker, tracer.as_ref(), lead, &all).map(Some);
        }
        let out = work(&mut worker, &mut link, None)
            .and_then(|work| self.leave(&mut worker, &work, &mut link, &all));
        worker.desk.close(out.is_ok()).and(out).map(|_| None)
    }

    /// Fills slots, as server 0 has it.
    pub(super) fn train_on_servers(
        &self,
        interrupted: &(dyn Fn() -> Option<i32> + Sync),
        leaves: &dyn Fn() -> bool,
    ) -> Result<Option<Finished>, Failure> {
        let log = Arc::new(TaskLog::create(self.run, self.cluster.task)?);
        let model = build_model(self.plan, self.data.shape(), Room::LEAST)?;
        let is_chief = self.home == Some(0);
        let say = |text: &str| if is_chief { log.warn(text) } else { log.info(text) };
        let gives_up = || interrupted().is_some() || self.is_late();
        let process = ProcessName { id: process_id(), name: self.cluster.task.to_string() };
        let waiter = &mut Waiter { say: &say, gives_up: Some(&gives_up) };
        let enrolled = crew::enrol(self, process.clone(), model.layout(), waiter);
        let Some(roster) = self.unless_late(&log, enrolled)? else { return Ok(None) };
        drop(model);
        let shared = Shared::new(log.clone(), process, interrupted);
        self.unless_late(&log, crew::run(self, roster, &shared, leaves)).map(Option::flatten)
    }

    /// Where the figures of this process can be asked for while it runs, if they can. The port of
    /// somebody who came later may be another's: then they cannot.
    pub(super) fn metrics(&self, log: &TaskLog) -> Result<Option<Metrics>, Failure> {
        let Self { plan, cluster, run, .. } = *self;
        let task = cluster.task.to_string();
        let number = (task.as_str(), cluster.number());
        let metrics = match Metrics::start(plan, number, cluster.others(), &run.task(&task)) {
            Err(failure) if self.home.is_none() => {
                log.warn(&format!("tells nothing of itself: {failure}"));
                None
            }
            started => started?,
        };
        if let Some(metrics) = &metrics {
            log.info(&format!("tells of itself at http://{}/metrics", metrics.address()));
        }
        Ok(metrics)
    }

    /// The event log of this process; that of slot 0 tells what is trained.
    pub(super) fn event_log(&self, slot: usize, model: &dyn Model) -> Result<EventLog, Failure> {
        let task = self.cluster.task.to_string();
        let config = EventLogConfig {
            traffic_peers: self.cluster.others(),
            trace_peers: self.cluster.peers(),
            description: (slot == 0).then(|| description(self.plan, model)),
            ..event_log_config(self.plan, &task)
        };
        Ok(EventLog::create(&self.run.task(&task), config)?)
    }

    /// Tells what is trained, or where the run goes on. A process that takes a slot over finds it
    /// further than the run began, and has nothing to tell.
    pub(super) fn begin_board(
        &self,
        board: &mut EventLog,
        slot: usize,
        link: &impl SharedLink,
    ) -> Result<(), Failure> {
        let begun = self.from.map_or(0, |from| from.slot_steps(self.slots)[slot]);
        let start = match self.from {
            _ if link.next_step() != begun || link.already_left() => RunStart::Joined,
            Some(from) => RunStart::Resumed { step: from.step() },
            None => RunStart::New,
        };
        board.start(start).map_err(Failure::recording)
    }

    /// Where the chief shows how far it is, and what is about to be trained.
    pub(super) fn progress(&self, slot: usize, log: &Arc<TaskLog>) -> Progress {
        let progress = Progress::new(self.is_quiet || slot != 0);
        if slot != 0 {
            return progress;
        }
        let progress = progress.with_log(log.clone());
        progress.say(&announcement(self.plan, self.data, self.run.path()));
        progress
    }

    /// Trains as the chief, and ends the run. What it did itself goes through `all`, which adds
    /// what its process did otherwise.
    pub(super) fn lead<L: SharedLink>(
        &self,
        link: &mut L,
        worker: &mut dyn Trainer<L>,
        tracer: Option<&Arc<Tracer>>,
        (progress, interrupted): (Progress, &dyn Fn() -> Option<i32>),
        all: &dyn Fn(TaskSummary) -> TaskSummary,
    ) -> Result<Finished, Failure> {
        let Self { plan, data, slots, origin, .. } = *self;
        let batches = data.batches(plan, slots, origin);
        let steps = all_steps(&batches, Shape::of(plan, slots), origin);
        let epoch_steps = plan.stop.epochs.map(|_| steps);
        let examiner = recorded(tracer, build_examiner(plan, data, 1)?);
        thread::scope(|scope| {
            let mut chief = Chief::new(Orders {
                stop: plan.stop,
                evaluate: plan.evaluate,
                checkpoint: plan.checkpoint,
                begun_at: self.from.map_or(0, Resumption::step),
                joined_at: joined_at(link, plan, self.from),
                epoch_steps,
                examples_per_step: examples_per_step(
                    plan.cluster.mode.name(),
                    plan.batch,
                    slots,
                    match plan.cluster.mode {
                        Mode::Sync { quorum } => quorum,
                        _ => None,
                    },
                ),
                tests: Box::new(Aside::start(scope, examiner)),
                reproducible: plan.cluster.mode.is_together(),
                progress,
                interrupted: Box::new(interrupted),
            });
            loop {
                let work = work(worker, link, Some(&mut chief));
                let ended = work.and_then(|work| match link.is_called_back() {
                    true => Err(Failure::Lost("another slot of this process has failed".into())),
                    false => self.conclude(worker, &work, link, &mut chief, all),
                });
                match ended {
                    Err(Failure::Rewound) => self.go_back(worker, link, Some(&mut chief))?,
                    ended => {
                        chief.finish();
                        if ended.is_err() {
                            let _ = worker.desk().close(false);
                        }
                        return ended;
                    }
                }
            }
        })
    }

    /// The run has gone back to a checkpoint, and this worker goes with it.
    pub(super) fn go_back<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        link: &mut L,
        mut chief: Option<&mut Chief<'_>>,
    ) -> Result<(), Failure> {
        loop {
            link.begin_again()?;
            worker.desk().work.lost = link.lost_pushes();
            let step = joined_at(link, self.plan, self.from).max(link.base_step());
            let rewound = worker.desk().board.start(RunStart::Rewound { step });
            rewound.map_err(Failure::recording)?;
            match chief.as_deref_mut().map_or(Ok(()), |chief| chief.go_back(step, link)) {
                Err(Failure::Rewound) => {}
                gone_back => return gone_back,
            }
        }
    }

    /// What was done in a slot.
    pub(super) fn told<L: SharedLink>(
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

    /// Says goodbye to the others, with a report for the chief; the report, and whether a part of
    /// the timeline was left too.
    fn leave<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
        all: &dyn Fn(TaskSummary) -> TaskSummary,
    ) -> Result<(TaskSummary, bool), Failure> {
        let mine = all(self.told(worker, work, link));
        // Before the goodbye: the chief looks for it once everybody has left.
        let has_part = self.leave_trace(worker.desk());
        link.leave(&encode(&mine))?;
        Ok((mine, has_part))
    }

    /// Leaves what was recorded of this task; says whether anything was.
    pub(super) fn leave_trace(&self, desk: &mut Desk) -> bool {
        let task = self.cluster.task.to_string();
        desk.leave_trace(&task)
    }

    /// The chief's end: gathers what everybody did, tests and saves the model, and lets the
    /// servers go.
    fn conclude<L: SharedLink>(
        &self,
        worker: &mut dyn Trainer<L>,
        work: &Work,
        link: &mut L,
        chief: &mut Chief<'_>,
        all: &dyn Fn(TaskSummary) -> TaskSummary,
    ) -> Result<Finished, Failure> {
        let (mine, has_part) = self.leave(worker, work, link, all)?;
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
            let warnings = finish_timeline(self.run.path(), window, has_part, &tasks);
            warnings.iter().for_each(|warning| write_line(&format!("warning: {warning}")));
        }
        link.finish()?;
        let run = self.run.path().to_owned();
        Ok(Finished { run, summary, signal: signal_of(reason) })
    }
}

/// Trains, unless another process has left for this slot already.
pub(super) fn work<L: SharedLink>(
    worker: &mut dyn Trainer<L>,
    link: &mut L,
    chief: Option<&mut Chief<'_>>,
) -> Result<Work, Failure> {
    if link.already_left() {
        return Ok(Work::default());
    }
    worker.run(link, chief)
}

/// A report as it travels.
pub(super) fn encode(report: &TaskSummary) -> Vec<u8> {
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
pub(super) fn slowness(slot: usize) -> f64 {
    let wanted = std::env::var(SLOW_VARIABLE).unwrap_or_default();
    let parsed = wanted.split_once(':').and_then(|(who, factor)| {
        (who == "*" || who.parse() == Ok(slot)).then(|| factor.parse().unwrap_or(1.0))
    });
    parsed.unwrap_or(1.0)
}
