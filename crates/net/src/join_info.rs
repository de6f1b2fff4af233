//! Asks a server what a new worker must know to join its run.

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use paceline_exchange::{FrameKind, Refusal};
use paceline_trust::Credentials;

use crate::dial::dial;
use crate::error::LinkError;
use crate::framed::FramedConnection;
use crate::peer_state::PeerState;
use crate::socket::poll_once;

/// How long one poll waits for the answer.
const POLL_FOR: Duration = Duration::from_millis(100);

/// Asks a server of a run what a new worker must know to join it; waits for at most `limit`.
///
/// The answer's meaning is up to the program that configured the server.
pub fn request_join_info(
    address: &str,
    credentials: &Credentials,
    limit: Duration,
) -> Result<Vec<u8>, LinkError> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(8);
    let begun = Instant::now();
    let lost = |why: String| LinkError::Lost {
        task: "the server".into(),
        address: address.to_owned(),
        why,
    };
    let hello = paceline_exchange::request_join_info();
    let dialled = dial("ps", address, poll.registry(), Token(0), credentials, hello);
    let mut connection: FramedConnection = dialled.map_err(|state| lost(state.to_string()))?;
    while begun.elapsed() < limit {
        poll_once(&mut poll, &mut events, POLL_FOR)?;
        connection.wake();
        connection.flush().map_err(|error| lost(error.to_string()))?;
        let Some(header) = connection.read_control().map_err(lost)? else { continue };
        return match header.kind {
            FrameKind::JoinInfo => Ok(connection.control().to_vec()),
            FrameKind::Refuse => match Refusal::decode(connection.control()) {
                Ok(refusal) => Err(lost(PeerState::Denied(refusal).to_string())),
                Err(error) => Err(lost(error.to_string())),
            },
            kind => Err(lost(format!("{kind:?} was not expected"))),
        };
    }
    Err(LinkError::Stalled {
        seconds: limit.as_secs(),
        awaited: format!("the server at {address}"),
    })
}
