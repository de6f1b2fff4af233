//! How long a thread was ready to run but had no core.
//!
//! Linux counts this for every thread in `/proc/thread-self/schedstat`: nanoseconds on a core,
//! nanoseconds ready without one, and the number of turns. A thread that sleeps until a peer
//! answers is not ready, so the count separates a lack of cores from a slow peer. Where the file
//! is missing nothing is known, and nothing is said about cores.
//!
//! A thread that yields its core while it spins is ready too, but has nothing to do there. The code
//! that spins reports such time by [`ignore`], and [`RunDelay`] leaves it out.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

thread_local! {
    /// Time without a core in which this thread had nothing to do.
    static IGNORED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Leaves `time` out of this thread's run delay: it gave its core up because it had nothing to do.
pub fn ignore(time: Duration) {
    IGNORED.with(|ignored| ignored.set(ignored.get().saturating_add(time)));
}

/// The run delay of one thread since it was created there.
#[derive(Clone, Copy, Debug)]
pub struct RunDelay {
    begun: Option<ThreadDelay>,
}

#[derive(Clone, Copy, Debug)]
struct ThreadDelay {
    times: ThreadTimes,
    ignored: Duration,
}

impl RunDelay {
    /// Starts to measure the calling thread.
    pub fn start() -> Self {
        Self { begun: ThreadDelay::now() }
    }

    /// How long the calling thread, which must be the one that started to measure, was ready
    /// without a core since then; `None` if the system does not count it.
    pub fn elapsed(&self) -> Option<Duration> {
        let (begun, now) = (self.begun?, ThreadDelay::now()?);
        let ignored = now.ignored.saturating_sub(begun.ignored);
        Some(now.times.since(&begun.times).ready.saturating_sub(ignored))
    }

    /// How long the calling thread was on a core since then.
    pub fn on_core(&self) -> Option<Duration> {
        let (begun, now) = (self.begun?, ThreadDelay::now()?);
        Some(now.times.since(&begun.times).on_core)
    }
}

impl ThreadDelay {
    fn now() -> Option<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Self { times: ThreadTimes::parse(&text)?, ignored: IGNORED.with(Cell::get) })
    }
}

/// What Linux counts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) on_core: Duration,
    /// Ready to run but without a core.
    pub(crate) ready: Duration,
}

impl ThreadTimes {
    /// The first two figures of a `schedstat` file. Kernels that do not count have three zeros.
    pub(crate) fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_ascii_whitespace().map(str::parse::<u64>);
        let on_core = fields.next()?.ok()?;
        let ready = fields.next()?.ok()?;
        let turns = fields.next()?.ok()?;
        let [on_core_time, ready_time] = [on_core, ready].map(Duration::from_nanos);
        let counts = on_core > 0 || ready > 0 || turns > 0;
        counts.then_some(Self { on_core: on_core_time, ready: ready_time })
    }

    /// The time in which the thread ran or wanted to.
    pub(crate) fn wanted(&self) -> Duration {
        self.on_core + self.ready
    }

    /// The times since `begun`.
    pub(crate) fn since(&self, begun: &Self) -> Self {
        Self {
            on_core: self.on_core.saturating_sub(begun.on_core),
            ready: self.ready.saturating_sub(begun.ready),
        }
    }

    /// The times of two threads together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self { on_core: self.on_core + other.on_core, ready: self.ready + other.ready }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_second_figure_is_the_delay_and_zeros_are_no_figures() {
        let [on_core, ready] = [139_697, 81_782].map(Duration::from_nanos);
        let times = ThreadTimes { on_core, ready };
        assert_eq!(ThreadTimes::parse("139697 81782 2\n"), Some(times));
        for none in ["", "0 0 0", "1", "1 x 2", "1 2"] {
            assert_eq!(ThreadTimes::parse(none), None, "{none:?}");
        }
    }

    #[test]
    fn threads_without_enough_cores_are_delayed_and_sleepers_are_not() {
        if ThreadDelay::now().is_none() {
            return;
        }
        let is_over = AtomicBool::new(false);
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 0..2 * cores {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let busy = scope.spawn(|| {
                let delay = RunDelay::start();
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(400) {
                    std::hint::spin_loop();
                }
                let on_core = delay.on_core().unwrap_or_default();
                (delay.elapsed().unwrap_or_default(), on_core, begun.elapsed())
            });
            let (delayed, on_core, all) = busy.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(delayed > Duration::from_millis(100), "{delayed:?}");
            assert!(!on_core.is_zero() && on_core < all, "{on_core:?} of {all:?}");
        });
        let delay = RunDelay::start();
        thread::sleep(Duration::from_millis(100));
        assert!(delay.elapsed().unwrap_or_default() < Duration::from_millis(90));
    }

    #[test]
    fn ignored_time_is_left_out() {
        let delay = RunDelay::start();
        ignore(Duration::from_secs(3600));
        assert!(delay.elapsed().is_none_or(|delay| delay.is_zero()));
    }
}
