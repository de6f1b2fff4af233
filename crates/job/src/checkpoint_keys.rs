//! The keys of the section `checkpoint`, for the table of all keys.

use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};

/// Counts that fit in 32 bits.
const COUNT: ValueKind = ValueKind::Whole { min: 1, max: u32::MAX as u64 };
/// Counts of steps, which may be large.
const STEPS: ValueKind = ValueKind::Whole { min: 1, max: i64::MAX as u64 };

/// Every key of the section.
pub(super) fn checkpoint_keys() -> Vec<KeySpec> {
    let steps = "global steps between checkpoints; none are written unless this or \
                 `every_seconds` is set, and then also one at the end";
    let to = "where worker 0 also copies each checkpoint and the result: a directory, or \
                 `s3://BUCKET/PREFIX`. A run whose own directory is lost continues from there";
    let is_taken = || KeyCondition::AnySet(&["checkpoint.every_steps", "checkpoint.every_seconds"]);
    vec![
        optional("checkpoint.every_steps", STEPS, steps),
        optional("checkpoint.every_seconds", ValueKind::Above(0.0), "seconds between checkpoints"),
        key("checkpoint.keep", COUNT, "3", "number of complete checkpoints to keep, the newest")
            .when(is_taken()),
        optional("checkpoint.to", ValueKind::Storage, to).when(is_taken()),
    ]
}
