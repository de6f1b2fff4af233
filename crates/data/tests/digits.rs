//! The generated digits: repeatable, balanced, and as hard as they are meant to be.

use paceline_data::{Digits, Images, Random};
use sha2::{Digest, Sha256};

#[test]
fn a_seed_says_everything() {
    let (one, again, two) = (
        Digits::generate_sets(50, 20, 1),
        Digits::generate_sets(50, 20, 1),
        Digits::generate_sets(50, 20, 2),
    );
    assert_eq!(one, again);
    assert_ne!(one.train, two.train);
    assert_eq!(one.origin, "generated from seed 1");
    assert_ne!(one.train.image(0), one.test.image(0), "the splits must not share images");
}

#[test]
fn an_image_does_not_depend_on_how_many_there_are() {
    let (few, many) = (Digits::generate_sets(10, 5, 3), Digits::generate_sets(200, 100, 3));
    for i in 0..10 {
        assert_eq!(few.train.image(i), many.train.image(i));
        assert_eq!(few.train.label(i), many.train.label(i));
    }
    assert_eq!(few.test.image(4), many.test.image(4));
    assert!(Digits::generate_sets(0, 0, 3).train.is_empty());
}

/// Tasks on different machines must draw the same bits, and so must later versions: runs are
/// compared by seed. If this fails by intention, say so in the changelog.
#[test]
fn the_bits_are_pinned() {
    let set = Digits::generate_sets(500, 0, 1);
    let mut hash = Sha256::new();
    hash.update(set.train.labels());
    (0..set.train.len()).for_each(|i| hash.update(set.train.image(i)));
    let digest: String = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
    assert_eq!(digest, "0652a8b7159f5959");
}

#[test]
fn classes_are_balanced_and_there_is_as_much_ink_as_in_mnist() {
    let train = Digits::generate_sets(10_000, 0, 4).train;
    for class in 0..10 {
        let count = train.labels().iter().filter(|&&label| label == class).count();
        assert!((850..1150).contains(&count), "{count} of class {class}");
    }
    let all: Vec<u8> = (0..train.len()).flat_map(|i| train.image(i).to_vec()).collect();
    let mean = all.iter().map(|&p| f64::from(p)).sum::<f64>() / all.len() as f64 / 255.0;
    let inked = all.iter().filter(|&&p| p > 0).count() as f64 / all.len() as f64;
    assert!((0.12..0.14).contains(&mean), "mean {mean}");
    assert!((0.17..0.22).contains(&inked), "inked {inked}");
}

/// Softmax regression by plain SGD, batch 60 and rate 0.01, which is the default job.
#[test]
fn a_linear_model_gets_most_but_not_all() {
    let set = Digits::generate_sets(60_000, 10_000, 1);
    let mut model = Linear { weights: vec![[0.0; 10]; 785] };
    let mut order: Vec<usize> = (0..set.train.len()).collect();
    for epoch in 0..6 {
        Random::keyed(&[epoch]).shuffle(&mut order);
        order.chunks(60).for_each(|batch| model.step(&set.train, batch, 0.01));
    }
    let right = (0..set.test.len()).filter(|&i| {
        let scores = model.scores(&set.test, i);
        let best = (0..10).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        best == Some(usize::from(set.test.label(i)))
    });
    let accuracy = right.count() as f64 / set.test.len() as f64;
    println!("linear accuracy {accuracy}");
    assert!((0.90..0.93).contains(&accuracy), "accuracy {accuracy}");
}

/// Ten scores as linear functions of the pixels; the last row is the bias.
struct Linear {
    weights: Vec<[f32; 10]>,
}

impl Linear {
    fn scores(&self, images: &Images, index: usize) -> [f32; 10] {
        let mut scores = self.weights[784];
        for (weights, &pixel) in self.weights.iter().zip(images.image(index)) {
            if pixel > 0 {
                let value = f32::from(pixel) / 255.0;
                scores.iter_mut().zip(weights).for_each(|(s, w)| *s += value * w);
            }
        }
        scores
    }

    fn step(&mut self, images: &Images, batch: &[usize], rate: f32) {
        // All gradients are taken before any weight moves.
        let errors: Vec<[f32; 10]> = batch.iter().map(|&i| self.error(images, i)).collect();
        let scale = rate / batch.len() as f32;
        for (&index, error) in batch.iter().zip(&errors) {
            let inputs = images.image(index).iter().map(|&pixel| f32::from(pixel) / 255.0);
            for (weights, value) in self.weights.iter_mut().zip(inputs.chain([1.0])) {
                if value > 0.0 {
                    let by = scale * value;
                    weights.iter_mut().zip(error).for_each(|(w, e)| *w -= by * e);
                }
            }
        }
    }

    /// The gradient of the loss with respect to the scores: probabilities less the truth.
    fn error(&self, images: &Images, index: usize) -> [f32; 10] {
        let scores = self.scores(images, index);
        let top = scores.iter().copied().fold(f32::MIN, f32::max);
        let mut error = scores.map(|score| (score - top).exp());
        let sum: f32 = error.iter().sum();
        error.iter_mut().for_each(|e| *e /= sum);
        error[usize::from(images.label(index))] -= 1.0;
        error
    }
}
