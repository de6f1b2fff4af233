//! Threads that take lanes of a batch off the caller's hands.
//!
//! A step takes some fifty microseconds, less than it can take to wake a thread. So a helper looks
//! out for the next batch for a while before it goes to sleep, and nobody waits for one that is
//! asleep: whoever is free takes the next lane, the caller too, until there is none left. The
//! caller then waits only for lanes that somebody is at work on, and only while that somebody lives.
//!
//! What helpers read is copied to them (31 kB for MNIST) or shared for good (the images).

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::lane::{LANES, Lane, Task};
use crate::SharedPatches;
use crate::kernels::{Lines, PatchView};

/// How often a helper looks out for work before it goes to sleep: for some 0.1 ms.
const LOOKS: u32 = 100;
/// Looks between two offers of the core to others.
const SPINS: u32 = 64;
/// How long a helper sleeps at most before it looks out again.
const NAP: Duration = Duration::from_secs(1);

/// What is to be done with a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Gradient,
    Score,
}

/// Helpers, and what they share with the caller.
pub(super) struct Gang {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Written by the caller between two batches, read by whoever is at work.
    order: RwLock<Order>,
    /// Counts the orders.
    issued: AtomicU64,
    /// The next lane that nobody has taken, and how many are done.
    next: AtomicUsize,
    done: AtomicUsize,
    lanes: [Mutex<Lane>; LANES],
    sleepers: AtomicUsize,
    over: AtomicBool,
}

/// A task that owns, or shares, what it is about.
struct Order {
    wanted: Wanted,
    sizes: (usize, usize),
    params: Lines,
    words: Arc<dyn AsRef<[u64]> + Send + Sync>,
    starts: Arc<Vec<u32>>,
    which: Vec<u32>,
    labels: Vec<u32>,
    share: f32,
}

impl Order {
    fn none() -> Self {
        Self {
            wanted: Wanted::Score,
            sizes: (0, 0),
            params: Lines::default(),
            words: Arc::new(Vec::new()),
            starts: Arc::default(),
            which: Vec::new(),
            labels: Vec::new(),
            share: 0.0,
        }
    }

    fn task(&self) -> Task<'_> {
        Task {
            inputs: self.sizes.0,
            classes: self.sizes.1,
            params: &self.params,
            images: PatchView {
                words: (*self.words).as_ref(),
                starts: &self.starts,
                which: &self.which,
            },
            labels: &self.labels,
            share: self.share,
        }
    }

    /// Takes over a task on images that are shared.
    fn set(&mut self, wanted: Wanted, task: &Task<'_>, images: SharedPatches<'_>) {
        self.wanted = wanted;
        self.sizes = (task.inputs, task.classes);
        self.params.copy_from(task.params);
        copy(task.images.which, &mut self.which);
        copy(task.labels, &mut self.labels);
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

impl Gang {
    /// Starts so many helpers; the system may refuse.
    pub(super) fn new(helpers: usize) -> Result<Self, String> {
        let shared = Arc::new(Shared {
            order: RwLock::new(Order::none()),
            issued: AtomicU64::new(0),
            next: AtomicUsize::new(LANES),
            done: AtomicUsize::new(0),
            lanes: Default::default(),
            sleepers: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let mut gang = Self { shared, helpers: Vec::new() };
        for number in 0..helpers {
            let shared = Arc::clone(&gang.shared);
            let thread = thread::Builder::new().name(format!("gang-{number}"));
            let helper = thread.spawn(move || shared.help()).map_err(|error| error.to_string())?;
            gang.helpers.push(helper);
        }
        Ok(gang)
    }

    /// Has all lanes of a task but the first done, which `first` does on this thread.
    pub(super) fn work(
        &mut self,
        wanted: Wanted,
        task: &Task<'_>,
        images: SharedPatches<'_>,
        first: impl FnOnce(&Task<'_>),
    ) {
        let shared = &*self.shared;
        {
            let mut order = shared.order.write().unwrap_or_else(PoisonError::into_inner);
            order.set(wanted, task, images);
            shared.done.store(1, Ordering::Relaxed);
            shared.next.store(1, Ordering::Relaxed);
        }
        shared.issued.fetch_add(1, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.helpers.iter().for_each(|helper| helper.thread().unpark());
        }
        {
            let order = shared.order();
            first(&order.task());
        }
        shared.take_lanes();
        let mut looks = 0;
        while shared.done.load(Ordering::Acquire) < task.lanes() {
            pause(&mut looks);
            let is_alone = looks % LOOKS == 0 && self.helpers.iter().any(JoinHandle::is_finished);
            assert!(!is_alone, "a thread of the model has panicked");
        }
    }

    /// A lane of the last task.
    pub(super) fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        self.shared.lane(lane)
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // If it has panicked, it has said so.
            let _ = helper.join();
        }
    }
}

impl Shared {
    fn order(&self) -> RwLockReadGuard<'_, Order> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does lane after lane until none is left that nobody has taken. The order cannot change
    /// meanwhile.
    fn take_lanes(&self) {
        let order = self.order();
        let task = order.task();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= task.lanes() {
                return;
            }
            let mut lane = self.lane(index);
            match order.wanted {
                Wanted::Gradient => lane.gradient(&task, index),
                Wanted::Score => lane.evaluate(&task, index),
            }
            drop(lane);
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// A helper's life.
    fn help(&self) {
        let (mut seen, mut looks) = (0, 0);
        while !self.over.load(Ordering::SeqCst) {
            let issued = self.issued.load(Ordering::SeqCst);
            if issued != seen {
                (seen, looks) = (issued, 0);
                self.take_lanes();
            } else if looks < LOOKS {
                pause(&mut looks);
            } else {
                // Whoever issues an order looks for sleepers after that, so one of the two sees
                // the other.
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                let is_idle = self.issued.load(Ordering::SeqCst) == seen;
                if is_idle && !self.over.load(Ordering::SeqCst) {
                    thread::park_timeout(NAP);
                }
                self.sleepers.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }
}

/// Lets a moment pass.
fn pause(looks: &mut u32) {
    (0..SPINS).for_each(|_| spin_loop());
    *looks = looks.wrapping_add(1);
    thread::yield_now();
}
