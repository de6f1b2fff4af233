//! The modes by name.

/// How workers share the parameters, without a mode's settings.
///
/// ```
/// use paceline_observe::ModeKind;
///
/// assert_eq!(ModeKind::parse("sync"), Some(ModeKind::Sync));
/// assert_eq!(ModeKind::parse("snyc"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeKind {
    /// One worker holds the parameters.
    Single,
    /// A server applies each gradient when it arrives.
    Async,
    /// Servers apply the mean of one gradient per slot.
    Sync,
    /// Like `Async`, but no worker runs far ahead of the slowest.
    Bounded,
    /// Every worker holds a replica, and gradients are all-reduced.
    Mirrored,
}

impl ModeKind {
    /// All modes.
    pub const ALL: [ModeKind; 5] =
        [ModeKind::Single, ModeKind::Async, ModeKind::Sync, ModeKind::Bounded, ModeKind::Mirrored];

    /// The name in job files and summaries.
    pub fn name(self) -> &'static str {
        match self {
            ModeKind::Single => "single",
            ModeKind::Async => "async",
            ModeKind::Sync => "sync",
            ModeKind::Bounded => "bounded",
            ModeKind::Mirrored => "mirrored",
        }
    }

    /// The mode of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether parameter servers hold the parameters. Only then can a job set the number of slots.
    pub fn has_servers(self) -> bool {
        matches!(self, ModeKind::Async | ModeKind::Sync | ModeKind::Bounded)
    }
}
