//! What to do about an example that cannot be read: a damaged picture, a malformed line.

/// What to do about an example that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBad {
    /// Fail with an error that names the example.
    #[default]
    Fail,
    /// Skip and count it.
    Skip,
}
