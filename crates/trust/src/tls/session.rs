//! One TLS connection over any stream that does not block.
//!
//! Plaintext that is written before the handshake is complete waits for it. A read returns when its
//! buffers are full or the stream is empty, never earlier, so a short read means what it means for
//! a socket. At most one batch of ciphertext waits for the stream to take it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, UnbufferedStatus, WriteTraffic,
};

use super::outgoing::OutgoingBytes;
use super::read_slices::ReadSlices;
use super::task_name::states;

/// The most plaintext of a record.
const RECORD_BYTES: usize = 16 << 10;
/// What a record adds to its plaintext, at most.
const RECORD_OVERHEAD: usize = 64;
/// The most plaintext that is encrypted before the stream must take it.
const BATCH_BYTES: usize = 4 * RECORD_BYTES;
/// The most plaintext that waits for the handshake.
const MAX_EARLY_BYTES: usize = 64 << 10;
/// Bytes that are read at once during the handshake, which a stranger may begin.
const FIRST_READ_BYTES: usize = 4 << 10;
/// The longest handshake, in bytes that are not processed yet.
const MAX_FIRST_BYTES: usize = 64 << 10;
/// Bytes that are read at once later: a few records.
const READ_BYTES: usize = 8 * RECORD_BYTES;
/// A piece that is shorter than this shares a record with the next one.
const SHORT_BYTES: usize = 1 << 10;

/// One TLS connection.
pub struct TlsSession {
    connection: Connection,
    buffers: TlsBuffers,
    /// Ciphertext that has been read: from `incoming_at` up to `incoming_end`.
    incoming: Vec<u8>,
    incoming_at: usize,
    incoming_end: usize,
    /// A short piece, and the beginning of the next one.
    gathered: Vec<u8>,
    /// Nothing more can be read or written.
    has_failed: bool,
}

enum Connection {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// What a connection produces.
#[derive(Default)]
struct TlsBuffers {
    /// Plaintext that no read has fetched, from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    outgoing: OutgoingBytes,
    /// Plaintext that waits for the handshake.
    early: Vec<u8>,
    is_open: bool,
}

/// How a step of a connection ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Again,
    /// It needs more ciphertext.
    Blocked,
    /// The other end has closed the connection.
    Closed,
}

/// What a read of ciphertext brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// As much as there was room for.
    Full,
    /// Less, and so everything that the stream had.
    Drained,
    /// The stream has ended.
    End,
}

impl TlsSession {
    pub(super) fn of_client(connection: UnbufferedClientConnection) -> Self {
        Self::new(Connection::Client(Box::new(connection)))
    }

    pub(super) fn of_server(connection: UnbufferedServerConnection) -> Self {
        Self::new(Connection::Server(Box::new(connection)))
    }

    fn new(connection: Connection) -> Self {
        Self {
            connection,
            buffers: TlsBuffers::default(),
            incoming: Vec::new(),
            incoming_at: 0,
            incoming_end: 0,
            gathered: Vec::new(),
            has_failed: false,
        }
    }

    /// Whether the other end's certificate states this task, such as `worker:3`. False before the
    /// handshake is complete.
    pub fn is_peer(&self, task: &str) -> bool {
        let certificates = match &self.connection {
            Connection::Client(connection) => connection.peer_certificates(),
            Connection::Server(connection) => connection.peer_certificates(),
        };
        certificates.and_then(|chain| chain.first()).is_some_and(|own| states(own, task))
    }

