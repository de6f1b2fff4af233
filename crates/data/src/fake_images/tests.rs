use super::*;

fn picture(source: &FakeImages, example: u32) -> (Vec<f32>, u32) {
    let mut out = vec![f32::NAN; source.inputs()];
    let label = source.fill(example, 0, &mut out).unwrap();
    (out, label)
}

#[test]
fn a_picture_depends_on_seed_split_and_index_alone() {
    let few = FakeImages::new(1, Split::Train, 10, 5, 20);
    let many = FakeImages::new(1, Split::Train, 1000, 5, 20);
    assert_eq!(picture(&few, 7), picture(&many, 7));
    assert_ne!(picture(&few, 7), picture(&few, 2));
    assert_ne!(picture(&few, 7), picture(&FakeImages::new(2, Split::Train, 10, 5, 20), 7));
    assert_ne!(picture(&few, 7), picture(&FakeImages::new(1, Split::Test, 10, 5, 20), 7));
}

#[test]
fn classes_are_equally_frequent_and_values_have_unit_variance() {
    let source = FakeImages::new(3, Split::Train, 300, 3, 70);
    let mut counts = [0; 3];
    let (mut sum, mut squares) = (0.0, 0.0);
    for example in 0..300 {
        let (values, label) = picture(&source, example);
        counts[label as usize] += 1;
        sum += values.iter().map(|&v| f64::from(v)).sum::<f64>();
        squares += values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
    }
    let n = (300 * source.inputs()) as f64;
    assert_eq!(counts, [100; 3]);
    assert!((sum / n).abs() < 0.3, "mean {}", sum / n);
    assert!((0.4..1.6).contains(&(squares / n)), "variance {}", squares / n);
}

/// A linear model, fitted to means alone: the nearest class mean.
#[test]
fn the_nearest_class_mean_classifies_most_test_pictures() {
    let (classes, size) = (20, 24);
    let train = FakeImages::new(9, Split::Train, 400, classes, size);
    let test = FakeImages::new(9, Split::Test, 200, classes, size);
    let mut means = vec![vec![0.0f32; train.inputs()]; classes];
    for example in 0..400 {
        let (values, label) = picture(&train, example);
        means[label as usize].iter_mut().zip(values).for_each(|(m, v)| *m += v / 20.0);
    }
    let right = (0..200)
        .filter(|&example| {
            let (values, label) = picture(&test, example);
            let distance = |mean: &Vec<f32>| -> f32 {
                mean.iter().zip(&values).map(|(m, v)| (m - v).powi(2)).sum()
            };
            let nearest =
                (0..classes).min_by(|&a, &b| distance(&means[a]).total_cmp(&distance(&means[b])));
            nearest == Some(label as usize)
        })
        .count();
    assert!(right >= 190, "only {right} of 200");
}

#[test]
fn odd_sizes_are_filled_to_the_last_value() {
    for size in [1, 2, 7, 63, 64, 65, 130] {
        let (values, label) = picture(&FakeImages::new(1, Split::Train, 3, 1000, size), 2);
        assert!(values.iter().all(|v| v.is_finite()), "size {size}");
        assert_eq!(label, 2);
    }
}
