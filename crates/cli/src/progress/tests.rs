use super::*;

#[test]
fn what_a_server_waits_for_is_shown_instead_of_the_wait_for_the_server() {
    let (seen, text) = (Instant::now(), "waiting for ps:0 (2 s)");
    let shown = |subject: &str| ShownWait { subject: subject.into(), next: seen, seen };
    let notice = shown("the end waits for worker:1 to leave");
    assert!(notice.says_more_than(text, seen + Duration::from_secs(1)));
    assert!(!notice.says_more_than(text, seen + NOTICE_HOLDS), "the notice is over");
    assert!(!notice.says_more_than("step 5 waits for worker:1 (2 s)", seen));
    assert!(!shown("waiting for ps:1").says_more_than(text, seen));
}

#[test]
fn a_progress_line_has_step_loss_accuracy_speed_and_time_left() {
    let report = ProgressReport {
        step: 1_500,
        done: Some(0.25),
        elapsed: Duration::from_secs(60),
        left: Some(Duration::from_secs(180)),
        train_loss: 0.5,
        test_accuracy: Some(0.9),
        examples_per_second: 1_500.4,
    };
    let text = "step 1,500, loss 0.5000, accuracy 90.00 %, 1,500 examples/s, 3:00 left";
    assert_eq!(progress_line(&report), text);
    assert_eq!(short_progress_line(&report, 76), text);
    let short = "step 1,500, loss 0.5000, accuracy 90.00 %, 1.50 k examples/s, 3:00 left";
    assert_eq!(short_progress_line(&report, 75), short.replace("1.50 k examples/s, ", ""));
    let fast = ProgressReport { examples_per_second: 1_932_196.0, ..report };
    assert_eq!(short_progress_line(&fast, 79).replace("1.93 M", "1.50 k"), short);
    assert_eq!(short_progress_line(&report, 50), "step 1,500, loss 0.5000, 3:00 left");
    let untested = ProgressReport { test_accuracy: None, left: None, ..report };
    assert_eq!(progress_line(&untested), "step 1,500, loss 0.5000, 1,500 examples/s");
    // No time is left that could be read.
    let ending = ProgressReport { left: Some(Duration::from_millis(300)), ..untested };
    assert_eq!(progress_line(&ending), "step 1,500, loss 0.5000, 1,500 examples/s");
    let tested = ProgressReport { test_accuracy: Some(0.9), ..ending };
    let without_speed = "step 1,500, loss 0.5000, accuracy 90.00 %";
    assert_eq!(short_progress_line(&tested, 50), without_speed);
    let ending = ProgressReport { examples_per_second: 1_932_196.0, ..ending };
    assert_eq!(short_progress_line(&ending, 48), "step 1,500, loss 0.5000, 1.93 M examples/s");
}

#[test]
fn short_numbers_have_three_digits() {
    let numbers = [0.4, 12.0, 999.4, 1_500.0, 93_120.0, 999_499.0, 999_500.0, 1.5e8];
    let texts = ["0", "12", "999", "1.50 k", "93.1 k", "999 k", "1.00 M", "150 M"];
    assert_eq!(numbers.map(short_number), texts);
}
