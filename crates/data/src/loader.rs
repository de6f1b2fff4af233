//! Reading ahead: the batches of the next steps are made while the present one is used.
//!
//! Threads of the loader take the steps of one slot in order and make a batch each; the worker
//! takes them in order. There are `ahead + 1` buffers, made once and handed round, so memory is
//! bounded however much slower one side is: without a free buffer nothing is read. What comes is
//! a function of the plan alone. A fault is delivered at the step it belongs to, and a worker
//! that asks for another step than the next, as after a recovery, gets that one and those after
//! it.
//!
//! One lock guards the little there is to say (which step is next, who is done); it is never held
//! while an example is made.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::batch::BatchBuffer;
use crate::batch_builder::{BatchBuilder, SkippedExamples, SlotBatches};
use crate::error::DataError;
use crate::on_bad::OnBad;

/// How a loader works.
#[derive(Clone, Copy, Debug)]
pub struct LoaderOptions {
    /// How many batches are made before they are asked for; one more is with the worker.
    pub ahead: usize,
    /// Threads that make them, each a batch at a time; never more than `ahead`.
    pub threads: usize,
    /// What is done about bad examples.
    pub on_bad: OnBad,
    /// How long a batch is waited for.
    pub timeout_s: u64,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { ahead: 2, threads: 1, on_bad: OnBad::Fail, timeout_s: 300 }
    }
}

/// Called with a step and the times when a thread started and finished building its batch.
pub type ReadObserver = Arc<dyn Fn(u64, Instant, Instant) + Send + Sync>;

/// The generation in which threads end.
const OVER: u64 = u64::MAX;

/// Makes a slot's batches ahead of its steps. See the module's text.
#[derive(Debug)]
pub struct Loader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    timeout: Duration,
    /// The batch that the worker has.
    current: Option<BatchBuffer>,
    skipped: SkippedExamples,
}

impl Loader {
    /// Starts building a slot's batches, from `first_step` on.
    ///
    /// # Panics
    /// If `ahead` or `threads` is zero, or the system cannot start a thread.
    pub fn new(batches: SlotBatches, first_step: u64, options: LoaderOptions) -> Self {
        Self::with_observer(batches, first_step, options, None)
    }

    /// As [`new`](Self::new), and calls an observer after each batch.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_observer(
        batches: SlotBatches,
        first_step: u64,
        options: LoaderOptions,
        observer: Option<ReadObserver>,
    ) -> Self {
        let LoaderOptions { ahead, threads, on_bad, timeout_s } = options;
        assert!(ahead > 0 && threads > 0, "a loader without threads or buffers");
        let free = (0..=ahead).map(|_| BatchBuffer::default()).collect();
        let state = State { next: first_step, wanted: first_step, ready: Vec::new(), free };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            generation: AtomicU64::new(0),
            hangs: AtomicBool::new(false),
            has_work: Condvar::new(),
            has_batch: Condvar::new(),
        });
        let start = |number| {
            let builder = BatchBuilder { batches: batches.clone(), on_bad };
            let (shared, observer) = (shared.clone(), observer.clone());
            let thread = thread::Builder::new().name(format!("loader-{number}"));
            match thread.spawn(move || shared.work(&builder, observer.as_ref())) {
                Ok(handle) => handle,
                Err(error) => panic!("no thread to read examples with: {error}"),
            }
        };
        let threads = (0..threads.min(ahead)).map(start).collect();
        let timeout = Duration::from_secs(timeout_s);
        let skipped = SkippedExamples::default();
        Self { shared, threads, timeout, current: None, skipped }
    }

    /// The batch of a step, empty when the plan is over. Those of the steps after it are made
    /// meanwhile. The batch of the last call is given up.
    ///
    /// # Errors
    /// If an example of this step cannot be read and none may stand in for it, or nothing comes
    /// for too long.
    pub fn batch(&mut self, step: u64) -> Result<&BatchBuffer, DataError> {
        let mut state = self.shared.lock();
        state.free.extend(self.current.take());
        if !state.wants(step) {
            // What is being made belongs to steps that nobody asks for any more.
            self.shared.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.has_work.notify_all();
        let ready = self.wait(state, step)?;
        // Given back with the next call, whatever is in it.
        let buffer = self.current.insert(ready.buffer);
        match ready.outcome {
            Outcome::Made(skipped) => self.skipped.add(skipped),
            Outcome::Failed(error) => return Err(error),
            Outcome::Panicked(cause) => resume_unwind(cause),
        }
        Ok(buffer)
    }

    /// Waits for the batch of a step.
    fn wait(&self, mut state: MutexGuard<'_, State>, step: u64) -> Result<Ready, DataError> {
        let start = Instant::now();
        loop {
            if let Some(ready) = state.take(step) {
                return Ok(ready);
            }
            let left = self.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                self.shared.hangs.store(true, Ordering::Relaxed);
                return Err(DataError::Slow { step, waited_s: self.timeout.as_secs() });
            }
            let waited = self.shared.has_batch.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The bad examples in the batches that were handed out so far.
    pub fn skipped(&self) -> &SkippedExamples {
        &self.skipped
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Under the lock, or a thread could miss it between looking and going to sleep.
        let state = self.shared.lock();
        self.shared.generation.store(OVER, Ordering::Relaxed);
        drop(state);
        self.shared.has_work.notify_all();
        if !self.shared.hangs.load(Ordering::Relaxed) {
            for thread in self.threads.drain(..) {
                // A thread hands over its panics as outcomes; there is nothing left to say here.
                let _ = thread.join();
            }
        }
    }
}

/// What the worker and the threads have in common.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Counts how often the worker went elsewhere. Written under the lock; read without it by
    /// threads at work, to whom it matters only that they give up soon.
    generation: AtomicU64,
    /// Whether a thread hangs in the system, so that waiting for its end could be for ever.
    hangs: AtomicBool,
    has_work: Condvar,
    has_batch: Condvar,
}

