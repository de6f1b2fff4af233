//! Tests of the ranking of scores.

use proptest::prelude::*;

use super::*;

/// Pairs in order over all pairs, one by one, and the share of unequal pairs in one bin.
fn by_pairs(examples: &[(f32, bool)]) -> Option<(f64, f64)> {
    let (mut pairs, mut ordered, mut blurred) = (0u32, 0.0, 0u32);
    for (high, _) in examples.iter().filter(|example| example.1) {
        for (low, _) in examples.iter().filter(|example| !example.1) {
            pairs += 1;
            ordered += if high > low {
                1.0
            } else if high == low {
                0.5
            } else {
                0.0
            };
            blurred += u32::from(high != low && bin(*high) == bin(*low));
        }
    }
    (pairs > 0).then(|| (ordered / f64::from(pairs), f64::from(blurred) / f64::from(pairs)))
}

fn area(examples: &[(f32, bool)]) -> Option<f64> {
    let mut ranking = Ranking::default();
    examples.iter().for_each(|&(score, present)| ranking.count(score, present));
    ranking.auc()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_area_is_exact_when_unequal_scores_fall_into_different_bins(
        raw in proptest::collection::vec((-40i8..40, any::<bool>()), 0..120),
    ) {
        let examples: Vec<_> =
            raw.into_iter().map(|(score, present)| (f32::from(score) / 8.0, present)).collect();
        match by_pairs(&examples) {
            Some((exact, blurred)) => {
                prop_assert_eq!(blurred, 0.0);
                prop_assert!((area(&examples).unwrap() - exact).abs() < 1e-12);
            }
            None => prop_assert_eq!(area(&examples), None),
        }
    }

    #[test]
    fn the_area_is_within_its_bound_for_any_scores(
        examples in proptest::collection::vec((-1.01f32..1.01, any::<bool>()), 2..200),
    ) {
        if let Some((exact, blurred)) = by_pairs(&examples) {
            let off = (area(&examples).unwrap() - exact).abs();
            prop_assert!(off <= 0.5 * blurred + 1e-12, "off by {off}, bound {blurred} / 2");
        }
    }

    #[test]
    fn bins_are_in_the_order_of_scores(a in any::<f32>(), b in any::<f32>()) {
        if a <= b {
            prop_assert!(bin(a) <= bin(b));
        }
    }
}

#[test]
fn zero_and_minus_zero_share_a_bin() {
    assert_eq!(area(&[(0.0, true), (-0.0, false)]), Some(0.5));
}
