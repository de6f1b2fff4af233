//! The tracks of one task, and whether they are being written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::track::{Op, Track};
use super::window::TraceWindow;

/// Owns the tracks of a task whose job asks for a timeline.
#[derive(Debug)]
pub struct Tracer {
    window: TraceWindow,
    is_on: AtomicBool,
    /// It has been on since [`Tracer::was_on`] was last called.
    was_on: AtomicBool,
    /// The tracks of threads other than the worker's loop.
    sides: Mutex<Vec<Arc<Mutex<Track>>>>,
}

impl Tracer {
    /// A tracer that is off, for a timeline of these steps.
    pub fn new(window: TraceWindow) -> Arc<Self> {
        Arc::new(Self {
            window,
            is_on: AtomicBool::new(false),
            was_on: AtomicBool::new(false),
            sides: Mutex::default(),
        })
    }

    /// The steps that the timeline covers.
    pub fn window(&self) -> TraceWindow {
        self.window
    }

    /// Whether the task is at a step of the window.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Turns recording on or off for all threads of the task.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        self.was_on.fetch_or(on, Ordering::Relaxed);
    }

    /// Whether recording was on at any time since the last call.
    pub fn was_on(&self) -> bool {
        self.was_on.swap(self.is_on(), Ordering::Relaxed)
    }

    /// Adds a track for a thread other than the worker's loop.
    pub fn side_track(self: &Arc<Self>, name: &str, ops: Vec<Op>) -> SideTrack {
        let track = Arc::new(Mutex::new(Track::new(name, ops)));
        lock(&self.sides).push(track.clone());
        SideTrack { tracer: self.clone(), track }
    }

    /// Passes all tracks of the task to `read`. `own` is the track of the worker's loop; it comes
    /// first.
    pub fn with_tracks<R>(&self, own: Option<&Track>, read: impl FnOnce(&[&Track]) -> R) -> R {
        let sides = lock(&self.sides);
        let sides: Vec<_> = sides.iter().map(|side| lock(side)).collect();
        let tracks: Vec<_> = own.into_iter().chain(sides.iter().map(|side| &**side)).collect();
        read(&tracks)
    }
}

/// The track of a thread other than the worker's loop.
#[derive(Clone, Debug)]
pub struct SideTrack {
    tracer: Arc<Tracer>,
    track: Arc<Mutex<Track>>,
}

impl SideTrack {
    /// The track, whether or not recording is on.
    pub fn track(&self) -> MutexGuard<'_, Track> {
        lock(&self.track)
    }

    /// The tracer of the task.
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Writes a span of the track's first operation, if recording is on.
    pub fn record(&self, step: u64, begun: Instant, ended: Instant) {
        if self.tracer.is_on() {
            let mut track = self.track();
            track.step = step;
            track.span(0, begun, ended);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
