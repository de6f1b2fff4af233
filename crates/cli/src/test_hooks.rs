//! The environment variables by which tests and benches change a task.

use paceline_engine::{Slowdown, TestHooks};

/// `SLOT:FACTOR`: gradients of that slot take longer by the factor; `*` stands for all slots.
const SLOW_VARIABLE: &str = "PACELINE_TEST_SLOW";
/// If set, tasks measure no phases, so that the cost of measuring them can be measured.
pub(crate) const BARE_VARIABLE: &str = "PACELINE_TEST_BARE";

/// What the environment changes about this process's task.
pub(crate) fn from_env() -> TestHooks {
    let wanted = std::env::var(SLOW_VARIABLE).unwrap_or_default();
    TestHooks {
        slowdown: parse_slowdown(&wanted),
        omits_phases: std::env::var_os(BARE_VARIABLE).is_some(),
    }
}

fn parse_slowdown(text: &str) -> Option<Slowdown> {
    let (slot, factor) = text.split_once(':')?;
    let slot = if slot == "*" { None } else { Some(slot.parse().ok()?) };
    Some(Slowdown { slot, factor: factor.parse().ok()? })
}
