//! Who may ask.
//!
//! On loopback whoever is on this machine may look, but not every page that a browser on this
//! machine has open: a site can have its own name lead to 127.0.0.1 and then read what is there
//! as if it were its own. So without a token a request must name the server as a person would, by
//! `localhost` or by address. Beyond loopback a token is needed: in the header `Authorization:
//! Bearer`, as programs send it, or once as `?token=`, for which a browser gets a cookie.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::request::Request;
use crate::response::Response;

/// The cookie that stands for the token.
const COOKIE: &str = "paceline_token";
/// The parameter that brings it.
const PARAM: &str = "token";

/// Says who may ask.
#[derive(Clone)]
pub struct Guard {
    token: Option<String>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("has_token", &self.token.is_some()).finish()
    }
}

impl Guard {
    /// Lets everybody on this machine ask.
    pub fn open() -> Self {
        Self { token: None }
    }

    /// Lets those ask who know this token, which must not be empty.
    pub fn with_token(token: &str) -> Self {
        assert!(!token.is_empty(), "an empty token keeps nobody out");
        Self { token: Some(token.to_owned()) }
    }

    /// Whether a token is asked for.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Lets a request through, or answers in its place.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Response> {
        let Some(token) = &self.token else {
            return match request.header("host").is_none_or(is_plain_host) {
                true => Ok(()),
                false => Err(Response::text(403, "ask for this by address or as localhost\n")),
            };
        };
        let bearer =
            request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|given| is_same(given.trim(), token)) {
            return Ok(());
        }
        // A browser that comes with the token goes on without it, so that it does not stay in
        // the address that people copy.
        if request.param(PARAM).is_some_and(|given| is_same(given, token)) {
            let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", encoded(token));
            return Err(Response::see_other("/").with("set-cookie", &cookie));
        }
        if request.cookie(COOKIE).is_some_and(|given| is_same(given, &encoded(token))) {
            return Ok(());
        }
        let text = "a token is needed: Authorization: Bearer TOKEN, or /?token=TOKEN\n";
        Err(Response::text(401, text).with("www-authenticate", "Bearer"))
    }
}

/// Listens at an address, unless the guard would let everybody in who can reach it.
///
/// # Errors
/// If the address cannot be had, or is not on loopback and no token is asked for.
pub fn bind(address: &str, guard: &Guard) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    if !guard.has_token() && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let text = format!("{address} can be reached from elsewhere, which needs a token");
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

/// Compares without telling by its time how much of it was right.
fn is_same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    let difference = pairs.fold(0, |sum, (a, b)| sum | (a ^ b));
    std::hint::black_box(difference) == 0 && given.len() == token.len()
}

/// A token as a cookie can carry it.
fn encoded(token: &str) -> String {
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
    fn names_that_others_can_give_to_this_machine_are_refused() {
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
            assert_eq!(ask(&Guard::open(), "/", &format!("host: {host}")), status, "{host}");
        }
    }

    #[test]
    fn with_a_token_only_those_who_know_it_are_let_in() {
        let guard = Guard::with_token("s3cret");
        let host = "host: node7:80";
        let cookie = format!("{COOKIE}={}", encoded("s3cret"));
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
    fn beyond_loopback_nobody_listens_without_a_token() {
        let refused = bind("0.0.0.0:0", &Guard::open()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(bind("127.0.0.1:0", &Guard::open()).is_ok());
        assert!(bind("0.0.0.0:0", &Guard::with_token("t")).is_ok());
    }
}
