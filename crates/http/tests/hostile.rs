//! Hostile clients: whatever one of them sends or withholds, the server keeps serving the others.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use paceline_http::{Guard, HttpServer, Limits, Response, bind};

/// Upper limit for every wait in these tests.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Starts a server with a short, a long, a panicking and an endless response.
fn serve(limits: Limits) -> HttpServer {
    let guard = Guard::without_token();
    let listener = bind("127.0.0.1:0", &guard).unwrap();
    let handler = |request: &paceline_http::Request| match request.path.as_str() {
        "/" => Response::text(200, "hello"),
        "/long" => Response::new(200, "text/plain", vec![b'x'; 32 << 20]),
        "/panic" => panic!("on request"),
        "/stream" => Response::stream("text/event-stream", |writer| {
            loop {
                writer.write(b"data: 1\n\n")?;
                writer.wait(Duration::from_millis(5))?;
            }
        }),
        _ => Response::not_found(),
    };
    HttpServer::start(listener, guard, limits, handler).unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Sends bytes and returns everything that comes back until the connection closes.
fn send(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may have closed before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, path: &str) -> String {
    send(
        address,
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes(),
    )
}

#[test]
fn requests_are_answered_one_after_another_on_one_connection() {
    let server = serve(Limits::default());
    let requests = "\r\nGET / HTTP/1.1\r\nhost: localhost\r\n\r\n\
               HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n\
               GET /no HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = send(server.address(), requests.as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    assert_eq!(answer.matches("hello").count(), 1, "{answer}");
    assert!(answer.contains("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff\r\n"), "{answer}");
}

#[test]
fn bad_input_gets_a_status_and_closes_the_connection() {
    let server = serve(Limits::default());
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(10_000));
    let endless = vec![b'a'; 1 << 20];
    for (bytes, status) in [
        (&b"\0\x01\x02\xff\r\n\r\n"[..], "400"),
        (b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nhello", "405"),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n", "413"),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\nGET / HTTP/1.0\r\n\r\n", "403"),
        (long.as_bytes(), "431"),
        (&endless, ""),
    ] {
        let answer = send(server.address(), bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) || status.is_empty(),
            "{shown}: {answer}"
        );
        assert!(get(server.address(), "/").ends_with("hello"), "after {shown}");
    }
}

#[test]
fn slow_and_silent_clients_are_disconnected() {
    let limits = Limits {
        head_time: Duration::from_millis(60),
        idle_time: Duration::from_millis(30),
        ..Limits::default()
    };
    let server = serve(limits);
    let mut slow = connect(server.address());
    let start = Instant::now();
    // The time limit is for the whole head: single bytes do not extend it.
    while start.elapsed() < WAIT_LIMIT && slow.write_all(b"a").is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(start.elapsed() < WAIT_LIMIT, "the server still reads");
    let mut silent = connect(server.address());
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn a_client_that_does_not_read_its_response_is_disconnected() {
    let server = serve(Limits {
        write_time: Duration::from_millis(50),
        connections: 1,
        ..Limits::default()
    });
    let mut unread = connect(server.address());
    unread.write_all(b"GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    // The only connection becomes free again although the client does nothing.
    let start = Instant::now();
    while !get(server.address(), "/").ends_with("hello") {
        assert!(start.elapsed() < WAIT_LIMIT, "the connection still counts as open");
    }
}

#[test]
fn connections_over_the_limit_get_503_and_a_panic_ends_only_its_own_connection() {
    let server = serve(Limits { connections: 2, ..Limits::default() });
    let address = server.address();
    assert_eq!(get(address, "/panic"), "");
    let mut streams: Vec<_> = (0..2).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 512]).unwrap() > 0);
    }
    assert!(get(address, "/").starts_with("HTTP/1.1 503"));
    drop(streams);
    let start = Instant::now();
    while !get(address, "/").ends_with("hello") {
        assert!(start.elapsed() < WAIT_LIMIT, "closed connections still count as open");
    }
}

#[test]
fn silent_connections_do_not_keep_clients_out() {
    let server = serve(Limits { connections: 2, ..Limits::default() });
    let address = server.address();
    let mut client = connect(address);
    client.write_all(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(client.read(&mut [0; 512]).unwrap() > 0);
    let mut silent: Vec<_> = (0..20).map(|_| connect(address)).collect();
    silent.iter_mut().for_each(|stream| stream.write_all(b"GET / HTTP").unwrap_or(()));
    assert!(get(address, "/").ends_with("hello"), "the place of a silent one is free for it");
    assert!(client.read(&mut [0; 512]).unwrap() > 0, "one that made a request keeps its place");
}

#[test]
fn connections_whose_requests_are_answered_do_not_keep_clients_out() {
    let server = serve(Limits { connections: 2, ..Limits::default() });
    let address = server.address();
    let mut idle: Vec<_> = (0..2).map(|_| connect(address)).collect();
    for stream in &mut idle {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stream.read(&mut [0; 512]).unwrap() > 0);
    }
    // The server notes that a request is answered just after the client has the answer.
    let start = Instant::now();
    while !get(address, "/").ends_with("hello") {
        assert!(start.elapsed() < WAIT_LIMIT, "idle connections keep clients out");
    }
}

#[test]
fn requests_that_need_no_token_do_not_keep_clients_out() {
    let guard = Guard::with_token("0123456789abcdef").opening("/alive");
    let listener = bind("127.0.0.1:0", &guard).unwrap();
    let limits = Limits { connections: 2, ..Limits::default() };
    let answer = |_: &paceline_http::Request| Response::text(200, "hello");
    let server = HttpServer::start(listener, guard, limits, answer).unwrap();
    let mut strangers: Vec<_> = (0..2).map(|_| connect(server.address())).collect();
    for stranger in &mut strangers {
        stranger.write_all(b"GET /alive HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        assert!(stranger.read(&mut [0; 512]).unwrap() > 0);
    }
    let request = "GET / HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer 0123456789abcdef\r\n\
        connection: close\r\n\r\n";
    assert!(send(server.address(), request.as_bytes()).ends_with("hello"));
}

#[test]
fn a_server_that_stops_ends_its_streams_and_frees_its_port() {
    let server = serve(Limits::default());
    let address = server.address();
    let mut stream = connect(address);
    stream.write_all(b"GET /stream HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0; 512]).unwrap() > 0);
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        while stream.read(&mut [0; 512]).is_ok_and(|len| len > 0) {}
        ended.send(()).unwrap();
    });
    drop(server);
    end.recv_timeout(WAIT_LIMIT).unwrap();
    assert!(TcpStream::connect(address).is_err());
}
