//! Threads that compute lanes of a batch for the caller.
//!
//! A step takes about fifty microseconds, less than it can take to wake a thread. So a helper
//! thread spins for a while before it sleeps, and the caller never waits for a sleeping helper:
//! every free thread, the caller included, takes the next lane until none is left. The caller then
//! waits only for lanes that a helper has taken, and only while all helpers are alive.
//!
//! Helpers read a copy of the parameters (31 kB for MNIST) and share the images.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::lane::{LANES, Lane, LaneTask};
use crate::batch::SharedPatches;
use crate::kernels::{AlignedBuffer, PatchView};

/// How often a helper checks for work before it sleeps: for about 0.1 ms.
const CHECKS: u32 = 100;
/// Spins between two checks, each of which also yields the core.
const SPINS: u32 = 64;
/// The longest sleep of a helper before it checks for work again.
const NAP: Duration = Duration::from_secs(1);

/// How the names of threads that compute beside the caller begin.
pub const HELPER_THREADS: &str = "softmax-";

/// What to compute for a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneWork {
    Gradient,
    Score,
}

/// Helper threads, and the state they share with the caller.
pub(super) struct SpinPool {
    state: Arc<SpinPoolState>,
    helpers: Vec<JoinHandle<()>>,
}

struct SpinPoolState {
    /// The caller writes it between two batches; threads read it while they work.
    order: RwLock<LaneOrder>,
    /// The number of orders so far.
    issued: AtomicU64,
    /// The next lane to take.
    next: AtomicUsize,
    /// The number of finished lanes.
    done: AtomicUsize,
    lanes: [Mutex<Lane>; LANES],
    sleepers: AtomicUsize,
    is_closing: AtomicBool,
}

/// A task that owns, or shares, its inputs.
struct LaneOrder {
    work: LaneWork,
    inputs: usize,
    classes: usize,
    params: AlignedBuffer,
    words: Arc<dyn AsRef<[u64]> + Send + Sync>,
    starts: Arc<Vec<u32>>,
    which: Vec<u32>,
    labels: Vec<u32>,
    weights: Vec<f32>,
    share: f32,
}

impl LaneOrder {
    fn empty() -> Self {
        Self {
            work: LaneWork::Score,
            inputs: 0,
            classes: 0,
            params: AlignedBuffer::default(),
            words: Arc::new(Vec::new()),
            starts: Arc::default(),
            which: Vec::new(),
            labels: Vec::new(),
            weights: Vec::new(),
            share: 0.0,
        }
    }

    fn task(&self) -> LaneTask<'_> {
        LaneTask {
            inputs: self.inputs,
            classes: self.classes,
            params: &self.params,
            images: PatchView {
                words: (*self.words).as_ref(),
                starts: &self.starts,
                which: &self.which,
            },
            labels: &self.labels,
            weights: &self.weights,
            share: self.share,
        }
    }

    /// Copies a task, except its images, which are shared.
    fn set(&mut self, work: LaneWork, task: &LaneTask<'_>, images: SharedPatches<'_>) {
        self.work = work;
        (self.inputs, self.classes) = (task.inputs, task.classes);
        self.params.copy_from(task.params);
        copy(task.images.which, &mut self.which);
        copy(task.labels, &mut self.labels);
        copy(task.weights, &mut self.weights);
        if !Arc::ptr_eq(&self.starts, images.starts) {
            self.words = Arc::clone(images.words);
            self.starts = Arc::clone(images.starts);
        }
        self.share = task.share;
    }
}

fn copy<T: Copy>(from: &[T], to: &mut Vec<T>) {
    to.clear();
    to.extend_from_slice(from);
}

impl SpinPool {
    /// Starts the helpers, which the system may refuse.
    pub(super) fn new(helpers: usize) -> Result<Self, String> {
        let state = Arc::new(SpinPoolState {
            order: RwLock::new(LaneOrder::empty()),
            issued: AtomicU64::new(0),
            next: AtomicUsize::new(LANES),
            done: AtomicUsize::new(0),
            lanes: Default::default(),
            sleepers: AtomicUsize::new(0),
            is_closing: AtomicBool::new(false),
        });
        let mut spin_pool = Self { state, helpers: Vec::new() };
        for number in 0..helpers {
            let state = Arc::clone(&spin_pool.state);
            let thread = thread::Builder::new().name(format!("{HELPER_THREADS}{number}"));
            let helper = thread.spawn(move || state.help()).map_err(|error| error.to_string())?;
            spin_pool.helpers.push(helper);
        }
        Ok(spin_pool)
    }

    /// Computes all lanes of a task. The caller's thread computes the first one with `first`.
    pub(super) fn compute(
        &mut self,
        work: LaneWork,
        task: &LaneTask<'_>,
        images: SharedPatches<'_>,
        first: impl FnOnce(&LaneTask<'_>),
    ) {
        let state = &*self.state;
        {
            let mut order = state.order.write().unwrap_or_else(PoisonError::into_inner);
            order.set(work, task, images);
            state.done.store(1, Ordering::Relaxed);
            state.next.store(1, Ordering::Relaxed);
        }
        state.issued.fetch_add(1, Ordering::SeqCst);
        if state.sleepers.load(Ordering::SeqCst) > 0 {
            self.helpers.iter().for_each(|helper| helper.thread().unpark());
        }
        {
            let order = state.order();
            first(&order.task());
        }
        state.take_lanes();
        let mut checks = 0;
        while state.done.load(Ordering::Acquire) < task.lanes() {
            pause(&mut checks);
            let is_dead = checks % CHECKS == 0 && self.helpers.iter().any(JoinHandle::is_finished);
            assert!(!is_dead, "a thread of the model has panicked");
        }
    }

    /// A lane of the last task.
    pub(super) fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        self.state.lane(lane)
    }
}

impl Drop for SpinPool {
    fn drop(&mut self) {
        self.state.is_closing.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper that panicked has printed its message already.
            let _ = helper.join();
        }
    }
}

impl SpinPoolState {
    fn order(&self) -> RwLockReadGuard<'_, LaneOrder> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes and computes lanes until none is left. The order cannot change meanwhile.
    fn take_lanes(&self) {
        let order = self.order();
        let task = order.task();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= task.lanes() {
                return;
            }
            let mut lane = self.lane(index);
            match order.work {
                LaneWork::Gradient => lane.gradient(&task, index),
                LaneWork::Score => lane.evaluate(&task, index),
            }
            drop(lane);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// The loop of a helper thread.
    fn help(&self) {
        let (mut seen, mut checks) = (0, 0);
        while !self.is_closing.load(Ordering::SeqCst) {
            let issued = self.issued.load(Ordering::SeqCst);
            if issued != seen {
                (seen, checks) = (issued, 0);
                self.take_lanes();
            } else if checks < CHECKS {
                pause(&mut checks);
            } else {
                // The caller issues an order and then looks for sleepers; a helper counts itself
                // as a sleeper and then looks for orders. So one of the two sees the other.
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                let is_idle = self.issued.load(Ordering::SeqCst) == seen;
                if is_idle && !self.is_closing.load(Ordering::SeqCst) {
                    thread::park_timeout(NAP);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

/// Spins for a moment and yields the core once.
fn pause(checks: &mut u32) {
    (0..SPINS).for_each(|_| spin_loop());
    *checks = checks.wrapping_add(1);
    thread::yield_now();
}
