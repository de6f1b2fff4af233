//! Generated handwritten-like digits: training without a download.
//!
//! A first run must work on a machine without a network, and a test must not carry 50 MB of images.
//! These digits stand in for MNIST: 28 x 28 grey bytes, ten classes, about as much ink, and about
//! as hard. Images vary as handwriting does (style, slant, rotation, size, position, pen width,
//! tremor), which moves ink between pixels: a linear model recognises most of them and a
//! convolutional one nearly all. No label is wrong.
//!
//! Image `i` depends on the seed, its split and `i` alone, so it does not change with the number of
//! images. The arithmetic is plain IEEE without `sin` or `exp`, so every task of a cluster draws
//! the same bits whatever its C library.

use std::path::Path;

use paceline_generate::Random;
use paceline_generate::glyphs::{self, GlyphStyle, Knot, MAX_KNOTS};

use crate::error::DataError;
use crate::images::Images;
use crate::open_observer::{OpenMeter, OpenObserver, ignore_reports};
use crate::train_test::TrainTest;

/// The height and width of an image, in pixels.
const SIDE: usize = 28;

/// A curve between two knots is drawn as this many straight segments.
const SEGMENTS: usize = 4;

/// A squared distance, in pixels, beyond the reach of any pen.
const FAR: f32 = 1e6;

/// Generated handwritten-like digits: 28 x 28 grey pixels, ten classes, no download.
///
/// ```
/// use paceline_data::Digits;
///
/// let digits = Digits::generate(600, 7);
/// assert_eq!((digits.train.len(), digits.test.len()), (600, 100));
/// assert_eq!((digits.train.inputs(), digits.train.classes()), (784, 10));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Digits;

impl Digits {
    /// Draws a training set and a test set of a sixth of its size (at least one image), the same
    /// ones for the same seed. `Digits::generate(60_000, seed)` has the sizes of MNIST.
    pub fn generate(train_examples: usize, seed: u64) -> TrainTest<Images> {
        Self::generate_sets(train_examples, (train_examples / 6).max(1), seed)
    }

    /// Draws a training set and a test set of these sizes.
    pub fn generate_sets(
        train_examples: usize,
        test_examples: usize,
        seed: u64,
    ) -> TrainTest<Images> {
        match draw_sets(train_examples, test_examples, seed, &mut ignore_reports()) {
            Ok(sets) => sets,
            Err(error) => unreachable!("nothing interrupts it: {error}"),
        }
    }
}

/// As [`Digits::generate_sets`], but reports its progress, and stops if it is asked to.
pub(crate) fn draw_sets(
    train_examples: usize,
    test_examples: usize,
    seed: u64,
    observer: &mut dyn OpenObserver,
) -> Result<TrainTest<Images>, DataError> {
    let all = (train_examples + test_examples) as u64;
    let mut meter = OpenMeter::new(observer, "drawing", Path::new("digits"), all);
    let train = split(seed, 0, train_examples, &mut meter)?;
    let test = split(seed, 1, test_examples, &mut meter)?;
    let origin = format!("generated from seed {seed}");
    Ok(TrainTest { origin, ..TrainTest::new(train, test) })
}

/// How many images are drawn between two looks at the clock.
const IMAGES_PER_REPORT: usize = 256;

fn split(
    seed: u64,
    split: u64,
    count: usize,
    meter: &mut OpenMeter<'_>,
) -> Result<Images, DataError> {
    let mut pixels = vec![0; count * SIDE * SIDE];
    let mut labels = vec![0; count];
    let images = pixels.chunks_exact_mut(SIDE * SIDE).zip(&mut labels);
    for (index, (image, label)) in images.enumerate() {
        let mut random = Random::keyed(&[seed, split, index as u64]);
        *label = random.range(10) as u8;
        draw(*label, &mut random, image);
        if (index + 1).is_multiple_of(IMAGES_PER_REPORT) {
            meter.add(IMAGES_PER_REPORT as u64)?;
        }
    }
    Images::new(SIDE, SIDE, 10, pixels, labels)
}

/// Draws one digit on an empty (all zero) image.
fn draw(digit: u8, random: &mut Random, image: &mut [u8]) {
    let style = choose(glyphs::styles(digit), random);
    let hand = Hand::draw(random);
    let pen = Pen::draw(random);
    let mut distances = PenDistances::new(pen.reach());
    for stroke in style {
        let mut knots = [Knot { x: 0.0, y: 0.0, hard: false }; MAX_KNOTS];
        for (moved, knot) in knots.iter_mut().zip(*stroke) {
            *moved = hand.moved(*knot, random);
        }
        distances.add_stroke(&knots[..stroke.len()]);
    }
    pen.ink(&distances, random, image);
}

/// Picks a style. Each is half as likely as the one before it; the last two are equally likely.
fn choose(styles: &'static [GlyphStyle], random: &mut Random) -> GlyphStyle {
    let coins = random.next_u64().trailing_ones() as usize;
    styles[coins.min(styles.len() - 1)]
}

/// How a hand changes a whole digit: its position, size, slant and curvature.
struct Hand {
    /// A 2 x 2 matrix from the centred glyph box to pixels.
    across: [f32; 2],
    down: [f32; 2],
    /// Where the centre of the glyph lands, in pixels.
    middle: [f32; 2],
    /// Coefficients of a smooth bend that keeps joined strokes joined.
    bend: [f32; 4],
}

