//! What softmax regression holds to, against sums without any of its code.

use std::sync::Arc;

use paceline_kernels::PATCH;

use super::*;
use crate::kernels::PatchView;

fn values(len: usize, salt: usize, scale: f32) -> Vec<f32> {
    (0..len).map(|i| (((i * 37 + salt * 101) % 64) as f32 / 32.0 - 1.0) * scale).collect()
}

/// Mean loss and its gradient over a batch, block by block, as a worker does it.
fn whole_gradient(model: &mut Softmax, params: &[f32], batch: Batch<'_>, grad: &mut [f32]) -> f32 {
    let (share, mut mode, mut loss) = (1.0 / batch.len() as f32, OutputMode::Overwrite, 0.0);
    let inputs = batch.values().chunks(BLOCK * model.inputs);
    for (inputs, labels) in inputs.zip(batch.labels.chunks(BLOCK)) {
        loss += model.gradient(params, Batch::dense(inputs, labels), share, mode, grad);
        mode = OutputMode::Add;
    }
    loss
}

/// The loss again, in f64 and with none of the model's code.
fn plain_loss(params: &[f64], inputs: usize, classes: usize, batch: Batch<'_>) -> f64 {
    let mut loss = 0.0;
    for (x, &label) in batch.values().chunks(inputs).zip(batch.labels) {
        let score = |c: usize| -> f64 {
            let dot: f64 =
                x.iter().enumerate().map(|(i, &x)| params[c * inputs + i] * f64::from(x)).sum();
            dot + params[classes * inputs + c]
        };
        let sum: f64 = (0..classes).map(|c| score(c).exp()).sum();
        loss += sum.ln() - score(label as usize);
    }
    loss / batch.len() as f64
}

#[test]
fn the_gradient_agrees_with_finite_differences() {
    for (batch, inputs, classes) in [(1, 1, 2), (3, 5, 4), (10, 17, 10), (7, 33, 11), (150, 9, 3)] {
        let mut model = Softmax::new(inputs, classes);
        let params = values(model.layout().len(), 1, 0.5);
        let x = values(batch * inputs, 2, 1.0);
        let labels: Vec<u32> = (0..batch).map(|b| (b * 3 % classes) as u32).collect();
        let batch = Batch::dense(&x, &labels);
        let mut grad = vec![f32::NAN; params.len()];
        let loss = whole_gradient(&mut model, &params, batch, &mut grad);

        let mut wide: Vec<f64> = params.iter().map(|&p| f64::from(p)).collect();
        let plain = plain_loss(&wide, inputs, classes, batch);
        assert!((f64::from(loss) - plain).abs() < 1e-5, "loss {loss}, not {plain}");
        for i in 0..wide.len() {
            let (here, step) = (wide[i], 1e-5);
            wide[i] = here + step;
            let above = plain_loss(&wide, inputs, classes, batch);
            wide[i] = here - step;
            let below = plain_loss(&wide, inputs, classes, batch);
            wide[i] = here;
            let param_gradient = (above - below) / (2.0 * step);
            let got = f64::from(grad[i]);
            assert!(
                (got - param_gradient).abs() < 1e-5,
                "parameter {i}: {got}, not {param_gradient}"
            );
        }
    }
}

#[test]
fn loss_and_gradient_stay_finite_at_huge_scores() {
    let mut model = Softmax::new(2, 3);
    let params = values(model.layout().len(), 1, 1e30);
    let batch = Batch::dense(&[1e5, -1e5], &[2]);
    let mut grad = vec![0.0; params.len()];
    assert!(whole_gradient(&mut model, &params, batch, &mut grad).is_finite());
    assert!(grad.iter().all(|g| g.is_finite()));
    let mut tally = Tally::default();
    model.evaluate(&params, batch, &mut tally);
    assert!(tally.loss().is_finite());
}

#[test]
fn evaluation_counts_what_the_gradient_sees() {
    let mut model = Softmax::new(6, 4);
    let params = values(model.layout().len(), 5, 1.0);
    let x = values(8 * 6, 6, 1.0);
    let labels: Vec<u32> = (0..8).map(|b| b % 4).collect();
    let batch = Batch::dense(&x, &labels);
    let mut grad = vec![0.0; params.len()];
    let loss = whole_gradient(&mut model, &params, batch, &mut grad);
    let mut tally = Tally::default();
    model.evaluate(&params, batch, &mut tally);
    assert_eq!(tally.examples, 8);
    assert!((tally.loss() - f64::from(loss)).abs() < 1e-6);
}

