use super::*;

struct Ending;

impl TaskContext for Ending {
    fn stop_signal(&self) -> Option<i32> {
        Some(2)
    }
}

/// A worker that has known for long that the run must end.
fn late(role: StopRole) -> Arc<StepStop> {
    let stop = StepStop::new(Arc::new(Ending), role);
    let long_ago = Instant::now().checked_sub(2 * EXCHANGE_GRACE);
    stop.seen.set(long_ago.expect("the machine runs for a second")).expect("unset");
    stop
}

#[test]
fn a_short_step_is_completed_although_the_run_must_end() {
    let stop = StepStop::new(Arc::new(Ending), StopRole::Coordinator);
    assert!(!stop.stops_computing() && !stop.cuts_exchange());
}

#[test]
fn a_worker_gives_up_no_step_of_which_the_others_have_a_part() {
    let stop = late(StopRole::Cautious);
    assert!(stop.stops_computing());
    stop.begin_sending();
    assert!(!stop.stops_computing() && !stop.cuts_exchange());
    stop.set_cut_short();
    assert!(stop.stops_computing());
    let stop = late(StopRole::Independent);
    stop.begin_sending();
    assert!(stop.stops_computing());
    assert!(!late(StopRole::Follower).stops_computing());
}

#[test]
fn a_step_is_either_cut_or_applied() {
    let stop = late(StopRole::Coordinator);
    stop.begin_sending();
    assert!(stop.cuts_exchange() && !stop.may_apply() && !stop.has_applied());
    stop.begin_sending();
    assert!(stop.may_apply() && stop.may_apply() && stop.has_applied());
    assert!(!stop.cuts_exchange());
}
