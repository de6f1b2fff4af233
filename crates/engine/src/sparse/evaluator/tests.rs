use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn every_key_finds_its_value(
        keys in proptest::collection::btree_set(0u32..500, 1..100),
        picks in proptest::collection::vec(any::<bool>(), 100),
    ) {
        let keys: Vec<u32> = keys.into_iter().collect();
        let pair = |&key: &u32| [key as f32, -(key as f32)];
        let params: Vec<f32> = keys.iter().flat_map(pair).collect();
        let wanted: Vec<u32> =
            keys.iter().zip(picks).filter(|(_, pick)| *pick).map(|(&key, _)| key).collect();
        let mut values = Vec::new();
        gather(&keys, &params, 2, &wanted, &mut values);
        prop_assert_eq!(values, wanted.iter().flat_map(pair).collect::<Vec<_>>());
    }
}