#[test]
fn the_first_of_equal_scores_counts() {
    let mut model = Softmax::new(1, 3);
    let mut tally = Tally::default();
    let batch = Batch::dense(&[1.0; 3], &[0, 1, 2]);
    model.evaluate(&[0.0; 6], batch, &mut tally);
    assert_eq!(tally.correct, 1);
}

/// Leaves out the empty patches of images: their words, and where each image begins.
fn pack(inputs: usize, bytes: &[u8]) -> (Vec<u64>, Vec<u32>) {
    let (mut words, mut starts) = (Vec::new(), vec![0]);
    for image in bytes.chunks(inputs) {
        let map = words.len();
        words.resize(map + PatchView::map_words(inputs), 0);
        for (at, &patch) in image.as_chunks::<PATCH>().0.iter().enumerate() {
            if patch != [0; PATCH] {
                words[map + at / 64] |= 1 << (at % 64);
                words.push(u64::from_ne_bytes(patch));
            }
        }
        starts.push(words.len() as u32);
    }
    (words, starts)
}

/// Images, of which some are empty, some full and most half empty.
fn images(count: usize, inputs: usize) -> Vec<u8> {
    let byte = |image: usize, i: usize| match image % 5 {
        0 if image.is_multiple_of(2) => 0,
        1 => (i % 255) as u8 + 1,
        _ if (image * 3 + i / PATCH * 7) % 10 < 4 => ((image * 31 + i * 17) % 256) as u8,
        _ => 0,
    };
    (0..count * inputs).map(|at| byte(at / inputs, at % inputs)).collect()
}

#[test]
fn images_in_patches_agree_with_dense_ones_with_equal_bits_on_any_number_of_threads() {
    for (count, inputs, classes) in [(1, 8, 2), (10, 784, 10), (129, 24, 3), (600, 784, 10)] {
        let bytes = images(count, inputs);
        let numbers: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
        let (words, starts) = pack(inputs, &bytes);
        let words: Arc<dyn AsRef<[u64]> + Send + Sync> = Arc::new(words);
        let starts = Arc::new(starts);
        let which: Vec<u32> = (0..count as u32).collect();
        let labels: Vec<u32> = which.iter().map(|i| i * 3 % classes as u32).collect();
        let mut dense = Softmax::new(inputs, classes);
        let params = values(dense.layout().len(), 1, 0.1);
        let mut work = vec![f32::NAN; params.len()];
        let batch = Batch::dense(&numbers, &labels);
        let loss = whole_gradient(&mut dense, &params, batch, &mut work);
        let mut before: Option<(u32, u64, Vec<u32>)> = None;
        for threads in [1, 2, 3] {
            let mut model = Softmax::for_patches(inputs, classes, threads).unwrap();
            let images = SharedPatches { words: &words, starts: &starts, which: &which };
            let batch = Batch::patches(images, &labels);
            let (share, mut grad) = (0.5 / count as f32, vec![f32::NAN; params.len()]);
            let half = model.gradient(&params, batch, share, OutputMode::Overwrite, &mut grad);
            let ours = half + model.gradient(&params, batch, share, OutputMode::Add, &mut grad);
            assert!((ours - loss).abs() < 1e-4, "{count}: loss {ours}, not {loss}");
            for (i, (ours, work)) in grad.iter().zip(&work).enumerate() {
                assert!((ours - work).abs() < 1e-5, "{count}, {i}: {ours}, not {work}");
            }
            let mut tally = Tally::default();
            model.evaluate(&params, batch, &mut tally);
            assert_eq!(tally.examples, count as u64);
            assert!((tally.loss() - f64::from(loss)).abs() < 1e-4);
            let grad = grad.iter().map(|g| g.to_bits()).collect();
            let bits = (ours.to_bits(), tally.loss_sum.to_bits(), grad);
            assert!(before.as_ref().is_none_or(|before| *before == bits), "{threads} threads");
            before = Some(bits);
        }
    }
}
