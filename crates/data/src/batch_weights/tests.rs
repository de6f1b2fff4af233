use super::*;

#[test]
fn weights_of_classes_multiply_those_of_examples() {
    let mut weights = BatchWeights::new(&Arc::from([1.0, 4.0]));
    assert_eq!(weights.of(&[1, 0, 1], &[]), [4.0, 1.0, 4.0]);
    assert_eq!(weights.of(&[1, 0, 1], &[0.5, 2.0, 0.0]), [2.0, 2.0, 0.0]);
    assert_eq!((weights.of_one(1, None), weights.of_one(1, Some(0.5))), (4.0, 2.0));
    let mut none = BatchWeights::default();
    assert_eq!(none.of(&[1, 0], &[0.5, 2.0]), [0.5, 2.0]);
    assert!(none.of(&[1, 0], &[]).is_empty());
    assert_eq!(none.of_one(1, None), 1.0);
}
