//! A small HTTP server for showing what a program is doing.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::TcpStream;
//!
//! use paceline_http::{Guard, HttpServer, Limits, Response, bind};
//!
//! let guard = Guard::without_token();
//! let listener = bind("127.0.0.1:0", &guard)?;
//! let server = HttpServer::start(listener, guard, Limits::default(), |request| {
//!     match request.path.as_str() {
//!         "/healthz" => Response::text(200, "ok\n"),
//!         _ => Response::not_found(),
//!     }
//! })?;
//!
//! let mut client = TcpStream::connect(server.address())?;
//! client.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("ok\n"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Paceline serves two things over HTTP: the page that shows runs, and the metrics of a task. Both
//! are read-only, have a handful of readers, and run beside a training that they must not disturb.
//! So this server answers only `GET` and `HEAD`, accepts no request bodies, uses one thread per
//! connection, and [limits](Limits) connections, the size of a request, and the time to read a
//! request and to write a response. It answers bad input with a status or closes the connection.
//!
//! - [`HttpServer`] owns the listening socket and the threads; dropping it ends both.
//! - [`Request`] is a decoded request; [`Response`] is a complete response, or one that is streamed
//!   (server-sent events) through a [`StreamWriter`].
//! - [`Guard`] decides which requests are answered: on loopback it keeps other web sites out and,
//!   if asked, other users; beyond loopback it requires a token. [`bind`] refuses to listen beyond
//!   loopback without one.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod connection;
mod guard;
mod limits;
mod peer_user;
mod request;
mod response;
mod server;
mod state;
mod stream_writer;

pub use guard::{Guard, bind};
pub use limits::Limits;
pub use request::{Method, Request, RequestError};
pub use response::Response;
pub use server::HttpServer;
pub use stream_writer::StreamWriter;
