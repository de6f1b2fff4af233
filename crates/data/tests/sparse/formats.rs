//! The rows of good files in every format.

use paceline_data::sparse::{Clicks, DenseRows, LabelRule, SparseFormat, write_clicks_file};
use paceline_data::{
    BatchPlan, Examples, HoldOut, IndexBase, OnBad, SparseBuffer, SparseKind, SparseSpec,
};

use crate::{DataDir, all, gzip, ones, open};

#[test]
fn libsvm_indices_count_from_1_unless_a_0_is_found_in_training_or_test_rows() {
    let dir = DataDir::new();
    dir.file("train.svm", "+1 1:1 3:1\n# comment\n-1 qid:3 2:1\n");
    dir.file("from_0.svm", "1 2:1\n0 0:1");
    dir.file("bad_0.svm", "1 2:1\n0 0:1 x\n");
    let spec = dir.spec(SparseKind::Libsvm, "train.svm");
    let set = open(&spec).unwrap();
    assert_eq!(all(&set.train), [ones(1, &[0, 2]), ones(0, &[1])]);
    assert_eq!((set.train.features(), set.train.entries(), set.test.len()), (3, 3, 0));
    assert!(set.train.all_ones());

    let with_test = SparseSpec { test_path: Some(dir.path("from_0.svm")), ..spec.clone() };
    let set = open(&with_test).unwrap();
    assert_eq!(all(&set.train), [ones(1, &[1, 3]), ones(0, &[2])]);
    assert_eq!(all(&set.test), [ones(1, &[2]), ones(0, &[0])]);
    assert_eq!(set.train.features(), 4);

    let from_one = SparseSpec { index_base: IndexBase::One, ..with_test };
    let error = open(&from_one).unwrap_err().to_string();
    assert!(error.contains("from_0.svm: line 2: index 0"), "{error}");

    // A row that is bad anyway does not change the base of the others.
    let mut skipping = dir.spec(SparseKind::Libsvm, "bad_0.svm");
    skipping.on_bad = OnBad::Skip;
    let set = open(&skipping).unwrap();
    assert_eq!((all(&set.train), set.train.skipped()), (vec![ones(1, &[1])], 1));
}

#[test]
fn rows_before_the_first_value_have_values_of_1() {
    let dir = DataDir::new();
    dir.file("late.svm", "1 1:1 2:1\n0 1:1\n1 2:0.5\n0 1:1\n");
    let set = open(&dir.spec(SparseKind::Libsvm, "late.svm")).unwrap();
    assert!(!set.train.all_ones());
    assert_eq!(set.train.row(1).value(0), 1.0);
    assert_eq!(all(&set.train)[2..], [(1, vec![1], vec![0.5]), ones(0, &[0])]);
}

#[test]
fn libsvm_with_several_classes_becomes_dense_examples() {
    let dir = DataDir::new();
    dir.file("train.svm", "3 qid:1 1:0.5 3:2 # a comment\n-1 2:1\n# nothing\n7 1:1\n3\n");
    dir.file("test.svm", "7 2:4\n");
    dir.file("unseen.svm", "5 2:4\n");
    let spec = SparseSpec {
        labels: LabelRule::Classes,
        test_path: Some(dir.path("test.svm")),
        ..dir.spec(SparseKind::Libsvm, "train.svm")
    };
    let set = DenseRows::of(open(&spec).unwrap(), None).unwrap();
    assert_eq!((set.train.len(), set.train.shape(), set.train.classes()), (4, [1, 1, 3], 3));
    assert_eq!(set.train.class_names(), ["-1", "3", "7"]);
    let read = |rows: &DenseRows, example| {
        let mut out = [9.0; 3];
        let class = rows.fill(example, 0, &mut out).unwrap();
        assert_eq!(rows.class_of(example), Some(class));
        (class, out)
    };
    assert_eq!(read(&set.train, 0), (1, [0.5, 0.0, 2.0]));
    assert_eq!(read(&set.train, 1), (0, [0.0, 1.0, 0.0]));
    assert_eq!(read(&set.train, 3), (1, [0.0; 3]));
    assert_eq!(read(&set.test, 0), (2, [0.0, 4.0, 0.0]));

    let unseen = SparseSpec { test_path: Some(dir.path("unseen.svm")), ..spec.clone() };
    let error = DenseRows::of(open(&unseen).unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("test rows have the label 5"), "{error}");
    // The cache of a model with two classes is another one, and says what to do.
    let error = open(&SparseSpec { labels: LabelRule::Binary, ..spec.clone() }).unwrap_err();
    assert!(error.to_string().contains("set model.kind = \"softmax\""), "{error}");
    let wide = SparseSpec { features: Some(100_000), ..spec };
    let error = DenseRows::of(open(&wide).unwrap(), None).unwrap_err().to_string();
    assert!(error.contains("at most 65536") && error.contains("logistic"), "{error}");
}