impl Hand {
    fn draw(random: &mut Random) -> Self {
        let height = 18.8 + 1.7 * random.normal();
        let width = height * (0.68 + 0.10 * random.normal());
        let slant = 0.16 + 0.20 * random.normal();
        // The rotation is given by the tangent of half its angle: its sine and cosine are then
        // fractions, which have the same bits on every machine.
        let t = 0.065 * random.normal();
        let (cos, sin) = ((1.0 - t * t) / (1.0 + t * t), 2.0 * t / (1.0 + t * t));
        let centre = (SIDE as f32 - 1.0) / 2.0;
        Hand {
            across: [width * cos, width * sin],
            down: [-height * (slant * cos + sin), height * (cos - slant * sin)],
            middle: [centre + 0.95 * random.normal(), centre + 0.95 * random.normal()],
            bend: std::array::from_fn(|_| 0.23 * random.normal()),
        }
    }

    /// Where a knot of the glyph box lands on the image, with a random displacement.
    fn moved(&self, knot: Knot, random: &mut Random) -> Knot {
        let (x, y) = (knot.x - 0.5, knot.y - 0.5);
        let [a, b, c, d] = self.bend;
        let bent_x = x + a * y * y + b * x * y + 0.032 * random.normal();
        let bent_y = y + c * x * x + d * x * y + 0.024 * random.normal();
        Knot {
            x: self.middle[0] + self.across[0] * bent_x + self.down[0] * bent_y,
            y: self.middle[1] + self.across[1] * bent_x + self.down[1] * bent_y,
            hard: knot.hard,
        }
    }
}

/// For each pixel, the squared distance to the nearest point of the pen's path.
struct PenDistances {
    nearest: [f32; SIDE * SIDE],
    /// Pixels farther than this from the path are not updated.
    reach: f32,
}

impl PenDistances {
    fn new(reach: f32) -> Self {
        PenDistances { nearest: [FAR; SIDE * SIDE], reach }
    }

    /// Adds a stroke: a curve through soft knots that ends and restarts at each hard one.
    fn add_stroke(&mut self, knots: &[Knot]) {
        let mut start = 0;
        for end in 1..knots.len() {
            if knots[end].hard || end + 1 == knots.len() {
                self.add_curve(&knots[start..=end]);
                start = end;
            }
        }
    }

    /// Adds a Catmull-Rom curve through all knots, whose ends point to their neighbours.
    fn add_curve(&mut self, knots: &[Knot]) {
        let last = knots.len() - 1;
        for i in 0..last {
            let (from, to) = (knots[i], knots[i + 1]);
            let (before, after) = (knots[i.saturating_sub(1)], knots[(i + 2).min(last)]);
            let mut here = [from.x, from.y];
            for segment in 1..=SEGMENTS {
                let t = segment as f32 / SEGMENTS as f32;
                let next = [
                    catmull_rom(t, before.x, from.x, to.x, after.x),
                    catmull_rom(t, before.y, from.y, to.y, after.y),
                ];
                self.add_segment(here, next);
                here = next;
            }
        }
    }

    /// Lowers the distances of the pixels near a straight segment. Visits only its bounding box.
    fn add_segment(&mut self, [x0, y0]: [f32; 2], [x1, y1]: [f32; 2]) {
        let (dx, dy) = (x1 - x0, y1 - y0);
        let scale = 1.0 / (dx * dx + dy * dy).max(1e-6);
        let (left, right) = pixel_span(x0.min(x1), x0.max(x1), self.reach);
        let (top, bottom) = pixel_span(y0.min(y1), y0.max(y1), self.reach);
        for row in top..bottom {
            let py = row as f32 - y0;
            for col in left..right {
                let px = col as f32 - x0;
                let along = ((px * dx + py * dy) * scale).clamp(0.0, 1.0);
                let (ex, ey) = (px - along * dx, py - along * dy);
                let nearest = &mut self.nearest[row * SIDE + col];
                *nearest = nearest.min(ex * ex + ey * ey);
            }
        }
    }
}

/// The pixels within `reach` of `low ..= high`, as a range that stays on the image.
fn pixel_span(low: f32, high: f32, reach: f32) -> (usize, usize) {
    // A cast of a negative float to usize gives zero.
    let from = (low - reach + 1.0) as usize;
    let to = (high + reach + 1.0) as usize;
    (from.min(SIDE), to.min(SIDE))
}

fn catmull_rom(t: f32, before: f32, from: f32, to: f32, after: f32) -> f32 {
    let linear = to - before;
    let square = 2.0 * before - 5.0 * from + 4.0 * to - after;
    let cube = 3.0 * (from - to) + after - before;
    from + 0.5 * t * (linear + t * (square + t * cube))
}

/// How the line looks: its width, the softness of its edge and its blackness.
struct Pen {
    half_width: f32,
    softness: f32,
    black: f32,
}

impl Pen {
    fn draw(random: &mut Random) -> Self {
        Pen {
            half_width: (1.24 + 0.32 * random.normal()).max(0.6),
            softness: random.between(0.9, 1.5),
            black: random.between(240.0, 300.0),
        }
    }

    /// How far from its path the pen leaves ink, in pixels.
    fn reach(&self) -> f32 {
        self.half_width + self.softness / 2.0
    }

    /// Turns distances into ink, slightly uneven as on paper. The background stays zero.
    fn ink(&self, distances: &PenDistances, random: &mut Random, image: &mut [u8]) {
        let reach = self.reach();
        let edge = reach * reach;
        for (pixel, &squared) in image.iter_mut().zip(&distances.nearest) {
            if squared < edge {
                let cover = ((reach - squared.sqrt()) / self.softness).min(1.0);
                let grain = random.between(0.86, 1.0);
                *pixel = (self.black * grain * cover).min(255.0) as u8;
            }
        }
    }
}
