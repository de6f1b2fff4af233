//! The colors of phases, which the page, reports and timelines share.
//!
//! A timeline can only name colors of a fixed list (`cname` of Chrome's trace format), so the
//! colors are those of that list. They differ in lightness as well as in hue, for readers who do
//! not see all hues.

/// The color of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseColor {
    /// The name of the phase.
    pub phase: &'static str,
    /// The color on a light ground, as `#rrggbb`.
    pub light: &'static str,
    /// The color on a dark ground, as `#rrggbb`.
    pub dark: &'static str,
    /// The name of the light color in Chrome's trace format.
    pub chrome: &'static str,
}

/// The phases of workers, then those of a server's threads. Phases of equal meaning share a color.
pub const PHASE_COLORS: [PhaseColor; 10] = [
    color("input", INPUT),
    color("pull", ["#ee8e00", "#ee8e00", "rail_idle"]),
    color("compute", COMPUTE),
    color("push", PUSH),
    color("wait", WAIT),
    color(crate::phases::EVALUATION, ["#b400b4", "#d678d6", "detailed_memory_dump"]),
    color("receive", INPUT),
    color("apply", COMPUTE),
    color("send", PUSH),
    color(crate::phases::IDLE, WAIT),
];

const INPUT: [&str; 3] = ["#00b4b4", "#00b4b4", "background_memory_dump"];
const COMPUTE: [&str; 3] = ["#4387fd", "#4387fd", "rail_response"];
const PUSH: [&str; 3] = ["#b40000", "#e0403a", "terrible"];
const WAIT: [&str; 3] = ["#bbbbbb", "#5b6675", "cq_build_abandoned"];

const fn color(phase: &'static str, [light, dark, chrome]: [&'static str; 3]) -> PhaseColor {
    PhaseColor { phase, light, dark, chrome }
}

/// The color of the phase with this name.
pub fn phase_color(phase: &str) -> Option<&'static PhaseColor> {
    PHASE_COLORS.iter().find(|color| color.phase == phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Phase;

    #[test]
    fn the_phases_of_a_worker_have_colors_that_differ() {
        for phase in Phase::ALL {
            let own = phase_color(phase.name()).unwrap();
            for other in Phase::ALL.into_iter().filter(|other| *other != phase) {
                let other = phase_color(other.name()).unwrap();
                assert!(own.light != other.light && own.dark != other.dark, "{own:?} {other:?}");
            }
        }
    }
}
