//! The loop: what a worker does, step after step. (That of sparse models is in `rows/worker.rs`.)

use std::thread;
use std::time::{Duration, Instant};

use paceline_model::{Layout, Model, Moment, Onto, Score};
use paceline_observe::{PeerTraffic, Phase, PhaseClock, Recorder, RunPosition, StepRecord};

use crate::Failure;
use crate::chief::{Chief, StopReason};
use crate::examples::Examples;
use crate::link::{DenseLink, Link, Pushed};
use crate::metrics::{Figures, Metrics};
use crate::progress::write_line;
use crate::trace::{Following, note_moment};
use paceline_record::EventLog;

/// Whoever trains a model over a link, with all that it works with but the parameters.
pub trait Trainer<L> {
    /// Trains until the plan is through or the run is stopped.
    fn run(&mut self, link: &mut L, chief: Option<&mut Chief<'_>>) -> Result<Work, Failure>;

    /// Where it keeps its books.
    fn desk(&mut self) -> &mut Desk;

    /// What its parameters are called.
    fn layout(&self) -> &Layout;
}

/// In benches: a task is to leave out whatever of its accounting can be left out, so that it can
/// be seen what that costs.
pub(crate) const BARE_VARIABLE: &str = "PACELINE_TEST_BARE";

/// Whether this task is to leave its accounting out.
pub(crate) fn is_bare() -> bool {
    std::env::var_os(BARE_VARIABLE).is_some()
}

/// A worker's books.
pub struct Desk {
    /// Its event file; of several threads of a process, only the first has one.
    pub board: Option<EventLog>,
    /// Where its time goes.
    pub clock: PhaseClock,
    /// How many times slower than it could be this worker shall be: 1, but in tests.
    pub slowness: f64,
    /// How long tests have kept this worker from its steps; only a chief's.
    pub tested: Duration,
    /// What it has done so far.
    pub work: Work,
    /// Where its figures can be asked for while it runs, if they can.
    pub metrics: Option<Metrics>,
    /// How its loop is recorded, if the job wants a timeline.
    pub trace: Option<Following>,
}

impl Desk {
    /// Books that are opened now.
    pub fn open(board: Option<EventLog>, slowness: f64) -> Self {
        let mut clock = PhaseClock::start(Phase::Input);
        if is_bare() {
            clock.turn_off();
        }
        let (tested, work) = (Duration::ZERO, Work::default());
        Self { board, clock, slowness, tested, work, metrics: None, trace: None }
    }

    /// A step of the plan is about to be made.
    #[inline]
    pub(crate) fn at_step(&mut self, step: u64) {
        if let Some(trace) = &mut self.trace
            && let Some(event) = trace.at_step(step, &mut self.clock)
        {
            let _ = self.board.trace(event);
        }
    }

    /// Leaves what was recorded of this task in its folder; says whether anything was. What goes
    /// wrong costs the timeline, not the run.
    pub(crate) fn leave_trace(&mut self, task: &str) -> bool {
        let Some(trace) = &mut self.trace else { return false };
        match trace.leave(&mut self.clock, &mut self.board) {
            Ok(has_part) => has_part,
            Err(failure) => {
                write_line(&format!("{task}: {failure}"));
                false
            }
        }
    }

    /// Takes note of a step; with the chief, what follows from it.
    #[inline]
    pub(crate) fn after_step(
        &mut self,
        (step, loss, now): (u64, f32, Instant),
        link: &mut impl Link,
        chief: Option<&mut Chief<'_>>,
    ) -> Result<(), Failure> {
        if !loss.is_finite() {
            return Err(diverged(step, loss));
        }
        if let Some(metrics) = &mut self.metrics
            && metrics.is_due(now)
        {
            let score = chief.as_ref().and_then(|chief| chief.last_score());
            metrics.publish(now, |figures, peers| {
                worker_figures(figures, peers, (&self.work, loss, score), &self.clock, link);
            });
        }
        let Some(board) = &mut self.board else { return Ok(()) };
        let record = StepRecord {
            step,
            loss,
            now,
            worker_steps: self.work.steps,
            examples: self.work.examples,
            clock: &self.clock,
            tested: self.tested,
            position: RunPosition {
                global_step: link.global_step(),
                traffic: &|visit| visit_traffic(link, visit),
            },
        };
        board.step(&record).map_err(Failure::recording)?;
        let Some(chief) = chief else { return Ok(()) };
        self.clock.stay_in(Phase::Wait);
        chief.after_step(loss, now, link, board)?;
        self.tested = chief.tested();
        Ok(())
    }

    /// Closes the books.
    pub(crate) fn close(&mut self, success: bool) -> Result<(), Failure> {
        self.board.finish(success).map_err(Failure::recording)
    }

    /// In tests: makes this worker a slow one.
    #[inline]
    pub(crate) fn dawdle(&self, start: Option<Instant>) {
        if let Some(start) = start {
            thread::sleep(start.elapsed().mul_f64(self.slowness - 1.0));
        }
    }

    /// Begins to compute; when, if that matters to [`Desk::dawdle`].
    #[inline]
    pub(crate) fn begin_compute(&mut self) -> Option<Instant> {
        self.clock.stay_in(Phase::Compute);
        (self.slowness > 1.0).then(Instant::now)
    }
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Why it stopped, if it knows; a worker that is told to stop does not.
    pub reason: Option<StopReason>,
    /// Steps it took.
    pub steps: u64,
    /// Of their gradients, those that came too late.
    pub dropped: u64,
    /// Examples it trained on.
    pub examples: u64,
    /// Of its gradients, those that were lost with a server, and made again.
    pub lost: u64,
}

impl Work {
    /// What two workers of one process did together.
    pub(crate) fn with(self, other: &Work) -> Work {
        Work {
            reason: self.reason,
            steps: self.steps + other.steps,
            dropped: self.dropped + other.dropped,
            examples: self.examples + other.examples,
            lost: self.lost + other.lost,
        }
    }
}

/// A worker of a dense model.
pub struct Worker<'a> {
    /// Which examples it takes at each step.
    pub examples: Box<dyn Examples + 'a>,
    /// What it trains.
    pub model: Box<dyn Model>,
    /// Its books.
    pub desk: Desk,
}

