//! What was asked: the head of a request, taken apart and decoded.
//!
//! Only what a reader of pages needs is understood. What is not understood is refused rather than
//! guessed at: a head that two programs may read differently is how requests get smuggled.

/// Headers that a request may have.
const MAX_HEADERS: usize = 64;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Show something.
    Get,
    /// Show what would be shown, without showing it.
    Head,
}

/// A request for something to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub method: Method,
    /// Where, decoded and without what follows a question mark. It begins with a slash, and
    /// nothing else about it is sure: it may hold `..` and any other text.
    pub path: String,
    /// What follows the question mark: names and values, decoded.
    pub query: Vec<(String, String)>,
    /// The headers: names in lower case, and values.
    headers: Vec<(String, String)>,
    /// Whether the connection is to be kept.
    pub(crate) keeps_alive: bool,
}

/// Why a request is refused: a status and a word.
pub(crate) type Refusal = (u16, &'static str);

impl Request {
    /// Takes a head apart, without the empty line that ends it.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Refusal> {
        let head = std::str::from_utf8(head).map_err(|_| (400, "the request is not text"))?;
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err((400, "the first line is not method, path and version"));
        };
        let is_new = match version {
            "HTTP/1.1" => true,
            "HTTP/1.0" => false,
            _ => return Err((505, "only HTTP/1.1 and HTTP/1.0 are spoken here")),
        };
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => return Err((405, "there is nothing here but to look at")),
        };
        let headers = parse_headers(lines)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err((400, "the path does not begin with a slash"));
        }
        let bad = (400, "the path is not well encoded");
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?))
        });
        let query = pairs.collect::<Option<_>>().ok_or(bad)?;
        let mut request =
            Self { method, path: decoded(path).ok_or(bad)?, query, headers, keeps_alive: is_new };
        request.check(is_new)?;
        Ok(request)
    }

    fn check(&mut self, is_new: bool) -> Result<(), Refusal> {
        let hosts = self.headers.iter().filter(|(name, _)| name == "host").count();
        if hosts > 1 || (is_new && hosts == 0) {
            return Err((400, "a request names one host"));
        }
        if self.header("transfer-encoding").is_some()
            || self.header("content-length").is_some_and(|length| length != "0")
        {
            return Err((413, "no request here has a body"));
        }
        let wish = self.header("connection").unwrap_or_default().to_ascii_lowercase();
        self.keeps_alive = is_new && !wish.split(',').any(|word| word.trim() == "close");
        Ok(())
    }

    /// The value of a header, whose name is given in lower case; the first if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of this name after the question mark; the first if there are several.
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
) -> Result<Vec<(String, String)>, Refusal> {
    let mut headers = Vec::new();
    for line in lines {
        if headers.len() == MAX_HEADERS {
            return Err((431, "too many headers"));
        }
        let (name, value) = line.split_once(':').ok_or((400, "a header has no colon"))?;
        let is_token =
            |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err((400, "a header's name is not a word"));
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err((400, "a header has control characters"));
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(headers)
}

/// Text with its `%41`s read; none if they are not well formed, or what comes out is not text
/// that a person would write.
fn decoded(text: &str) -> Option<String> {
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
        Request::parse(text.as_bytes()).map_err(|refusal| refusal.0)
    }

    #[test]
    fn a_request_is_taken_apart_and_decoded() {
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
    fn what_is_not_understood_is_refused() {
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
        fn no_bytes_make_it_panic(bytes: Vec<u8>, text in "[GET /%a-f0-9?&=\r\n:.]{0,80}") {
            let _ = Request::parse(&bytes);
            let _ = Request::parse(text.as_bytes());
        }
    }
}
