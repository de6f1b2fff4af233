//! Scales a picture and crops a square from it.
//!
//! The filter is the triangle that Pillow and torchvision call bilinear with antialiasing: it
//! widens when a picture shrinks, so that every pixel counts. It is applied vertically first, along
//! whole rows, then horizontally, with one row of floats in between. The arithmetic is plain IEEE
//! in a fixed order, so every machine gets the same bytes.

use std::ops::Range;

use pulp::Arch;

use super::decode::Rgb;

/// A picture as three planes of bytes: all red, then all green, then all blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planes {
    /// The height, in pixels.
    pub(super) rows: usize,
    /// The width, in pixels.
    pub(super) cols: usize,
    /// The bytes, plane after plane and row after row.
    pub(super) values: Vec<u8>,
}

/// The greatest ratio of the sides; a longer picture is cropped to its middle. Otherwise one of
/// 60,000 x 2 pixels would take unbounded memory before its shorter side is long enough.
const MAX_ASPECT_RATIO: usize = 4;

/// Scales a picture so that its shorter side has `shorter` pixels.
///
/// # Panics
/// If the picture has no pixels or `shorter` is zero.
pub(super) fn resize(picture: &Rgb, shorter: usize) -> Planes {
    let (rows, cols) = (picture.rows, picture.cols);
    let least = rows.min(cols);
    assert!(least > 0 && shorter > 0, "a picture without pixels");
    let most = least * MAX_ASPECT_RATIO;
    let down = FilterTaps::new(rows, rows.min(most), shorter * rows.min(most) / least);
    let across = FilterTaps::new(cols, cols.min(most), shorter * cols.min(most) / least);
    let area = down.len() * across.len();
    let mut values = vec![0; 3 * area];
    let mut sums = vec![0.0; cols * 3];
    for row in 0..down.len() {
        sum_rows(&picture.pixels, down.of(row), &mut sums);
        for column in 0..across.len() {
            let rgb = sum_pixels(&sums, across.of(column));
            for (channel, value) in rgb.into_iter().enumerate() {
                values[channel * area + row * across.len() + column] = (value + 0.5) as u8;
            }
        }
    }
    Planes { rows: down.len(), cols: across.len(), values }
}

/// For each pixel of a scaled line, the source pixels it is made of and their weights.
struct FilterTaps {
    taps: Vec<Tap>,
    weights: Vec<f32>,
}

/// The source pixels of one scaled pixel.
struct Tap {
    /// The first source pixel.
    first: usize,
    /// The range of its weights.
    weights: Range<usize>,
}

/// A weight for each source pixel from `first` on.
#[derive(Clone, Copy)]
struct WeightedRun<'a> {
    first: usize,
    weights: &'a [f32],
}

impl FilterTaps {
    /// Scales the middle `taken` of `all` pixels to `wanted` pixels.
    fn new(all: usize, taken: usize, wanted: usize) -> Self {
        let first = (all - taken) / 2;
        let scale = taken as f64 / wanted as f64;
        let reach = scale.max(1.0);
        let mut filter = FilterTaps { taps: Vec::with_capacity(wanted), weights: Vec::new() };
        for pixel in 0..wanted {
            let centre = (pixel as f64 + 0.5) * scale;
            // A cast of a negative float to usize gives zero.
            let from = (centre - reach + 0.5) as usize;
            let to = ((centre + reach + 0.5) as usize).min(taken);
            let weight = |at: usize| (1.0 - (at as f64 + 0.5 - centre).abs() / reach).max(0.0);
            let sum: f64 = (from..to).map(weight).sum();
            let start = filter.weights.len();
            filter.weights.extend((from..to).map(|at| (weight(at) / sum) as f32));
            let weights = start..filter.weights.len();
            filter.taps.push(Tap { first: first + from, weights });
        }
        filter
    }

    fn len(&self) -> usize {
        self.taps.len()
    }

    fn of(&self, pixel: usize) -> WeightedRun<'_> {
        let Tap { first, weights } = &self.taps[pixel];
        WeightedRun { first: *first, weights: &self.weights[weights.clone()] }
    }
}

/// Sets `sums` to the weighted sum of a run of rows.
fn sum_rows(pixels: &[u8], run: WeightedRun<'_>, sums: &mut [f32]) {
    let WeightedRun { first, weights } = run;
    let rows = pixels.chunks_exact(sums.len()).skip(first);
    Arch::new().dispatch(
        #[inline(always)]
        || {
            sums.fill(0.0);
            for (row, &weight) in rows.zip(weights) {
                for (sum, &value) in sums.iter_mut().zip(row) {
                    *sum += weight * f32::from(value);
                }
            }
        },
    );
}

