//! One connection of a server, and the thread that serves it.

use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Poll};
use paceline_exchange::{
    CHUNK_BYTES, ConnId, FrameKind, Header, Payload, SPARSE_BYTES, ServerPhase, WINDOW_CHUNKS,
    as_bytes_mut,
};

use super::hands::Hands;
use super::near::Near;
use super::{LAST_WORDS, ServerTotals, Shared, TICK, poll_once};
use crate::inbound::{Inbound, Progress};
use crate::outbound::Outbound;
use crate::patience::Patience;
use crate::traffic::Traffic;

/// What a client may leave unread before nothing more is read from it, so that a server's
/// memory stays small: the client must read to go on.
const PAUSE_BYTES: usize = 4 * CHUNK_BYTES;
/// What a client may leave unread at all: a window of parts, or the values of as many keys as
/// can be asked for, and some room for control frames.
const MAX_WAITING_BYTES: usize = SPARSE_BYTES + WINDOW_CHUNKS * 64 + 2 * CHUNK_BYTES;
const _: () = assert!(MAX_WAITING_BYTES > (WINDOW_CHUNKS + 2) * (CHUNK_BYTES + 64));

/// A connection, as all threads see it.
pub(super) struct Connection {
    id: ConnId,
    stream: TcpStream,
    /// Frames that nobody has begun to write. Never locked for longer than it takes to copy one.
    queued: Mutex<Vec<u8>>,
    outbound: Mutex<Outbound>,
    /// Nothing more is read from it.
    closing: AtomicBool,
    received_bytes: AtomicU64,
    /// The slot that it is of, and 1; 0 while that is not known.
    slot: AtomicUsize,
    /// What its thread had done when it last told: at a control frame, or after some gradients.
    served: Mutex<ServerTotals>,
}

