//! How a training loop reports what happens, without knowing where it goes.
//!
//! A [`Recorder`] receives the run's start, each step, each test, the progress and the end. Every
//! method has an empty default body, so an implementation picks what it wants:
//!
//! ```
//! use std::io;
//!
//! use paceline_observe::{Phase, PhaseClock, Recorder, StepRecord};
//!
//! /// Collects the loss of every step.
//! #[derive(Default)]
//! struct Losses(Vec<f32>);
//!
//! impl Recorder for Losses {
//!     fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
//!         self.0.push(record.loss);
//!         Ok(())
//!     }
//! }
//!
//! let mut losses = Losses::default();
//! let clock = PhaseClock::start(Phase::Input);
//! for (step, loss) in [(0, 0.7), (1, 0.4)] {
//!     losses.step(&StepRecord::new(step, loss, &clock))?;
//! }
//! assert_eq!(losses.0, [0.7, 0.4]);
//! # Ok::<(), io::Error>(())
//! ```
//!
//! `()` records nothing, and a pair of recorders records in both. A server makes no steps: it
//! reports through [`ServerRecorder`](crate::ServerRecorder), the server's half of the same idea.

use std::io;
use std::time::{Duration, Instant};

use paceline_model::Score;

use crate::phases::PhaseClock;
use crate::task_summary::ResourceUse;
use crate::tensor_record::TensorRecord;
use crate::touched_keys::{TableUse, TouchedKeys};
use crate::trace::Track;

/// Receives what happens in a training loop.
///
/// An error ends the run: a recorder that should not end it swallows its errors.
pub trait Recorder {
    /// Training starts or starts again. Called before the first step of each process and after
    /// each rewind.
    fn start(&mut self, _start: RunStart) -> io::Result<()> {
        Ok(())
    }

    /// A worker made a step. Called after every step, so it must return within nanoseconds when
    /// there is nothing to do.
    #[inline]
    fn step(&mut self, _record: &StepRecord<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Global steps between two calls of [`tensors`](Self::tensors); `None` or 0 for none. The
    /// answer must not change during a run.
    fn tensors_every(&self) -> Option<u64> {
        None
    }

    /// The tensors of a step that is due by [`tensors_every`](Self::tensors_every).
    fn tensors(&mut self, _record: &TensorRecord<'_>) -> io::Result<()> {
        Ok(())
    }

    /// A task that makes no steps of its own, such as an evaluator, looked at the run.
    fn poll(&mut self, _position: &RunPosition<'_>) -> io::Result<()> {
        Ok(())
    }

    /// A test ended. Only the coordinator and evaluators test.
    fn test(&mut self, _record: &TestRecord<'_>) -> io::Result<()> {
        Ok(())
    }

    /// The coordinator made a step: a recorder that shows progress calls `report` when it is time
    /// to show it. Called once a rate is known, a tenth of a second after the first step, and then
    /// after every step that ends a millisecond or more after the last call. So it must return
    /// within a microsecond when there is nothing to show.
    #[inline]
    fn progress(&mut self, _now: Instant, _report: &dyn Fn() -> ProgressReport) -> io::Result<()> {
        Ok(())
    }

    /// The timeline of this task started, stopped or is complete.
    fn trace(&mut self, _event: TraceEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// What the task and its machine used since [`start`](Self::start), if the recorder measures
    /// it.
    fn resources(&self) -> Option<ResourceUse> {
        None
    }

    /// The task left the run, successfully or not. Called once, after everything else.
    fn finish(&mut self, _success: bool) -> io::Result<()> {
        Ok(())
    }
}

/// Where a process starts to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStart {
    /// At the beginning of a new run.
    New,
    /// At a checkpoint of this global step, in a run that is resumed. What earlier sessions
    /// recorded of later steps is void.
    Resumed {
        /// The global step of the checkpoint.
        step: u64,
    },
    /// In the middle of a run: the process takes over a slot that others have advanced.
    Joined,
    /// At a checkpoint of this global step, because a server was lost. What was recorded of later
    /// steps is void.
    Rewound {
        /// The global step of the checkpoint.
        step: u64,
    },
}

/// Where the run is, as far as a task knows.
#[derive(Clone, Copy)]
pub struct RunPosition<'a> {
    /// Updates made to the parameters so far.
    pub global_step: u64,
    /// Reports the bytes that the task has exchanged with each peer so far.
    pub traffic: &'a VisitTraffic<'a>,
    /// Returns what the task holds of a sparse model's parameters; `None` if it holds none.
    pub table: &'a dyn Fn() -> Option<TableUse>,
}

/// Passes the totals of each peer to a function.
pub type VisitTraffic<'a> = dyn Fn(&mut dyn FnMut(PeerTraffic)) + 'a;

/// The bytes that a task has exchanged with one other task so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerTraffic {
    /// The peer's place among the task's peers.
    pub peer: usize,
    /// Bytes sent to the peer.
    pub sent_bytes: u64,
    /// Bytes received from the peer.
    pub received_bytes: u64,
}

/// A [`VisitTraffic`] for a task without peers.
pub fn no_traffic(_visit: &mut dyn FnMut(PeerTraffic)) {}

/// The [`RunPosition::table`] of a task that holds no sparse model.
pub fn no_table() -> Option<TableUse> {
    None
}

