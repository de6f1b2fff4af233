//! What is answered.

use std::borrow::Cow;
use std::fmt;
use std::io;

use crate::connection::Outlet;

/// Somebody who writes an answer piece by piece.
type Write = Box<dyn FnOnce(&mut Outlet<'_>) -> io::Result<()> + Send>;

/// What follows the head.
pub(crate) enum Body {
    Whole(Cow<'static, [u8]>),
    Stream(Write),
}

/// An answer.
pub struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Body,
}

impl Response {
    /// An answer of this kind of content.
    pub fn new(
        status: u16,
        content_type: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self { status, headers, body: Body::Whole(body.into()) }
    }

    /// A line of text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// JSON that is written down already.
    pub fn json(body: Vec<u8>) -> Self {
        Self::new(200, "application/json", body)
    }

    /// Nothing is there.
    pub fn not_found() -> Self {
        Self::text(404, "there is nothing here\n")
    }

    /// Go and look there instead, a path of this server.
    pub fn see_other(path: &str) -> Self {
        Self::text(303, "").with("location", path)
    }

    /// An answer that is written piece by piece, until `write` comes to its end or fails; the
    /// connection ends with it.
    pub fn stream(
        content_type: &'static str,
        write: impl FnOnce(&mut Outlet<'_>) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self { body: Body::Stream(Box::new(write)), ..Self::new(200, content_type, &[][..]) }
    }

    /// The same with one more header. A line break in the value would begin another header, so
    /// control characters are left out.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.chars().filter(|c| !c.is_control()).collect()));
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The head, down to the empty line.
    pub(crate) fn head(&self, keeps_alive: bool) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Body::Whole(body) = &self.body {
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

/// The words that go with a status.
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
        _ => "Answer",
    }
}
