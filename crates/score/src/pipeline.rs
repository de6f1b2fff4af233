//! Portions of work on several threads, with results in the order of the portions.
//!
//! One thread reads portions and deals them out to the scoring threads in turn; the caller's thread
//! takes the results in the same order. So results need no sorting, and every queue has a bound. A
//! portion that has no successor yet is handed over at once: a line of a stream is answered before
//! the next one arrives.
//!
//! The threads are not joined: one that waits for standard input would never end. They end by
//! themselves when the caller stops taking results and their next hand-over fails.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::error::ScoreError;

/// Portions that wait, and results that wait for the caller, for each thread.
const QUEUE: usize = 2;
/// How often the caller's thread checks whether it must stop while no result comes.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Gives the next portion; `None` at the end.
pub(crate) type NextPortion<P> = Box<dyn FnMut() -> Result<Option<P>, ScoreError> + Send>;
/// Does a portion. Every thread has its own function, with its scratch memory.
pub(crate) type DoPortion<P, R> = Box<dyn FnMut(P) -> Result<R, ScoreError> + Send>;

/// A result on its way to the caller.
enum PortionOutcome<R> {
    Done(Result<R, ScoreError>),
    /// The thread has done all its portions.
    End,
}

/// Says whether to stop.
pub(crate) type StopFn<'a> = &'a dyn Fn() -> bool;

/// Does all portions, on a thread for each of these functions, and gives the results to `take` in
/// the order of the portions. Its second argument says whether no other result is ready yet.
///
/// # Errors
/// The first error in the order of the portions, that of `take`, or [`ScoreError::Interrupted`].
pub(crate) fn run_in_order<P: Send + 'static, R: Send + 'static>(
    mut next: NextPortion<P>,
    works: Vec<DoPortion<P, R>>,
    stop: StopFn<'_>,
    take: &mut dyn FnMut(R, bool) -> Result<(), ScoreError>,
) -> Result<(), ScoreError> {
    let spawn = |name: String, body: Box<dyn FnOnce() + Send>| {
        let spawned = thread::Builder::new().name(name).spawn(body);
        spawned.map_err(|source| ScoreError::Io { what: "cannot start a thread".into(), source })
    };
    let (mut to_threads, mut results) = (Vec::new(), Vec::new());
    for (number, mut work) in works.into_iter().enumerate() {
        let (sender, portions) = sync_channel::<Result<P, ScoreError>>(QUEUE);
        let (outcomes, receiver) = sync_channel(QUEUE);
        let body = move || {
            for portion in portions {
                if outcomes.send(PortionOutcome::Done(portion.and_then(&mut work))).is_err() {
                    return;
                }
            }
            let _ = outcomes.send(PortionOutcome::End);
        };
        spawn(format!("score-{number}"), Box::new(body))?;
        to_threads.push(sender);
        results.push(receiver);
    }
    let read = move || {
        let deal =
            |index: usize, portion| to_threads[index % to_threads.len()].send(portion).is_ok();
        for index in 0.. {
            let is_taken = match next() {
                Ok(None) => return,
                Ok(Some(portion)) => deal(index, Ok(portion)),
                Err(error) => {
                    deal(index, Err(error));
                    return;
                }
            };
            if !is_taken {
                return;
            }
        }
    };
    spawn("score-read".into(), Box::new(read))?;
    let mut pending = None;
    for index in 0.. {
        let outcome = match pending.take() {
            Some(outcome) => outcome,
            None => receive(&results[index % results.len()], stop)?,
        };
        let PortionOutcome::Done(result) = outcome else { break };
        // Results may keep coming, so that no wait asks.
        if stop() {
            return Err(ScoreError::Interrupted);
        }
        // The next result, if it is there already, shows that this one is not the last for now.
        pending = results[(index + 1) % results.len()].try_recv().ok();
        take(result?, !matches!(pending, Some(PortionOutcome::Done(_))))?;
    }
    Ok(())
}

fn receive<R>(
    results: &Receiver<PortionOutcome<R>>,
    stop: StopFn<'_>,
) -> Result<PortionOutcome<R>, ScoreError> {
    loop {
        match results.recv_timeout(STOP_CHECK) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) if stop() => return Err(ScoreError::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let source = io::Error::other("it has panicked");
                return Err(ScoreError::Io { what: "a scoring thread ended".into(), source });
            }
        }
    }
}

/// The number of threads to use: as many as cores, unless the caller names one.
pub(crate) fn thread_count(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn portions(count: usize) -> NextPortion<usize> {
        let mut numbers = 0..count;
        Box::new(move || Ok(numbers.next()))
    }

    fn works(threads: usize) -> Vec<DoPortion<usize, usize>> {
        (0..threads).map(|_| Box::new(|portion: usize| Ok(portion * portion)) as _).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_portions() {
        for threads in 1..5 {
            for count in [0, 1, 2, 3, 100] {
                let mut found = Vec::new();
                let mut take = |result, _| {
                    found.push(result);
                    Ok(())
                };
                run_in_order(portions(count), works(threads), &|| false, &mut take).unwrap();
                assert_eq!(found, (0..count).map(|portion| portion * portion).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_first_error_in_order_ends_it_and_reading_stops() {
        let read = Arc::new(AtomicUsize::new(0));
        let counter = read.clone();
        let next: NextPortion<usize> =
            Box::new(move || Ok(Some(counter.fetch_add(1, Ordering::Relaxed))));
        let work = |portion: usize| match portion {
            5 | 7 => Err(ScoreError::Refused(format!("portion {portion}"))),
            portion => Ok(portion),
        };
        let works: Vec<DoPortion<usize, usize>> = (0..3).map(|_| Box::new(work) as _).collect();
        let mut taken = 0;
        let mut take = |_, _| {
            taken += 1;
            Ok(())
        };
        let error = run_in_order(next, works, &|| false, &mut take).unwrap_err();
        assert_eq!((error.to_string().as_str(), taken), ("portion 5", 5));
        assert!(read.load(Ordering::Relaxed) < 100, "queues have bounds");
    }

    #[test]
    fn a_panic_of_a_worker_is_an_error_and_not_an_early_end() {
        let work: DoPortion<usize, usize> =
            Box::new(|portion| if portion == 3 { panic!("on purpose") } else { Ok(portion) });
        let error =
            run_in_order(portions(10), vec![work], &|| false, &mut |_, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn it_stops_while_results_keep_coming() {
        let taken = Cell::new(0);
        let mut take = |_, _| {
            taken.set(taken.get() + 1);
            Ok(())
        };
        let stop = || taken.get() == 3;
        let stopped = run_in_order(portions(100_000), works(2), &stop, &mut take);
        assert!(matches!(stopped, Err(ScoreError::Interrupted)));
        assert_eq!(taken.get(), 3);
    }

    #[test]
    fn it_stops_while_it_waits_for_input() {
        let next: NextPortion<usize> = Box::new(|| {
            loop {
                thread::park();
            }
        });
        let stopped = run_in_order(next, works(2), &|| true, &mut |_, _| Ok(()));
        assert!(matches!(stopped, Err(ScoreError::Interrupted)));
    }
}
