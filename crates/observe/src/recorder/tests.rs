//! Tests of recorders and of pairs of them.

use super::*;
use crate::phases::Phase;

/// Counts the calls, and fails to finish if asked to.
#[derive(Default)]
struct CallCounter {
    steps: u64,
    tensors: u64,
    tensors_every: Option<u64>,
    finished: u64,
    fails: bool,
}

impl Recorder for CallCounter {
    fn step(&mut self, _record: &StepRecord<'_>) -> io::Result<()> {
        self.steps += 1;
        Ok(())
    }

    fn tensors_every(&self) -> Option<u64> {
        self.tensors_every
    }

    fn tensors(&mut self, _record: &TensorRecord<'_>) -> io::Result<()> {
        self.tensors += 1;
        Ok(())
    }

    fn finish(&mut self, _success: bool) -> io::Result<()> {
        self.finished += 1;
        if self.fails { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
}

#[test]
fn both_recorders_of_a_pair_record_and_finish() {
    let clock = PhaseClock::start(Phase::Input);
    let mut first = CallCounter { fails: true, ..CallCounter::default() };
    let mut second = Some(CallCounter::default());
    let mut pair = (&mut first, Box::new(&mut second));
    pair.step(&StepRecord::new(0, 0.5, &clock)).unwrap();
    assert!(pair.finish(true).is_err(), "the error of the first is not lost");
    let second = second.unwrap();
    assert_eq!((first.steps, first.finished), (1, 1));
    assert_eq!((second.steps, second.finished), (1, 1));
}

#[test]
fn a_recorder_of_a_pair_gets_tensors_only_if_it_asks_for_them() {
    let asks = |every| CallCounter { tensors_every: every, ..CallCounter::default() };
    let mut pair = (asks(None), asks(Some(10)));
    assert_eq!(pair.tensors_every(), Some(10));
    pair.tensors(&TensorRecord { step: 0, tensors: &[] }).unwrap();
    assert_eq!((pair.0.tensors, pair.1.tensors), (0, 1));
    assert_eq!((asks(Some(100)), asks(Some(10))).tensors_every(), Some(10));
    assert_eq!((asks(Some(5)), asks(Some(0))).tensors_every(), Some(5));
}

#[test]
fn a_recorder_can_be_absent() {
    let clock = PhaseClock::start(Phase::Input);
    let mut none: (Option<CallCounter>, ()) = (None, ());
    none.start(RunStart::New).unwrap();
    none.step(&StepRecord::new(0, 0.5, &clock)).unwrap();
    none.finish(true).unwrap();
    assert!(none.resources().is_none());
}
