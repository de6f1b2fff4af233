//! One connection of a server, as all threads see it.
//!
//! Any thread may queue frames for a connection and write them; only the connection's own thread
//! reads from it. That is why it is not a [`FramedConnection`](crate::framed::FramedConnection).

use std::io::{self, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use paceline_exchange::{CHUNK_BYTES, ConnId, FrameBody, SPARSE_BYTES, WINDOW_CHUNKS};
use paceline_trust::{FrameSealer, SEAL_BYTES};

use super::totals::ServerTotals;
use crate::outbound::Outbound;
use crate::peer_stream::PeerStream;
use crate::traffic::Traffic;

/// The most bytes that a client may leave unread: a window of chunks, or the values of as many keys
/// as a client can request, and some room for control frames.
const MAX_WAITING_BYTES: usize = SPARSE_BYTES + WINDOW_CHUNKS * 96 + 2 * CHUNK_BYTES;
const _: () = assert!(MAX_WAITING_BYTES > (WINDOW_CHUNKS + 2) * (CHUNK_BYTES + 96));

/// One connection of a server.
pub(super) struct ClientConnection {
    id: ConnId,
    stream: PeerStream,
    /// Frames are sealed, and have room for that behind their headers.
    is_sealed: bool,
    /// Frames that no thread has begun to write. Never locked for longer than it takes to copy one.
    queued: Mutex<Vec<u8>>,
    outbound: Mutex<Outbound>,
    /// Nothing more is read from it.
    is_closing: AtomicBool,
    received_bytes: AtomicU64,
    /// The slot of its client plus 1; 0 while that is unknown.
    slot: AtomicUsize,
    /// What its thread has done, as that published it last.
    totals: Mutex<ServerTotals>,
}

impl ClientConnection {
    pub(super) fn new(id: ConnId, stream: PeerStream, sealer: Option<FrameSealer>) -> Self {
        Self {
            id,
            stream,
            is_sealed: sealer.is_some(),
            queued: Mutex::default(),
            outbound: Mutex::new(Outbound::new(sealer)),
            is_closing: AtomicBool::new(false),
            received_bytes: AtomicU64::new(0),
            slot: AtomicUsize::new(0),
            totals: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> ConnId {
        self.id
    }

    pub(super) fn stream(&self) -> &PeerStream {
        &self.stream
    }

    fn outbound(&self) -> MutexGuard<'_, Outbound> {
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queued(&self) -> MutexGuard<'_, Vec<u8>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a frame behind all earlier ones.
    pub(super) fn queue(&self, head: &[u8], body: FrameBody<'_>) {
        let mut queued = self.queued();
        queued.extend_from_slice(head);
        if self.is_sealed {
            queued.extend_from_slice(&[0; SEAL_BYTES]);
        }
        body.append_to(&mut queued);
    }

    /// Writes queued frames. What the socket does not take now, the connection's thread writes
    /// later. A connection that breaks here is found broken by that thread too.
    pub(super) fn write(&self) {
        if self.flush().is_ok_and(|waiting| waiting <= MAX_WAITING_BYTES) {
            return;
        }
        self.hang_up();
    }

    /// Writes as many bytes as the socket takes, and returns how many are left.
    pub(super) fn flush(&self) -> io::Result<usize> {
        let mut outbound = self.outbound();
        outbound.take(&mut self.queued());
        outbound.flush(&mut &self.stream)?;
        (&self.stream).flush()?;
        Ok(outbound.waiting_bytes() + self.stream.unsent_bytes())
    }

    /// Bytes that are not written yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        let outbound = self.outbound();
        outbound.waiting_bytes() + self.queued().len() + self.stream.unsent_bytes()
    }

    /// Closes the connection once everything is written. Nothing more is read from it.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Wakes the thread as if the other end had closed. What is queued can still be written.
    pub(super) fn stop_reading(&self) {
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Closes the connection at once.
    pub(super) fn hang_up(&self) {
        self.close();
        self.shut_down();
    }

    pub(super) fn shut_down(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The slot of its client, once that is known.
    pub(super) fn slot(&self) -> Option<usize> {
        self.slot.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(super) fn set_slot(&self, slot: Option<usize>) {
        self.slot.store(slot.map_or(0, |slot| slot + 1), Ordering::Relaxed);
    }

    pub(super) fn set_received_bytes(&self, bytes: u64) {
        self.received_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic {
            sent: self.outbound().sent_bytes(),
            received: self.received_bytes.load(Ordering::Relaxed),
        }
    }

    /// What its thread had done when it last published that: at a control frame, or after some
    /// gradients.
    pub(super) fn totals(&self) -> ServerTotals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish_totals(&self, totals: ServerTotals) {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = totals;
    }
}
