//! What a newcomer gets from a peer, frame by frame, and what it does not believe.

use paceline_exchange::{Flags, FrameKind, Header, Replica, ReplicaConfig, as_bytes};
use paceline_model::OptimizerState;

use crate::plain::{Terms, config, initial, layout, spec, terms};

/// A replica that has made some steps, and one that begins, which have found each other.
fn pair() -> (Replica, Replica) {
    let terms = Terms { workers: 2, total: 23, chunk_floats: 5, recovers: true, ..terms(1) };
    let terms = Terms { stop_steps: None, stop_asked: None, ..terms };
    let mut optimizer = OptimizerState::new(spec(), &layout(23), 0..23);
    let mut params = initial(23);
    for step in 0..5 {
        optimizer.apply(step, 0, &mut params, &[0.3; 23]);
    }
    let mut old = Replica::resume(config(&terms, 0), params, optimizer, 5);
    let new = ReplicaConfig { incarnation: 9, ..config(&terms, 1) };
    let mut new = Replica::new(new, initial(23), spec(), &layout(23));
    let (header, hello) = new.hello(0);
    assert_eq!(old.accept_hello(&header, &hello), Ok(1));
    let (header, welcome) = old.welcome();
    assert_eq!(new.hello_answered(0, &header, &welcome), Ok(None));
    for replica in [&mut old, &mut new] {
        replica.plan_catch_up().unwrap();
    }
    assert!(
        old.is_sending_state() && !old.is_behind() && new.is_behind() && !new.is_sending_state()
    );
    (old, new)
}

/// Hands over the next piece.
fn hand_over(old: &mut Replica, new: &mut Replica) -> Header {
    let next = old.next_frame(1).unwrap();
    let place = new.read_target(0, &next.header).unwrap();
    let bytes = as_bytes(old.payload(&next.source, &[])).to_vec();
    new.target_bytes(0, &place).copy_from_slice(&bytes);
    new.frame_arrived(0, &next.header, &[]).unwrap();
    next.header
}

#[test]
fn a_newcomer_gets_parameters_and_slots_and_is_where_the_other_is() {
    let (mut old, mut new) = pair();
    let mut pieces = 0;
    while new.is_behind() {
        let header = hand_over(&mut old, &mut new);
        pieces += 1;
        assert_eq!(header.flags.contains(Flags::MORE), new.is_behind());
    }
    assert_eq!(pieces, 2 * 5, "five pieces of parameters and of momentum");
    assert!(!old.is_sending_state());
    assert_eq!(new.global_step(), 5);
    assert!(as_bytes(new.params()) == as_bytes(old.params()));
    // Both go on alike: the momentum is the same, too.
    for replica in [&mut old, &mut new] {
        replica.begin_step(Some(1));
    }
}

#[test]
fn pieces_that_are_not_the_next_one_are_refused() {
    let (mut old, new) = pair();
    let first = old.next_frame(1).unwrap().header;
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
    assert!(old.read_target(1, &first).is_err(), "who is not behind is not sent anything");
}

#[test]
fn a_replica_whose_helper_is_lost_says_that_it_is_of_no_use_and_is_helped_again() {
    let (mut old, mut new) = pair();
    hand_over(&mut old, &mut new);
    for replica in [&mut old, &mut new] {
        replica.disconnect_all();
        assert!(!replica.is_started());
    }
    let (header, hello) = new.hello(0);
    assert!(header.flags.contains(Flags::PARTIAL));
    assert_eq!(old.accept_hello(&header, &hello), Ok(1));
    let (header, welcome) = old.welcome();
    assert_eq!((header.kind, header.flags), (FrameKind::Welcome, Flags::NONE));
    assert_eq!(new.hello_answered(0, &header, &welcome), Ok(None));
    for replica in [&mut old, &mut new] {
        replica.plan_catch_up().unwrap();
    }
    while new.is_behind() {
        hand_over(&mut old, &mut new);
    }
    assert!(as_bytes(new.params()) == as_bytes(old.params()));
    assert!(!new.hello(0).0.flags.contains(Flags::PARTIAL));
}
