//! One connection: reads requests and answers them, one after another.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::peer_user;
use crate::request::{Method, Request, RequestError};
use crate::response::{Response, ResponseBody};
use crate::state::OpenConnection;
use crate::stream_writer::{StreamWriter, is_timeout, write_within};

/// Time to tell a client that the server has too many connections.
const REFUSAL_TIME: Duration = Duration::from_millis(100);

/// Serves a connection until one side closes it.
pub(crate) fn serve(mut stream: TcpStream, open: &OpenConnection) {
    // An error means that the client is gone or too slow: there is nothing to report to it.
    let _ = serve_requests(&mut stream, open);
}

/// Answers that the server has too many connections.
pub(crate) fn refuse(mut stream: TcpStream) {
    let busy = Response::text(503, "too many connections\n");
    let _ = Reply { method: Method::Get, keeps_alive: false, write_time: REFUSAL_TIME }
        .send(&mut stream, busy);
}

fn serve_requests(stream: &mut TcpStream, open: &OpenConnection) -> io::Result<()> {
    let state = &open.state;
    let write_time = state.limits.write_time;
    stream.set_nodelay(true)?;
    // Bytes that were read beyond the end of the previous request.
    let mut bytes = Vec::new();
    // Looked up for the first request, so that a connection without one costs nothing.
    let mut is_own_user = (!state.guard.is_for_own_user()).then_some(true);
    while !state.is_stopping() {
        let request = match read_head(stream, &mut bytes, &state.limits)? {
            HeadRead::Closed => return Ok(()),
            HeadRead::Complete(head) => Request::parse(&head),
            HeadRead::Refused(error) => Err(error),
        };
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                // Where the next request begins is unknown, so the connection must close.
                let response = Response::text(error.status, format!("{}\n", error.message));
                let reply = Reply { method: Method::Get, keeps_alive: false, write_time };
                return reply.send(stream, response);
            }
        };
        let is_own_user =
            *is_own_user.get_or_insert_with(|| peer_user::is_own_user(stream).unwrap_or(false));
        let checked = if is_own_user { state.guard.check(&request) } else { Err(other_user()) };
        let response = match checked {
            Ok(()) => {
                if !state.guard.is_open(&request) {
                    open.set_busy();
                }
                (state.handler)(&request)
            }
            Err(refusal) => refusal,
        };
        let is_complete = matches!(response.body, ResponseBody::Complete(_));
        let keeps_alive = request.keeps_alive && is_complete;
        Reply { method: request.method, keeps_alive, write_time }.send(stream, response)?;
        if !keeps_alive {
            return Ok(());
        }
        open.set_answered();
    }
    Ok(())
}

/// The answer to another user of the machine.
fn other_user() -> Response {
    let text = "this page is only for the user who started it; others need a token\n";
    Response::text(403, text)
}

/// The result of waiting for a request.
enum HeadRead {
    /// The client closed the connection, or was silent for too long.
    Closed,
    Complete(Vec<u8>),
    Refused(RequestError),
}

/// Reads the head of the next request. `bytes` holds what was read beyond the previous request
/// and receives what is read beyond this one.
fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>, limits: &Limits) -> io::Result<HeadRead> {
    let mut start = (!bytes.is_empty()).then(Instant::now);
    loop {
        // RFC 9112 asks servers to ignore empty lines before a request.
        let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        bytes.drain(..blank);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end.filter(|end| *end <= limits.head_bytes) {
            let rest = bytes.split_off(end + 4);
            let mut head = std::mem::replace(bytes, rest);
            head.truncate(end);
            return Ok(HeadRead::Complete(head));
        }
        if bytes.len() > limits.head_bytes {
            return Ok(HeadRead::Refused(RequestError::new(431, "the request is too long")));
        }
        let left = match start {
            None => limits.idle_time,
            Some(start) => limits.head_time.saturating_sub(start.elapsed()),
        };
        if left.is_zero() {
            return Ok(HeadRead::Refused(RequestError::new(408, "the request took too long")));
        }
        stream.set_read_timeout(Some(left))?;
        let mut block = [0; 2048];
        match stream.read(&mut block) {
            Ok(0) => return Ok(HeadRead::Closed),
            Ok(len) => bytes.extend_from_slice(&block[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && start.is_some() => {}
            Err(_) => return Ok(HeadRead::Closed),
        }
        start.get_or_insert_with(Instant::now);
    }
}

/// How a response is sent.
struct Reply {
    /// The method of the request: `HEAD` gets no body.
    method: Method,
    keeps_alive: bool,
    write_time: Duration,
}

impl Reply {
    fn send(self, stream: &mut TcpStream, response: Response) -> io::Result<()> {
        let mut bytes = response.head(self.keeps_alive);
        let has_body = self.method == Method::Get;
        match response.body {
            ResponseBody::Complete(body) => {
                if has_body {
                    bytes.extend_from_slice(&body);
                }
                write_within(stream, &bytes, self.write_time)
            }
            ResponseBody::Streamed(write_body) => {
                write_within(stream, &bytes, self.write_time)?;
                if has_body {
                    write_body(&mut StreamWriter::new(stream, self.write_time))?;
                }
                Ok(())
            }
        }
    }
}
