//! Which steps a timeline covers.

/// The steps of a worker's plan that a timeline covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceWindow {
    /// The first step.
    pub from: u64,
    /// The number of steps.
    pub steps: u64,
}

impl TraceWindow {
    /// Whether a step is in the window.
    pub fn contains(&self, step: u64) -> bool {
        step >= self.from && !self.is_before(step)
    }

    /// Whether the whole window is before a step.
    pub fn is_before(&self, step: u64) -> bool {
        step >= self.from.saturating_add(self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_its_steps() {
        let window = TraceWindow { from: 100, steps: 10 };
        assert_eq!(
            [99, 100, 109, 110].map(|step| window.contains(step)),
            [false, true, true, false]
        );
        assert!(window.is_before(110) && !window.is_before(109));
    }
}
