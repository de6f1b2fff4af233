//! How far a connection to a server or another worker has come, in words for a person.

use std::fmt;

use paceline_exchange::{Refusal, RefuseCode};

/// What a worker knows of a server or another worker while it waits for the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// This worker has not tried to connect yet.
    Untried,
    /// Its host name cannot be resolved.
    NoAddress(String),
    /// The connection attempt failed, or the connection broke.
    Refused(String),
    /// It must connect to this worker, and has not yet.
    Awaited,
    /// The connection is open, but the peer has not answered the greeting.
    Connected,
    /// It belongs to another job, version or run, or does not accept this worker's token or slot.
    Denied(Refusal),
    /// It has admitted this worker, and waits for others.
    Ready,
    /// It has seen all workers.
    Started,
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerState::Untried => f.write_str("not tried yet"),
            PeerState::NoAddress(why) => write!(f, "not found ({why})"),
            // The system's words for it say no more.
            PeerState::Refused(why) if why.starts_with("Connection refused") => {
                f.write_str("refused")
            }
            PeerState::Refused(why) => write!(f, "refused ({why})"),
            PeerState::Awaited => f.write_str("not connected yet"),
            PeerState::Connected => f.write_str("connected"),
            PeerState::Denied(refusal) => {
                let what = match refusal.code {
                    RefuseCode::WrongVersion => "wrong version",
                    RefuseCode::WrongJob | RefuseCode::WrongLayout => "wrong job",
                    RefuseCode::WrongToken => "wrong token",
                    RefuseCode::WrongCertificate => "wrong certificate",
                    _ => "refused",
                };
                write!(f, "{what} ({})", refusal.text)
            }
            PeerState::Ready => f.write_str("ready"),
            PeerState::Started => f.write_str("started"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_connection_is_named_once() {
        let refused = |why: &str| PeerState::Refused(why.into()).to_string();
        assert_eq!(refused("Connection refused (os error 111)"), "refused");
        assert_eq!(refused("the connection was closed"), "refused (the connection was closed)");
    }
}
