//! Tests of the patch kernels.

use super::*;
use crate::dense::{dense_backward_weights, dense_forward};

/// Images with `full` of 10 patches not empty; some patches have only one byte.
fn images(count: usize, inputs: usize, full: usize) -> Vec<u8> {
    let byte = |image: usize, i: usize| {
        let is_full = (image * 3 + i / PATCH * 7) % 10 < full;
        let alone = image.is_multiple_of(3) && i % PATCH != image % PATCH;
        if is_full && !alone { ((image * 5 + i * 3) % 4 + 1) as u8 * 51 } else { 0 }
    };
    (0..count * inputs).map(|at| byte(at / inputs, at % inputs)).collect()
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

fn near(ours: &[f32], dense: &[f32], what: &str) {
    assert_eq!(ours.len(), dense.len());
    for (i, (ours, dense)) in ours.iter().zip(dense).enumerate() {
        assert!((ours - dense).abs() <= 1e-4 * dense.abs().max(1.0), "{what} {i}: {ours}, {dense}");
    }
}

fn check(count: usize, inputs: usize, outputs: usize, full: usize) {
    let bytes = images(count + 2, inputs, full);
    let (words, starts) = pack(inputs, &bytes);
    // In reverse order and without the first, so that indices and images differ.
    let which: Vec<u32> = (1..=count as u32).rev().collect();
    let images = PatchView { words: &words, starts: &starts, which: &which };
    let x: Vec<f32> = which
        .iter()
        .flat_map(|&image| &bytes[image as usize * inputs..][..inputs])
        .map(|&byte| f32::from(byte) / 255.0)
        .collect();
    let number = |i: usize| ((i * 7) % 11) as f32 - 5.0;
    let weights: Vec<f32> = (0..outputs * inputs).map(number).collect();
    let (bias, delta) = (&weights[..outputs], (0..count * outputs).map(number).collect::<Vec<_>>());
    let what = format!("{count}x{inputs}x{outputs}, {full}");

    let (mut ours, mut dense) = (vec![f32::NAN; count * outputs], vec![0.0; count * outputs]);
    patches_forward(inputs, images, &weights, bias, &mut ours);
    dense_forward(inputs, &x, &weights, bias, &mut dense);
    near(&ours, &dense, &what);

    let mut scratch = PatchScratch::default();
    let (mut ours, mut dense) = (vec![f32::NAN; weights.len()], vec![0.0; weights.len()]);
    for mode in [OutputMode::Overwrite, OutputMode::Add] {
        patches_backward(inputs, images, &delta, &mut scratch, mode, &mut ours);
        dense_backward_weights(inputs, outputs, &x, &delta, mode, &mut dense);
        near(&ours, &dense, &what);
    }
}

#[test]
fn both_directions_agree_with_the_dense_kernels() {
    for count in [1, 2, 7, 63, 64] {
        for inputs in [8, 16, 72, 512, 520, 784] {
            for (outputs, full) in [(1, 5), (4, 10), (5, 4), (6, 0), (10, 4), (11, 10), (26, 3)] {
                check(count, inputs, outputs, full);
            }
        }
    }
}
