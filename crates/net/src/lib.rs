//! The sockets under the sharing protocol, and nothing else.
//!
//! [`serve`] is a server's side: a thread for each connection around one machine. Frames come
//! in, the machine decides, frames go out. [`ServerConnections`] is a worker's side: it connects to every
//! server, waits for the start, and then exchanges a gradient for parameters in one round trip.
//! [`Mesh`] is a worker without servers: it is connected to every other worker.
//! [`RosterConnection`] is a process that fills slots, and is told which.
//! What may be applied and answered when is decided in `paceline-exchange`; here is only how
//! bytes get from one process to another without being copied more than once.

mod dial;
mod error;
mod inbound;
mod link;
mod mesh;
mod observer;
mod outbound;
mod outcome;
mod patience;
mod peer;
mod roster;
mod serve;
mod traffic;

pub use error::LinkError;
pub use link::{ConnectConfig, ServerConnections};
pub use mesh::{LocalGradient, Mesh, MeshConfig};
pub use observer::{ExchangePhase, LinkObserver};
pub use outcome::LinkOutcome;
pub use roster::{RosterConnection, request_join_info};
pub use serve::{ConnectionTracer, ServeEnd, ServeError, ServerObserver, ServerTotals, serve};
pub use traffic::Traffic;

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Sets what every connection of ours needs: small frames leave at once, and a peer whose
/// machine has gone is noticed within half a minute. (A peer that is merely stopped is not
/// gone: its kernel still answers.)
fn prepare(stream: &impl std::os::fd::AsFd) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(30)))
}
