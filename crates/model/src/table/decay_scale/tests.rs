use std::thread;

use super::*;

#[test]
fn factors_of_many_threads_are_neither_lost_nor_doubled() {
    let scale = DecayScale::one();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| assert!(scale.shrink(0.9999).is_some())));
        }
    });
    let expected = 0.9999f64.powi(40_000);
    assert!((scale.get() / expected - 1.0).abs() < 1e-9);
}

#[test]
fn a_small_scale_is_not_shrunk_but_left_for_folding() {
    let scale = DecayScale::one();
    assert_eq!(scale.shrink(0.5), Some(0.5));
    assert_eq!(scale.shrink(1e-12), None);
    assert_eq!(scale.shrink(0.0), None);
    assert_eq!(scale.take(), 0.5);
    assert_eq!(scale.get(), 1.0);
}
