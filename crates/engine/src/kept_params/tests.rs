#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn parameters_come_back_however_they_were_divided(
        width in 1usize..5,
        params in vec(prop_oneof![3 => Just(0.0f32), 1 => -1.0f32..1.0], 0..90),
        piece in 1usize..12,
    ) {
        let mut kept = KeptParams::new(width);
        params.chunks(piece).for_each(|piece| kept.extend(piece));
        let mut again = Vec::new();
        kept.for_each_piece(&mut |piece| { again.extend_from_slice(piece); Ok(()) }).unwrap();
        prop_assert_eq!(&again, &params);

        let keys: Vec<u32> = (0..params.len().div_ceil(width) as u32).step_by(2).collect();
        let of_key = |key: &u32| {
            let from = *key as usize * width;
            (from..from + width).map(|at| params.get(at).copied().unwrap_or(0.0))
        };
        let mut some = Vec::new();
        kept.read(&keys, &mut some);
        prop_assert_eq!(some, keys.iter().flat_map(of_key).collect::<Vec<_>>());
    }
}

#[test]
fn keys_without_an_entry_take_no_memory() {
    let mut kept = KeptParams::new(4);
    for key in 0..100_000 {
        kept.extend(&if key % 1_000 == 7 { [1.0; 4] } else { [0.0; 4] });
    }
    assert_eq!((kept.keys.len(), kept.values.len()), (100, 400));
    assert!(kept.values.capacity() < 1_000, "{}", kept.values.capacity());
}