impl Connection {
    pub(super) fn new(id: ConnId, stream: TcpStream) -> Self {
        Self {
            id,
            stream,
            queued: Mutex::default(),
            outbound: Mutex::default(),
            closing: AtomicBool::new(false),
            received_bytes: AtomicU64::new(0),
            slot: AtomicUsize::new(0),
            served: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> ConnId {
        self.id
    }

    fn outbound(&self) -> MutexGuard<'_, Outbound> {
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queued(&self) -> MutexGuard<'_, Vec<u8>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a frame behind all that were said before it.
    pub(super) fn queue(&self, head: &[u8], body: &[u8]) {
        let mut queued = self.queued();
        queued.extend_from_slice(head);
        queued.extend_from_slice(body);
    }

    /// Writes what was queued; what the socket does not take now, the connection's thread writes
    /// later. A connection that breaks here is found broken by that thread too.
    pub(super) fn write(&self) {
        if self.flush().is_ok_and(|waiting| waiting <= MAX_WAITING_BYTES) {
            return;
        }
        self.hang_up();
    }

    /// Writes as far as the socket takes anything; how much is left.
    fn flush(&self) -> std::io::Result<usize> {
        let mut outbound = self.outbound();
        outbound.take(&mut self.queued());
        outbound.flush(&mut &self.stream)?;
        Ok(outbound.waiting_bytes())
    }

    /// How much is to be written.
    fn waiting_bytes(&self) -> usize {
        let outbound = self.outbound();
        outbound.waiting_bytes() + self.queued().len()
    }

    /// Nothing more is read; the thread ends once everything is written.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Wakes the thread as if the other end had closed; what is to be written still can be.
    pub(super) fn stop_reading(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Ends the connection at once.
    pub(super) fn hang_up(&self) {
        self.close();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The slot that it is of, once that is known.
    pub(super) fn slot(&self) -> Option<usize> {
        self.slot.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Bytes sent and received.
    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.outbound().sent_bytes(),
            received: self.received_bytes.load(Ordering::Relaxed),
        }
    }

    /// What its thread had done when it last handled a control frame, such as a goodbye, or a
    /// little later.
    pub(super) fn served(&self) -> ServerTotals {
        *self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the connection to its end. What the thread of it does.
    pub(super) fn attend(self: Arc<Self>, shared: &Shared<'_>, poll: Poll) {
        let mut reader = Reader {
            inbound: Inbound::default(),
            buffer: Vec::new(),
            guess: 0,
            has_greeted: false,
            has_asked: false,
            near: Near::new(&self.stream),
            poll,
            events: Events::with_capacity(4),
        };
        let hands = Hands::new(shared, Some(self.clone()));
        let mut hands = hands.attended_by(shared.core().observer);
        let ended = loop {
            match reader.next_frame(&self, shared, &mut hands) {
                Ok(Some(header)) => self.handle(&header, &mut reader, shared, &mut hands),
                Ok(None) => break None,
                Err(why) => break Some(why),
            }
        };
        // A connection that was closed on purpose is forgotten already.
        if let Some(why) = ended.filter(|_| !shared.over.load(Ordering::Relaxed)) {
            let address = self.stream.peer_addr().map(|at| format!(" ({at})")).unwrap_or_default();
            let mut core = shared.core();
            hands.with(&mut core, |machine, hands| {
                machine.connection_closed(
                    self.id,
                    &format!("{why}{address}"),
                    shared.now_ms(),
                    hands,
                );
            });
            hands.deliver(core);
        }
        reader.write_last_words(&self);
        shared.forget(&self, &hands.served());
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Hands a frame to the machine, and writes what comes of it.
    fn handle(
        &self,
        header: &Header,
        reader: &mut Reader,
        shared: &Shared<'_>,
        hands: &mut Hands<'_, '_>,
    ) {
        self.received_bytes.store(reader.inbound.received_bytes(), Ordering::Relaxed);
        let is_gradient = header.kind.carries_gradient();
        let is_time = is_gradient && hands.begin();
        if is_time {
            reader.near.follow(&self.stream, header);
        }
        if is_time || !is_gradient {
            *self.served.lock().unwrap_or_else(PoisonError::into_inner) = hands.served();
        }
        let mut core = shared.core();
        hands.with(&mut core, |machine, hands| {
            let payload = match is_gradient {
                true => Payload::Floats(&mut reader.buffer),
                false => Payload::Bytes(&as_bytes_mut(&mut reader.buffer)[..header.len as usize]),
            };
            machine.frame_arrived(self.id, header, payload, shared.now_ms(), hands);
        });
        if header.kind == FrameKind::Hello {
            let slot = core.machine.slot_of(self.id).map_or(0, |slot| slot + 1);
            self.slot.store(slot, Ordering::Relaxed);
        }
        hands.deliver(core);
    }
}

/// The reading half of a connection's thread.
struct Reader {
    inbound: Inbound,
    /// Where the payload of the present frame is read to.
    buffer: Vec<f32>,
    /// How long the last payload was, in floats: the best guess for the next one's.
    guess: usize,
    /// A `Hello` has been read. Until then there is room for no more than that: a stranger must
    /// not cost a server the memory of a long list of keys.
    has_greeted: bool,
    /// Since the last frame, the socket has been asked once whether the next is there.
    has_asked: bool,
    near: Near,
    poll: Poll,
    events: Events,
}

impl Reader {
    /// Waits for a frame, whose payload is then in `buffer`; none if the connection was closed
    /// on purpose, an error if it broke.
    fn next_frame(
        &mut self,
        connection: &Connection,
        shared: &Shared<'_>,
        hands: &mut Hands<'_, '_>,
    ) -> Result<Option<Header>, String> {
        loop {
            let over = shared.over.load(Ordering::Relaxed);
            let closing = connection.closing.load(Ordering::Relaxed);
            let waiting = connection.waiting_bytes();
            if over || closing && waiting == 0 {
                return Ok(None);
            }
            let may_read = !closing && waiting <= PAUSE_BYTES;
            if may_read && !self.inbound.is_drained() {
                hands.enter(ServerPhase::Receive);
                if let Some(header) = self.read_frame(&connection.stream)? {
                    self.has_asked = false;
                    return Ok(Some(header));
                }
            }
            hands.enter(ServerPhase::Idle);
            self.wait(waiting > 0).map_err(|error| error.to_string())?;
            if waiting > 0 {
                hands.enter(ServerPhase::Send);
            }
            connection.flush().map_err(|error| error.to_string())?;
        }
    }

    /// Reads as far as the socket has something; a header once a frame is complete.
    fn read_frame(&mut self, mut stream: &TcpStream) -> Result<Option<Header>, String> {
        loop {
            let progress = match self.inbound.header() {
                None => {
                    self.buffer.resize(self.guess, 0.0);
                    self.inbound.read_header(&mut stream, as_bytes_mut(&mut self.buffer))
                }
                Some(header) => {
                    let (header, len) = (*header, header.len as usize);
                    if !self.has_greeted && header.kind != FrameKind::Hello {
                        return Err("a frame before Hello".into());
                    }
                    self.guess = len.div_ceil(4);
                    self.buffer.resize(self.guess, 0.0);
                    let place = &mut as_bytes_mut(&mut self.buffer)[..len];
                    let read = self.inbound.read_payload(&mut stream, place);
                    if let Ok(Progress::Complete) = read {
                        self.has_greeted = true;
                        return Ok(Some(header));
                    }
                    read
                }
            };
            match progress.map_err(|error| error.to_string())? {
                Progress::Header(_) | Progress::Complete => {}
                Progress::Blocked => return Ok(None),
                Progress::Closed => return Err("the other end closed it".into()),
            }
        }
    }

    /// Writes what is still to be written when the connection ends, as far as anybody reads it.
    fn write_last_words(&mut self, connection: &Connection) {
        let deadline = Instant::now() + LAST_WORDS;
        while Instant::now() < deadline {
            if !connection.flush().is_ok_and(|waiting| waiting > 0) {
                return;
            }
            if self.wait(true).is_err() {
                return;
            }
        }
    }

    /// Waits until the socket has something, or takes something; a tick at most.
    fn wait(&mut self, is_writing: bool) -> std::io::Result<()> {
        let mut patience = Patience::new();
        loop {
            let sleeps = is_writing || !patience.look_again();
            if !sleeps && !std::mem::replace(&mut self.has_asked, true) {
                // The first look is at the socket itself, which costs a call less if the worker
                // had only to be let run. But a socket that is looked at again and again is slow to
                // take what comes.
                self.inbound.wake();
                return Ok(());
            }
            let timeout = if sleeps { TICK } else { Duration::ZERO };
            poll_once(&mut self.poll, &mut self.events, timeout)?;
            if sleeps || !self.events.is_empty() {
                self.inbound.wake();
                return Ok(());
            }
        }
    }
}
