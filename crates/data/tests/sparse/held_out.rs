//! Rows that are held out for tests: drawn by the seed, in proportion to the classes.

use std::collections::BTreeSet;

use paceline_data::{BatchPlan, HoldOut, SparseBuffer, SparseKind, SparseRows, SparseSpec};

use crate::{DataDir, all, open};

/// Rows whose key is their number. The last tenth of the file has no positive row, as in w8a.
fn file_sorted_by_class(dir: &DataDir) {
    let label = |row: usize| usize::from(row < 900 && row.is_multiple_of(30));
    let line = |row: usize| format!("{} {}:1\n", label(row), row + 1);
    dir.file("rows.svm", (0..1_000).map(line).collect::<String>());
}

fn keys(rows: &SparseRows) -> Vec<u32> {
    (0..rows.len()).map(|index| rows.row(index).keys[0]).collect()
}

#[test]
fn both_sets_have_every_class_although_the_file_is_sorted() {
    let dir = DataDir::new();
    file_sorted_by_class(&dir);
    let spec = SparseSpec { test_examples: Some(100), ..dir.spec(SparseKind::Libsvm, "rows.svm") };
    let set = open(&spec).unwrap();
    assert_eq!(set.test.class_counts(), [97, 3]);
    assert_eq!(set.train.class_counts(), [873, 27]);
    assert_eq!((set.train.entries(), set.test.entries()), (900, 100));
    // Together they are the file, and training keeps its order.
    let (train, test) = (keys(&set.train), keys(&set.test));
    assert!(train.is_sorted());
    let together: BTreeSet<u32> = train.iter().chain(&test).copied().collect();
    assert_eq!((together.len(), train.len()), (1_000, 900));
    // The first test rows are a sample of all of them, not of the start of the file.
    assert!(test[..10].iter().any(|&key| key > 500), "{test:?}");

    let plain = open(&SparseSpec { split: HoldOut::Plain, ..spec.clone() }).unwrap();
    assert_eq!(plain.test.class_counts(), [100, 0]);
    assert_eq!(keys(&plain.test), (900..1_000).collect::<Vec<u32>>());
    let other = open(&SparseSpec { seed: 9, ..spec.clone() }).unwrap();
    assert_ne!(keys(&other.test), test);
    assert_eq!(keys(&open(&spec).unwrap().test), test);
}

#[test]
fn batches_slices_and_places_agree_with_the_rows_of_a_split() {
    let dir = DataDir::new();
    file_sorted_by_class(&dir);
    let spec = SparseSpec { test_examples: Some(333), ..dir.spec(SparseKind::Libsvm, "rows.svm") };
    let set = open(&spec).unwrap();
    for rows in [&set.train, &set.test, &set.train.slice(100..200), &set.test.slice(30..31)] {
        let mut plan = BatchPlan::new(rows.len(), 7, 1).shuffled(3);
        let (mut examples, mut batch) = (Vec::new(), SparseBuffer::default());
        for step in 0..rows.len() as u64 / 7 + 2 {
            plan.batch(step, 0, &mut examples);
            batch.fill(rows, examples.iter().map(|&example| example as usize));
            let expected: Vec<u32> =
                examples.iter().map(|&e| rows.row(e as usize).keys[0]).collect();
            assert_eq!(batch.keys, expected);
            rows.locate_all(&mut examples);
            batch.begin(rows, &examples);
            while batch.read_next(rows) {}
            assert_eq!(batch.keys, expected);
        }
    }
    assert_eq!(all(&set.train.slice(5..6)), all(&set.train)[5..6]);
}
