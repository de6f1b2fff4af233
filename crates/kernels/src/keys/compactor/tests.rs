use proptest::prelude::*;

use super::*;

fn check(compactor: &mut Compactor, raw: &[u32], bias: u32) {
    compactor.compact(raw, bias..bias + 1);
    let mut keys = raw.to_vec();
    keys.sort_unstable();
    keys.dedup();
    keys.push(bias);
    assert_eq!(compactor.keys(), keys);
    let back: Vec<u32> =
        compactor.places().iter().map(|&place| compactor.keys()[place as usize]).collect();
    assert_eq!(back, raw);
}

proptest! {
    #[test]
    fn keys_are_sorted_and_unique_and_places_refer_to_them(
        batches in proptest::collection::vec(
            (1u32..=32, proptest::collection::vec(any::<u32>(), 0..600)),
            1..4,
        ),
    ) {
        let mut compactor = Compactor::new();
        for (bits, mut raw) in batches {
            raw.iter_mut().for_each(|key| *key = (*key >> (32 - bits)).min(u32::MAX - 2));
            check(&mut compactor, &raw, u32::MAX - 1);
        }
    }
}

#[test]
fn empty_repeated_and_large_batches_are_compacted() {
    let mut compactor = Compactor::new();
    check(&mut compactor, &[], 7);
    check(&mut compactor, &[0; 50], 1);
    check(&mut compactor, &[u32::MAX - 2, 0, u32::MAX - 2], u32::MAX - 1);
    check(&mut compactor, &[], 0);
    let many: Vec<u32> = (0..70_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 6).collect();
    check(&mut compactor, &many, 1 << 26);
}

#[test]
fn all_shared_keys_come_last() {
    let mut compactor = Compactor::new();
    compactor.compact(&[5, 2, 5], 6..9);
    assert_eq!(compactor.keys(), [2, 5, 6, 7, 8]);
    compactor.compact_unsorted(&[5, 2, 5], 6..6, |_| ());
    assert_eq!(compactor.keys(), [5, 2]);
}

#[test]
#[should_panic(expected = "key 9 is outside a model of 9 features")]
fn a_key_that_is_no_feature_is_refused() {
    Compactor::new().compact(&[3, 9], 9..10);
}
