//! Means of 2x2 pixels, from an image in planes to one whose channels lie together.

use crate::elementwise::each;

/// Pixels of a row that are worked on together.
const PIXELS: usize = 32;

/// The sizes of an image in planes, both even.
#[derive(Clone, Copy, Debug)]
pub struct PlanePool {
    /// Rows of a plane.
    pub height: usize,
    /// Pixels of a row.
    pub width: usize,
    /// Numbers from one pixel of the means to the next: the channels.
    pub channels: usize,
    /// Numbers from one row of the means to the next.
    pub row: usize,
}

impl PlanePool {
    /// Computes the means. They begin at the beginning of `means`; gaps between rows stay.
    pub fn forward(&self, planes: &[f32], means: &mut [f32]) {
        each(
            #[inline(always)]
            || self.means(planes, means),
        );
    }

    /// Computes the gradient by the planes from that by the means.
    pub fn gradient(&self, means: &[f32], planes: &mut [f32]) {
        each(
            #[inline(always)]
            || self.planes(means, planes),
        );
    }

    #[inline(always)]
    fn means(&self, planes: &[f32], means: &mut [f32]) {
        let of_row = 2 * self.width;
        let mut sums = [0.0; PIXELS];
        for (channel, plane) in planes.chunks_exact(self.height * self.width).enumerate() {
            for (rows, means) in plane.chunks_exact(of_row).zip(means.chunks_mut(self.row)) {
                let (upper, lower) = rows.split_at(self.width);
                let pairs = upper.chunks(2 * PIXELS).zip(lower.chunks(2 * PIXELS));
                let outputs = means.chunks_mut(PIXELS * self.channels);
                for ((upper, lower), means) in pairs.zip(outputs) {
                    let pixels = upper.as_chunks().0.iter().zip(lower.as_chunks().0);
                    for (sum, ([a, b], [c, d])) in sums.iter_mut().zip(pixels) {
                        *sum = 0.25 * a + 0.25 * b + 0.25 * c + 0.25 * d;
                    }
                    let pixels = means[channel..].iter_mut().step_by(self.channels);
                    let sums = &sums[..upper.len() / 2];
                    pixels.zip(sums).for_each(|(mean, sum)| *mean = *sum);
                }
            }
        }
    }

    #[inline(always)]
    fn planes(&self, means: &[f32], planes: &mut [f32]) {
        let of_row = 2 * self.width;
        for (channel, plane) in planes.chunks_exact_mut(self.height * self.width).enumerate() {
            for (rows, means) in plane.chunks_exact_mut(of_row).zip(means.chunks(self.row)) {
                let (upper, lower) = rows.split_at_mut(self.width);
                let means = means[channel..].iter().step_by(self.channels);
                for (pair, mean) in upper.as_chunks_mut().0.iter_mut().zip(means) {
                    // A sum, so that zeros have the sign that they have when they are added.
                    *pair = [0.0 + 0.25 * mean; 2];
                }
                lower.copy_from_slice(upper);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_their_gradients_are_right_at_all_widths_and_leave_gaps() {
        for (width, channels, gap) in [(2, 1, 0), (28, 6, 0), (64, 3, 5), (70, 4, 8), (130, 2, 3)] {
            let (height, row) = (4, width / 2 * channels + gap);
            let pool = PlanePool { height, width, channels, row };
            let planes: Vec<f32> = (0..channels * height * width).map(|i| i as f32).collect();
            let mut means = vec![-1.0; height / 2 * row];
            pool.forward(&planes, &mut means);
            let mut back = vec![f32::NAN; planes.len()];
            pool.gradient(&means, &mut back);
            for y in 0..height / 2 {
                for x in 0..width / 2 * channels {
                    let (pixel, channel) = (x / channels, x % channels);
                    let first = (channel * height + 2 * y) * width + 2 * pixel;
                    // The mean of i, i + 1, i + width and i + width + 1.
                    let mean = first as f32 + 0.5 + width as f32 / 2.0;
                    assert_eq!(means[y * row + x], mean, "{width}: {y}, {x}");
                    for at in [first, first + 1, first + width, first + width + 1] {
                        assert_eq!(back[at], mean / 4.0);
                    }
                }
                let gap = &means[y * row + row - gap..][..gap];
                assert!(gap.iter().all(|value| *value == -1.0));
            }
        }
    }
}
