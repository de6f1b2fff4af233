//! Responses.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::stream_writer::StreamWriter;

/// Writes a streamed body.
type StreamBody = Box<dyn FnOnce(&mut StreamWriter<'_>) -> io::Result<()> + Send>;

/// What follows the head of a response.
pub(crate) enum ResponseBody {
    Complete(Cow<'static, [u8]>),
    Streamed(StreamBody),
}

/// A response to a request.
pub struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: ResponseBody,
}

impl Response {
    /// Creates a response with a complete body.
    pub fn new(
        status: u16,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, body: ResponseBody::Complete(body.into()) }
    }

    /// Creates a response of plain text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// Creates a response of serialized JSON, with status 200.
    pub fn json(body: Vec<u8>) -> Self {
        Self::new(200, "application/json", body)
    }

    /// Creates a response with status 404.
    pub fn not_found() -> Self {
        Self::text(404, "not found\n")
    }

    /// Redirects the client to another path of this server.
    pub fn see_other(path: &str) -> Self {
        Self::text(303, "").with_header("location", path)
    }

    /// Creates a response whose body `write` produces; the connection closes when it returns.
    pub fn stream(
        content_type: &'static str,
        write: impl FnOnce(&mut StreamWriter<'_>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let body = ResponseBody::Streamed(Box::new(write));
        Self { body, ..Self::new(200, content_type, &[][..]) }
    }

    /// Adds a header. Control characters in the value are dropped, because a line break would
    /// begin another header.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.chars().filter(|c| !c.is_control()).collect()));
        self
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The head, including the empty line that ends it.
    pub(crate) fn head(&self, keeps_alive: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let ResponseBody::Complete(body) = &self.body {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("x-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n");
        if !self.headers.iter().any(|(name, _)| *name == "cache-control") {
            head.push_str("cache-control: no-store\r\n");
        }
        head.push_str(if keeps_alive { "\r\n" } else { "connection: close\r\n\r\n" });
        head.into_bytes()
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, headers, .. } = self;
        f.debug_struct("Response").field("status", status).field("headers", headers).finish()
    }
}

/// The reason phrase of a status.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        303 => "See Other",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}
