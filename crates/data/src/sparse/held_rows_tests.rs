//! Rows that are not held out, found by their number.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_row_that_is_not_held_out_is_found_in_order(
        is_held in proptest::collection::vec(any::<bool>(), 1..400), sparse: bool,
    ) {
        let held = |row: &u32| is_held[*row as usize] && (!sparse || row.is_multiple_of(37));
        let all = is_held.len() as u32;
        let (held, rest): (Vec<u32>, Vec<u32>) = (0..all).partition(held);
        prop_assume!(!rest.is_empty());
        let rows = HeldRows::new(&held, all as usize);
        prop_assert_eq!(rows.rest(), rest.len());
        let found: Vec<u32> = (0..rest.len()).map(|index| rows.locate(index) as u32).collect();
        prop_assert_eq!(found, rest);
    }
}
