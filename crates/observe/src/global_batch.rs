//! How many examples a global step consists of.

/// Examples that all workers together train on in one global step.
///
/// In mode `sync` a global step combines the gradients of `quorum` slots, or of all `slots`
/// without a quorum; in mode `mirrored` those of all slots. In every other mode each gradient is a
/// global step of its own. `slots` counts the places in the plan, not the processes that fill
/// them: an elastic run has more slots than workers.
///
/// ```
/// use paceline_observe::examples_per_step;
///
/// assert_eq!(examples_per_step("async", 10, 4, None), 10);
/// assert_eq!(examples_per_step("sync", 10, 4, None), 40);
/// assert_eq!(examples_per_step("sync", 10, 4, Some(3)), 30);
/// assert_eq!(examples_per_step("mirrored", 10, 4, None), 40);
/// ```
pub fn examples_per_step(mode: &str, batch: usize, slots: usize, quorum: Option<usize>) -> usize {
    match mode {
        "sync" => batch * quorum.unwrap_or(slots),
        "mirrored" => batch * slots,
        _ => batch,
    }
}
