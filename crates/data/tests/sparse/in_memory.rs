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

/// Rows whose only key is their number; every fifth is of class 1.
fn numbered(count: u32) -> SparseRows {
    let rows = (0..count).map(|i| ([i], [], u32::from(i.is_multiple_of(5))));
    SparseRows::from_rows(count as usize, rows).unwrap()
}

fn keys(rows: &SparseRows) -> Vec<u32> {
    (0..rows.len()).map(|index| rows.row(index).keys[0]).collect()
}

#[test]
fn rows_held_out_twice_are_in_one_set_each_with_both_classes() {
    let all = numbered(100);
    for first in [1, 10, 40] {
        let test = all.hold_out(first, 1).unwrap();
        let validation = test.train.hold_out(15, 2).unwrap();
        let third = validation.train.slice(0..30).hold_out(10, 3).unwrap();
        let sets = [&test.test, &validation.test, &validation.train];
        let mut found: Vec<u32> = sets.into_iter().flat_map(keys).collect();
        found.sort_unstable();
        assert_eq!(found, (0..100).collect::<Vec<_>>(), "{first}");
        assert!(keys(&validation.train).is_sorted(), "the rest keeps its order");
        assert_eq!(validation.test.class_counts(), [12, 3]);
        let mut part = [keys(&third.train), keys(&third.test)].concat();
        part.sort_unstable();
        assert_eq!(part, keys(&validation.train)[..30]);
        // A set that is itself listed can be divided too.
        let halves = validation.test.hold_out(5, 4).unwrap();
        let mut both = [keys(&halves.train), keys(&halves.test)].concat();
        both.sort_unstable();
        let mut whole = keys(&validation.test);
        whole.sort_unstable();
        assert_eq!(both, whole);
    }
}

#[test]
fn negatives_are_sampled_by_seed_and_row_and_positives_stay() {
    let all = numbered(5_000);
    for share in [0.9, 0.25, 0.01] {
        let kept = all.sample_negatives(share, 7).unwrap();
        let counts = kept.class_counts();
        let (negatives, positives) = (counts[0], counts[1]);
        assert_eq!(positives, 1_000);
        let expected = share * 4_000.0;
        assert!(
            (negatives as f64 - expected).abs() < 5.0 * expected.sqrt(),
            "{share}: {negatives}"
        );
        assert!(keys(&kept).is_sorted());
        assert_eq!(keys(&kept), keys(&all.sample_negatives(share, 7).unwrap()));
        assert_ne!(keys(&kept), keys(&all.sample_negatives(share, 8).unwrap()));
        // Which rows are in the view changes nothing for a row.
        let part = all.hold_out(1_000, 1).unwrap().train;
        let of_part = keys(&part.sample_negatives(share, 7).unwrap());
        let in_part = keys(&part);
        let is_there = |key: &u32| in_part.binary_search(key).is_ok();
        let expected: Vec<u32> = keys(&kept).into_iter().filter(is_there).collect();
        assert_eq!(of_part, expected);
    }
    assert_eq!(keys(&all.sample_negatives(1.0, 7).unwrap()), keys(&all));
    assert!(all.sample_negatives(0.0, 7).is_err() && all.sample_negatives(1.1, 7).is_err());
}

#[test]
fn weights_stay_with_their_rows() {
    let weights: Vec<f32> = (0..100).map(|i| i as f32 / 2.0).collect();
    let all = numbered(100).with_weights(weights).unwrap();
    let split = all.hold_out(20, 1).unwrap();
    let mut buffer = paceline_data::SparseBuffer::default();
    for rows in [&all, &split.train, &split.test, &all.sample_negatives(0.5, 1).unwrap()] {
        buffer.fill(rows, 0..rows.len());
        let expected: Vec<f32> = keys(rows).iter().map(|&key| key as f32 / 2.0).collect();
        assert_eq!(buffer.weights, expected);
    }
    buffer.fill(&numbered(10), 0..10);
    assert!(buffer.weights.is_empty(), "rows without weights cost nothing");
    assert!(numbered(3).with_weights(vec![1.0; 2]).is_err());
    let error = numbered(3).with_weights(vec![1.0, -1.0, 1.0]).unwrap_err().to_string();
    assert!(error.contains("the weight -1"), "{error}");
}
