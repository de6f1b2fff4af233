//! The pen's path for each of the ten digits, before random variation.
//!
//! Each digit has a few styles, each style a few strokes, each stroke a list of knots in a box
//! where x and y run from 0 to 1 and y points down. The pen passes `soft` knots in a smooth curve
//! and turns sharply at `hard` ones. The module `digits` bends, tilts and inks them.

/// A point the pen passes through.
#[derive(Clone, Copy, Debug)]
pub struct Knot {
    /// Across, 0 at the left.
    pub x: f32,
    /// Down, 0 at the top.
    pub y: f32,
    /// Whether the pen turns sharply here.
    pub hard: bool,
}

/// The path of the pen from touching the paper to leaving it.
pub type Stroke = &'static [Knot];

/// One way to write one digit.
pub type GlyphStyle = &'static [Stroke];

/// The greatest number of knots of a stroke, so that a stroke fits in an array on the stack.
pub const MAX_KNOTS: usize = 12;

const fn soft(x: f32, y: f32) -> Knot {
    Knot { x, y, hard: false }
}

const fn hard(x: f32, y: f32) -> Knot {
    Knot { x, y, hard: true }
}

/// The ways to write `digit`, the most common first.
pub fn styles(digit: u8) -> &'static [GlyphStyle] {
    STYLES[usize::from(digit)]
}

const STYLES: [&[GlyphStyle]; 10] = [ZERO, ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT, NINE];

const ZERO: &[GlyphStyle] = &[
    &[&[
        soft(0.56, 0.01),
        soft(0.24, 0.10),
        soft(0.05, 0.50),
        soft(0.20, 0.88),
        soft(0.50, 1.00),
        soft(0.80, 0.88),
        soft(0.95, 0.48),
        soft(0.80, 0.12),
        soft(0.50, 0.00),
    ]],
    // Narrow, and not quite closed.
    &[&[
        soft(0.66, 0.06),
        soft(0.40, 0.04),
        soft(0.18, 0.45),
        soft(0.26, 0.90),
        soft(0.50, 1.00),
        soft(0.74, 0.85),
        soft(0.84, 0.45),
        soft(0.66, 0.10),
        soft(0.42, 0.02),
    ]],
];

const ONE: &[GlyphStyle] = &[
    &[&[soft(0.50, 0.00), soft(0.50, 0.50), soft(0.50, 1.00)]],
    &[&[soft(0.28, 0.24), hard(0.56, 0.00), soft(0.54, 0.50), soft(0.52, 1.00)]],
    &[
        &[soft(0.26, 0.22), hard(0.52, 0.00), soft(0.52, 0.99)],
        &[soft(0.22, 1.00), soft(0.84, 0.99)],
    ],
];

const TWO: &[GlyphStyle] = &[
    &[&[
        soft(0.10, 0.24),
        soft(0.32, 0.03),
        soft(0.64, 0.03),
        soft(0.84, 0.26),
        soft(0.64, 0.58),
        hard(0.06, 0.98),
        soft(0.50, 0.96),
        soft(0.96, 0.97),
    ]],
    // With a loop at the foot.
    &[&[
        soft(0.12, 0.18),
        soft(0.44, 0.00),
        soft(0.80, 0.20),
        soft(0.64, 0.58),
        soft(0.24, 0.95),
        soft(0.06, 0.88),
        soft(0.22, 0.76),
        soft(0.58, 0.94),
        soft(0.98, 0.92),
    ]],
];

const THREE: &[GlyphStyle] = &[
    &[&[
        soft(0.12, 0.13),
        soft(0.44, 0.00),
        soft(0.80, 0.18),
        soft(0.66, 0.41),
        hard(0.34, 0.48),
        soft(0.74, 0.54),
        soft(0.92, 0.76),
        soft(0.56, 1.00),
        soft(0.08, 0.90),
    ]],
    // With a flat top.
    &[&[
        soft(0.10, 0.03),
        hard(0.82, 0.02),
        hard(0.38, 0.40),
        soft(0.76, 0.48),
        soft(0.90, 0.74),
        soft(0.56, 1.00),
        soft(0.08, 0.92),
    ]],
    // With a small loop in the middle.
    &[&[
        soft(0.14, 0.10),
        soft(0.50, 0.00),
        soft(0.78, 0.20),
        soft(0.52, 0.46),
        soft(0.34, 0.50),
        soft(0.46, 0.42),
        soft(0.84, 0.60),
        soft(0.80, 0.90),
        soft(0.44, 1.00),
        soft(0.08, 0.86),
    ]],
];