    /// Whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.buffers.is_open
    }

    /// Bytes that the stream has not taken.
    pub fn unsent_bytes(&self) -> usize {
        self.buffers.outgoing.waiting().len() + self.buffers.early.len()
    }

    /// Reads plaintext until all slices are full or the stream is empty.
    pub fn read(
        &mut self,
        stream: &mut (impl Read + Write),
        slices: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        self.check_sound()?;
        let (mut target, mut is_drained) = (ReadSlices::new(slices), false);
        loop {
            self.buffers.fetch(&mut target);
            if target.is_full() {
                return Ok(target.filled());
            }
            match self.advance(&mut target) {
                Ok(Step::Again) => continue,
                Ok(Step::Closed) => return Ok(target.filled()),
                Ok(Step::Blocked) => {}
                Err(error) => {
                    self.fail(&error, stream);
                    return Err(changed(&error));
                }
            }
            self.flush(stream)?;
            if is_drained && target.filled() > 0 {
                return Ok(target.filled());
            }
            match self.fill(stream) {
                Ok(Filled::End) => return Ok(target.filled()),
                Ok(filled) => is_drained = filled == Filled::Drained,
                Err(_) if target.filled() > 0 => return Ok(target.filled()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Encrypts plaintext and sends it, as far as the stream takes it. Returns how many bytes of
    /// plaintext were taken.
    pub fn write(
        &mut self,
        stream: &mut (impl Read + Write),
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.check_sound()?;
        if !self.buffers.is_open {
            let early = &mut self.buffers.early;
            let len: usize = slices.iter().map(|slice| slice.len()).sum();
            if early.len() + len > MAX_EARLY_BYTES {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            slices.iter().for_each(|slice| early.extend_from_slice(slice));
            self.begin(stream)?;
            return Ok(len);
        }
        self.flush(stream)?;
        if self.unsent_bytes() > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.encrypt(slices)?;
        self.flush(stream)?;
        Ok(taken)
    }

    /// Sends ciphertext, as far as the stream takes it.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let outgoing = &mut self.buffers.outgoing;
        while !outgoing.waiting().is_empty() {
            match stream.write(outgoing.waiting()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => outgoing.take(more),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends a client's first message.
    fn begin(&mut self, stream: &mut impl Write) -> io::Result<()> {
        let nowhere = &mut ReadSlices::new(&mut []);
        while self.advance(nowhere).map_err(|error| changed(&error))? == Step::Again {}
        self.flush(stream)
    }

    /// Processes ciphertext that has been read.
    fn advance(&mut self, target: &mut ReadSlices<'_, '_>) -> Result<Step, rustls::Error> {
        let Self { connection, buffers, incoming, incoming_at, incoming_end, .. } = self;
        let bytes = &mut incoming[*incoming_at..*incoming_end];
        let (discard, step) = match connection {
            Connection::Client(connection) => buffers
                .handle::<ClientConnectionData>(connection.process_tls_records(bytes), target),
            Connection::Server(connection) => buffers
                .handle::<ServerConnectionData>(connection.process_tls_records(bytes), target),
        };
        *incoming_at += discard;
        step
    }

    /// Reads ciphertext.
    fn fill(&mut self, stream: &mut impl Read) -> io::Result<Filled> {
        self.incoming.copy_within(self.incoming_at..self.incoming_end, 0);
        self.incoming_end -= self.incoming_at;
        self.incoming_at = 0;
        let is_open = self.buffers.is_open;
        let room = if is_open { READ_BYTES } else { self.incoming_end + FIRST_READ_BYTES };
        if !is_open && room > MAX_FIRST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"));
        }
        if self.incoming.len() < room {
            self.incoming.resize(room, 0);
        }
        loop {
            match stream.read(&mut self.incoming[self.incoming_end..]) {
                Ok(0) => return Ok(Filled::End),
                Ok(more) => {
                    self.incoming_end += more;
                    let is_full = self.incoming_end == self.incoming.len();
                    return Ok(if is_full { Filled::Full } else { Filled::Drained });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Encrypts the beginning of the plaintext, at most a batch. Returns how much that is.
    fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let (mut taken, mut gathered) = (0, std::mem::take(&mut self.gathered));
        gathered.clear();
        for slice in slices {
            let mut rest = &slice[..slice.len().min(BATCH_BYTES - taken)];
            taken += rest.len();
            if !gathered.is_empty() || rest.len() < SHORT_BYTES {
                let (first, more) = rest.split_at(rest.len().min(RECORD_BYTES - gathered.len()));
                gathered.extend_from_slice(first);
                rest = more;
                if gathered.len() < RECORD_BYTES && first.len() < SHORT_BYTES {
                    continue;
                }
                self.encrypt_piece(&gathered)?;
                gathered.clear();
            }
            self.encrypt_piece(rest)?;
        }
        self.encrypt_piece(&gathered)?;
        self.gathered = gathered;
        Ok(taken)
    }

    fn encrypt_piece(&mut self, piece: &[u8]) -> io::Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        let Self { connection, buffers, .. } = self;
        match connection {
            Connection::Client(connection) => buffers
                .encrypt::<ClientConnectionData>(connection.process_tls_records(&mut []), piece),
            Connection::Server(connection) => buffers
                .encrypt::<ServerConnectionData>(connection.process_tls_records(&mut []), piece),
        }
    }

    fn check_sound(&self) -> io::Result<()> {
        if self.has_failed {
            let what = "this TLS connection has failed before";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(())
    }

    /// The connection fails. Says why to the other end, if there is an alert for it.
    fn fail(&mut self, error: &rustls::Error, stream: &mut impl Write) {
        use rustls::Error::{DecryptError, InvalidCertificate, NoCertificatesPresented};
        self.has_failed = true;
        let has_alert =
            matches!(error, DecryptError | InvalidCertificate(_) | NoCertificatesPresented);
        if has_alert {
            // The alert comes before anything else that has been read is processed.
            let _ = self.advance(&mut ReadSlices::new(&mut []));
            let _ = self.flush(stream);
        }
    }
}

impl TlsBuffers {
    /// Handles what a connection says. Returns how much ciphertext it has used.
    fn handle<Data>(
        &mut self,
        status: UnbufferedStatus<'_, '_, Data>,
        target: &mut ReadSlices<'_, '_>,
    ) -> (usize, Result<Step, rustls::Error>) {
        let UnbufferedStatus { mut discard, state } = status;
        let step = match state {
            Err(error) => Err(error),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut step = Ok(Step::Again);
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            let rest = target.put(record.payload);
                            self.plain.extend_from_slice(rest);
                        }
                        Err(error) => step = Err(error),
                    }
                }
                step
            }
            Ok(ConnectionState::EncodeTlsData(mut message)) => {
                let encoded = self.outgoing.append(RECORD_BYTES, |out| {
                    message.encode(out).map_err(|error| match error {
                        EncodeError::InsufficientSize(size) => Some(size),
                        EncodeError::AlreadyEncoded => None,
                    })
                });
                encoded.map(|()| Step::Again)
            }
            Ok(ConnectionState::TransmitTlsData(message)) => {
                // It is behind everything that the stream has not taken.
                message.done();
                Ok(Step::Again)
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                self.is_open = true;
                let early = std::mem::take(&mut self.early);
                let sent = early
                    .chunks(BATCH_BYTES)
                    .try_for_each(|piece| encrypt_into(&mut self.outgoing, &mut traffic, piece));
                sent.map(|()| Step::Blocked)
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Step::Closed),
            Ok(_) => Err(rustls::Error::General("an unexpected state".into())),
        };
        (discard, step)
    }

    /// Encrypts a piece for a connection that is open.
    fn encrypt<Data>(
        &mut self,
        status: UnbufferedStatus<'_, '_, Data>,
        piece: &[u8],
    ) -> io::Result<()> {
        match status.state.map_err(|error| changed(&error))? {
            ConnectionState::WriteTraffic(mut traffic) => {
                let encrypted = encrypt_into(&mut self.outgoing, &mut traffic, piece);
                encrypted.map_err(|error| changed(&error))
            }
            _ => Err(io::Error::other("the TLS connection cannot be written now")),
        }
    }

    /// Moves plaintext to where a read wants it.
    fn fetch(&mut self, target: &mut ReadSlices<'_, '_>) {
        let rest = target.put(&self.plain[self.plain_at..]).len();
        self.plain_at = self.plain.len() - rest;
        if rest == 0 {
            self.plain.clear();
            self.plain_at = 0;
        }
    }
}

fn encrypt_into<Data>(
    outgoing: &mut OutgoingBytes,
    traffic: &mut WriteTraffic<'_, Data>,
    piece: &[u8],
) -> Result<(), rustls::Error> {
    let records = piece.len().div_ceil(RECORD_BYTES);
    outgoing.append(piece.len() + records * RECORD_OVERHEAD, |out| {
        traffic.encrypt(piece, out).map_err(|error| match error {
            EncryptError::InsufficientSize(size) => Some(size),
            EncryptError::EncryptExhausted => None,
        })
    })
}

/// An error of TLS as one of a stream.
fn changed(error: &rustls::Error) -> io::Error {
    let text = match error {
        rustls::Error::DecryptError => "a TLS record was changed on the way".to_owned(),
        error => format!("TLS: {error}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}
