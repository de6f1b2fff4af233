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
    ready: Duration,
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
        Some(now.ready.saturating_sub(begun.ready).saturating_sub(ignored))
    }
}

impl ThreadDelay {
    fn now() -> Option<Self> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Self { ready: parse(&text)?, ignored: IGNORED.with(Cell::get) })
    }
}

/// The second figure, in nanoseconds. Kernels that do not count have three zeros.
fn parse(schedstat: &str) -> Option<Duration> {
    let mut fields = schedstat.split_ascii_whitespace().map(str::parse::<u64>);
    let on_core = fields.next()?.ok()?;
    let ready = fields.next()?.ok()?;
    let turns = fields.next()?.ok()?;
    (on_core > 0 || ready > 0 || turns > 0).then(|| Duration::from_nanos(ready))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_second_figure_is_the_delay_and_zeros_are_no_figures() {
        assert_eq!(parse("139697 81782 2\n"), Some(Duration::from_nanos(81_782)));
        for none in ["", "0 0 0", "1", "1 x 2", "1 2"] {
            assert_eq!(parse(none), None, "{none:?}");
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
                delay.elapsed().unwrap_or_default()
            });
            let delayed = busy.join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert!(delayed > Duration::from_millis(100), "{delayed:?}");
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
