//! Small whole numbers, whose sums are exact in any order.

use super::*;

fn numbers(len: usize, salt: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + salt * 5 + i / 11) % 9) as f32 - 4.0).collect()
}

fn all_sizes() -> impl Iterator<Item = PlaneConv> {
    let kernels = [[1, 1], [5, 5], [2, 4], [3, 7]];
    kernels.into_iter().flat_map(|kernel| {
        [16, 17, 28, 32, 33, 47].into_iter().flat_map(move |width| {
            [1, 2, 5, 6, 7, 13].into_iter().map(move |outputs| {
                let row = width + kernel[1] - 1 + outputs % 2;
                PlaneConv { kernel, row, height: 3, width, outputs }
            })
        })
    })
}

/// Calls `work` with pixel, tap and the covered value's index for every product of an output.
fn each_product(sizes: PlaneConv, mut work: impl FnMut(usize, usize, usize)) {
    for pixel in 0..sizes.height * sizes.width {
        let (y, x) = (pixel / sizes.width, pixel % sizes.width);
        for tap in 0..sizes.taps() {
            let (ky, kx) = (tap / sizes.kernel[1], tap % sizes.kernel[1]);
            work(pixel, tap, (y + ky) * sizes.row + x + kx);
        }
    }
}

#[test]
fn outputs_and_gradients_are_those_of_the_definition_at_all_sizes() {
    for sizes in all_sizes() {
        let PlaneConv { kernel, row, height, width, outputs } = sizes;
        // Not one number more than the kernel covers.
        let image = numbers((height + kernel[0] - 2) * row + width + kernel[1] - 1, 1);
        let weights = numbers(sizes.taps() * outputs, 2);
        let bias = numbers(outputs, 3);
        let dy = numbers(height * width * outputs, 4);
        let plane = height * width;
        let mut y: Vec<f32> = (0..outputs * plane).map(|at| bias[at / plane]).collect();
        let mut grad = vec![0.0; weights.len()];
        each_product(sizes, |pixel, tap, covered| {
            for output in 0..outputs {
                let (at, weight) = (output * plane + pixel, tap * outputs + output);
                y[at] += image[covered] * weights[weight];
                grad[weight] += image[covered] * dy[at];
            }
        });
        let mut out = vec![f32::NAN; y.len()];
        sizes.forward(&image, &weights, &bias, &mut out);
        assert_eq!(out, y, "{sizes:?}");

        let mut scratch = vec![f32::NAN; sizes.scratch()];
        let mut sums = vec![0.0; sizes.sums()];
        // Twice, because the gradient is added.
        sizes.add_gradient(&image, &dy, &mut scratch, &mut sums);
        sizes.add_gradient(&image, &dy, &mut scratch, &mut sums);
        let mut seen = 0;
        sizes.total(&sums, |tap, output, sum| {
            let of_bias = || dy[output * plane..][..plane].iter().sum::<f32>();
            let wanted = if tap == sizes.taps() { of_bias() } else { grad[tap * outputs + output] };
            assert_eq!(sum, 2.0 * wanted, "{sizes:?}: tap {tap}, output {output}");
            seen += 1;
        });
        assert_eq!(seen, (sizes.taps() + 1) * outputs);
    }
}
