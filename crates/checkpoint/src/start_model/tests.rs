use paceline_factor::{FactorMachine, FieldMachine};
use paceline_model::{Logistic, Softmax};

use super::*;

fn numbers(len: usize) -> Vec<f32> {
    (1..=len).map(|number| number as f32).collect()
}

#[test]
fn equal_models_start_from_equal_parameters_in_any_cut() {
    let model = Softmax::new(5, 3);
    let len = model.layout().len();
    let start = StartModel::of_params(model.layout(), numbers(len));
    for cut in 0..=len {
        let mut params = vec![f32::NAN; len];
        let (left, right) = params.split_at_mut(cut);
        start.read_range(&model, 0..cut, left).unwrap();
        start.read_range(&model, cut..len, right).unwrap();
        assert_eq!(params, numbers(len), "cut at {cut}");
    }
}

#[test]
fn new_features_keep_what_the_model_gives_them_in_any_cut() {
    let (small, large) = (Softmax::new(2, 3), Softmax::new(5, 3));
    let start = StartModel::of_params(small.layout(), numbers(9));
    let expected = [1., 2., 0., 0., 0., 3., 4., 0., 0., 0., 5., 6., 0., 0., 0., 7., 8., 9.];
    for cut in 0..=18 {
        let mut params = vec![0.0; 18];
        let (left, right) = params.split_at_mut(cut);
        start.read_range(&large, 0..cut, left).unwrap();
        start.read_range(&large, cut..18, right).unwrap();
        assert_eq!(params, expected, "cut at {cut}");
    }
    let (small, large) = (Logistic::new(2), Logistic::new(4));
    let start = StartModel::of_params(small.layout(), numbers(3));
    let mut params = vec![0.0; 5];
    start.read_range(&large, 0..5, &mut params).unwrap();
    assert_eq!(params, [1.0, 2.0, 0.0, 0.0, 3.0]);
}

#[test]
fn features_that_moved_are_read_from_their_places_in_any_cut() {
    let (small, large) = (Softmax::new(3, 2), Softmax::new(4, 2));
    let moves = vec![FeatureMove { to: 0..1, from: 2 }, FeatureMove { to: 2..4, from: 0 }];
    let start = StartModel::of_params(small.layout(), numbers(8)).moving_features(3, moves);
    let expected = [3., 0., 1., 2., 6., 0., 4., 5., 7., 8.];
    for cut in 0..=10 {
        let mut params = vec![0.0; 10];
        let (left, right) = params.split_at_mut(cut);
        start.read_range(&large, 0..cut, left).unwrap();
        start.read_range(&large, cut..10, right).unwrap();
        assert_eq!(params, expected, "cut at {cut}");
    }
    let other = start.read_range(&Softmax::new(4, 3), 0..0, &mut []).unwrap_err().to_string();
    assert!(other.contains("\"weight\" is [2, 3], but the model has [3, 4]"), "{other}");
}

#[test]
fn entries_of_new_features_keep_what_the_model_gives_them_in_any_cut() {
    let (small, large) = (FactorMachine::new(2, 2), FactorMachine::new(4, 2));
    let start = StartModel::of_params(small.layout(), numbers(7));
    let added = [1., 2., 3., 4., 5., 6., 0., 0., 0., 0., 0., 0., 7.];
    let moves = vec![FeatureMove { to: 0..1, from: 1 }, FeatureMove { to: 3..4, from: 0 }];
    let moving = StartModel::of_params(small.layout(), numbers(7)).moving_features(2, moves);
    let moved = [4., 5., 6., 0., 0., 0., 0., 0., 0., 1., 2., 3., 7.];
    for (start, expected) in [(start, added), (moving, moved)] {
        for cut in 0..=13 {
            let mut params = vec![0.0; 13];
            let (left, right) = params.split_at_mut(cut);
            start.read_range(&large, 0..cut, left).unwrap();
            start.read_range(&large, cut..13, right).unwrap();
            assert_eq!(params, expected, "cut at {cut}");
        }
        let rank = start.read_range(&FactorMachine::new(4, 3), 0..0, &mut []).unwrap_err();
        assert!(rank.to_string().contains("[2, 3], but the model has [4, 4]"), "{rank}");
        let fields = start.read_range(&FieldMachine::new(4, 2, 2), 0..0, &mut []).unwrap_err();
        assert!(fields.to_string().contains("[2, 3], but the model has [4, 5]"), "{fields}");
    }
}

#[test]
fn whatever_else_differs_is_an_error_that_names_the_tensor_and_both_sizes() {
    let refused = |from: &dyn Model, to: &dyn Model| {
        let len = from.layout().len();
        let start = StartModel::of_params(from.layout(), numbers(len));
        start.read_range(to, 0..0, &mut []).unwrap_err().to_string()
    };
    let fewer = refused(&Softmax::new(5, 3), &Softmax::new(4, 3));
    assert!(fewer.contains("\"weight\" is [3, 5], but the model has [3, 4]"), "{fewer}");
    let classes = refused(&Softmax::new(5, 3), &Softmax::new(5, 4));
    assert!(classes.contains("[3, 5]") && classes.contains("[4, 5]"), "{classes}");
    let other = refused(&Logistic::new(5), &Softmax::new(5, 3));
    assert!(other.contains("\"weight\" is [5], but the model has [3, 5]"), "{other}");
    let mut layout = Layout::new();
    layout.push("weight", &[3, 5], paceline_model::Group::Weights);
    let start = StartModel::of_params(&layout, numbers(15));
    let missing = start.read_range(&Softmax::new(5, 3), 0..0, &mut []).unwrap_err();
    assert!(missing.to_string().contains("no tensor \"bias\", which is [3]"), "{missing}");
}
