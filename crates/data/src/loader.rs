//! Reads ahead: the batches of the next steps are built while a worker uses the current one.
//!
//! The loader's threads take the steps of one slot in order and build one batch each; the worker
//! takes the batches in order. There are `ahead + 1` buffers, allocated once and reused, so memory
//! is bounded however much slower one side is: without a free buffer, no thread reads. The batches
//! are a function of the plan alone. A failure is delivered at the step it belongs to. A worker
//! that asks for a step other than the next, for example after a recovery, gets that step and the
//! ones after it.
//!
//! One lock guards the short list of steps and buffers; no thread holds it while it builds a batch.

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

/// How a [`Loader`] works.
#[derive(Clone, Copy, Debug)]
pub struct LoaderOptions {
    /// How many batches are built before they are needed. The worker holds one more.
    pub ahead: usize,
    /// Threads that build batches; at most `ahead` of them are started.
    pub threads: usize,
    /// What to do about bad examples.
    pub on_bad: OnBad,
    /// How long a worker waits for a batch, in seconds.
    pub timeout_s: u64,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        Self { ahead: 2, threads: 1, on_bad: OnBad::Fail, timeout_s: 300 }
    }
}

/// Called with a step and the times when a thread started and finished building its batch.
pub type ReadObserver = Arc<dyn Fn(u64, Instant, Instant) + Send + Sync>;

/// The value of the generation that tells the threads to end.
const SHUTDOWN: u64 = u64::MAX;

/// Builds a slot's batches ahead of its steps, on threads of its own.
///
/// ```
/// use std::sync::Arc;
///
/// use paceline_data::{BatchPlan, Digits, Loader, LoaderOptions, SlotBatches};
///
/// let digits = Digits::generate(60, 1);
/// let plan = BatchPlan::new(digits.train.len(), 20, 1).shuffled(1).for_epochs(1);
/// let batches = SlotBatches { examples: Arc::new(digits.train), plan, slot: 0 };
/// let mut loader = Loader::new(batches, 0, LoaderOptions::default());
/// for step in 0..3 {
///     assert_eq!(loader.batch(step)?.labels.len(), 20);
/// }
/// assert!(loader.batch(3)?.labels.is_empty(), "the plan has ended");
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Debug)]
pub struct Loader {
    shared: Arc<LoaderShared>,
    threads: Vec<JoinHandle<()>>,
    timeout: Duration,
    /// The batch that the worker uses.
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
        assert!(ahead > 0 && threads > 0, "a loader needs at least one thread and one buffer");
        let free = (0..=ahead).map(|_| BatchBuffer::default()).collect();
        let queue = BatchQueue { next: first_step, wanted: first_step, built: Vec::new(), free };
        let shared = Arc::new(LoaderShared {
            queue: Mutex::new(queue),
            generation: AtomicU64::new(0),
            hangs: AtomicBool::new(false),
            buffer_free: Condvar::new(),
            batch_built: Condvar::new(),
        });
        let start = |number| {
            let builder = BatchBuilder { batches: batches.clone(), on_bad };
            let (shared, observer) = (shared.clone(), observer.clone());
            let thread = thread::Builder::new().name(format!("loader-{number}"));
            match thread.spawn(move || shared.run_thread(&builder, observer.as_ref())) {
                Ok(handle) => handle,
                Err(error) => panic!("cannot start a thread to read examples: {error}"),
            }
        };
        let threads = (0..threads.min(ahead)).map(start).collect();
        let timeout = Duration::from_secs(timeout_s);
        let skipped = SkippedExamples::default();
        Self { shared, threads, timeout, current: None, skipped }
    }

    /// The batch of a step; empty when the plan has ended. The buffer of the previous call is
    /// reused for a later step.
    ///
    /// # Errors
    /// If an example of this step cannot be read and must not be skipped, or the batch does not
    /// arrive within the timeout.
    pub fn batch(&mut self, step: u64) -> Result<&BatchBuffer, DataError> {
        let mut queue = self.shared.lock();
        queue.free.extend(self.current.take());
        if !queue.seek(step) {
            // The batches being built belong to steps that the worker no longer needs.
            self.shared.generation.fetch_add(1, Ordering::Relaxed);
        }
        self.shared.buffer_free.notify_all();
        let built = self.wait(queue, step)?;
        // The next call returns the buffer to the queue, whatever is in it.
        let buffer = self.current.insert(built.buffer);
        match built.result {
            BuildResult::Built(skipped) => self.skipped.add(skipped),
            BuildResult::Failed(error) => return Err(error),
            BuildResult::Panicked(cause) => resume_unwind(cause),
        }
        Ok(buffer)
    }

    /// Waits for the batch of a step.
    fn wait(
        &self,
        mut queue: MutexGuard<'_, BatchQueue>,
        step: u64,
    ) -> Result<BuiltBatch, DataError> {
        let start = Instant::now();
        loop {
            if let Some(built) = queue.take(step) {
                return Ok(built);
            }
            let left = self.timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                self.shared.hangs.store(true, Ordering::Relaxed);
                return Err(DataError::Slow { step, waited_s: self.timeout.as_secs() });
            }
            let waited = self.shared.batch_built.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The bad examples that were replaced in the batches handed out so far.
    pub fn skipped(&self) -> &SkippedExamples {
        &self.skipped
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Stored under the lock: a thread between its check and its wait would miss it otherwise.
        let queue = self.shared.lock();
        self.shared.generation.store(SHUTDOWN, Ordering::Relaxed);
        drop(queue);
        self.shared.buffer_free.notify_all();
        if !self.shared.hangs.load(Ordering::Relaxed) {
            for thread in self.threads.drain(..) {
                // A thread delivers its panics as results, so `join` has nothing to add.
                let _ = thread.join();
            }
        }
    }
}

