//! Tests of recorders and of lists of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::phases::Phase;

/// How often the methods of a recorder were called.
#[derive(Debug, Default)]
struct Calls {
    steps: AtomicU64,
    tensors: AtomicU64,
    finished: AtomicU64,
}

/// Counts the calls, and fails to finish if asked to.
#[derive(Default)]
struct CallCounter {
    calls: Arc<Calls>,
    tensors_every: Option<u64>,
    fails: bool,
}

impl Recorder for CallCounter {
    fn step(&mut self, _record: &StepRecord<'_>) -> io::Result<()> {
        self.calls.steps.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn tensors_every(&self) -> Option<u64> {
        self.tensors_every
    }

    fn tensors(&mut self, _record: &TensorRecord<'_>) -> io::Result<()> {
        self.calls.tensors.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self, _success: bool) -> io::Result<()> {
        self.calls.finished.fetch_add(1, Ordering::Relaxed);
        if self.fails { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
}

/// A list of these recorders, and the calls of each.
fn list_of(counters: Vec<CallCounter>) -> (Vec<Box<dyn Recorder + Send>>, Vec<Arc<Calls>>) {
    let calls = counters.iter().map(|counter| counter.calls.clone()).collect();
    (counters.into_iter().map(|counter| Box::new(counter) as _).collect(), calls)
}

#[test]
fn all_recorders_of_a_list_record_and_finish() {
    let clock = PhaseClock::start(Phase::Input);
    let failing = CallCounter { fails: true, ..CallCounter::default() };
    let (mut list, calls) = list_of(vec![failing, CallCounter::default()]);
    list.step(&StepRecord::new(0, 0.5, &clock)).unwrap();
    assert!(list.finish(true).is_err(), "the error of the first is not lost");
    for calls in calls {
        let counts = [&calls.steps, &calls.finished].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
    }
}

#[test]
fn a_recorder_of_a_list_gets_tensors_only_if_it_asks_for_them() {
    let asks = |every| CallCounter { tensors_every: every, ..CallCounter::default() };
    let (mut list, calls) = list_of(vec![asks(None), asks(Some(10))]);
    assert_eq!(list.tensors_every(), Some(10));
    list.tensors(&TensorRecord { step: 0, tensors: &[] }).unwrap();
    let counts: Vec<_> = calls.iter().map(|calls| calls.tensors.load(Ordering::Relaxed)).collect();
    assert_eq!(counts, [0, 1]);
    assert_eq!(list_of(vec![asks(Some(100)), asks(Some(10))]).0.tensors_every(), Some(10));
    assert_eq!(list_of(vec![asks(Some(5)), asks(Some(0))]).0.tensors_every(), Some(5));
}

#[test]
fn a_list_of_recorders_may_be_empty() {
    let clock = PhaseClock::start(Phase::Input);
    let (mut none, _) = list_of(Vec::new());
    none.start(RunStart::New).unwrap();
    none.step(&StepRecord::new(0, 0.5, &clock)).unwrap();
    none.finish(true).unwrap();
    assert!(none.resources().is_none() && none.tensors_every().is_none());
}
