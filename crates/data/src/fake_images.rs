//! Colour pictures made up on the way: any size, any number of classes, no disk.
//!
//! They are there to try and to time networks for pictures on a machine that has none. A
//! million of them would not fit into memory, so each is made when it is asked for, and at a
//! small part of what a network takes for it. They can be learnt: a class is a mixture of a few
//! colour waves of its own, at fixed places, and a picture is that mixture at some strength,
//! two waves that mean nothing, and noise. A linear model separates the classes well.
//!
//! Picture `i` depends on the seed, its part and `i` alone. A wave runs along a row as a turning
//! pointer, by multiplications, so no `sin` of the platform has a say in the bits.

use pulp::Arch;

use crate::error::DataError;
use crate::examples::Examples;
use crate::random::{Random, mix};

/// Waves that make up a class.
const CLASS_WAVES: usize = 3;

/// Waves of each picture that tell nothing about its class.
const STRAY_WAVES: usize = 2;

const WAVES: usize = CLASS_WAVES + STRAY_WAVES;

/// The standard deviation of the noise; the pictures' own is about 1.
const NOISE: f32 = 0.5;

/// What the random numbers are for, so that no two streams are one.
const CLASS_STREAM: u64 = 0x6661_6b65_636c_6173;
const PICTURE_STREAM: u64 = 0x6661_6b65_7069_6374;

/// The training set or the test set of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The training set.
    Train,
    /// The test set.
    Test,
}

/// Generated colour pictures. See the module's text.
#[derive(Clone, Debug)]
pub struct FakeImages {
    seed: u64,
    split: Split,
    examples: usize,
    classes: usize,
    size: usize,
}

impl FakeImages {
    /// `examples` pictures of `size` x `size` pixels in three colours, of `classes` classes in
    /// equal parts.
    ///
    /// # Panics
    /// If `classes` or `size` is zero, or a number is beyond 32 bits.
    pub fn new(seed: u64, split: Split, examples: usize, classes: usize, size: usize) -> Self {
        assert!(classes > 0 && size > 0, "sizes must not be zero");
        for number in [examples, classes, size] {
            assert!(u32::try_from(number).is_ok(), "{number} is beyond 32 bits");
        }
        Self { seed, split, examples, classes, size }
    }
}

impl Examples for FakeImages {
    fn len(&self) -> usize {
        self.examples
    }

    fn shape(&self) -> [usize; 3] {
        [3, self.size, self.size]
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn fill(&self, example: u32, _draw: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert!((example as usize) < self.examples, "picture {example} of {}", self.examples);
        assert_eq!(out.len(), self.inputs(), "room for one picture");
        let label = u64::from(example) % self.classes as u64;
        let mut class = Random::keyed(&[self.seed, CLASS_STREAM, label]);
        let keys = [self.seed, PICTURE_STREAM, self.split as u64, u64::from(example)];
        let mut own = Random::keyed(&keys);
        let strength = own.between(0.6, 1.2);
        let mut waves: [Wave; WAVES] = std::array::from_fn(|wave| {
            let random = if wave < CLASS_WAVES { &mut class } else { &mut own };
            Wave::draw(random, self.size)
        });
        for wave in &mut waves[..CLASS_WAVES] {
            wave.colour = wave.colour.map(|amount| amount * strength);
        }
        paint(&waves, self.size, out);
        add_noise(own.next_u64(), out);
        Ok(label as u32)
    }
}

/// A wave across the picture, in a colour.
#[derive(Clone, Copy)]
struct Wave {
    /// The pointer in the corner, how it turns from one column to the next, and between rows.
    start: Pointer,
    across: Pointer,
    down: Pointer,
    colour: [f32; 3],
}

impl Wave {
    /// Up to four periods across and down, fewer where a picture has too few pixels for them.
    fn draw(random: &mut Random, size: usize) -> Self {
        let most = (size as f32 / 8.0).min(4.0);
        let turn = |random: &mut Random| {
            let periods = random.between(-most, most);
            Pointer::turned(f64::from(periods) * std::f64::consts::PI / size as f64)
        };
        Self {
            start: Pointer::turned(f64::from(random.between(-1.0, 1.0))),
            across: turn(random),
            down: turn(random),
            colour: std::array::from_fn(|_| 0.5 * random.normal()),
        }
    }
}

/// A point on the unit circle; multiplying two adds their angles.
#[derive(Clone, Copy)]
struct Pointer {
    cos: f64,
    sin: f64,
}

impl Pointer {
    /// The pointer at the angle whose half has the tangent `t`: exact fractions, no `cos`.
    fn turned(t: f64) -> Self {
        let scale = 1.0 / (1.0 + t * t);
        Self { cos: (1.0 - t * t) * scale, sin: 2.0 * t * scale }
    }

