//! Tests of storing keys as gaps.

use proptest::prelude::*;

use super::*;

type CodedRow = (Vec<u32>, Vec<f32>);

fn rows() -> impl Strategy<Value = Vec<CodedRow>> {
    let key = prop_oneof![0u32..40, 0u32..100_000, any::<u32>()];
    let row = (proptest::collection::vec(key, 0..90), any::<bool>());
    let row = row.prop_map(|(mut keys, has_values)| {
        keys.sort_unstable();
        let count = if has_values { keys.len() } else { 0 };
        (keys, (0..count).map(|value| value as f32 - 7.5).collect())
    });
    proptest::collection::vec(row, 1..40)
}

proptest! {
    #[test]
    fn rows_come_back_as_encoded(rows in rows(), sample in 0usize..40) {
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        for (row, _) in rows.iter().take(sample) {
            keys.extend_from_slice(row);
            ends.push(keys.len() as u32);
        }
        let code = KeyCode::for_sample(&keys, &ends, u64::from(u32::MAX) + 1);
        let again = KeyCode::new(code.popular(), code.widths()).unwrap();
        let (encoder, mut bytes) = (KeyEncoder::new(&code), Vec::new());
        let starts: Vec<usize> = rows.iter().map(|(keys, values)| {
            let start = bytes.len();
            encoder.encode(keys, values, &mut bytes);
            start
        }).collect();
        bytes.extend_from_slice(&[0; SLACK_BYTES]);
        for ((keys, values), start) in rows.iter().zip(starts) {
            let mut found = CodedRow::default();
            again.decode(&bytes[start..], &mut found.0, &mut found.1);
            prop_assert_eq!((&found.0, &found.1), (keys, values));
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), widths: [u8; 4],
    ) {
        let code = KeyCode::new(&[3, 5, 8], widths.map(|width| width % 33)).unwrap();
        let mut row = CodedRow::default();
        code.decode(&bytes, &mut row.0, &mut row.1);
    }
}

#[test]
fn tags_of_no_entry_may_be_damaged() {
    // One entry; the three tags after it are narrower than those that the encoder writes there.
    let code = KeyCode::new(&[3, 5, 8], [32, 1, 1, 1]).unwrap();
    let mut row = CodedRow::default();
    code.decode(&[0b11, 0b0101_0101, 0, 0], &mut row.0, &mut row.1);
    assert_eq!(row.0.len(), 1);
}

#[test]
fn popular_keys_take_little_space() {
    // Rows of 40 keys, all among 400 popular ones: 2 + about 4 bits each instead of 32.
    let rows: Vec<Vec<u32>> =
        (0..300).map(|row| (0..40).map(|i| (i * 10 + (row * i) % 10) * 70_001).collect()).collect();
    let keys = rows.concat();
    let ends: Vec<u32> = (1..=300).map(|row| row * 40).collect();
    let code = KeyCode::for_sample(&keys, &ends, 1 << 32);
    let mut bytes = Vec::new();
    rows.iter().for_each(|row| KeyEncoder::new(&code).encode(row, &[], &mut bytes));
    assert!(bytes.len() < 300 * 40, "{}", bytes.len());
}
