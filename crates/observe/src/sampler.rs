//! The thread that samples the task and its machine at a fixed interval.
//!
//! Each sample goes to the function given to [`Sampler::start`] at once, on the sampler's thread,
//! so that a table on disk is complete whenever and however the task ends. Samples also wait in
//! memory for the thread that writes the task's event file, which must have one writer only, and
//! their means and peaks are kept for the run's summary.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::resources::{Gauges, Meter, Sample, TimedSample, Usage, columns};

/// The most samples that wait to be taken; beyond it the oldest are dropped.
const MAX_WAITING: usize = 600;
/// The most samples that are kept for a timeline.
const MAX_KEPT: usize = 10_000;
/// Limits for the shortest first or last sample. Figures of a few milliseconds would show the
/// clock's resolution, and those of a small part of an interval are mostly chance.
const SHORTEST: Duration = Duration::from_millis(20);
const SHORTEST_OF_LONG: Duration = Duration::from_millis(250);
/// The shortest first or last sample is this part of the interval, within these limits.
const SHORTEST_PART: u32 = 4;

/// Samples this process and its machine until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<SamplerState>,
    /// Asks for a sample at once; dropped to end the thread.
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct SamplerState {
    gauges: Gauges,
    /// Samples wait to be taken.
    has_news: AtomicBool,
    samples: Mutex<Samples>,
}

struct Samples {
    meter: Meter,
    /// The shortest first or last sample.
    shortest: Duration,
    on_sample: Box<dyn FnMut(&Sample) + Send>,
    waiting: VecDeque<Sample>,
    usage: Usage,
    columns: Vec<String>,
    /// Samples for the timeline, while it is recorded.
    kept: Option<Vec<Sample>>,
}

impl Sampler {
    /// Starts to sample at this interval and passes each sample to `on_sample`. `peers` are the
    /// other tasks that this one exchanges bytes with; see [`columns`].
    pub fn start(
        every: Duration,
        peers: &[String],
        on_sample: impl FnMut(&Sample) + Send + 'static,
    ) -> io::Result<Self> {
        let columns = columns(peers);
        let gauges = Gauges::of_peers(peers.len());
        let meter = Meter::start("/".as_ref(), &gauges);
        let samples = Samples {
            usage: Usage::of_cores(meter.cores(), columns.len()),
            meter,
            shortest: (every / SHORTEST_PART).clamp(SHORTEST, SHORTEST_OF_LONG),
            on_sample: Box::new(on_sample),
            waiting: VecDeque::new(),
            columns,
            kept: None,
        };
        let has_news = AtomicBool::new(false);
        let shared = Arc::new(SamplerState { gauges, has_news, samples: Mutex::new(samples) });
        let (alive, ended) = channel::<()>();
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("sampler".into()).spawn(move || {
            while ended.recv_timeout(every) != Err(RecvTimeoutError::Disconnected) {
                theirs.sample();
            }
        })?;
        Ok(Self { shared, alive: Some(alive), thread: Some(thread) })
    }

    /// The gauges that the task sets: its global step and the bytes it moved.
    #[inline]
    pub fn gauges(&self) -> &Gauges {
        &self.shared.gauges
    }

    /// Whether there are samples to take. Costs one relaxed atomic load.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.shared.has_news.load(Ordering::Relaxed)
    }

    /// Takes the samples since the last call, the oldest first.
    pub fn take(&self) -> Vec<Sample> {
        let mut samples = self.shared.samples();
        self.shared.has_news.store(false, Ordering::Relaxed);
        samples.waiting.drain(..).collect()
    }

    /// The names of a sample's figures, in their order.
    pub fn columns(&self) -> Vec<String> {
        self.shared.samples().columns.clone()
    }

    /// Marks the beginning or end of a timeline: the thread samples at once, and samples are kept
    /// for the timeline from now on.
    pub fn mark_timeline(&self) {
        self.shared.samples().kept.get_or_insert_with(Vec::new);
        let _ = self.alive.as_ref().map(|alive| alive.send(()));
    }

    /// Takes the samples that were kept for the timeline, with one of this moment.
    pub fn take_timeline_samples(&self) -> Vec<Sample> {
        self.shared.sample();
        self.shared.samples().kept.take().unwrap_or_default()
    }

    /// Takes a sample of the time so far, and then starts means and peaks anew.
    pub fn begin(&self) {
        let is_due = |samples: &Samples| samples.meter.age() >= samples.shortest;
        if is_due(&self.shared.samples()) {
            self.shared.sample();
        }
        let mut samples = self.shared.samples();
        samples.meter.restart(&self.shared.gauges);
        samples.usage.begin_again();
    }

    /// Means and peaks up to now, including a last sample.
    pub fn usage(&self) -> Usage {
        let is_due = |samples: &Samples| {
            samples.usage.samples == 0 || samples.meter.age() >= samples.shortest
        };
        if is_due(&self.shared.samples()) {
            self.shared.sample();
        }
        self.shared.samples().usage.clone()
    }
}