const FOUR: &[GlyphStyle] = &[
    &[
        &[soft(0.18, 0.00), soft(0.14, 0.28), hard(0.08, 0.56), soft(0.50, 0.55), soft(0.94, 0.52)],
        &[soft(0.76, 0.04), soft(0.70, 0.50), soft(0.66, 1.00)],
    ],
    // Closed at the top.
    &[
        &[soft(0.68, 0.01), soft(0.36, 0.32), hard(0.04, 0.64), soft(0.50, 0.65), soft(0.98, 0.64)],
        &[soft(0.68, 0.01), soft(0.67, 0.50), soft(0.66, 1.00)],
    ],
    // Without lifting the pen, close to a nine.
    &[&[
        soft(0.16, 0.04),
        soft(0.08, 0.38),
        soft(0.36, 0.52),
        soft(0.70, 0.40),
        hard(0.84, 0.04),
        soft(0.78, 0.50),
        soft(0.72, 1.00),
    ]],
];

const FIVE: &[GlyphStyle] = &[
    &[&[
        soft(0.90, 0.02),
        soft(0.55, 0.03),
        hard(0.24, 0.03),
        soft(0.20, 0.22),
        hard(0.16, 0.44),
        soft(0.52, 0.38),
        soft(0.88, 0.66),
        soft(0.56, 0.98),
        soft(0.08, 0.92),
    ]],
    // The bar is drawn last, and rises.
    &[
        &[
            soft(0.30, 0.08),
            hard(0.22, 0.46),
            soft(0.62, 0.46),
            soft(0.84, 0.70),
            soft(0.56, 1.00),
            soft(0.08, 0.88),
        ],
        &[soft(0.30, 0.08), soft(0.62, 0.06), soft(0.98, 0.00)],
    ],
];

const SIX: &[GlyphStyle] = &[
    &[&[
        soft(0.76, 0.01),
        soft(0.36, 0.26),
        soft(0.10, 0.68),
        soft(0.38, 1.00),
        soft(0.80, 0.82),
        soft(0.62, 0.54),
        soft(0.14, 0.70),
    ]],
    // A straight back and a small bowl.
    &[&[
        soft(0.48, 0.00),
        soft(0.24, 0.36),
        soft(0.12, 0.78),
        soft(0.42, 1.00),
        soft(0.84, 0.84),
        soft(0.74, 0.60),
        soft(0.40, 0.62),
        soft(0.16, 0.86),
    ]],
];

const SEVEN: &[GlyphStyle] = &[
    &[&[soft(0.06, 0.06), soft(0.50, 0.04), hard(0.92, 0.03), soft(0.62, 0.48), soft(0.42, 1.00)]],
    // Crossed.
    &[
        &[soft(0.08, 0.05), soft(0.50, 0.05), hard(0.92, 0.04), soft(0.60, 0.50), soft(0.34, 1.00)],
        &[soft(0.28, 0.53), soft(0.84, 0.48)],
    ],
    // With a serif, and round at the corner.
    &[&[
        soft(0.06, 0.24),
        hard(0.10, 0.06),
        soft(0.50, 0.06),
        soft(0.84, 0.08),
        soft(0.76, 0.40),
        soft(0.58, 1.00),
    ]],
];

const EIGHT: &[GlyphStyle] = &[
    &[&[
        soft(0.80, 0.14),
        soft(0.50, 0.00),
        soft(0.20, 0.18),
        soft(0.50, 0.46),
        soft(0.86, 0.76),
        soft(0.50, 1.00),
        soft(0.12, 0.78),
        soft(0.46, 0.48),
        soft(0.78, 0.22),
        soft(0.74, 0.06),
    ]],
    // Two rings.
    &[
        &[soft(0.52, 0.46), soft(0.20, 0.24), soft(0.50, 0.00), soft(0.80, 0.22), soft(0.50, 0.47)],
        &[soft(0.50, 0.47), soft(0.10, 0.74), soft(0.48, 1.00), soft(0.90, 0.74), soft(0.52, 0.46)],
    ],
];

const NINE: &[GlyphStyle] = &[
    &[&[
        soft(0.84, 0.16),
        soft(0.50, 0.01),
        soft(0.14, 0.26),
        soft(0.40, 0.50),
        soft(0.74, 0.36),
        hard(0.86, 0.10),
        soft(0.80, 0.55),
        soft(0.72, 1.00),
    ]],
    // With a tail that curls back.
    &[&[
        soft(0.80, 0.20),
        soft(0.52, 0.00),
        soft(0.14, 0.24),
        soft(0.42, 0.50),
        soft(0.80, 0.26),
        soft(0.86, 0.60),
        soft(0.66, 0.94),
        soft(0.20, 0.96),
    ]],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_can_be_drawn() {
        for digit in 0..10 {
            assert!(!styles(digit).is_empty());
            for stroke in styles(digit).iter().flat_map(|style| style.iter()) {
                assert!((2..=MAX_KNOTS).contains(&stroke.len()), "digit {digit}");
                for knot in *stroke {
                    assert!((0.0..=1.0).contains(&knot.x) && (0.0..=1.0).contains(&knot.y));
                }
            }
        }
    }
}
