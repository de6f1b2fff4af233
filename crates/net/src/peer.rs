//! How far a worker has come with a server or another worker, in words that help a person.

use std::fmt;

use paceline_exchange::{Refusal, RefuseCode};

/// What is known of one server or peer while a worker waits for the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// Its host name cannot be resolved.
    NoAddress(String),
    /// Nobody answers at its address, or nobody lets us in there.
    Refused(String),
    /// It is to connect to us, and has not.
    Awaited,
    /// Somebody answers, but has not welcomed us yet.
    Connected,
    /// It belongs to another job, version or place, or does not know us.
    Denied(Refusal),
    /// It has welcomed us, and waits for other workers.
    Ready,
    /// It has seen all workers.
    Started,
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerState::NoAddress(why) => write!(f, "no address ({why})"),
            PeerState::Refused(why) => write!(f, "refused ({why})"),
            PeerState::Awaited => f.write_str("not here yet"),
            PeerState::Connected => f.write_str("connected"),
            PeerState::Denied(refusal) => {
                let what = match refusal.code {
                    RefuseCode::WrongVersion => "wrong version",
                    RefuseCode::WrongJob | RefuseCode::WrongLayout => "wrong job",
                    RefuseCode::WrongToken => "wrong token",
                    _ => "refused",
                };
                write!(f, "{what} ({})", refusal.text)
            }
            PeerState::Ready => f.write_str("ready"),
            PeerState::Started => f.write_str("started"),
        }
    }
}
