//! Records a task's timeline in memory: which steps, and a track for each thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_observe::trace::{Op, TraceWindow, Track};

/// Records a task's timeline.
#[derive(Debug)]
pub(crate) struct Tracer {
    window: TraceWindow,
    is_on: AtomicBool,
    /// Whether it has been on since [`was_on`](Tracer::was_on) was last called.
    was_on: AtomicBool,
    /// The tracks of threads other than the training loop.
    sides: Mutex<Vec<Arc<Mutex<Track>>>>,
}

impl Tracer {
    /// Records the steps of `window`.
    pub(crate) fn new(window: TraceWindow) -> Self {
        Self {
            window,
            is_on: AtomicBool::new(false),
            was_on: AtomicBool::new(false),
            sides: Mutex::default(),
        }
    }

    /// The steps to record.
    pub(crate) fn window(&self) -> TraceWindow {
        self.window
    }

    /// Whether the task is at one of those steps.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        self.was_on.fetch_or(on, Ordering::Relaxed);
    }

    /// Whether the task was at one of those steps since the last call.
    pub(crate) fn was_on(&self) -> bool {
        self.was_on.swap(self.is_on(), Ordering::Relaxed)
    }

    /// A track for a thread other than the training loop.
    pub(crate) fn side_track(self: &Arc<Self>, name: &str, ops: Vec<Op>) -> SideTrack {
        let track = Arc::new(Mutex::new(Track::new(name, ops)));
        lock(&self.sides).push(track.clone());
        SideTrack { tracer: self.clone(), track }
    }

    /// Calls `visit` with all tracks. `own` is the training loop's.
    pub(crate) fn with_tracks<T>(
        &self,
        own: Option<&Track>,
        visit: impl FnOnce(&[&Track]) -> T,
    ) -> T {
        let sides = lock(&self.sides);
        let sides: Vec<_> = sides.iter().map(|side| lock(side)).collect();
        let tracks: Vec<_> = own.into_iter().chain(sides.iter().map(|side| &**side)).collect();
        visit(&tracks)
    }
}

/// The track of a thread other than the training loop.
#[derive(Clone, Debug)]
pub(crate) struct SideTrack {
    tracer: Arc<Tracer>,
    track: Arc<Mutex<Track>>,
}

impl SideTrack {
    /// The track, whether or not the task is being recorded.
    pub(crate) fn track(&self) -> MutexGuard<'_, Track> {
        lock(&self.track)
    }

    /// The tracer the track belongs to.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Records the track's first operation, from `start` to `end`, if the task is being recorded.
    pub(crate) fn record(&self, step: u64, start: Instant, end: Instant) {
        if self.tracer.is_on() {
            let mut track = self.track();
            track.step = step;
            track.span(0, start, end);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
