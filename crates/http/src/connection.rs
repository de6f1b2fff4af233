//! One connection: requests are read, answered and written, one after another.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::request::{Method, Request};
use crate::response::{Body, Response};
use crate::server::{Limits, Shared};

/// How much of an answer is written at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Serves a connection until either side has had enough.
pub(crate) fn serve(mut stream: TcpStream, shared: &Shared) {
    // Nobody is told what goes wrong: the peer has gone, or is not worth more words.
    let _ = serve_all(&mut stream, shared);
}

/// Answers that there is no room.
pub(crate) fn refuse(mut stream: TcpStream) {
    let busy = Response::text(503, "too many connections\n");
    let limits = Limits { write_time: Duration::from_millis(100), ..Limits::default() };
    let _ = write(&mut stream, busy, Method::Get, false, &limits);
}

fn serve_all(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // What has been read beyond the request before.
    let mut bytes = Vec::new();
    while !shared.is_stopping() {
        let request = match read_head(stream, &mut bytes, &shared.limits)? {
            Head::None => return Ok(()),
            Head::Whole(head) => Request::parse(&head),
            Head::Refused(refusal) => Err(refusal),
        };
        let request = match request {
            Ok(request) => request,
            Err((status, why)) => {
                // After a request that was not understood nobody knows where the next begins.
                let answer = Response::text(status, format!("{why}\n"));
                return write(stream, answer, Method::Get, false, &shared.limits);
            }
        };
        let answer =
            shared.guard.check(&request).map_or_else(|no| no, |()| (shared.answer)(&request));
        let keeps_alive = request.keeps_alive && matches!(answer.body, Body::Whole(_));
        write(stream, answer, request.method, keeps_alive, &shared.limits)?;
        if !keeps_alive {
            return Ok(());
        }
    }
    Ok(())
}

/// What came of waiting for a request.
enum Head {
    /// The peer has said all it had to say.
    None,
    Whole(Vec<u8>),
    Refused((u16, &'static str)),
}

/// Reads the next request's head; `bytes` has what was read too far before, and after.
fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>, limits: &Limits) -> io::Result<Head> {
    let mut begun = (!bytes.is_empty()).then(Instant::now);
    loop {
        // Empty lines before a request are forgiven, as the standard asks.
        let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        bytes.drain(..blank);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| *end <= limits.head_bytes) {
            let rest = bytes.split_off(end + 4);
            let mut head = std::mem::replace(bytes, rest);
            head.truncate(end);
            return Ok(Head::Whole(head));
        }
        if bytes.len() > limits.head_bytes {
            return Ok(Head::Refused((431, "the request is too long")));
        }
        let left = match begun {
            None => limits.idle_time,
            Some(begun) => limits.head_time.saturating_sub(begun.elapsed()),
        };
        if left.is_zero() {
            return Ok(Head::Refused((408, "the request took too long")));
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 2048];
        match stream.read(&mut piece) {
            Ok(0) => return Ok(Head::None),
            Ok(len) => bytes.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) && begun.is_some() => {}
            // Quiet for too long: it may come again when it has something to ask.
            Err(_) => return Ok(Head::None),
        }
        begun.get_or_insert_with(Instant::now);
    }
}

/// Whether a time limit on a socket has passed.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn write(
    stream: &mut TcpStream,
    answer: Response,
    method: Method,
    keeps_alive: bool,
    limits: &Limits,
) -> io::Result<()> {
    let mut bytes = answer.head(keeps_alive);
    match answer.body {
        Body::Whole(body) => {
            if method == Method::Get {
                bytes.extend_from_slice(&body);
            }
            write_within(stream, &bytes, limits.write_time)
        }
        Body::Stream(write) => {
            write_within(stream, &bytes, limits.write_time)?;
            match method {
                Method::Get => write(&mut Outlet { stream, write_time: limits.write_time }),
                Method::Head => Ok(()),
            }
        }
    }
}

/// Writes everything, within this time.
fn write_within(stream: &mut TcpStream, bytes: &[u8], time: Duration) -> io::Result<()> {
    let begun = Instant::now();
    for piece in bytes.chunks(PIECE_BYTES) {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        stream.write_all(piece)?;
    }
    Ok(())
}

/// Where a stream is written to.
#[derive(Debug)]
pub struct Outlet<'a> {
    stream: &'a mut TcpStream,
    write_time: Duration,
}

impl Outlet<'_> {
    /// Writes a piece, which goes out at once.
    ///
    /// # Errors
    /// If the reader has gone or does not read; then the stream is to end.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_within(self.stream, bytes, self.write_time)
    }

    /// Waits for so long.
    ///
    /// # Errors
    /// As soon as the reader goes or the server stops; then the stream is to end.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left))?;
            // Nothing is expected, so what comes can only be the end, or noise.
            match self.stream.read(&mut [0; 256]) {
                Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(_) => {}
                Err(error) if is_late(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
