//! Requests: parses and decodes the head of a request.
//!
//! The parser accepts only what a reader of pages sends and refuses the rest instead of guessing:
//! a head that two programs read differently is how requests are smuggled past a proxy.

/// Most headers that a request may have.
const MAX_HEADERS: usize = 64;

/// The method of a request. The server refuses all others with status 405.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Asks for a resource.
    Get,
    /// Asks for the head of the response to `GET`, without the body.
    Head,
}

/// A request whose head is well formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The decoded path, without the query. It starts with a slash. Nothing else about it is
    /// checked: it may contain `..`.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    /// Names, in lower case, and values.
    headers: Vec<(String, String)>,
    /// Whether the client wants to send further requests on this connection.
    pub(crate) keeps_alive: bool,
}

/// Why the server refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// The status of the response.
    pub status: u16,
    /// What is wrong with the request.
    pub message: &'static str,
}

impl RequestError {
    pub(crate) fn new(status: u16, message: &'static str) -> Self {
        Self { status, message }
    }
}

impl Request {
    /// Parses a head, given without the empty line that ends it.
    ///
    /// # Errors
    /// If it is not a request that the server answers.
    pub fn parse(head: &[u8]) -> Result<Self, RequestError> {
        let refuse = RequestError::new;
        let head =
            std::str::from_utf8(head).map_err(|_| refuse(400, "the request is not UTF-8"))?;
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(refuse(400, "the first line is not method, path and version"));
        };
        let is_http_1_1 = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => return Err(refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0")),
        };
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => return Err(refuse(405, "this server answers only GET and HEAD")),
        };
        let headers = parse_headers(lines)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err(refuse(400, "the path does not start with a slash"));
        }
        let bad_encoding = refuse(400, "the path or query is not encoded correctly");
        let path = decode(path).ok_or(bad_encoding)?;
        let query = parse_query(query).ok_or(bad_encoding)?;
        let mut request = Self { method, path, query, headers, keeps_alive: is_http_1_1 };
        request.check_headers(is_http_1_1)?;
        Ok(request)
    }

    fn check_headers(&mut self, is_http_1_1: bool) -> Result<(), RequestError> {
        let hosts = self.headers.iter().filter(|(name, _)| name == "host").count();
        if hosts > 1 || (is_http_1_1 && hosts == 0) {
            return Err(RequestError::new(400, "a request must have one Host header"));
        }
        if self.header("transfer-encoding").is_some()
            || self.header("content-length").is_some_and(|length| length != "0")
        {
            return Err(RequestError::new(413, "this server accepts no request bodies"));
        }
        let connection = self.header("connection").unwrap_or_default().to_ascii_lowercase();
        self.keeps_alive =
            is_http_1_1 && !connection.split(',').any(|option| option.trim() == "close");
        Ok(())
    }

    /// The value of a header, whose name is given in lower case; the first if it is repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a query parameter; the first if it is repeated.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.header("cookie")?.split(';').filter_map(|pair| pair.split_once('='));
        pairs.map(|(own, value)| (own.trim(), value.trim())).find(|(own, _)| *own == name)?.1.into()
    }
}

fn parse_headers<'a>(
    lines: impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, String)>, RequestError> {
    let refuse = RequestError::new;
    let mut headers = Vec::new();
    for line in lines {
        if headers.len() == MAX_HEADERS {
            return Err(refuse(431, "too many headers"));
        }
        let Some((name, value)) = line.split_once(':') else {
            return Err(refuse(400, "a header has no colon"));
        };
        let is_token =
            |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(refuse(400, "a header name has characters that are not allowed"));
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(refuse(400, "a header value has control characters"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// The decoded names and values of a query; none if one is not encoded correctly.
fn parse_query(query: &str) -> Option<Vec<(String, String)>> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decoded = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
    });
    decoded.collect()
}

/// Decodes percent-encoded text; none if the encoding is malformed, or the result is not UTF-8 or
/// contains control characters.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Request, u16> {
        Request::parse(text.as_bytes()).map_err(|error| error.status)
    }

    #[test]
    fn a_request_is_parsed_and_decoded() {
        let head = "GET /runs/a%20b?x=1%2B1&y=a+b&z HTTP/1.1\r\nHost: here\r\nCOOKIE: a=1; b = 2 ";
        let request = parse(head).unwrap();
        assert_eq!((request.method, request.path.as_str()), (Method::Get, "/runs/a b"));
        let params = ["x", "y", "z", "none"].map(|name| request.param(name));
        assert_eq!(params, [Some("1+1"), Some("a b"), Some(""), None]);
        assert_eq!((request.cookie("b"), request.cookie("c")), (Some("2"), None));
        assert!(request.keeps_alive);
        assert!(!parse("GET / HTTP/1.1\r\nhost: a\r\nConnection: x, Close").unwrap().keeps_alive);
        assert!(!parse("HEAD / HTTP/1.0").unwrap().keeps_alive);
    }

    #[test]
    fn malformed_requests_are_refused() {
        for (head, status) in [
            ("", 400),
            ("GET /", 400),
            ("GET  / HTTP/1.1\r\nhost: a", 400),
            ("GET / HTTP/2\r\nhost: a", 505),
            ("POST / HTTP/1.1\r\nhost: a", 405),
            ("get / HTTP/1.1\r\nhost: a", 405),
            ("GET / HTTP/1.1", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\nhost: b", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\n folded: b", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\nx : b", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\nno colon", 400),
            ("GET / HTTP/1.1\r\nhost: a\nx: b", 400),
            ("GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 3", 413),
            ("GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked", 413),
            ("GET http://a/ HTTP/1.1\r\nhost: a", 400),
            ("GET /%zz HTTP/1.1\r\nhost: a", 400),
            ("GET /%f HTTP/1.1\r\nhost: a", 400),
            ("GET /%00 HTTP/1.1\r\nhost: a", 400),
            ("GET /%ff HTTP/1.1\r\nhost: a", 400),
            ("GET /?a=%0d%0a HTTP/1.1\r\nhost: a", 400),
        ] {
            assert_eq!(parse(head), Err(status), "{head:?}");
        }
        let many = "GET / HTTP/1.1\r\nhost: a".to_owned() + &"\r\na: b".repeat(MAX_HEADERS);
        assert_eq!(parse(&many), Err(431));
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(bytes: Vec<u8>, text in "[GET /%a-f0-9?&=\r\n:.]{0,80}") {
            let _ = Request::parse(&bytes);
            let _ = Request::parse(text.as_bytes());
        }
    }
}