/// A step that a worker made.
#[derive(Clone, Copy)]
pub struct StepRecord<'a> {
    /// The global step of the parameters that the loss was computed with.
    pub step: u64,
    /// The mean loss of the batch.
    pub loss: f32,
    /// When the gradient was complete.
    pub now: Instant,
    /// Steps that this worker has made so far, this one included.
    pub worker_steps: u64,
    /// Examples that this worker has trained on so far.
    pub examples: u64,
    /// What its batches touched so far, if the model is sparse.
    pub touched: TouchedKeys,
    /// Where the worker's time went so far.
    pub clock: &'a PhaseClock,
    /// How long tests have kept the worker from its steps so far.
    pub tested: Duration,
    /// Where the run is after the step.
    pub position: RunPosition<'a>,
}

impl<'a> StepRecord<'a> {
    /// The record of a worker that has no peers and makes every step of the run itself.
    pub fn new(step: u64, loss: f32, clock: &'a PhaseClock) -> Self {
        Self {
            step,
            loss,
            now: Instant::now(),
            worker_steps: step + 1,
            examples: 0,
            touched: TouchedKeys::default(),
            clock,
            tested: Duration::ZERO,
            position: RunPosition { global_step: step + 1, traffic: &no_traffic, table: &no_table },
        }
    }
}

/// A test that ended.
#[derive(Clone, Copy, Debug)]
pub struct TestRecord<'a> {
    /// The global step of the parameters that were tested.
    pub step: u64,
    /// The result.
    pub score: &'a Score,
    /// Global steps a second from the start of the run to the test.
    pub steps_per_second: f64,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct ProgressReport {
    /// Global steps made.
    pub step: u64,
    /// The share of the work that is done, from 0 to 1, if the end is known.
    pub done: Option<f64>,
    /// The time since the first step.
    pub elapsed: Duration,
    /// The estimated time left, if the end is known.
    pub left: Option<Duration>,
    /// The mean loss of the last steps.
    pub train_loss: f64,
    /// The accuracy of the last test, from 0 to 1.
    pub test_accuracy: Option<f64>,
    /// Examples per second of all workers, as far back as this process knows it.
    pub examples_per_second: f64,
}

/// What happens to the timeline of a task.
#[derive(Clone, Copy, Debug)]
pub enum TraceEvent<'a> {
    /// The threads of the task began to write their tracks.
    Started,
    /// The threads of the task stopped writing their tracks.
    Stopped,
    /// All spans are in these tracks.
    Complete(&'a [&'a Track]),
}

impl Recorder for () {}

/// The interval at which a recorder wants tensors, if it wants them.
fn wanted_tensors(recorder: &dyn Recorder) -> Option<u64> {
    recorder.tensors_every().filter(|&every| every > 0)
}

/// Implements [`Recorder`] for a type that dereferences to one.
macro_rules! forward_recorder {
    ($pointer:ty) => {
        impl<R: Recorder + ?Sized> Recorder for $pointer {
            fn start(&mut self, start: RunStart) -> io::Result<()> {
                (**self).start(start)
            }

            #[inline]
            fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
                (**self).step(record)
            }

            fn tensors_every(&self) -> Option<u64> {
                (**self).tensors_every()
            }

            fn tensors(&mut self, record: &TensorRecord<'_>) -> io::Result<()> {
                (**self).tensors(record)
            }

            fn poll(&mut self, position: &RunPosition<'_>) -> io::Result<()> {
                (**self).poll(position)
            }

            fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
                (**self).test(record)
            }

            #[inline]
            fn progress(
                &mut self,
                now: Instant,
                report: &dyn Fn() -> ProgressReport,
            ) -> io::Result<()> {
                (**self).progress(now, report)
            }

            fn trace(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
                (**self).trace(event)
            }

            fn resources(&self) -> Option<ResourceUse> {
                (**self).resources()
            }

            fn finish(&mut self, success: bool) -> io::Result<()> {
                (**self).finish(success)
            }
        }
    };
}

forward_recorder!(&mut R);
forward_recorder!(Box<R>);

/// Records in all of them, in their order. All finish even if one fails. Only a recorder that asks
/// for tensors gets them; if several do, the smallest interval counts for all.
///
/// The list is not generic, so that it is compiled in this crate, with this crate's settings.
impl Recorder for Vec<Box<dyn Recorder + Send>> {
    fn start(&mut self, start: RunStart) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.start(start))
    }

    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.step(record))
    }

    fn tensors_every(&self) -> Option<u64> {
        self.iter().filter_map(|recorder| wanted_tensors(&**recorder)).min()
    }

    fn tensors(&mut self, record: &TensorRecord<'_>) -> io::Result<()> {
        let mut asking = self.iter_mut().filter(|recorder| wanted_tensors(&***recorder).is_some());
        asking.try_for_each(|recorder| recorder.tensors(record))
    }

    fn poll(&mut self, position: &RunPosition<'_>) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.poll(position))
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.test(record))
    }

    fn progress(&mut self, now: Instant, report: &dyn Fn() -> ProgressReport) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.progress(now, report))
    }

    fn trace(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        self.iter_mut().try_for_each(|recorder| recorder.trace(event))
    }

    fn resources(&self) -> Option<ResourceUse> {
        self.iter().find_map(|recorder| recorder.resources())
    }

    fn finish(&mut self, success: bool) -> io::Result<()> {
        let mut finished = Ok(());
        for recorder in self {
            finished = finished.and(recorder.finish(success));
        }
        finished
    }
}

#[cfg(test)]
mod tests;
