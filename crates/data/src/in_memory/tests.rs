use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn examples_come_back_as_they_were_given(
        rows in (1usize..6).prop_flat_map(|width| {
            let row = (proptest::collection::vec(-9f32..9.0, width), 0u32..4);
            proptest::collection::vec(row, 1..20)
        }),
    ) {
        let examples = InMemoryExamples::from_rows(rows.clone()).unwrap();
        prop_assert_eq!(examples.len(), rows.len());
        let mut out = vec![0.0; examples.inputs()];
        for (index, (values, label)) in (0..).zip(&rows) {
            prop_assert_eq!(examples.fill(index, 3, &mut out).unwrap(), *label);
            prop_assert_eq!(&out, values);
            prop_assert!((*label as usize) < examples.classes());
        }
    }

    #[test]
    fn every_example_is_in_one_of_the_two_sets(
        all in 2usize..30, test in 0usize..30, seed: u64,
    ) {
        let rows = (0..all).map(|i| ([i as f32, 7.0], i as u32 / 20));
        let examples = InMemoryExamples::from_rows(rows).unwrap();
        let split = examples.clone().hold_out(test, seed);
        prop_assert_eq!(split.is_ok(), test < all);
        if let Ok(TrainTest { train, test: held, .. }) = split {
            prop_assert_eq!(held.len(), test);
            prop_assert!(train.values.iter().step_by(2).is_sorted());
            let mut both = [train.values, held.values].concat();
            both.retain(|&value| value != 7.0 || all <= 7);
            prop_assert!((0..all).filter(|&i| i != 7).all(|i| both.contains(&(i as f32))));
            prop_assert_eq!(train.labels.len() + held.labels.len(), all);
        }
    }
}

#[test]
fn rows_sorted_by_class_give_a_test_set_of_all_classes() {
    let rows = (0..200_u32).map(|i| ([i as f32], i / 50));
    let examples = InMemoryExamples::from_rows(rows).unwrap();
    let held = examples.clone().hold_out(20, 1).unwrap().test;
    let of_class = |class| held.labels.iter().filter(|&&label| label == class).count();
    assert_eq!([0, 1, 2, 3].map(of_class), [5; 4]);
    assert_eq!(held.values.iter().map(|&v| v as u32 / 50).collect::<Vec<_>>(), held.labels);
    assert!(held != examples.hold_out(20, 2).unwrap().test);
}

#[test]
fn shape_and_classes_can_be_given() {
    let examples = InMemoryExamples::from_rows([([0.0; 6], 1), ([1.0; 6], 0)]).unwrap();
    assert_eq!((examples.shape(), examples.classes()), ([1, 1, 6], 2));
    let examples = examples.with_shape([1, 2, 3]).unwrap().with_classes(10).unwrap();
    assert_eq!((examples.shape(), examples.classes()), ([1, 2, 3], 10));
    assert!(examples.clone().with_shape([2, 2, 2]).is_err());
    assert!(examples.with_classes(1).unwrap_err().to_string().contains("example 0 is 1"));
}

#[test]
fn bad_examples_are_named() {
    let check = |rows: &[&[f32]], says: &str| {
        let rows = rows.iter().map(|row| (row, 0));
        let error = InMemoryExamples::from_rows(rows).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    check(&[], "no example");
    check(&[&[]], "example 0 has no values");
    check(&[&[1.0], &[1.0, 2.0]], "example 1 has 2 values");
    check(&[&[1.0], &[f32::NAN]], "value 0 of example 1 is NaN");
}