impl Sampler {
    /// Stops sampling. Samples that wait can still be taken.
    pub fn stop(&mut self) {
        self.alive = None;
        // A sampler that has panicked must not take the task with it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SamplerState {
    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self) {
        let mut samples = self.samples();
        let TimedSample { sample, passed } = samples.meter.sample(&self.gauges);
        samples.usage.add(&sample.figures, passed.as_secs_f64());
        (samples.on_sample)(&sample);
        if let Some(kept) = samples.kept.as_mut().filter(|kept| kept.len() < MAX_KEPT) {
            kept.push(sample.clone());
        }
        if samples.waiting.len() == MAX_WAITING {
            samples.waiting.pop_front();
        }
        samples.waiting.push_back(sample);
        self.has_news.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for SamplerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SamplerState").field("gauges", &self.gauges).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A sampler, and the samples that it passed on.
    fn start(every: Duration) -> (Sampler, Arc<Mutex<Vec<Sample>>>) {
        let passed = Arc::new(Mutex::new(Vec::new()));
        let sink = passed.clone();
        let on_sample = move |sample: &Sample| sink.lock().unwrap().push(sample.clone());
        (Sampler::start(every, &[], on_sample).unwrap(), passed)
    }

    #[test]
    fn samples_are_passed_on_at_once_and_can_be_taken_later() {
        let (sampler, passed) = start(Duration::from_millis(1));
        sampler.gauges().at_step(42);
        let mut taken = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while taken.len() < 5 && Instant::now() < deadline {
            if sampler.has_news() {
                taken.extend(sampler.take());
            }
        }
        let passed = passed.lock().unwrap();
        assert!(passed.len() >= 5);
        assert_eq!(taken, passed[..taken.len()]);
        assert_eq!(passed[passed.len() - 1].step, 42);
    }

    #[test]
    fn the_beginning_is_no_sample_unless_time_has_passed_before_it() {
        let begun = Instant::now();
        let (sampler, passed) = start(Duration::from_secs(3600));
        sampler.begin();
        // The machine may be busy.
        let is_early = begun.elapsed() < SHORTEST_OF_LONG;
        assert!(passed.lock().unwrap().is_empty() || !is_early, "{passed:?}");
        thread::sleep(SHORTEST_OF_LONG);
        sampler.begin();
        let samples = passed.lock().unwrap().len();
        assert!(samples == 1 || !is_early, "{samples}");
        assert_eq!(sampler.usage().samples, 1);
    }

    #[test]
    fn the_end_is_no_sample_if_little_time_has_passed_since_the_last() {
        let begun = Instant::now();
        let (sampler, _) = start(Duration::from_secs(3600));
        assert_eq!(sampler.usage().samples, 1, "a task has one sample at least");
        let again = sampler.usage().samples;
        assert!(again == 1 || begun.elapsed() >= SHORTEST_OF_LONG, "{again}");
        thread::sleep(SHORTEST_OF_LONG);
        assert_eq!(sampler.usage().samples, again + 1);
    }

    #[test]
    fn a_task_that_ends_before_the_first_sample_has_usage_too() {
        let (sampler, passed) = start(Duration::from_secs(3600));
        assert!(passed.lock().unwrap().is_empty());
        let usage = sampler.usage();
        assert_eq!((usage.samples, passed.lock().unwrap().len()), (1, 1));
        assert!(usage.cores >= 0.01 && usage.means()[14] > 0.0, "{usage:?}");
        let begun = Instant::now();
        drop(sampler);
        assert!(begun.elapsed() < Duration::from_secs(60), "the thread is not waited for");
    }
}
