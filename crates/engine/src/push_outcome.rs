//! What becomes of a gradient that was pushed.

/// What became of a gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// It was applied.
    Applied,
    /// It came too late, and was not applied.
    Dropped,
}
