//! The thread that serves one connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use paceline_exchange::{CHUNK_BYTES, Header, Payload, PayloadLimits, ServerPhase, as_bytes_mut};

use super::connection::ClientConnection;
use super::core_affinity::CoreAffinity;
use super::host::ServerHost;
use super::shared::ServerShared;
use crate::inbound::{Inbound, ReadProgress};
use crate::peer_stream::PeerStream;
use crate::socket::poll_once;
use crate::spin_wait::SpinWait;

/// If a client leaves more bytes than this unread, the server reads nothing more from it until it
/// has caught up. That bounds the server's memory.
const PAUSE_BYTES: usize = 4 * CHUNK_BYTES;
/// The longest that the thread sleeps before it checks whether the run is over.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long the last frames of a connection may take to be written.
const LAST_FRAMES_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection to its end.
pub(super) fn run(
    connection: &Arc<ClientConnection>,
    shared: &ServerShared<'_>,
    poll: Poll,
    inbound: Inbound,
) {
    let mut reader = ConnectionReader::new(connection.stream(), poll, inbound, shared.limits);
    let mut host = ServerHost::of_connection(shared, connection.clone());
    let failure = loop {
        match reader.next_frame(connection, shared, &mut host) {
            Ok(Some(header)) => handle(connection, &header, &mut reader, shared, &mut host),
            Ok(None) => break None,
            Err(why) => break Some(why),
        }
    };
    // The server already knows of a connection that it has closed itself.
    if let Some(why) = failure.filter(|_| !shared.is_over()) {
        let address = connection.stream().peer();
        let mut core = shared.core();
        host.with(&mut core, |server, host| {
            server.connection_closed(
                connection.id(),
                &format!("{why} ({address})"),
                shared.now_ms(),
                host,
            );
        });
        host.deliver(core);
    }
    reader.write_last_frames(connection);
    shared.remove(connection, &host.totals());
    connection.shut_down();
}

/// Hands a frame to the server, and writes the frames that it sends in return.
fn handle(
    connection: &ClientConnection,
    header: &Header,
    reader: &mut ConnectionReader,
    shared: &ServerShared<'_>,
    host: &mut ServerHost<'_, '_>,
) {
    connection.set_received_bytes(reader.inbound.received_bytes());
    let is_gradient = header.kind.carries_gradient();
    let is_check_due = is_gradient && host.gradient_arrived();
    if is_check_due {
        reader.affinity.follow(connection.stream().socket(), header);
    }
    if is_check_due || !is_gradient {
        connection.publish_totals(host.totals());
    }
    let is_finite = is_gradient && shared.limits.is_finite(header, &reader.buffer);
    let mut core = shared.core();
    host.with(&mut core, |server, host| {
        let payload = if is_finite {
            Payload::FiniteFloats(&mut reader.buffer)
        } else if is_gradient {
            Payload::Floats(&mut reader.buffer)
        } else {
            Payload::Bytes(&as_bytes_mut(&mut reader.buffer)[..header.len as usize])
        };
        server.frame_arrived(connection.id(), header, payload, shared.now_ms(), host);
    });
    host.deliver(core);
}

/// The reading half of a connection's thread.
struct ConnectionReader {
    inbound: Inbound,
    /// The payload of the current frame.
    buffer: Vec<f32>,
    /// The length of the last payload in floats: the best guess for the next one's.
    likely_floats: usize,
    limits: PayloadLimits,
    /// Since the last frame, the socket has been read once without a poll.
    has_tried: bool,
    affinity: CoreAffinity,
    poll: Poll,
    events: Events,
}

impl ConnectionReader {
    /// Reads on from the state that reading the `Hello` has left.
    fn new(stream: &PeerStream, poll: Poll, mut inbound: Inbound, limits: PayloadLimits) -> Self {
        inbound.wake();
        Self {
            inbound,
            buffer: Vec::new(),
            likely_floats: 0,
            limits,
            has_tried: false,
            affinity: CoreAffinity::new(stream.socket()),
            poll,
            events: Events::with_capacity(4),
        }
    }

    /// Waits for a frame, and reads its payload into `buffer`. Returns `None` if the connection
    /// was closed on purpose, and an error if it broke.
    fn next_frame(
        &mut self,
        connection: &ClientConnection,
        shared: &ServerShared<'_>,
        host: &mut ServerHost<'_, '_>,
    ) -> Result<Option<Header>, String> {
        loop {
            let is_closing = connection.is_closing();
            let waiting = connection.waiting_bytes();
            if shared.is_over() || is_closing && waiting == 0 {
                return Ok(None);
            }
            let may_read = !is_closing && waiting <= PAUSE_BYTES;
            if may_read && !self.inbound.is_drained() {
                host.enter(ServerPhase::Receive);
                if let Some(header) = self.read_frame(connection.stream())? {
                    self.has_tried = false;
                    return Ok(Some(header));
                }
            }
            host.enter(ServerPhase::Idle);
            self.wait(waiting > 0).map_err(|error| error.to_string())?;
            if waiting > 0 {
                host.enter(ServerPhase::Send);
            }
            connection.flush().map_err(|error| error.to_string())?;
        }
    }

    /// Reads what the socket has. Returns a header once its frame is complete.
    fn read_frame(&mut self, mut stream: &PeerStream) -> Result<Option<Header>, String> {
        loop {
            let progress = match self.inbound.header() {
                None => {
                    self.buffer.resize(self.likely_floats, 0.0);
                    self.inbound.read_header(&mut stream, as_bytes_mut(&mut self.buffer))
                }
                Some(header) => {
                    self.limits.check(header)?;
                    let len = header.len as usize;
                    self.likely_floats = len.div_ceil(4);
                    self.buffer.resize(self.likely_floats, 0.0);
                    let place = &mut as_bytes_mut(&mut self.buffer)[..len];
                    self.inbound.read_payload(&mut stream, place)
                }
            };
            match progress.map_err(|error| error.to_string())? {
                ReadProgress::Header(_) => {}
                ReadProgress::Complete(header) => return Ok(Some(header)),
                ReadProgress::Blocked => return Ok(None),
                ReadProgress::Closed => return Err("the other end closed it".into()),
            }
        }
    }

    /// Writes what is still queued when the connection ends, as long as the client reads it.
    fn write_last_frames(&mut self, connection: &ClientConnection) {
        let deadline = Instant::now() + LAST_FRAMES_TIMEOUT;
        while Instant::now() < deadline {
            if !connection.flush().is_ok_and(|waiting| waiting > 0) || self.wait(true).is_err() {
                return;
            }
        }
    }

    /// Waits until the socket can be read or written.
    fn wait(&mut self, is_writing: bool) -> io::Result<()> {
        let mut spin = SpinWait::of_server();
        loop {
            let must_sleep = is_writing || !spin.spin();
            if !must_sleep && !std::mem::replace(&mut self.has_tried, true) {
                // The socket itself is tried once, which saves a call if the worker only had to be
                // scheduled. More tries would slow down the socket's own receiving.
                self.inbound.wake();
                return Ok(());
            }
            let timeout = if must_sleep { CHECK_EVERY } else { Duration::ZERO };
            poll_once(&mut self.poll, &mut self.events, timeout)?;
            if must_sleep || !self.events.is_empty() {
                self.inbound.wake();
                return Ok(());
            }
        }
    }
}
