//! Factors that a replica refuses, and those that come early.

use paceline_model::FactorSizes;

use super::pieces::SimMemory;
use super::plan::{MOST_EXAMPLES, ReplicaPlan};
use crate::{ControlFrame, FrameKind, Header, PeerTarget, Replica, StepPiece};

/// Two connected replicas whose second piece travels as factors.
fn pair() -> (ReplicaPlan, Replica, Replica) {
    let sizes = FactorSizes { inputs: 3, outputs: 2 };
    let pieces = vec![
        StepPiece { range: 0..7, factors: None },
        StepPiece { range: 7..15, factors: Some(sizes) },
    ];
    let drawn = ReplicaPlan::draw(1, false);
    let plan = ReplicaPlan { workers: 2, total: 15, chunk_floats: 4, pieces, ..drawn };
    let plan = ReplicaPlan { stop_steps: None, stop_after: None, ..plan };
    let (mut left, mut right) = (plan.replica(plan.config(0)), plan.replica(plan.config(1)));
    let ControlFrame { header, body: hello } = right.hello(0);
    assert_eq!(left.accept_hello(&header, &hello), Ok(1));
    let ControlFrame { header, body: welcome } = left.welcome();
    assert_eq!(right.hello_answered(0, &header, &welcome), Ok(None));
    left.plan_catch_up().unwrap();
    right.plan_catch_up().unwrap();
    (plan, left, right)
}

#[test]
fn factors_of_the_wrong_batch_layer_or_length_are_refused() {
    let (plan, mut left, mut right) = pair();
    let mut left_memory = SimMemory::begin(&plan, &mut left, 0, Some(2));
    let mut memory = SimMemory::begin(&plan, &mut right, 1, Some(2));
    while memory.hand_in(&mut right) {}
    let frame = right.next_frame(0, &memory).unwrap().header;
    assert_eq!((frame.kind, frame.sequence, frame.len), (FrameKind::Factors, 1, 16));
    let wrong = |change: &dyn Fn(&mut Header)| {
        let mut header = frame;
        change(&mut header);
        header
    };
    for header in [
        wrong(&|h| h.count = 0),
        wrong(&|h| h.count = MOST_EXAMPLES + 1),
        wrong(&|h| h.count = u32::MAX),
        wrong(&|h| h.sequence = 0),
        wrong(&|h| h.sequence = u64::MAX),
        wrong(&|h| h.chunk = 1),
        wrong(&|h| h.chunk = u32::MAX),
        wrong(&|h| h.len = 12),
        wrong(&|h| h.len = 0),
    ] {
        let error = left.read_target(1, &header).unwrap_err().to_string();
        assert!(error.contains("do not fit this step"), "{error}");
    }
    assert!(left.read_target(1, &wrong(&|h| h.step = 7)).is_err());
    // Only the coordinator decides when to stop.
    assert!(left.read_target(1, &wrong(&|h| h.flags = crate::Flags::STOP)).is_err());
    assert_eq!(left.read_target(1, &frame), Ok(PeerTarget::Factors { piece: 1, range: 0..4 }));
    left.frame_arrived(1, &frame, &[], &mut left_memory).unwrap();
    // The number of examples must not change within a step.
    let next = right.next_frame(0, &memory).unwrap().header;
    assert!(left.read_target(1, &next).is_ok());
    assert!(left.read_target(1, &Header { count: 1, ..next }).is_err());
}

#[test]
fn factors_of_the_next_step_wait_and_those_of_a_run_without_are_refused() {
    let (plan, left, mut right) = pair();
    let mut memory = SimMemory::begin(&plan, &mut right, 1, Some(1));
    while memory.hand_in(&mut right) {}
    let frame = right.next_frame(0, &memory).unwrap().header;
    assert_eq!(left.read_target(1, &frame), Ok(PeerTarget::Later), "the step has not begun");
    let plain = ReplicaPlan { pieces: Vec::new(), ..plan };
    let mut other = plain.replica(plain.config(0));
    let ControlFrame { header, body: hello } = plain.replica(plain.config(1)).hello(0);
    assert_eq!(other.accept_hello(&header, &hello), Ok(1));
    other.plan_catch_up().unwrap();
    other.begin_step(Some(1));
    assert!(other.read_target(1, &frame).is_err());
}
