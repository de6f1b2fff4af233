//! Tests of the choice of held-out examples.

use proptest::prelude::*;

use super::*;

fn counts(labels: impl Iterator<Item = u32>, classes: usize) -> Vec<u64> {
    let mut counts = vec![0; classes];
    labels.for_each(|label| counts[label as usize] += 1);
    counts
}

proptest! {
    #[test]
    fn classes_contribute_in_proportion_and_are_in_both_sets(
        labels in proptest::collection::vec(0u32..4, 2..300), share in 0.0f64..1.0, seed: u64,
    ) {
        let count = ((labels.len() as f64 * share) as usize).min(labels.len() - 1);
        let chosen = choose_by_class(labels.iter().copied(), count, seed);
        prop_assert_eq!(chosen.len(), count);
        prop_assert!(chosen.is_sorted_by(|a, b| a < b));
        let all = counts(labels.iter().copied(), 4);
        let test = counts(chosen.iter().map(|&number| labels[number as usize]), 4);
        let present = all.iter().filter(|&&size| size > 0).count();
        for class in 0..4 {
            let exact = all[class] as f64 * count as f64 / labels.len() as f64;
            // Rounding costs less than one example, and each other class may take one more.
            prop_assert!((test[class] as f64 - exact).abs() < 1.0 + present as f64);
            if count >= present && all[class] > 1 {
                prop_assert!(test[class] > 0, "{all:?} {test:?}");
            }
            if labels.len() - count >= present {
                prop_assert!(all[class] == 0 || test[class] < all[class], "{all:?} {test:?}");
            }
        }
    }
}

#[test]
fn chosen_examples_and_the_rest_are_all_examples() {
    for split in [HoldOut::Stratified, HoldOut::Plain] {
        let chosen = split.choose((0..50u32).map(|number| number % 3), 9, 4);
        assert_eq!((chosen.rest.len(), chosen.test.len()), (41, 9));
        let mut all = [&chosen.rest[..], &chosen.test].concat();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }
    let plain = HoldOut::Plain.choose((0..5u32).map(|_| 0), 2, 4);
    assert_eq!((plain.rest, plain.test), (vec![0, 1, 2], vec![3, 4]));
    assert_eq!([5, 500, 1 << 20].map(HoldOut::default_count), [1, 50, 10_000]);
}

/// These numbers must be the same on every machine and in every later version: a resumed run
/// must hold out what it held out before.
#[test]
fn the_choice_depends_on_the_seed_alone() {
    let labels = || (0..1_000u32).map(|number| u32::from(number % 10 == 0));
    let first = choose_by_class(labels(), 10, 1);
    assert_eq!(first, choose_by_class(labels(), 10, 1));
    assert_ne!(first, choose_by_class(labels(), 10, 2));
    assert_eq!(first, [242, 321, 429, 453, 582, 679, 684, 714, 825, 910]);
    assert_eq!(test_order(first, 1), [825, 242, 910, 714, 453, 321, 429, 582, 679, 684]);
}

#[test]
fn every_example_is_equally_likely() {
    let mut times = [0u32; 20];
    for seed in 0..4_000 {
        for number in choose_by_class((0..20u32).map(|i| i / 10), 4, seed) {
            times[number as usize] += 1;
        }
    }
    // 800 expected; one standard deviation is about 25.
    assert!(times.iter().all(|&times| (680..920).contains(&times)), "{times:?}");
}
