//! The state that a newcomer receives from a peer, frame by frame, and what it refuses.

use paceline_model::OptimizerState;

use super::plan::{ReplicaPlan, optimizer};
use crate::{
    ControlFrame, Flags, FrameKind, Header, Replica, ReplicaConfig, WholeGradient, as_bytes,
};

/// Connects a new replica to an old one.
fn greet(old: &mut Replica, new: &mut Replica) {
    let ControlFrame { header, body: hello } = new.hello(0);
    assert_eq!(old.accept_hello(&header, &hello), Ok(1));
    let ControlFrame { header, body: welcome } = old.welcome();
    assert_eq!((header.kind, header.flags), (FrameKind::Welcome, Flags::NONE));
    assert_eq!(new.hello_answered(0, &header, &welcome), Ok(None));
    old.plan_catch_up().unwrap();
    new.plan_catch_up().unwrap();
}

fn plan() -> ReplicaPlan {
    let (stop_steps, stop_after) = (None, None);
    let drawn = ReplicaPlan::draw(1, true);
    let pieces = Vec::new();
    let small = ReplicaPlan { workers: 2, total: 23, chunk_floats: 5, pieces, ..drawn };
    ReplicaPlan { stop_steps, stop_after, ..small }
}

/// A replica that has made some steps.
fn replica_after(steps: u64, config: ReplicaConfig) -> Replica {
    let plan = plan();
    let mut state = OptimizerState::new(optimizer(), &plan.layout(), 0..23);
    let mut params = plan.initial();
    for step in 0..steps {
        state.apply(step, 0, &mut params, &[0.3; 23]);
    }
    Replica::resume(config, params, state, steps)
}

/// A replica that has made some steps, and one that begins, connected to each other.
fn pair() -> (Replica, Replica) {
    let plan = plan();
    let mut old = replica_after(5, plan.config(0));
    let mut new = plan.replica(ReplicaConfig { incarnation: 9, ..plan.config(1) });
    greet(&mut old, &mut new);
    assert!(old.is_sending_state() && !old.is_behind());
    assert!(new.is_behind() && !new.is_sending_state());
    (old, new)
}

fn transfer_piece(old: &mut Replica, new: &mut Replica) -> Header {
    let none = &mut WholeGradient::none();
    let next = old.next_frame(1, none).unwrap();
    let place = new.read_target(0, &next.header).unwrap();
    let bytes = old.payload(&next.source, none).to_vec();
    new.target_bytes(0, &place, none).copy_from_slice(&bytes);
    new.frame_arrived(0, &next.header, &[], none).unwrap();
    next.header
}

#[test]
fn a_newcomer_receives_the_whole_state_of_the_other() {
    let (mut old, mut new) = pair();
    let mut pieces = 0;
    while new.is_behind() {
        let header = transfer_piece(&mut old, &mut new);
        pieces += 1;
        assert_eq!(header.flags.contains(Flags::MORE), new.is_behind());
    }
    assert_eq!(pieces, 2 * 5, "five pieces of parameters and of momentum");
    assert!(!old.is_sending_state());
    assert_eq!(new.global_step(), 5);
    assert!(as_bytes(new.params()) == as_bytes(old.params()));
    // Both can begin the next step.
    for replica in [&mut old, &mut new] {
        replica.begin_step(Some(1));
    }
}

#[test]
fn pieces_that_are_not_the_next_one_are_refused() {
    let (mut old, new) = pair();
    let first = old.next_frame(1, &WholeGradient::none()).unwrap().header;
    let wrong = |change: &dyn Fn(&mut Header)| {
        let mut header = first;
        change(&mut header);
        header
    };
    for header in [
        wrong(&|h| h.chunk = 1),
        wrong(&|h| h.count = 1),
        wrong(&|h| h.count = 2),
        wrong(&|h| h.count = u32::MAX),
        wrong(&|h| h.chunk = u32::MAX),
        wrong(&|h| h.len = 16),
        wrong(&|h| h.step = 4),
        wrong(&|h| h.flags = Flags::NONE),
    ] {
        assert!(new.read_target(0, &header).is_err(), "{header:?}");
    }
    assert!(new.read_target(0, &first).is_ok());
    assert!(old.read_target(1, &first).is_err(), "a replica that is not behind expects no state");
}

#[test]
fn a_replica_that_loses_its_donor_says_that_it_is_incomplete_and_starts_again() {
    let (mut old, mut new) = pair();
    transfer_piece(&mut old, &mut new);
    for replica in [&mut old, &mut new] {
        replica.disconnect_all();
        assert!(!replica.is_started());
    }
    assert!(new.hello(0).header.flags.contains(Flags::PARTIAL));
    greet(&mut old, &mut new);
    while new.is_behind() {
        transfer_piece(&mut old, &mut new);
    }
    assert!(as_bytes(new.params()) == as_bytes(old.params()));
    assert!(!new.hello(0).header.flags.contains(Flags::PARTIAL));
}

#[test]
fn a_replica_one_step_behind_that_loses_its_donor_keeps_its_state() {
    let plan = plan();
    let mut ahead = replica_after(5, plan.config(0));
    let mut behind = replica_after(4, ReplicaConfig { incarnation: 9, ..plan.config(1) });
    // It has taken part in the run, so it is no newcomer.
    greet(&mut replica_after(4, plan.config(0)), &mut behind);
    behind.begin_step(Some(1));
    behind.disconnect_all();
    greet(&mut ahead, &mut behind);
    let params = behind.params().to_vec();
    transfer_piece(&mut ahead, &mut behind);
    assert!(behind.params() != params);
    behind.disconnect_all();
    assert!(!behind.hello(0).header.flags.contains(Flags::PARTIAL));
    assert_eq!((behind.global_step(), behind.params()), (4, &*params));
    ahead.disconnect_all();
    greet(&mut ahead, &mut behind);
    while behind.is_behind() {
        transfer_piece(&mut ahead, &mut behind);
    }
    assert_eq!((behind.global_step(), behind.params()), (5, ahead.params()));
}
