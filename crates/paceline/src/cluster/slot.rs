//! What a worker process does in one of its slots, on a thread of its own.
//!
//! The thread has connections to all servers, takes the slot's batches from where the slot stands,
//! and goes on until the plan is through, the slot is to be given back or another process has it. If
//! the run goes back to a checkpoint because a server was lost, the thread goes back with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline_exchange::PeerRole;

use super::calling::link_config;
use super::crew::Ended;
use super::part::{Part, SharedLink, encode, slowness, work};
use super::remote::Remote;
use super::shared::Shared;
use crate::Failure;
use crate::build::{Room, build_model, build_worker};
use crate::link::Link;
use crate::trace::Tracer;
use crate::worker::{Desk, Trainer};
use paceline_record::TaskSummary;

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
    /// Works in a slot until its plan is through, or it is to be given back. What a thread of
    /// this process does.
    pub(super) fn fill(&self, shift: &Shift, shared: &Shared<'_>) -> Result<Ended, Failure> {
        let ended = self.fill_slot(shift, shared);
        shared.close_books(shift.slot);
        match ended {
            // Another process fills the slot: that is its affair then.
            Err(Failure::Taken(why)) if shift.slot > 0 => {
                shared.log.info(&why);
                Ok(Ended::GivenUp)
            }
            // Everybody is to go; why is known already.
            Err(_) if shift.slot > 0 && shared.is_halted() => Ok(Ended::GivenUp),
            // Nobody has waited for this slot any more.
            Err(Failure::Lost(_)) if shift.slot > 0 && self.is_late() => Ok(Ended::Left),
            ended => ended,
        }
    }

    fn fill_slot(&self, shift: &Shift, shared: &Shared<'_>) -> Result<Ended, Failure> {
        let Self { plan, cluster, data, run, slots, .. } = *self;
        let slot = shift.slot;
        let is_chief = slot == 0;
        let model = build_model(plan, data.shape(), Room::LEAST)?;
        let progress = self.progress(slot, &shared.log);
        // One thread keeps the process's curves, figures and timeline.
        let board = shift.has_board.then(|| self.event_log(slot, &*model));
        let mut board = board.transpose()?;
        let metrics = if shift.has_board { self.metrics(&shared.log)? } else { None };
        let tracer = plan.observe_trace.map(Tracer::new).filter(|_| shift.has_board);
        let tracer = tracer.as_ref();
        let say = |text: &str| if is_chief { shared.log.warn(text) } else { shared.log.info(text) };
        let is_early = || !shared.has_started.load(Ordering::Relaxed) && self.home.is_some();
        let is_interrupted = || is_early() && (shared.interrupted)().is_some();
        let gives_up = || shared.is_halted() || is_interrupted() || self.is_late();
        let mut config = link_config(self.job, plan, cluster, PeerRole::Worker, model.layout())?;
        config.client.token.clone_from(&self.token);
        config.client.slot = slot as u32;
        config.client.incarnation = shift.incarnation;
        config.client.process = shared.process.clone();
        let mut link = Remote::start(config, plan.cluster.mode, &say, &gives_up)?;
        shared.has_started.store(true, Ordering::Relaxed);
        let called_back =
            || shift.called_back.load(Ordering::Relaxed) && !is_chief || shared.is_halted();
        let halted = || shared.is_halted();
        let is_over = || !is_chief && self.is_late();
        link.obey(&called_back, &halted, &is_over);
        if let Some(board) = &mut board {
            self.begin_board(board, slot, &link)?;
        }
        drop(model);
        let places = (slot, data.batches(plan, slots, self.origin));
        let threads = plan.threads_here(cluster.workers_here() * shift.threads_among);
        shared.open_books();
        let desk = Desk { metrics, ..Desk::open(board, slowness(slot)) };
        let mut worker = build_worker::<Remote<'_>>(plan, data, places, threads, (desk, tracer))?;
        let worker = &mut *worker;
        if is_chief {
            // It is written once more when this process has come to the end.
            run.remove_summary()?;
            let all = |mine: TaskSummary| shared.add(slot, &mine);
            let lead = (progress, shared.interrupted as &dyn Fn() -> Option<i32>);
            let finished = self.lead(&mut link, worker, tracer, lead, &all)?;
            return Ok(Ended::Finished(Box::new(finished)));
        }
        loop {
            let ended = match self.fill_once(slot, worker, &mut link, shared) {
                Err(Failure::Rewound) => self.go_back(worker, &mut link, None).map(|()| None),
                ended => ended.map(Some),
            };
            match ended {
                Ok(None) => {}
                Ok(Some(ended)) => {
                    worker.desk().close(true)?;
                    return Ok(ended);
                }
                Err(failure) => {
                    let _ = worker.desk().close(false);
                    return Err(failure);
                }
            }
        }
    }

    /// Trains until the plan is through or the slot is to be given back, and says goodbye.
    fn fill_once<'a>(
        &self,
        slot: usize,
        worker: &mut dyn Trainer<Remote<'a>>,
        link: &mut Remote<'a>,
        shared: &Shared<'_>,
    ) -> Result<Ended, Failure> {
        let work = work(worker, link, None)?;
        if shared.is_halted() {
            return Ok(Ended::GivenUp);
        }
        let report = encode(&shared.add(slot, &self.told(worker, &work, link)));
        // Before the goodbye: the chief looks for it once everybody has left.
        self.leave_trace(worker.desk());
        if work.reason.is_some() || link.is_stopping() || link.already_left() {
            link.leave(&report)?;
            link.linger()?;
            return Ok(Ended::Left);
        }
        link.release(&report)?;
        Ok(Ended::GivenUp)
    }
}