#[derive(Debug)]
struct State {
    /// The step that the next free thread takes.
    next: u64,
    /// The step that the worker asks for next.
    wanted: u64,
    ready: Vec<Ready>,
    free: Vec<BatchBuffer>,
}

/// A step's batch. One that failed keeps its buffer, too: where every step fails, the buffers are
/// what stops the threads from collecting failures for ever.
#[derive(Debug)]
struct Ready {
    step: u64,
    buffer: BatchBuffer,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Made(SkippedExamples),
    Failed(DataError),
    Panicked(Box<dyn Any + Send>),
}

impl State {
    /// Goes to a step that the worker asks for; false if that is none of those at hand.
    fn wants(&mut self, step: u64) -> bool {
        let at_hand = (self.wanted..=self.next).contains(&step);
        let free = &mut self.free;
        let given_up = self.ready.extract_if(.., |ready| !at_hand || ready.step < step);
        free.extend(given_up.map(|ready| ready.buffer));
        if !at_hand {
            self.next = step;
        }
        self.wanted = step;
        at_hand
    }

    /// Hands out the batch of the wanted step if it is there.
    fn take(&mut self, step: u64) -> Option<Ready> {
        let place = self.ready.iter().position(|ready| ready.step == step)?;
        self.wanted = step.saturating_add(1);
        Some(self.ready.swap_remove(place))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under the lock can leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life: makes batch after batch until the loader is dropped.
    fn work(&self, builder: &BatchBuilder, observer: Option<&ReadObserver>) {
        let mut state = self.lock();
        loop {
            let generation = self.generation.load(Ordering::Relaxed);
            if generation == OVER {
                return;
            }
            let Some(mut buffer) = state.free.pop() else {
                state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let step = state.next;
            state.next = step.saturating_add(1);
            drop(state);

            let given_up = || self.generation.load(Ordering::Relaxed) != generation;
            let begun = observer.map(|_| Instant::now());
            let made =
                catch_unwind(AssertUnwindSafe(|| builder.build(step, &mut buffer, given_up)));
            if let (Some(observer), Some(begun)) = (observer, begun) {
                observer(step, begun, Instant::now());
            }

            state = self.lock();
            if given_up() || step < state.wanted {
                state.free.push(buffer);
                continue;
            }
            let outcome = match made {
                Ok(Ok(skipped)) => Outcome::Made(skipped),
                Ok(Err(error)) => Outcome::Failed(error),
                Err(cause) => Outcome::Panicked(cause),
            };
            state.ready.push(Ready { step, buffer, outcome });
            self.has_batch.notify_one();
        }
    }
}
