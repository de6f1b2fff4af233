//! Threads that train one table at the same time, without locks.
//!
//! After "Hogwild!" (Niu et al., 2011): steps are numbered by one counter, each thread takes the
//! next number, and what they write meets in the table alone. One thread makes the steps in
//! order, on the calling thread, and equal seeds give equal bits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Makes the steps from `counter` up to but not including `limit`, shared out over the workers,
/// each on a thread of its own. A worker that answers false to a step makes no more, and all
/// others neither; the step it answered for counts as made.
pub fn hogwild<W: Send>(
    workers: &mut [W],
    counter: &AtomicU64,
    limit: u64,
    step: impl Fn(&mut W, u64) -> bool + Sync,
) {
    let run = |worker: &mut W| {
        while let Some(number) = take(counter, limit) {
            if !step(worker, number) {
                counter.fetch_max(limit, Ordering::Relaxed);
            }
        }
    };
    if let [only] = workers {
        return run(only);
    }
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| run(worker));
        }
    });
}

/// The next step's number, unless all are taken.
fn take(counter: &AtomicU64, limit: u64) -> Option<u64> {
    let next = |number| (number < limit).then(|| number + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_made_once() {
        for threads in [1, 3] {
            let mut workers = vec![Vec::new(); threads];
            let counter = AtomicU64::new(5);
            hogwild(&mut workers, &counter, 2_005, |made, step| {
                made.push(step);
                true
            });
            let mut all = workers.concat();
            all.sort_unstable();
            assert_eq!(all, (5..2_005).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_who_has_enough_ends_it_for_all() {
        let mut workers = vec![0u64; 2];
        let counter = AtomicU64::new(0);
        hogwild(&mut workers, &counter, u64::MAX, |made, step| {
            *made += 1;
            step < 100
        });
        assert!((101..=102).contains(&workers.iter().sum::<u64>()), "{workers:?}");
    }
}
