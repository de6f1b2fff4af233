//! Tests of storing keys in few bits.

use proptest::prelude::*;

use super::*;
use crate::sparse::segment::key_code::key_bits;
use crate::sparse::segment::key_encoder::KeyEncoder;

type CodedRow = (Vec<u32>, Vec<f32>);

fn rows() -> impl Strategy<Value = (u32, Vec<CodedRow>)> {
    let limit = prop_oneof![1u32..50, 1u32..200_000, any::<u32>().prop_map(|limit| limit.max(1))];
    limit.prop_flat_map(|limit| {
        let key = prop_oneof![0..limit.min(40), 0..limit.min(5_000), 0..limit];
        let row = (proptest::collection::vec(key, 0..200), any::<bool>());
        let row = row.prop_map(|(mut keys, has_values)| {
            keys.sort_unstable();
            let count = if has_values { keys.len() } else { 0 };
            (keys, (0..count).map(|value| value as f32 - 7.5).collect())
        });
        (Just(limit), proptest::collection::vec(row, 1..40))
    })
}

/// A code for some rows.
fn code_for<'a>(rows: impl Iterator<Item = &'a Vec<u32>>) -> KeyCode {
    let (mut keys, mut ends) = (Vec::new(), Vec::new());
    for row in rows {
        keys.extend_from_slice(row);
        ends.push(keys.len() as u32);
    }
    KeyCode::for_sample(&keys, &ends)
}

fn decode(reader: &KeyReader, bytes: &[u8], key_bits: usize) -> CodedRow {
    let (mut keys, mut values) = (KeyBuffer::default(), Vec::new());
    reader.decode(bytes, key_bits, &mut keys, &mut values);
    (keys.to_vec(), values)
}

proptest! {
    #[test]
    fn rows_come_back_as_encoded((limit, rows) in rows(), sample in 0usize..40) {
        let code = code_for(rows.iter().take(sample).map(|(keys, _)| keys));
        let again = KeyCode::new(code.popular()).unwrap();
        let (encoder, mut bytes) = (KeyEncoder::new(&code), Vec::new());
        let key_bits = key_bits(limit.into());
        let starts: Vec<usize> = rows.iter().map(|(keys, values)| {
            let start = bytes.len();
            encoder.encode(keys, values, key_bits, &mut bytes);
            start
        }).collect();
        bytes.extend_from_slice(&[0; SLACK_BYTES]);
        let features = limit as usize;
        let readers = [KeyReader::new(again.clone(), features), KeyReader::plain(again, features)];
        for (row, start) in rows.iter().zip(starts) {
            for reader in &readers {
                prop_assert_eq!(&decode(reader, &bytes[start..], key_bits), row);
            }
        }
    }

    #[test]
    fn any_bytes_are_decoded_equally_to_keys_below_the_features(
        bytes in proptest::collection::vec(any::<u8>(), 0..900),
        features in prop_oneof![1u64..10, 1u64..1 << 32],
    ) {
        let code = KeyCode::new(&[3, 5, 8]).unwrap();
        let (key_bits, features) = (key_bits(features), features as usize);
        let found = decode(&KeyReader::new(code.clone(), features), &bytes, key_bits);
        prop_assert!(found.0.iter().all(|&key| (key as usize) < features));
        prop_assert_eq!(decode(&KeyReader::plain(code, features), &bytes, key_bits).0, found.0);
    }
}

#[test]
fn keys_have_an_even_number_of_bits_and_never_30() {
    let found = [0, 1, 2, 3, 5, 1 << 24, (1 << 24) + 1, 1 << 29, 1 << 32, u64::MAX].map(key_bits);
    assert_eq!(found, [0, 0, 2, 2, 4, 24, 26, 32, 32, 32]);
}

#[test]
fn popular_keys_take_little_space() {
    // Rows of 40 keys, all among 400 popular ones: 13 bits each instead of 32.
    let rows: Vec<Vec<u32>> =
        (0..300).map(|row| (0..40).map(|i| (i * 10 + (row * i) % 10) * 70_001).collect()).collect();
    let code = code_for(rows.iter());
    let mut bytes = Vec::new();
    rows.iter().for_each(|row| KeyEncoder::new(&code).encode(row, &[], 32, &mut bytes));
    assert!(bytes.len() < 300 * 70, "{}", bytes.len());
}