impl<L: DenseLink> Trainer<L> for Worker<'_> {
    fn run(&mut self, link: &mut L, mut chief: Option<&mut Chief<'_>>) -> Result<Work, Failure> {
        // Memory that is never written to is never there, as where steps are made in place.
        let mut grad = vec![0.0; self.model.layout().len()];
        // Who takes a slot over may find the run at its end.
        while !link.is_stopping() && !link.is_called_back() {
            self.desk.clock.stay_in(Phase::Input);
            let step = link.next_step();
            self.desk.at_step(step);
            let examples = self.examples.take(step)?;
            if examples == 0 {
                return Ok(Work { reason: Some(StopReason::Epochs), ..self.desk.work });
            }
            let step = link.global_step();
            let (loss, now, pushed) = match self.step_in_place(examples, link)? {
                Some(loss) => (loss, self.desk.clock.enter(Phase::Wait), Pushed::Applied),
                None => {
                    let loss = self.gradient(examples, link.params(), &mut grad)?;
                    let now = self.desk.clock.enter(Phase::Push);
                    (loss, now, link.push(examples, &grad, &mut self.desk.clock)?)
                }
            };

            let work = &mut self.desk.work;
            work.steps += 1;
            work.dropped += u64::from(pushed == Pushed::Dropped);
            work.examples += examples as u64;
            self.desk.after_step((step, loss, now), link, chief.as_deref_mut())?;
        }
        Ok(self.desk.work)
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }

    fn layout(&self) -> &Layout {
        self.model.layout()
    }
}

impl Worker<'_> {
    /// The mean loss of a batch, and a step made with it in place, if the parameters are here, the
    /// model can and the batch is one block.
    #[inline]
    fn step_in_place(
        &mut self,
        examples: usize,
        link: &mut impl DenseLink,
    ) -> Result<Option<f32>, Failure> {
        let model = (examples <= self.model.max_block()).then(|| self.model.in_place()).flatten();
        let Some(model) = model else { return Ok(None) };
        let Some(descent) = link.lend() else { return Ok(None) };
        let block = self.examples.block(examples)?;
        let start = self.desk.begin_compute();
        let loss = match self.desk.clock.track() {
            None => model.descend(descent, block),
            Some(track) => {
                track.begin_row();
                let watch = &mut |moment: Moment<'_>| note_moment(track, &moment);
                model.descend_followed(descent, block, watch)
            }
        };
        self.desk.dawdle(start);
        Ok(Some(loss))
    }

    /// The mean loss of a batch and its gradient, block by block, so that the values of a block
    /// are read, used and forgotten while they are in the cache.
    #[inline]
    fn gradient(
        &mut self,
        examples: usize,
        params: &[f32],
        grad: &mut [f32],
    ) -> Result<f32, Failure> {
        let share = 1.0 / examples as f32;
        let (mut loss, mut onto, mut left) = (0.0, Onto::Zero, examples);
        while left > 0 {
            self.desk.clock.stay_in(Phase::Input);
            let block = self.examples.block(self.model.max_block())?;
            left -= block.len();
            let start = self.desk.begin_compute();
            loss += match self.desk.clock.track() {
                None => self.model.gradient(params, block, share, onto, grad),
                Some(track) => {
                    track.begin_row();
                    let watch = &mut |moment: Moment<'_>| note_moment(track, &moment);
                    self.model.gradient_followed(params, block, share, (onto, &mut *grad), watch)
                }
            };
            onto = Onto::Present;
            self.desk.dawdle(start);
        }
        Ok(loss)
    }
}

/// The bytes that a link has moved, for a recorder.
#[inline]
pub(crate) fn visit_traffic(link: &impl Link, visit: &mut dyn FnMut(PeerTraffic)) {
    link.moved_by_peer(|peer, sent_bytes, received_bytes| {
        visit(PeerTraffic { peer, sent_bytes, received_bytes });
    });
}

/// What a worker tells of itself while it runs.
fn worker_figures(
    figures: &mut Figures,
    peers: &[String],
    (work, loss, score): (&Work, f32, Option<Score>),
    clock: &PhaseClock,
    link: &impl Link,
) {
    figures.add("paceline_global_step", link.global_step() as f64);
    figures.add("paceline_steps_total", work.steps as f64);
    figures.add("paceline_examples_total", work.examples as f64);
    figures.add("paceline_train_loss", f64::from(loss));
    if let Some(score) = score {
        figures.add("paceline_test_loss", score.loss);
        figures.add("paceline_test_accuracy_ratio", score.accuracy);
    }
    for (phase, seconds) in clock.totals().seconds() {
        figures.add_of("paceline_phase_seconds_total", "phase", phase, seconds);
    }
    link.moved_by_peer(|peer, sent, received| {
        let name = |peer: usize| peers.get(peer).cloned().unwrap_or_default();
        figures.add_of("paceline_sent_bytes_total", "peer", name(peer), sent as f64);
        figures.add_of("paceline_received_bytes_total", "peer", name(peer), received as f64);
    });
}

/// A loss that is not a number ends the run: nothing that comes after it could be of use.
fn diverged(step: u64, loss: f32) -> Failure {
    Failure::Training(format!(
        "the loss became {loss} at step {step}: training diverged; \
         try a smaller train.optimizer.rate"
    ))
}
