//! The keys of learning rates that change, and of groups of parameters.

use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};

/// Counts that fit in 32 bits.
const COUNT: ValueKind = ValueKind::Whole { min: 1, max: u32::MAX as u64 };
/// Counts of steps, which may be large.
const STEPS: ValueKind = ValueKind::Whole { min: 1, max: i64::MAX as u64 };
/// The same from 0 on.
const STEPS_FROM_0: ValueKind = ValueKind::Whole { min: 0, max: i64::MAX as u64 };

/// The schedule of all parameters, and the settings of each group.
pub(super) fn optimizer_groups() -> Vec<KeySpec> {
    let mut keys = schedule("train.optimizer", Some("\"constant\""));
    let both = || KeyCondition::NotInBothGroups("schedule.kind");
    keys = keys.into_iter().map(|key| key.when(both())).collect();
    for group in ["train.optimizer.weights", "train.optimizer.biases"] {
        let own = "value for this group; defaults to the value for all parameters";
        keys.push(optional(&format!("{group}.rate"), ValueKind::Above(0.0), own));
        keys.push(optional(&format!("{group}.decay"), ValueKind::From(0.0), own));
        keys.extend(schedule(group, None));
    }
    keys
}

/// Every kind of schedule.
const SCHEDULES: &[&str] = &["constant", "exponential", "staircase", "polynomial", "cosine"];

/// The keys of a schedule: that of all parameters, or of one group.
fn schedule(owner: &str, default: Option<&'static str>) -> Vec<KeySpec> {
    let at = |name: &str| format!("{owner}.schedule.{name}");
    let kind = at("kind");
    let kinds = ValueKind::Word(SCHEDULES);
    let above = ValueKind::Above(0.0);
    let help = "how the rate changes with the global step";
    let warm_up = "global steps over which the rate rises evenly to the schedule's first rate; \
        the schedule starts after them";
    vec![
        KeySpec { default, ..optional(&kind, kinds, help) },
        key(&at("factor"), above, "0.5", "factor that multiplies the rate every `every` steps")
            .with(&kind, &["exponential"]),
        key(&at("fall"), above, "10.0", "factor by which the rate has fallen after the last stair")
            .with(&kind, &["staircase"]),
        key(&at("stairs"), COUNT, "2", "number of stairs").with(&kind, &["staircase"]),
        key(&at("every"), STEPS, "1000", "global steps per factor, or per stair")
            .with(&kind, &["exponential", "staircase"]),
        key(&at("end"), ValueKind::From(0.0), "0.0", "final rate")
            .with(&kind, &["polynomial", "cosine"]),
        key(&at("over"), STEPS, "10000", "global steps until the final rate")
            .with(&kind, &["polynomial", "cosine"]),
        key(&at("power"), above, "1.0", "exponent of the curve; 1 is a straight line")
            .with(&kind, &["polynomial"]),
        key(&at("warm_up"), STEPS_FROM_0, "0", warm_up).with(&kind, SCHEDULES),
    ]
}