#[test]
fn generated_rows_are_equal_through_every_format() {
    let dir = DataDir::new();
    let generated = SparseSpec {
        features: Some(10_000),
        train_examples: Some(300),
        test_examples: Some(20),
        seed: 4,
        ..dir.spec(SparseKind::Clicks, "")
    };
    let expected = open(&generated).unwrap();
    assert_eq!((expected.train.len(), expected.test.len()), (300, 20));
    let clicks = Clicks::new(10_000, 4);
    for (kind, format) in [
        (SparseKind::Libsvm, SparseFormat::Libsvm),
        (SparseKind::Libffm, SparseFormat::Libffm),
        (SparseKind::TfRecord, SparseFormat::TfRecord),
        (SparseKind::Criteo, SparseFormat::Criteo),
    ] {
        for packed in [false, true] {
            let name = format!("{}-{packed}", kind.name());
            let path = dir.path(&name);
            assert!(
                write_clicks_file(&clicks, 0..300, format, packed, &path, &mut |_| true).unwrap()
            );
            let spec = SparseSpec { features: Some(10_000), ..dir.spec(kind, &name) };
            let set = open(&spec).unwrap();
            assert_eq!(set.train.len(), 300, "{name}");
            if kind == SparseKind::Criteo {
                let labels = |rows| all(rows).into_iter().map(|row| row.0).collect::<Vec<_>>();
                assert_eq!(labels(&set.train), labels(&expected.train));
                assert!(all(&set.train).iter().all(|row| row.1.len() == 39));
            } else {
                assert_eq!(all(&set.train), all(&expected.train), "{name}");
            }
            let again = write_clicks_file(&clicks, 0..1, format, packed, &path, &mut |_| true);
            assert!(again.is_err(), "a file is never overwritten");
        }
    }
}

#[test]
fn an_interrupted_write_leaves_no_file() {
    let dir = DataDir::new();
    let clicks = Clicks::new(10_000, 4);
    let path = dir.path("rows.svm");
    let whole =
        write_clicks_file(&clicks, 0..100_000, SparseFormat::Libsvm, false, &path, &mut |_| false);
    assert!(!whole.unwrap());
    assert_eq!(std::fs::read_dir(dir.dir.path()).unwrap().count(), 0);
}

#[test]
fn several_files_are_read_in_the_order_of_their_names_and_with_plain_the_last_rows_held_out() {
    let dir = DataDir::new();
    dir.file("part-2.svm", "1 3:1\n1 4:1\n");
    // Two members of a gzip file are one text.
    let members = [gzip(b"0 1:1\n"), gzip(b"0 2:1\n")].concat();
    dir.file("part-1.svm.gz", members);
    let mut spec = dir.spec(SparseKind::Libsvm, "part-*");
    (spec.test_examples, spec.split) = (Some(1), HoldOut::Plain);
    let set = open(&spec).unwrap();
    assert_eq!(all(&set.train), [ones(0, &[0]), ones(0, &[1]), ones(1, &[2])]);
    assert_eq!(all(&set.test), [ones(1, &[3])]);
    spec.train_examples = Some(2);
    assert_eq!(open(&spec).unwrap().train.len(), 2);
    spec.test_examples = Some(4);
    assert!(open(&spec).unwrap_err().to_string().contains("held out"));
}

#[test]
fn a_batch_has_exactly_the_rows_of_the_plan() {
    let dir = DataDir::new();
    dir.file("rows.svm", (1..200).map(|i| format!("{} {i}:{i}\n", i % 2)).collect::<String>());
    let set = open(&dir.spec(SparseKind::Libsvm, "rows.svm")).unwrap();
    let mut plan = BatchPlan::new(set.train.len(), 30, 1).shuffled_within(5, 64);
    let (mut examples, mut batch) = (Vec::new(), SparseBuffer::default());
    for step in 0..8 {
        plan.batch(step, 0, &mut examples);
        batch.fill(&set.train, examples.iter().map(|&example| example as usize));
        assert_eq!((batch.len(), batch.starts.len()), (30, 31));
        assert_eq!(batch.keys, examples);
        assert_eq!(batch.starts, (0..31).collect::<Vec<u32>>());
        let values: Vec<f32> = examples.iter().map(|&e| e as f32 + 1.0).collect();
        assert_eq!(batch.values, values);
        let labels: Vec<u32> = examples.iter().map(|&e| (e + 1) % 2).collect();
        assert_eq!(batch.labels, labels);
    }
    batch.fill(&set.train, std::iter::empty());
    assert!(batch.is_empty() && batch.starts == [0] && batch.keys.is_empty());
}

#[test]
fn a_contradictory_specification_is_an_error_before_any_file_is_read() {
    let dir = DataDir::new();
    dir.file("rows", "1 1:1\n");
    let check = |spec: SparseSpec, says: &str| {
        let error = open(&spec).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    check(dir.spec(SparseKind::Criteo, "rows"), "data.features");
    check(dir.spec(SparseKind::Clicks, ""), "data.features");
    let few = SparseSpec { features: Some(10), ..dir.spec(SparseKind::Clicks, "") };
    check(few, "at least 64");
    let none = SparseSpec { features: Some(100), ..dir.spec(SparseKind::Clicks, "") };
    check(none, "data.train_examples");
    check(SparseSpec { path: None, ..dir.spec(SparseKind::Libsvm, "") }, "data.path");
    let zero = SparseSpec { features: Some(0), ..dir.spec(SparseKind::Libsvm, "rows") };
    check(zero, "data.features");
    check(dir.spec(SparseKind::Libsvm, "absent"), "absent");
}
