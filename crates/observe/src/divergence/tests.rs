//! Tests of what counts as divergence.

use super::*;

/// The step and loss at which these losses are taken for diverged, if they are.
fn found(batch: usize, losses: impl IntoIterator<Item = f64>) -> Option<(u64, f64)> {
    let mut check = DivergenceCheck::new(batch, true);
    losses.into_iter().zip(0..).find_map(|(loss, step)| match check.add(step, loss as f32) {
        Ok(()) => None,
        Err(Divergence { loss, .. }) => Some((step, loss)),
    })
}

/// Noise from 0 to 1 that is the same every time.
fn noise() -> impl Iterator<Item = f64> {
    let mut state = 7_u64;
    std::iter::from_fn(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some((state >> 33) as f64 / (1_u64 << 31) as f64)
    })
}

#[test]
fn a_loss_that_stays_far_above_its_start_is_divergence() {
    let rising = (0..1_000).map(|step| 2.3 * 1.05_f64.powi(step));
    assert!(found(60, rising.clone()).is_some_and(|(step, _)| step < 200));
    assert!(found(1, rising).is_some_and(|(step, _)| step < 300));
    // It jumps and stays: two windows later it is found, whatever the batch, also if the first
    // examples have jumped too.
    for (batch, most) in [(1, 2_016), (10, 202), (60, 35), (1_000, 21)] {
        let jump = [2.3].into_iter().chain(std::iter::repeat_n(5_000.0, 3_000));
        assert!(found(batch, jump).is_some_and(|(step, _)| step <= most), "{batch}");
    }
    assert_eq!(found(60, [2.3, 2.0, 2e29]), Some((2, f64::from(2e29_f32))), "at once");
    assert!(found(60, [2.3, f64::NAN]).is_some_and(|(step, loss)| step == 1 && loss.is_nan()));
}

#[test]
fn noise_spikes_and_slow_returns_are_not() {
    // Single examples at a high rate: most are right, some are wrong by far.
    let single = |scale: f64| noise().map(move |u| if u > 0.85 { scale * u } else { 0.01 });
    assert_eq!(found(1, [2.3].into_iter().chain(single(60.0)).take(100_000)), None);
    // A resumed run starts with a tiny loss.
    assert_eq!(found(1, std::iter::repeat_n(1e-6, 40).chain(single(40.0)).take(100_000)), None);
    let spike = |step: usize| if step % 500 == 20 { 900.0 } else { 1.0 };
    assert_eq!(found(60, (0..10_000).map(spike)), None);
    // A first step that is too long, from which training returns.
    let back = (0..1_000).map(|step| 1.0 + 800.0 * 0.98_f64.powi(step));
    assert_eq!(found(60, [2.3].into_iter().chain(back)), None);
}

#[test]
fn the_final_test_is_judged_too_and_nothing_is_if_the_user_continues() {
    let score = |loss| {
        let (accuracy, is_two_class) = (0.1, false);
        let (precision, recall, auc) = (None, None, None);
        Score { examples: 10, loss, accuracy, is_two_class, precision, recall, auc }
    };
    let mut check = DivergenceCheck::new(60, true);
    check.check_test(0, &score(1e9)).unwrap();
    check.add(0, 2.3).unwrap();
    check.check_test(1, &score(22.0)).unwrap();
    let error = check.check_test(1, &score(2e29)).unwrap_err().to_string();
    let text = "the loss rose from 2.300 to 2.0e29 at step 1: training diverged; \
                try a smaller learning rate";
    assert_eq!(error, text);
    assert!(check.check_test(1, &score(f64::NAN)).is_err());
    check.check_test(1, &Score { examples: 0, ..score(f64::NAN) }).unwrap();

    let mut check = DivergenceCheck::new(60, false);
    (0..500).for_each(|step| check.add(step, 1.2_f32.powi(step as i32 / 2)).unwrap());
    check.check_test(500, &score(2e29)).unwrap();
    assert!(check.add(500, f32::NAN).is_err(), "nothing after this can be of use");
}
