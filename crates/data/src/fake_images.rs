//! Generated colour pictures: any size, any number of classes, no disk.
//!
//! They serve to try and to time image networks on a machine without pictures. A million of them
//! would not fit in memory, so each is generated when it is read, in a small fraction of the time a
//! network takes for it. They can be learned: each class has a few colour waves, and a picture is
//! the waves of its class at some strength, two waves that carry no information, and noise. A
//! linear model separates the classes well.
//!
//! Picture `i` depends on the seed, its split and `i` alone. A wave advances along a row by complex
//! multiplication, so the platform's `sin` does not affect the bits.

use paceline_generate::random::{Random, mix};
use pulp::Arch;

use crate::error::DataError;
use crate::examples::Examples;

/// Waves of a class.
const CLASS_WAVES: usize = 3;

/// Waves of each picture that are unrelated to its class.
const STRAY_WAVES: usize = 2;

const WAVES: usize = CLASS_WAVES + STRAY_WAVES;

/// The standard deviation of the noise; that of the pictures is about 1.
const NOISE: f32 = 0.5;

/// Keys that keep the random streams for different purposes apart.
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

/// Generated colour pictures with classes that a model can learn.
///
/// ```
/// use paceline_data::{Examples, FakeImages, Split};
///
/// let pictures = FakeImages::new(1, Split::Train, 1_000_000, 10, 32);
/// assert_eq!((pictures.shape(), pictures.classes()), ([3, 32, 32], 10));
/// let mut values = vec![0.0; pictures.inputs()];
/// let label = pictures.fill(123_456, 0, &mut values)?;
/// assert!(label < 10);
/// # Ok::<(), paceline_data::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FakeImages {
    seed: u64,
    split: Split,
    examples: usize,
    classes: usize,
    size: usize,
}

impl FakeImages {
    /// `examples` pictures of `size` x `size` pixels in three colours. The `classes` classes are
    /// equally frequent.
    ///
    /// # Panics
    /// If `classes` or `size` is zero, or a number is above 2^32 - 1.
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

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert!((example as usize) < self.examples, "picture {example} of {}", self.examples);
        assert_eq!(out.len(), self.inputs(), "the buffer must hold exactly one picture");
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
    /// The phase in the corner, and its change from one column and one row to the next.
    start: Phasor,
    across: Phasor,
    down: Phasor,
    colour: [f32; 3],
}

impl Wave {
    /// Draws a wave of up to four periods across and down; fewer in pictures with few pixels.
    fn draw(random: &mut Random, size: usize) -> Self {
        let most = (size as f32 / 8.0).min(4.0);
        let turn = |random: &mut Random| {
            let periods = random.between(-most, most);
            Phasor::from_half_tangent(f64::from(periods) * std::f64::consts::PI / size as f64)
        };
        Self {
            start: Phasor::from_half_tangent(f64::from(random.between(-1.0, 1.0))),
            across: turn(random),
            down: turn(random),
            colour: std::array::from_fn(|_| 0.5 * random.normal()),
        }
    }
}

/// A point on the unit circle; multiplying two of them adds their angles.
#[derive(Clone, Copy)]
struct Phasor {
    cos: f64,
    sin: f64,
}

impl Phasor {
    /// The point at the angle whose half has the tangent `t`: fractions only, no `cos`.
    fn from_half_tangent(t: f64) -> Self {
        let scale = 1.0 / (1.0 + t * t);
        Self { cos: (1.0 - t * t) * scale, sin: 2.0 * t * scale }
    }

    fn times(self, other: Self) -> Self {
        Self {
            cos: self.cos * other.cos - self.sin * other.sin,
            sin: self.sin * other.cos + self.cos * other.sin,
        }
    }
}

/// The number of columns painted at once; their phasors fit on the stack.
const COLUMNS: usize = 64;

/// Sets each pixel to the sum of the waves there.
///
/// The wave at (row, column) is the cosine of a sum of two angles, so it follows from a cosine and
/// a sine of the column, computed once, and two factors of the row.
fn paint(waves: &[Wave; WAVES], size: usize, out: &mut [f32]) {
    let mut corner = waves.map(|wave| wave.start);
    for left in (0..size).step_by(COLUMNS) {
        let columns = COLUMNS.min(size - left);
        let mut along = [[[0.0; COLUMNS]; 2]; WAVES];
        for ((along, phasor), wave) in along.iter_mut().zip(&mut corner).zip(waves) {
            let [cos, sin] = along;
            for (cos, sin) in cos.iter_mut().zip(sin).take(columns) {
                (*cos, *sin) = (phasor.cos as f32, phasor.sin as f32);
                *phasor = phasor.times(wave.across);
            }
        }
        let mut down = [Phasor { cos: 1.0, sin: 0.0 }; WAVES];
        for row in 0..size {
            for (channel, plane) in out.chunks_exact_mut(size * size).enumerate() {
                let factors = std::array::from_fn(|wave| {
                    let amount = waves[wave].colour[channel];
                    [amount * down[wave].cos as f32, -amount * down[wave].sin as f32]
                });
                paint_row(&along, &factors, &mut plane[row * size + left..][..columns]);
            }
            for (down, wave) in down.iter_mut().zip(waves) {
                *down = down.times(wave.down);
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

/// Adds uniform noise. One random number serves four values.
fn add_noise(key: u64, out: &mut [f32]) {
    // A uniform number from a range of length one has the variance 1/12.
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
mod tests;
