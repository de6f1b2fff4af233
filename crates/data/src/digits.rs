//! Generated handwritten-like digits: training that needs no download.
//!
//! A first run must work on a machine without a network, and a test must not carry 50 MB of
//! images. These digits stand in for MNIST: 28 x 28 grey bytes, ten classes, about as much
//! ink. They are meant to be about as hard, too. What varies from image to image is what
//! varies in handwriting (style, slant, turn, size, place, width of the pen, a shaking hand),
//! which moves ink between pixels; so a linear model gets most of them and a convolutional
//! one nearly all. No label is ever wrong.
//!
//! Image `i` depends on the seed, its split and `i` alone: asking for more images, or for a
//! part of them, never changes one. The arithmetic is plain IEEE without `sin` or `exp`, so
//! every task of a cluster draws the same bits whatever its C library.

use crate::glyphs::{self, Knot, MOST_KNOTS, Style};
use crate::images::Images;
use crate::random::Random;
use crate::train_test::TrainTest;

/// The height and width of an image, in pixels.
const SIDE: usize = 28;

/// A curve between two knots is drawn as this many straight pieces.
const PIECES: usize = 4;

/// A squared distance, in pixels, that is further than any pen reaches.
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
        TrainTest {
            train: split(seed, 0, train_examples),
            test: split(seed, 1, test_examples),
            origin: format!("generated from seed {seed}"),
        }
    }
}

fn split(seed: u64, split: u64, count: usize) -> Images {
    let mut pixels = vec![0; count * SIDE * SIDE];
    let mut labels = vec![0; count];
    let images = pixels.chunks_exact_mut(SIDE * SIDE).zip(&mut labels);
    for (index, (image, label)) in images.enumerate() {
        let mut random = Random::keyed(&[seed, split, index as u64]);
        *label = random.range(10) as u8;
        draw(*label, &mut random, image);
    }
    match Images::new(SIDE, SIDE, 10, pixels, labels) {
        Ok(images) => images,
        Err(error) => unreachable!("drawn to these very sizes: {error}"),
    }
}

/// Draws one digit on an empty (all zero) image.
fn draw(digit: u8, random: &mut Random, image: &mut [u8]) {
    let style = choose(glyphs::styles(digit), random);
    let hand = Hand::draw(random);
    let pen = Pen::draw(random);
    let mut sheet = Sheet::new(pen.reach());
    for stroke in style {
        let mut knots = [Knot { x: 0.0, y: 0.0, hard: false }; MOST_KNOTS];
        for (moved, knot) in knots.iter_mut().zip(*stroke) {
            *moved = hand.moved(*knot, random);
        }
        sheet.stroke(&knots[..stroke.len()]);
    }
    pen.ink(&sheet, random, image);
}

/// Picks a style; each is half as common as the one before it, the last two equal.
fn choose(styles: &'static [Style], random: &mut Random) -> Style {
    let coins = random.next_u64().trailing_ones() as usize;
    styles[coins.min(styles.len() - 1)]
}

/// What a hand does to a whole digit: where, how large, how slanted, and how it bends.
struct Hand {
    /// A 2 x 2 matrix from the centred glyph box to pixels.
    across: [f32; 2],
    down: [f32; 2],
    /// Where the middle of the glyph lands, in pixels.
    middle: [f32; 2],
    /// Coefficients of a smooth bend that keeps joined strokes joined.
    bend: [f32; 4],
}

impl Hand {
    fn draw(random: &mut Random) -> Self {
        let height = 18.8 + 1.7 * random.normal();
        let width = height * (0.68 + 0.10 * random.normal());
        let slant = 0.16 + 0.20 * random.normal();
        // The turn is given by the tangent of half its angle: its sine and cosine are then
        // fractions, which are exact on every machine.
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

    /// Where a knot of the glyph box lands on the paper, with a shake of its own.
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
struct Sheet {
    nearest: [f32; SIDE * SIDE],
    /// Pixels further than this from the path are left alone.
    reach: f32,
}

impl Sheet {
    fn new(reach: f32) -> Self {
        Sheet { nearest: [FAR; SIDE * SIDE], reach }
    }

    /// Follows a stroke: curves through soft knots, and a fresh start at each hard one.
    fn stroke(&mut self, knots: &[Knot]) {
        let mut start = 0;
        for end in 1..knots.len() {
            if knots[end].hard || end + 1 == knots.len() {
                self.curve(&knots[start..=end]);
                start = end;
            }
        }
    }

    /// A Catmull-Rom curve through all knots, whose ends point to their neighbours.
    fn curve(&mut self, knots: &[Knot]) {
        let last = knots.len() - 1;
        for i in 0..last {
            let (from, to) = (knots[i], knots[i + 1]);
            let (before, after) = (knots[i.saturating_sub(1)], knots[(i + 2).min(last)]);
            let mut here = (from.x, from.y);
            for piece in 1..=PIECES {
                let t = piece as f32 / PIECES as f32;
                let next = (
                    catmull_rom(t, before.x, from.x, to.x, after.x),
                    catmull_rom(t, before.y, from.y, to.y, after.y),
                );
                self.line(here, next);
                here = next;
            }
        }
    }

    /// Lowers the distance of the pixels near a straight piece; only its box is visited.
    fn line(&mut self, (x0, y0): (f32, f32), (x1, y1): (f32, f32)) {
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
                let cell = &mut self.nearest[row * SIDE + col];
                *cell = cell.min(ex * ex + ey * ey);
            }
        }
    }
}

/// The pixels within `reach` of `low ..= high`, as a range that stays on the image.
fn pixel_span(low: f32, high: f32, reach: f32) -> (usize, usize) {
    // A float cast to usize stops at zero by itself.
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

/// What the line looks like: its width, the softness of its edge, how black it is.
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

    /// How far from its path the pen still leaves ink.
    fn reach(&self) -> f32 {
        self.half_width + self.softness / 2.0
    }

    /// Turns distances into ink, a little uneven as on paper; the background stays zero.
    fn ink(&self, sheet: &Sheet, random: &mut Random, image: &mut [u8]) {
        let reach = self.reach();
        let edge = reach * reach;
        for (pixel, &squared) in image.iter_mut().zip(&sheet.nearest) {
            if squared < edge {
                let cover = ((reach - squared.sqrt()) / self.softness).min(1.0);
                let grain = random.between(0.86, 1.0);
                *pixel = (self.black * grain * cover).min(255.0) as u8;
            }
        }
    }
}
