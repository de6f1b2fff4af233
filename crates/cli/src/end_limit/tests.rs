use super::*;

#[test]
fn a_task_that_writes_its_model_may_take_longer_to_end_than_one_that_computes() {
    let activity = TaskActivity::default();
    assert_eq!(activity.state().limit(), LIMIT);
    activity.start();
    assert_eq!(activity.state().limit(), LIMIT_TO_SAVE);
    activity.set_work(LongWork::Test { done: 1, total: 9 });
    activity.set_work(LongWork::Test { done: 9, total: 9 });
    assert_eq!(activity.state().limit(), LIMIT_TO_SAVE);
    activity.set_work(LongWork::SaveModel { done: 1, total: 9 });
    assert_eq!(activity.state().limit(), LIMIT_TO_WRITE);
    activity.set_work(LongWork::SaveModel { done: 9, total: 9 });
    assert_eq!(activity.state().limit(), LIMIT_TO_SAVE);
    activity.set_wait(Some("waits"));
    assert_eq!(activity.state().limit(), LIMIT);
}

#[test]
fn a_model_that_takes_nearly_all_of_its_time_leaves_the_same_time_for_the_summary() {
    let activity = TaskActivity::default();
    activity.start();
    activity.set_work(LongWork::SaveModel { done: 1, total: 9 });
    assert!(!activity.state().is_late(LIMIT_TO_WRITE - CHECK_EVERY));
    assert!(activity.state().is_late(LIMIT_TO_WRITE));
    activity.set_work(LongWork::SaveModel { done: 9, total: 9 });
    assert!(!activity.state().is_late(2 * LIMIT_TO_WRITE), "the summary is left to write");
    activity.state().written = Instant::now().checked_sub(LIMIT_TO_SAVE);
    assert!(activity.state().is_late(LIMIT_TO_SAVE));
}
