use super::*;

#[test]
fn tensors_follow_each_other_without_gaps() {
    let mut layout = Layout::new();
    layout.push("a", &[2, 3], Group::Weights);
    layout.push("b", &[3], Group::Biases);
    let ranges: Vec<_> = layout.tensors().iter().map(|t| t.range.clone()).collect();
    assert_eq!(ranges, [0..6, 6..9]);
    assert_eq!(layout.len(), 9);
}

#[test]
fn split_gives_each_tensor_its_part() {
    let mut layout = Layout::new();
    layout.push("a", &[2, 1], Group::Weights);
    layout.push("b", &[0], Group::Biases);
    layout.push("c", &[1], Group::Biases);
    let mut params = [1.0, 2.0, 3.0];
    let [a, b, c] = layout.split_mut(&mut params);
    a[1] = 5.0;
    c[0] = 7.0;
    assert!(b.is_empty());
    let [a, _, c] = layout.split(&params);
    assert_eq!((a, c), (&[1.0, 5.0][..], &[7.0][..]));
}

#[test]
#[should_panic(expected = "already has a tensor a")]
fn a_duplicate_name_is_refused() {
    let mut layout = Layout::new();
    layout.push("a", &[1], Group::Weights);
    layout.push("a", &[1], Group::Weights);
}