/// The weighted sum of a run of pixels.
fn sum_pixels(pixels: &[f32], run: WeightedRun<'_>) -> [f32; 3] {
    let WeightedRun { first, weights } = run;
    let mut sum = [0.0; 3];
    for (pixel, &weight) in pixels[3 * first..].chunks_exact(3).zip(weights) {
        for (sum, &value) in sum.iter_mut().zip(pixel) {
            *sum += weight * value;
        }
    }
    sum
}

/// The square to crop from a picture, and whether to mirror it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crop {
    /// The first row.
    pub(super) top: usize,
    /// The first column.
    pub(super) left: usize,
    /// The height and width, in pixels.
    pub(super) size: usize,
    /// Whether to swap left and right.
    pub(super) flip: bool,
}

/// Writes a square of the picture to `out`, plane after plane, each byte `b` of channel `c` as
/// `b * scale[c] + offset[c]`.
///
/// # Panics
/// If the square is not inside the picture, or `out` does not have `3 * size * size` values.
pub(super) fn crop(
    picture: &Planes,
    crop: Crop,
    scale: [f32; 3],
    offset: [f32; 3],
    out: &mut [f32],
) {
    let Crop { top, left, size, flip } = crop;
    assert!(
        top + size <= picture.rows && left + size <= picture.cols,
        "{crop:?} exceeds the picture"
    );
    assert_eq!(out.len(), 3 * size * size, "the buffer must hold exactly the square");
    let planes = picture.values.chunks_exact(picture.rows * picture.cols);
    for (channel, (plane, out)) in planes.zip(out.chunks_exact_mut(size * size)).enumerate() {
        let rows = plane.chunks_exact(picture.cols).skip(top);
        for (row, out) in rows.zip(out.chunks_exact_mut(size)) {
            scale_row(&row[left..left + size], scale[channel], offset[channel], out);
            if flip {
                out.reverse();
            }
        }
    }
}

fn scale_row(bytes: &[u8], scale: f32, offset: f32, out: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (out, &byte) in out.iter_mut().zip(bytes) {
                *out = f32::from(byte) * scale + offset;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(rows: usize, cols: usize, at: impl Fn(usize, usize) -> u8) -> Rgb {
        let pixel = |i: usize| [at(i / cols, i % cols); 3];
        Rgb { rows, cols, pixels: (0..rows * cols).flat_map(pixel).collect() }
    }

    #[test]
    fn equal_size_changes_nothing() {
        let picture = grey(5, 7, |row, col| (row * 7 + col) as u8);
        let planes = resize(&picture, 5);
        assert_eq!((planes.rows, planes.cols), (5, 7));
        assert_eq!(planes.values[..35], (0..35).collect::<Vec<u8>>());
        assert_eq!(planes.values[..35], planes.values[70..]);
    }

    #[test]
    fn the_shorter_side_gets_the_size_and_the_aspect_ratio_stays() {
        for (rows, cols, shorter, expect) in
            [(333, 500, 64, (64, 96)), (500, 333, 64, (96, 64)), (3, 4, 256, (256, 341))]
        {
            let planes = resize(&grey(rows, cols, |_, _| 77), shorter);
            assert_eq!((planes.rows, planes.cols), expect);
            assert!(planes.values.iter().all(|&value| value == 77));
        }
    }

    #[test]
    fn a_very_long_picture_is_cropped_to_its_middle() {
        // Eight of 1,000 columns are used; the first four of them are bright, the others dark.
        let planes = resize(&grey(2, 1000, |_, col| 200 * u8::from(col / 4 == 124)), 50);
        assert_eq!((planes.rows, planes.cols), (50, 200));
        // A source column is 25 columns wide now, and so is the soft edge.
        assert_eq!(planes.values[..85], [200; 85]);
        assert_eq!(planes.values[115..200], [0; 85]);
    }

    #[test]
    fn a_crop_takes_its_square_and_flips_it() {
        let planes = resize(&grey(4, 5, |row, col| (row * 10 + col) as u8), 4);
        let mut out = [0.0; 12];
        let square = Crop { top: 1, left: 3, size: 2, flip: false };
        crop(&planes, square, [1.0, 2.0, 1.0], [0.0, 0.0, -13.0], &mut out);
        assert_eq!(out, [13., 14., 23., 24., 26., 28., 46., 48., 0., 1., 10., 11.]);
        crop(&planes, Crop { flip: true, ..square }, [1.0; 3], [0.0; 3], &mut out);
        assert_eq!(out[..4], [14., 13., 24., 23.]);
    }
}