/// What the worker and the loader's threads share.
#[derive(Debug)]
struct LoaderShared {
    queue: Mutex<BatchQueue>,
    /// Counts how often the worker jumped to another step. Written under the lock. Threads read it
    /// without the lock while they build a batch, to cancel a build that is no longer needed.
    generation: AtomicU64,
    /// Whether a thread may be stuck in a system call, so that joining it could take forever.
    hangs: AtomicBool,
    buffer_free: Condvar,
    batch_built: Condvar,
}

#[derive(Debug)]
struct BatchQueue {
    /// The step that the next free thread takes.
    next: u64,
    /// The step that the worker is expected to ask for next.
    wanted: u64,
    built: Vec<BuiltBatch>,
    free: Vec<BatchBuffer>,
}

/// The batch of a step. A failed one holds a buffer too: where every step fails, running out of
/// buffers stops the threads from collecting failures without limit.
#[derive(Debug)]
struct BuiltBatch {
    step: u64,
    buffer: BatchBuffer,
    result: BuildResult,
}

#[derive(Debug)]
enum BuildResult {
    Built(SkippedExamples),
    Failed(DataError),
    Panicked(Box<dyn Any + Send>),
}

impl BatchQueue {
    /// Moves to the step that the worker asks for. Returns false if that step is neither built nor
    /// being built nor the next one.
    fn seek(&mut self, step: u64) -> bool {
        let in_reach = (self.wanted..=self.next).contains(&step);
        let free = &mut self.free;
        let dropped = self.built.extract_if(.., |built| !in_reach || built.step < step);
        free.extend(dropped.map(|built| built.buffer));
        if !in_reach {
            self.next = step;
        }
        self.wanted = step;
        in_reach
    }

    /// Takes the batch of the wanted step, if it is built.
    fn take(&mut self, step: u64) -> Option<BuiltBatch> {
        let index = self.built.iter().position(|built| built.step == step)?;
        self.wanted = step.saturating_add(1);
        Some(self.built.swap_remove(index))
    }
}

impl LoaderShared {
    fn lock(&self) -> MutexGuard<'_, BatchQueue> {
        // No code under the lock can panic halfway through an update.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Builds batch after batch until the loader is dropped.
    fn run_thread(&self, builder: &BatchBuilder, observer: Option<&ReadObserver>) {
        let mut queue = self.lock();
        loop {
            let generation = self.generation.load(Ordering::Relaxed);
            if generation == SHUTDOWN {
                return;
            }
            let Some(mut buffer) = queue.free.pop() else {
                queue = self.buffer_free.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let step = queue.next;
            queue.next = step.saturating_add(1);
            drop(queue);

            let cancelled = || self.generation.load(Ordering::Relaxed) != generation;
            let start = observer.map(|_| Instant::now());
            let built =
                catch_unwind(AssertUnwindSafe(|| builder.build(step, &mut buffer, cancelled)));
            if let (Some(observer), Some(start)) = (observer, start) {
                observer(step, start, Instant::now());
            }

            queue = self.lock();
            if cancelled() || step < queue.wanted {
                queue.free.push(buffer);
                continue;
            }
            let result = match built {
                Ok(Ok(skipped)) => BuildResult::Built(skipped),
                Ok(Err(error)) => BuildResult::Failed(error),
                Err(cause) => BuildResult::Panicked(cause),
            };
            queue.built.push(BuiltBatch { step, buffer, result });
            self.batch_built.notify_one();
        }
    }
}
