//! How a session shares the parameters between its workers.

use paceline_exchange::WireFormat;

use crate::settings::Mode;

/// How a [`Session`](crate::Session) shares the parameters.
///
/// ```
/// use paceline_engine::{Mode, Sharing};
///
/// let sharing = Sharing::servers(2).workers(4).mode(Mode::Async);
/// assert_eq!(sharing.to_string(), "async with 4 workers and 2 servers");
/// assert_eq!(Sharing::servers(1).to_string(), "sync with 1 worker and 1 server");
/// assert_eq!(Sharing::mesh(2).to_string(), "mirrored with 2 workers");
/// assert_eq!(Sharing::none().to_string(), "single");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub(crate) mode: Mode,
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    pub(crate) wire: WireFormat,
}

impl Sharing {
    /// One worker holds the parameters.
    pub fn none() -> Self {
        Self { mode: Mode::Single, workers: 1, servers: 0, wire: WireFormat::F32 }
    }

    /// This many parameter servers hold the parameters. One worker in mode `sync`, unless
    /// [`workers`](Sharing::workers) and [`mode`](Sharing::mode) say otherwise.
    pub fn servers(servers: usize) -> Self {
        Self { mode: Mode::SYNC, servers, ..Self::none() }
    }

    /// This many workers hold a replica each, and all-reduce their gradients.
    pub fn mesh(workers: usize) -> Self {
        Self { mode: Mode::Mirrored, workers, ..Self::none() }
    }

    /// Trains with this many workers.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// Servers apply gradients in this mode.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Gradients and, with servers, parameters of a dense model travel in this format.
    #[must_use]
    pub fn wire(self, wire: WireFormat) -> Self {
        Self { wire, ..self }
    }

    /// Why the tasks cannot share in this way, if they cannot.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let needs_servers =
            matches!(self.mode, Mode::Async | Mode::Sync { .. } | Mode::Bounded { .. });
        match self {
            Self { workers: 0, .. } => Some("a run needs a worker"),
            Self { servers: 0, .. } if needs_servers => Some("this mode needs a server"),
            Self { servers: 1.., .. } if !needs_servers => Some("this mode has no servers"),
            Self { mode: Mode::Single, workers: 2.., .. } => Some("mode single has one worker"),
            Self { mode: Mode::Single, wire: WireFormat::Bf16, .. } => {
                Some("mode single sends nothing that could be rounded to bf16")
            }
            Self { mode: Mode::Sync { quorum: Some(quorum) }, workers, servers, .. }
                if !(1..=*workers).contains(quorum) || *servers > 1 && quorum < workers =>
            {
                Some(
                    "a quorum is from 1 to the number of workers, and with several servers it is \
                     all of them",
                )
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mode, workers, servers, .. } = self;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        f.write_str(mode.name())?;
        if *mode != Mode::Single || *workers != 1 || *servers != 0 {
            write!(f, " with {workers} worker{}", plural(*workers))?;
        }
        if *servers != 0 || !matches!(mode, Mode::Single | Mode::Mirrored) {
            write!(f, " and {servers} server{}", plural(*servers))?;
        }
        Ok(())
    }
}
