//! What to do about an example that cannot be read: a damaged picture, a line that is no row.

/// What to do about an example that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// Stop, and say which one it is and what is wrong.
    #[default]
    Fail,
    /// Leave it out and count it.
    Skip,
}
