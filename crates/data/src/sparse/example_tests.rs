//! Tests of reading and writing rows as `tf.train.Example`.

use proptest::prelude::*;

use super::*;

type ExampleRow = (u32, Vec<u32>, Vec<f32>);

fn read(record: &[u8]) -> Result<ExampleRow, RowFault> {
    let mut row = RowBuffer::default();
    parse(record, &FeatureNames::default(), &mut row)?;
    let row = row.finish(usize::MAX)?;
    Ok((row.label, row.keys.to_vec(), row.values.to_vec()))
}

/// An Example of the given lists, each absent or of any length.
fn example(label: Option<&[i64]>, index: Option<&[i64]>, value: Option<&[f32]>) -> Vec<u8> {
    let mut out = Vec::new();
    ProtoWriter::new(&mut out).message(1, |features| {
        for (name, list) in [("label", label), ("index", index)] {
            if let Some(list) = list {
                let list = list.iter().map(|&value| value as u64);
                feature(features, name, |f| f.message(3, |l| l.packed_uint64s(1, list)));
            }
        }
        if let Some(list) = value {
            feature(features, "value", |f| f.message(2, |l| l.packed_floats(1, list)));
        }
    });
    out
}

proptest! {
    #[test]
    fn rows_come_back_as_written(
        label in 0u32..2,
        keys in proptest::collection::btree_set(any::<u32>(), 0..50),
        value in -10f32..10.0,
    ) {
        let keys: Vec<u32> = keys.into_iter().collect();
        let values = vec![value; keys.len()];
        let mut record = Vec::new();
        let row = SparseRow { label, weight: 1.0, keys: &keys, values: &values, fields: &[] };
        write(row, &mut record);
        let expected = if values.iter().all(|v| *v == 1.0) { vec![] } else { values };
        prop_assert_eq!(read(&record).unwrap(), (label, keys, expected));
    }

    #[test]
    fn varints_equal_those_of_the_plain_reader(
        bytes in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let (mut ours, mut plain) = (&bytes[..], &bytes[..]);
        let found = varint(&mut ours);
        let expected = paceline_tfrecord::proto::take_varint(&mut plain);
        prop_assert_eq!(found.is_ok(), expected.is_ok());
        if let (Ok(found), Ok(expected)) = (found, expected) {
            prop_assert_eq!((found, ours), (expected, plain));
        }
    }

    #[test]
    fn damage_never_panics(
        cut in 0usize..80, at in 0usize..80, byte: u8,
    ) {
        let mut record = example(Some(&[1]), Some(&[3, 70_000, 5]), Some(&[1.0, 2.0, 0.5]));
        let at = at % record.len();
        record[at] = byte;
        record.truncate(cut.max(1));
        let _ = read(&record);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }
}

#[test]
fn lists_that_are_not_packed_are_parsed() {
    let mut record = Vec::new();
    ProtoWriter::new(&mut record).message(1, |features| {
        feature(features, "value", |f| {
            f.message(2, |l| {
                l.float(1, 2.0);
                l.packed_floats(1, &[3.0]);
            })
        });
        feature(features, "index", |f| {
            f.message(3, |l| {
                l.int64(1, 9);
                l.packed_uint64s(1, [4].into_iter());
            })
        });
        feature(features, "label", |f| f.message(3, |l| l.int64(1, -1)));
        feature(features, "other", |f| f.message(1, |l| l.bytes(1, b"bytes")));
    });
    assert_eq!(read(&record).unwrap(), (0, vec![4, 9], vec![3.0, 2.0]));
}

#[test]
fn missing_values_are_1_and_the_last_entry_with_a_name_counts() {
    let mut record = example(Some(&[1]), Some(&[7]), None);
    assert_eq!(read(&record).unwrap(), (1, vec![7], vec![]));
    record.extend(example(Some(&[0]), None, None));
    assert_eq!(read(&record).unwrap(), (0, vec![7], vec![]));
    assert_eq!(read(&example(Some(&[1]), None, None)).unwrap(), (1, vec![], vec![]));
}

#[test]
fn faults_say_what_is_wrong() {
    let check = |label: Option<&[i64]>, index: &[i64], value: &[f32], fault| {
        assert_eq!(read(&example(label, Some(index), Some(value))), Err(fault));
    };
    check(None, &[1], &[1.0], RowFault::Label);
    check(Some(&[]), &[1], &[1.0], RowFault::Label);
    check(Some(&[0, 1]), &[1], &[1.0], RowFault::Label);
    check(Some(&[2]), &[1], &[1.0], RowFault::Label);
    check(Some(&[1]), &[-1], &[1.0], RowFault::Index);
    check(Some(&[1]), &[1 << 32], &[1.0], RowFault::Index);
    check(Some(&[1]), &[1, 2], &[1.0], RowFault::Lengths { indices: 2, values: 1 });
    check(Some(&[1]), &[1], &[f32::NAN], RowFault::NotFinite);
    let mut record = Vec::new();
    ProtoWriter::new(&mut record).message(1, |features| {
        feature(features, "label", |f| f.message(2, |l| l.packed_floats(1, &[1.0])));
    });
    assert_eq!(read(&record), Err(RowFault::Type("label")));
    assert_eq!(read(b"\x0a"), Err(RowFault::Proto(ProtoError::Truncated)));
}
