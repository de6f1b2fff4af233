use super::*;

#[test]
fn only_the_first_line_of_an_error_says_that_it_is_one() {
    let text = error_text("the run failed: worker:1 was killed\nas a consequence:\n  ps:0");
    assert_eq!(text, "error: the run failed: worker:1 was killed\n  as a consequence:\n  ps:0");
}

#[test]
fn the_numbers_of_errors_are_not_shown() {
    let text = error_text("a: No such file (os error 2); b: Denied (os error 13)");
    assert_eq!(text, "error: a: No such file; b: Denied");
    assert_eq!(error_text("x (os error of y)"), "error: x (os error of y)");
}

#[test]
fn a_line_break_in_a_name_begins_no_message_of_its_own() {
    let warning = labelled("warning", "every label is a\nerror: b\n  c");
    assert_eq!(warning, "warning: every label is a\n  error: b\n  c");
}
