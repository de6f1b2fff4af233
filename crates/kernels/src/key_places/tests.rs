//! Keys and their places on servers.

use super::*;

/// Equal ranges, as servers have them.
fn shards(keys: usize, servers: usize) -> Vec<Range<usize>> {
    (0..servers).map(|at| keys * at / servers..keys * (at + 1) / servers).collect()
}

#[test]
fn every_server_has_an_equal_part_of_the_features_and_of_the_shared_keys() {
    for (features, shared, servers) in [(1_000, 37, 2), (10, 10, 3), (7, 100, 4), (5, 5, 5)] {
        let order = KeyPlaces::new(features, 9, &shards(features + shared, servers));
        assert!(!order.is_plain());
        let mut seen: Vec<usize> = Vec::new();
        for server in 0..servers {
            let part = order.part(server);
            let even = |all: usize, own: usize| own.abs_diff(all / servers) <= 2;
            let (own, its_shared) = (part.features.len(), part.shared.len());
            assert!(even(features, own) && even(shared, its_shared), "{part:?}");
            let places = part.places();
            assert_eq!(places.len(), own + its_shared);
            seen.extend(places.clone().map(|place| part.key_at(place)));
            for run in part.runs() {
                let at = |key: usize| (key as u32).wrapping_add(run.offset()) as usize;
                assert!(run.keys.clone().all(|key| part.key_at(at(key)) == key));
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..features + shared).collect::<Vec<_>>());
    }
}

#[test]
fn keys_are_at_the_places_of_their_numbers_if_there_is_little_to_divide() {
    for (features, shared, width, servers) in
        [(100, 50, 4, 1), (100, 1, 4, 2), (100, 50, 1, 2), (1, 50, 4, 2)]
    {
        let order = KeyPlaces::new(features, width, &shards(features + shared, servers));
        assert!(order.is_plain(), "{order:?}");
    }
}

#[test]
fn numbers_in_the_order_of_places_come_back_in_the_order_of_keys() {
    let order = KeyPlaces::new(100, 2, &shards(112, 3));
    let keys: Vec<u32> = (0..112).filter(|key| key % 3 != 1 || *key >= 100).collect();
    let mut places = Vec::new();
    order.place_keys(&keys, &mut places);
    assert!(places.is_sorted() && places.len() == keys.len(), "{places:?}");
    let numbers: Vec<f32> = (0..2 * keys.len()).map(|at| at as f32).collect();
    let (mut placed, mut back) = (Vec::new(), vec![0.0; numbers.len()]);
    order.gather(&keys, &numbers, &mut placed);
    for (place, pair) in places.iter().zip(placed.chunks(2)) {
        let server = (0..3).find(|&at| order.part(at).places().contains(&(*place as usize)));
        let key = order.part(server.unwrap()).key_at(*place as usize);
        let nth = keys.iter().position(|&known| known as usize == key).unwrap();
        assert_eq!(pair, [2.0 * nth as f32, 2.0 * nth as f32 + 1.0]);
    }
    order.scatter(&keys, &placed, &mut back);
    assert_eq!(back, numbers);
    order.place_keys(&[], &mut places);
    order.gather(&[], &[], &mut placed);
    order.scatter(&[], &[], &mut []);
    assert!(places.is_empty() && placed.is_empty());
}
