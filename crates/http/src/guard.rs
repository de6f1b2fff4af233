//! Decides which requests a server answers.
//!
//! On loopback every local user may read, unless the guard is for one user alone, but not every web
//! page that a local browser has open: a site can point its own name at 127.0.0.1 and then read the
//! answers as if they were its own (DNS rebinding). So without a token a request must name the
//! server by `localhost` or by address.
//! Beyond loopback a token is required: in the header `Authorization: Bearer`, as programs send
//! it, or once as `?token=`, in exchange for which a browser gets a cookie.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::request::Request;
use crate::response::Response;

/// Name of the cookie that stands for the token.
const COOKIE: &str = "paceline_token";
/// Query parameter that carries the token.
const PARAM: &str = "token";

/// Decides which requests a server answers.
#[derive(Clone)]
pub struct Guard {
    token: Option<String>,
    /// Other users of the machine may not read.
    is_for_own_user: bool,
    /// A path that needs no token.
    open_path: Option<&'static str>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("has_token", &self.token.is_some()).finish()
    }
}

impl Guard {
    /// Lets every local user read. [`bind`] then refuses addresses beyond loopback.
    pub fn without_token() -> Self {
        Self { token: None, is_for_own_user: false, open_path: None }
    }

    /// Lets only the user of this process read, and the administrator. [`bind`] then refuses
    /// addresses beyond loopback, because the system knows only the users of this machine.
    pub fn for_own_user() -> Self {
        Self { is_for_own_user: true, ..Self::without_token() }
    }

    /// Lets only requests with this token pass.
    ///
    /// # Panics
    /// If the token is empty.
    pub fn with_token(token: &str) -> Self {
        assert!(!token.is_empty(), "an empty token protects nothing");
        Self { token: Some(token.to_owned()), ..Self::without_token() }
    }

    /// Answers requests for this path without a token, such as a probe that only asks whether the
    /// server runs.
    #[must_use]
    pub fn opening(self, path: &'static str) -> Self {
        Self { open_path: Some(path), ..self }
    }

    /// Whether requests need a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether other users of the machine are refused.
    pub(crate) fn is_for_own_user(&self) -> bool {
        self.is_for_own_user
    }

    /// Whether any stranger may make a request.
    pub(crate) fn is_open(&self, request: &Request) -> bool {
        self.token.is_some() && self.open_path == Some(request.path.as_str())
    }

    /// Lets a request pass, or returns the response to send instead.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Response> {
        let Some(token) = &self.token else {
            if request.header("host").is_none_or(is_plain_host) {
                return Ok(());
            }
            return Err(Response::text(
                403,
                "use the server's address, or localhost, as its name\n",
            ));
        };
        if self.is_open(request) {
            return Ok(());
        }
        let bearer =
            request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|given| is_same(given.trim(), token)) {
            return Ok(());
        }
        // Redirecting keeps the token out of the address, which people copy.
        if request.param(PARAM).is_some_and(|given| is_same(given, token)) {
            let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", encode(token));
            return Err(Response::see_other("/").with_header("set-cookie", &cookie));
        }
        if request.cookie(COOKIE).is_some_and(|given| is_same(given, &encode(token))) {
            return Ok(());
        }
        let text = "a token is required: send Authorization: Bearer TOKEN, or open /?token=TOKEN\n";
        Err(Response::text(401, text).with_header("www-authenticate", "Bearer"))
    }
}

/// Listens on an address. Without a token only loopback addresses are allowed.
///
/// # Errors
/// If the address is not on loopback and the guard has no token
/// ([`PermissionDenied`](io::ErrorKind::PermissionDenied)), or if the socket cannot be bound.
pub fn bind(address: &str, guard: &Guard) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    if !guard.has_token() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let text = format!("{address} is reachable from other machines, which needs a token");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    TcpListener::bind(&addresses[..])
}

/// Whether this host, with or without a port, is `localhost` or an address.
fn is_plain_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Compares in a time that does not depend on how many characters match.
fn is_same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    let difference = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0 && given.len() == token.len()
}

/// Encodes a token in characters that a cookie may contain.
fn encode(token: &str) -> String {
    token.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(guard: &Guard, target: &str, header: &str) -> u16 {
        let head = format!("GET {target} HTTP/1.1\r\n{header}");
        let request = Request::parse(head.as_bytes()).unwrap();
        guard.check(&request).map_or_else(|answer| answer.status(), |()| 200)
    }

    #[test]
    fn host_names_that_a_site_can_choose_are_refused() {
        for (host, status) in [
            ("localhost", 200),
            ("localhost:80", 200),
            ("127.0.0.1:8080", 200),
            ("[::1]:8080", 200),
            ("evil.example", 403),
            ("localhost.evil.example:80", 403),
            ("127.0.0.1.evil.example", 403),
            ("", 403),
        ] {
            assert_eq!(
                ask(&Guard::without_token(), "/", &format!("host: {host}")),
                status,
                "{host}"
            );
        }
    }

    #[test]
    fn only_requests_with_the_token_pass() {
        let guard = Guard::with_token("s3cret");
        let host = "host: node7:80";
        let cookie = format!("{COOKIE}={}", encode("s3cret"));
        for (target, header, status) in [
            ("/", "", 401),
            ("/", "authorization: Bearer s3cret", 200),
            ("/", "authorization: Bearer s3cre", 401),
            ("/", "authorization: Bearer s3cretx", 401),
            ("/", "authorization: s3cret", 401),
            ("/?token=s3cret", "", 303),
            ("/?token=", "", 401),
            ("/", &format!("cookie: a=1; {cookie}"), 200),
            ("/", &format!("cookie: {COOKIE}=s3cret"), 401),
        ] {
            let lines = if header.is_empty() { host.into() } else { format!("{host}\r\n{header}") };
            assert_eq!(ask(&guard, target, &lines), status, "{target} {header}");
        }
    }

    #[test]
    fn listening_beyond_loopback_requires_a_token() {
        let refused = bind("0.0.0.0:0", &Guard::without_token()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(bind("127.0.0.1:0", &Guard::without_token()).is_ok());
        assert!(bind("0.0.0.0:0", &Guard::with_token("t")).is_ok());
    }
}
