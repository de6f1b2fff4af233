//! How long the threads that compute for a training loop had no core.
//!
//! The loop of a network hands its arithmetic to threads of its own and sleeps until they are done;
//! that of softmax regression shares it with helpers. The loop's own run delay says nothing about
//! these threads. They are known by their names, and their times by `/proc/self/task`: the share of
//! the time in which they wanted to run but had no core is the share of the computation that a lack
//! of cores cost. Threads that sleep, such as those of a test that is over, count for nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use paceline_model::{HELPER_THREADS, POOL_THREADS};

use crate::run_delay::ThreadTimes;

/// Measures the threads that compute for the loops of this process.
#[derive(Clone, Debug, Default)]
pub struct ComputeDelay {
    begun: BTreeMap<OsString, ComputeThread>,
}

/// A thread that computes for a loop.
#[derive(Clone, Copy, Debug)]
struct ComputeThread {
    times: ThreadTimes,
    /// Whether the loop's thread computes as well.
    is_helper: bool,
}

impl ComputeDelay {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { begun: compute_threads() }
    }

    /// The part of a computation of this length, since the start, that lacked a core; zero if no
    /// other thread computes or the system does not count.
    pub fn part_of(&self, computed: Duration) -> Duration {
        let mut all = ThreadTimes::default();
        let (mut count, mut helpers) = (0_u32, 0_u32);
        for (thread, now) in compute_threads() {
            let begun = self.begun.get(&thread).map_or(ThreadTimes::default(), |it| it.times);
            let spent = now.times.since(&begun);
            if spent.wanted().is_zero() {
                continue;
            }
            all = all.plus(&spent);
            count += 1;
            helpers += u32::from(now.is_helper);
        }
        if all.wanted().is_zero() {
            return Duration::ZERO;
        }
        let share = all.ready.as_secs_f64() / all.wanted().as_secs_f64();
        // Without its helpers a loop still computes, on its own thread.
        let loops = u32::from(helpers > 0);
        computed.mul_f64(share * f64::from(count) / f64::from(count + loops))
    }
}

/// The threads of this process that compute for a loop, and their times so far.
fn compute_threads() -> BTreeMap<OsString, ComputeThread> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let is_helper = name.starts_with(HELPER_THREADS);
        if !is_helper && !name.starts_with(POOL_THREADS) {
            return None;
        }
        let times = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let times = ThreadTimes::parse(&times)?;
        Some((entry.file_name(), ComputeThread { times, is_helper }))
    };
    threads.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Runs threads with these names until half a second has passed; how much of that lacked a
    /// core. `None` if the system does not count.
    fn delayed(names: &[&str]) -> Option<Duration> {
        fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|it| ThreadTimes::parse(&it))?;
        let delay = ComputeDelay::start();
        let is_over = AtomicBool::new(false);
        let spin = || {
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let begun = Instant::now();
        thread::scope(|scope| {
            for name in names {
                thread::Builder::new().name((*name).into()).spawn_scoped(scope, spin).unwrap();
            }
            thread::sleep(Duration::from_millis(500));
            // The threads must still be there.
            let part = delay.part_of(begun.elapsed());
            is_over.store(true, Ordering::Relaxed);
            Some(part)
        })
    }

    #[test]
    fn threads_that_compute_are_measured_and_others_are_not() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let others = vec!["other"; 4 * cores];
        let Some(none) = delayed(&others) else { return };
        assert_eq!(none, Duration::ZERO, "no thread computes");
        let Some(some) = delayed(&[&others[..], &["model-0"]].concat()) else { return };
        assert!(some > Duration::from_millis(150), "{some:?}");
        let Some(helper) = delayed(&[&others[..], &["softmax-0"]].concat()) else { return };
        let most = Duration::from_millis(300);
        assert!(helper > Duration::from_millis(75) && helper < most, "{helper:?}");
    }
}