    fn by(self, other: Self) -> Self {
        Self {
            cos: self.cos * other.cos - self.sin * other.sin,
            sin: self.sin * other.cos + self.cos * other.sin,
        }
    }
}

/// How many columns are painted at a time; their pointers fit on the stack.
const COLUMNS: usize = 64;

/// Sets each pixel to the sum of the waves there.
///
/// The wave at (row, column) is the cosine of a sum of two angles, so it is made of a cosine
/// and a sine for the column, worked out once, and of two numbers for the row.
fn paint(waves: &[Wave; WAVES], size: usize, out: &mut [f32]) {
    let mut corner = waves.map(|wave| wave.start);
    for left in (0..size).step_by(COLUMNS) {
        let columns = COLUMNS.min(size - left);
        let mut along = [[[0.0; COLUMNS]; 2]; WAVES];
        for ((along, pointer), wave) in along.iter_mut().zip(&mut corner).zip(waves) {
            let [cos, sin] = along;
            for (cos, sin) in cos.iter_mut().zip(sin).take(columns) {
                (*cos, *sin) = (pointer.cos as f32, pointer.sin as f32);
                *pointer = pointer.by(wave.across);
            }
        }
        let mut down = [Pointer { cos: 1.0, sin: 0.0 }; WAVES];
        for row in 0..size {
            for (channel, plane) in out.chunks_exact_mut(size * size).enumerate() {
                let factors = std::array::from_fn(|wave| {
                    let amount = waves[wave].colour[channel];
                    [amount * down[wave].cos as f32, -amount * down[wave].sin as f32]
                });
                paint_row(&along, &factors, &mut plane[row * size + left..][..columns]);
            }
            for (down, wave) in down.iter_mut().zip(waves) {
                *down = down.by(wave.down);
            }
        }
    }
}

fn paint_row(along: &[[[f32; COLUMNS]; 2]; WAVES], factors: &[[f32; 2]; WAVES], out: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut sums = [0.0; COLUMNS];
            for (along, factors) in along.iter().zip(factors) {
                for ((sum, &cos), &sin) in sums.iter_mut().zip(&along[0]).zip(&along[1]) {
                    *sum += factors[0] * cos + factors[1] * sin;
                }
            }
            out.copy_from_slice(&sums[..out.len()]);
        },
    );
}

/// Adds even noise; one number from the generator serves four values.
fn add_noise(key: u64, out: &mut [f32]) {
    // A number drawn evenly from a range of one has the variance 1/12.
    const SCALE: f32 = NOISE * 3.464_101_6 / 65536.0;
    const MIDDLE: f32 = 32767.5;
    for (index, values) in out.chunks_mut(4).enumerate() {
        let bits = mix(key.wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        for (lane, value) in values.iter_mut().enumerate() {
            *value += ((bits >> (16 * lane)) as u16 as f32 - MIDDLE) * SCALE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(source: &FakeImages, example: u32) -> (Vec<f32>, u32) {
        let mut out = vec![f32::NAN; source.inputs()];
        let label = source.fill(example, 0, &mut out).unwrap();
        (out, label)
    }

    #[test]
    fn a_picture_depends_on_seed_part_and_number_alone() {
        let few = FakeImages::new(1, Split::Train, 10, 5, 20);
        let many = FakeImages::new(1, Split::Train, 1000, 5, 20);
        assert_eq!(picture(&few, 7), picture(&many, 7));
        assert_ne!(picture(&few, 7), picture(&few, 2));
        assert_ne!(picture(&few, 7), picture(&FakeImages::new(2, Split::Train, 10, 5, 20), 7));
        assert_ne!(picture(&few, 7), picture(&FakeImages::new(1, Split::Test, 10, 5, 20), 7));
    }

    #[test]
    fn classes_come_equally_often_and_values_are_of_unit_size() {
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
    fn the_nearest_class_mean_tells_most_test_pictures() {
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
                let nearest = (0..classes)
                    .min_by(|&a, &b| distance(&means[a]).total_cmp(&distance(&means[b])));
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
}
