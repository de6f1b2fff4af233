//! Writing to a client's socket within a time limit.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes handed to the socket at a time; the time limit is checked in between.
const WRITE_BYTES: usize = 64 << 10;

/// Writes the body of a streamed response.
///
/// [`Response::stream`](crate::Response::stream) hands one to its closure. The connection closes
/// when the closure returns.
#[derive(Debug)]
pub struct StreamWriter<'a> {
    stream: &'a mut TcpStream,
    write_time: Duration,
}

impl<'a> StreamWriter<'a> {
    pub(crate) fn new(stream: &'a mut TcpStream, write_time: Duration) -> Self {
        Self { stream, write_time }
    }

    /// Sends bytes at once.
    ///
    /// # Errors
    /// If the client has closed the connection or does not read within
    /// [`Limits::write_time`](crate::Limits::write_time). The closure should then return.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_within(self.stream, bytes, self.write_time)
    }

    /// Sleeps for this time.
    ///
    /// # Errors
    /// As soon as the client closes the connection or the server stops. The closure should then
    /// return.
    pub fn wait(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left))?;
            // The client has nothing left to send, so a read returns at the end of the stream.
            match self.stream.read(&mut [0; 256]) {
                Ok(0) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a read or write stopped at its socket's time limit.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Writes all bytes, or fails when `time` has passed.
pub(crate) fn write_within(stream: &mut TcpStream, bytes: &[u8], time: Duration) -> io::Result<()> {
    let start = Instant::now();
    for block in bytes.chunks(WRITE_BYTES) {
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        stream.write_all(block)?;
    }
    Ok(())
}
