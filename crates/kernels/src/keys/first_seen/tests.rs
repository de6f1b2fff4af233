use proptest::prelude::*;

use super::*;

fn check(table: &mut FirstSeen, raw: &[u32]) {
    let (mut keys, mut places) = (vec![9; 3], vec![9; 3]);
    let top = table.place(raw, &mut keys, &mut places, |_| ());
    assert_eq!(top, raw.iter().copied().max().unwrap_or(0));
    let back: Vec<u32> = places.iter().map(|&place| keys[place as usize]).collect();
    assert_eq!(back, raw);
    let (mut once, count) = (keys.clone(), keys.len());
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), count, "a key has two places");
    assert!(keys.iter().all(|key| raw.contains(key)));
}

proptest! {
    #[test]
    fn every_key_has_one_place_after_any_earlier_batches(
        batches in proptest::collection::vec(
            (1u32..=32, proptest::collection::vec(any::<u32>(), 0..400)),
            1..6,
        ),
    ) {
        let mut table = FirstSeen::default();
        for (bits, mut raw) in batches {
            raw.iter_mut().for_each(|key| *key >>= 32 - bits);
            check(&mut table, &raw);
        }
    }
}

#[test]
fn place_numbers_restart_before_they_overflow() {
    let mut table = FirstSeen::default();
    check(&mut table, &[5, 5, 7]);
    table.base = u32::MAX - 2;
    check(&mut table, &[5, 8]);
    check(&mut table, &[8, 5, 9]);
    assert!(table.base < 10);
}
