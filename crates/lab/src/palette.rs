//! The colors of curves, bars and phases, which the page and reports share.
//!
//! Ten colors for curves, distinguishable with any kind of color vision on a light and on a dark
//! ground, and the colors of phases, which `paceline-observe` defines for timelines too.

use std::collections::BTreeMap;
use std::fmt::Write;

use paceline_observe::{PHASE_COLORS, PhaseColor};
use serde_json::{Value, json};

/// Number of colors for curves and bars; further curves repeat them with dashes.
pub(crate) const COLOR_COUNT: usize = 10;

/// Colors for curves on a light ground.
const LIGHT: [&str; COLOR_COUNT] = [
    "#1554c0", "#f04010", "#00944a", "#a42c69", "#3f98e8", "#634a02", "#451980", "#806ead",
    "#300f00", "#6a0736",
];
/// Colors for curves on a dark ground.
const DARK: [&str; COLOR_COUNT] = [
    "#4fa8f6", "#f1771b", "#00e0a5", "#ce87b1", "#aafff4", "#ffc025", "#886fff", "#8d7774",
    "#416bb5", "#ca310a",
];

/// What the style sheets select a theme by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Light,
    Dark,
}

impl Theme {
    fn series(self) -> &'static [&'static str; COLOR_COUNT] {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }

    fn phase(self, color: &PhaseColor) -> &'static str {
        match self {
            Self::Light => color.light,
            Self::Dark => color.dark,
        }
    }

    /// The colors as variables of a style sheet.
    fn variables(self) -> String {
        let mut css = String::new();
        for (i, color) in self.series().iter().enumerate() {
            let _ = write!(css, "--s{i}:{color};");
        }
        for color in &PHASE_COLORS {
            let (phase, color) = (color.phase, self.phase(color));
            let _ = write!(css, "--phase-{phase}:{color};--on-{phase}:{};", text_on(color));
        }
        css
    }

    fn json(self) -> Value {
        let phases = PHASE_COLORS.iter().map(|color| (color.phase, self.phase(color)));
        json!({"series": self.series(), "phases": phases.collect::<BTreeMap<_, _>>()})
    }
}

/// The style sheet of the page, whose root element names the theme.
pub(crate) fn page_css() -> String {
    let (light, dark) = (Theme::Light.variables(), Theme::Dark.variables());
    format!(":root{{{light}}}\n:root[data-theme=\"dark\"]{{{dark}}}\n{}", classes())
}

/// The style sheet of a report, which follows the reader's system and prints light.
pub(crate) fn report_css() -> String {
    let (light, dark) = (Theme::Light.variables(), Theme::Dark.variables());
    format!(
        ":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n\
         @media print{{:root{{{light}}}}}\n{}",
        classes()
    )
}

/// The colors for scripts, by theme.
pub(crate) fn json() -> Value {
    json!({"light": Theme::Light.json(), "dark": Theme::Dark.json()})
}

/// Classes that set the color `--c`, and the color `--on` of text upon it.
fn classes() -> String {
    let mut css = String::new();
    for i in 0..COLOR_COUNT {
        let _ = writeln!(css, ".s{i}{{--c:var(--s{i});--on:var(--in,#fff)}}");
    }
    for PhaseColor { phase, .. } in &PHASE_COLORS {
        let _ = writeln!(css, ".phase-{phase}{{--c:var(--phase-{phase});--on:var(--on-{phase})}}");
    }
    css
}

type LinearRgb = [f64; 3];

/// The color of text upon a color: dark or white, whichever stands out more.
fn text_on(color: &str) -> &'static str {
    let stands_out = |text: &str| contrast(linear(text), linear(color));
    if stands_out(DARK_TEXT) >= stands_out(WHITE_TEXT) { DARK_TEXT } else { WHITE_TEXT }
}

const DARK_TEXT: &str = "#10151b";
const WHITE_TEXT: &str = "#ffffff";

/// A color `#rrggbb` in proportion to its light, 0 to 1.
fn linear(color: &str) -> LinearRgb {
    [1, 3, 5].map(|at| {
        let digits = color.get(at..at + 2).unwrap_or_default();
        let value = f64::from(u8::from_str_radix(digits, 16).unwrap_or_default()) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    })
}

/// The contrast of two colors as the Web Content Accessibility Guidelines define it: 1 to 21.
fn contrast(a: LinearRgb, b: LinearRgb) -> f64 {
    let light = |c: LinearRgb| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
    light(a).max(light(b)) / light(a).min(light(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal vision, and the three kinds of color blindness (Machado and others, 2009).
    const VISION: [[LinearRgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
        [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
    ];

    fn seen(color: LinearRgb, vision: &[LinearRgb; 3]) -> LinearRgb {
        vision.map(|row| (0..3).map(|i| row[i] * color[i]).sum::<f64>().clamp(0.0, 1.0))
    }

    /// A color in Oklab, where equal distances look equally different.
    fn oklab([r, g, b]: LinearRgb) -> LinearRgb {
        let l = (0.412_221 * r + 0.536_333 * g + 0.051_446 * b).cbrt();
        let m = (0.211_903 * r + 0.680_700 * g + 0.107_397 * b).cbrt();
        let s = (0.088_302 * r + 0.281_719 * g + 0.629_979 * b).cbrt();
        [
            0.210_454 * l + 0.793_618 * m - 0.004_072 * s,
            1.977_998 * l - 2.428_592 * m + 0.450_594 * s,
            0.025_904 * l + 0.782_772 * m - 0.808_676 * s,
        ]
    }

    #[test]
    fn ten_colors_differ_for_any_color_vision_and_stand_out_from_the_ground() {
        for (theme, ground) in [(Theme::Light, "#ffffff"), (Theme::Dark, "#171c23")] {
            for (i, a) in theme.series().iter().enumerate() {
                let ratio = contrast(linear(a), linear(ground));
                assert!(ratio >= 3.0, "{a} on {ground}: {ratio}");
                for b in &theme.series()[..i] {
                    for vision in &VISION {
                        let [a, b] = [a, b].map(|c| oklab(seen(linear(c), vision)));
                        let distance: f64 = (0..3).map(|i| (a[i] - b[i]).powi(2)).sum();
                        assert!(distance.sqrt() > 0.09, "{theme:?} {i}: {}", distance.sqrt());
                    }
                }
            }
        }
    }

    #[test]
    fn text_on_phases_stands_out_in_both_themes() {
        for theme in [Theme::Light, Theme::Dark] {
            for color in PHASE_COLORS.iter().map(|color| theme.phase(color)) {
                let ratio = contrast(linear(text_on(color)), linear(color));
                assert!(ratio >= 4.0, "{theme:?} {color}: {ratio}");
            }
        }
    }

    #[test]
    fn page_report_and_timeline_have_equal_colors_for_phases() {
        for color in &PHASE_COLORS {
            let variable = format!("--phase-{}:{}", color.phase, color.light);
            assert!(page_css().contains(&variable) && report_css().contains(&variable));
            assert_eq!(json()["light"]["phases"][color.phase], color.light);
        }
    }
}
