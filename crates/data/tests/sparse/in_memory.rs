//! Rows from an iterator behave as rows from a file.

use paceline_data::{BatchPlan, DataError, SparseBuffer, SparseKind, SparseRows, SparseSpec};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::{DataDir, all, ones, open};

const FEATURES: usize = 50;

/// Rows with unsorted and repeated keys. Each row has a value for each key, or none.
fn rows() -> impl Strategy<Value = Vec<(Vec<u32>, Vec<f32>, u32)>> {
    let entry = (0..FEATURES as u32, prop_oneof![Just(1.0f32), -4f32..4.0]);
    let row = (0u32..2, vec(entry, 0..8), any::<bool>()).prop_map(|(label, entries, ones)| {
        let (keys, values): (Vec<u32>, Vec<f32>) = entries.into_iter().unzip();
        (keys, if ones { vec![] } else { values }, label)
    });
    vec(row, 1..30)
}

/// The same rows as LIBSVM text.
fn text(rows: &[(Vec<u32>, Vec<f32>, u32)]) -> String {
    let mut text = String::new();
    for (keys, values, label) in rows {
        text += &label.to_string();
        for (index, key) in keys.iter().enumerate() {
            text += &format!(" {key}:{}", values.get(index).unwrap_or(&1.0));
        }
        text += "\n";
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_in_memory_and_mapped_rows_give_equal_batches(rows in rows(), seed: u64) {
        let dir = DataDir::new();
        dir.file("rows.svm", text(&rows));
        let index_base = paceline_data::IndexBase::Zero;
        let features = Some(FEATURES);
        let spec = dir.spec(SparseKind::Libsvm, "rows.svm");
        let mapped = open(&SparseSpec { index_base, features, ..spec }).unwrap().train;
        let in_memory = SparseRows::from_rows(FEATURES, rows).unwrap();
        prop_assert_eq!(in_memory.features(), mapped.features());
        prop_assert_eq!(in_memory.entries(), mapped.entries());
        prop_assert_eq!(in_memory.all_ones(), mapped.all_ones());

        let mut plan = BatchPlan::new(mapped.len(), 7, 1).shuffled(seed);
        let (mut one, mut other) = (SparseBuffer::default(), SparseBuffer::default());
        let mut examples = Vec::new();
        for step in 0..5 {
            plan.batch(step, 0, &mut examples);
            let indices = examples.iter().map(|&example| example as usize);
            one.fill(&in_memory, indices.clone());
            other.fill(&mapped, indices);
            prop_assert_eq!(&one.starts, &other.starts);
            prop_assert_eq!(&one.keys, &other.keys);
            prop_assert_eq!(&one.values, &other.values);
            prop_assert_eq!(&one.labels, &other.labels);
        }
    }
}

#[test]
fn rows_are_sorted_and_can_be_sliced_and_held_out() {
    let rows = SparseRows::from_rows(10, (0..9u32).map(|key| ([9, key], [], key % 2))).unwrap();
    assert_eq!((rows.len(), rows.entries(), rows.skipped()), (9, 18, 0));
    assert_eq!(all(&rows.slice(3..5)), [ones(1, &[3, 9]), ones(0, &[4, 9])]);
    let split = rows.hold_out_last(2).unwrap();
    assert_eq!((split.train.len(), split.test.len()), (7, 2));
    assert_eq!(all(&split.test), [ones(1, &[7, 9]), ones(0, &[8, 9])]);
    assert!(rows.hold_out_last(9).is_err() && rows.hold_out(9, 1).is_err());
}

#[test]
fn bad_rows_are_named() {
    let check = |row: (&[u32], &[f32], u32), says: &str| {
        let good = (&[1, 2][..], &[][..], 1);
        let error = SparseRows::from_rows(10, [good, row]).unwrap_err();
        assert!(matches!(error, DataError::MemoryRow { row: 1, .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
    };
    check((&[1], &[], 2), "the label is not one of");
    check((&[10], &[], 1), "key 10 (from 0) is not below the number of features, 10");
    check((&[1, 2], &[1.0], 1), "2 indices but 1 values");
    check((&[1], &[f32::NAN], 1), "not a number");
    let none: [([u32; 0], [f32; 0], u32); 0] = [];
    assert!(SparseRows::from_rows(10, none).unwrap_err().to_string().contains("0 rows"));
    let error = SparseRows::from_rows(0, [([0], [1.0], 1)]).unwrap_err().to_string();
    assert!(error.contains("0 features"), "{error}");
}
