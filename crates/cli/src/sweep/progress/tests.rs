use super::*;

#[test]
fn time_left_is_told_from_a_second_on() {
    assert_eq!([1.0, 90.0].map(time_left), [", 1 s left", ", 1:30 left"]);
    // Before the first run ends, and in the last second.
    assert_eq!([f64::INFINITY, f64::NAN, 0.9, 0.0].map(time_left), [""; 4]);
}
