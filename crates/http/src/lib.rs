//! A small HTTP server for looking at what a task or a run is doing.
//!
//! Two things of Paceline speak HTTP: the page that shows runs, and the metrics of a task. Both
//! only ever show something, to a handful of readers, beside a training that must not feel them.
//! So this server knows `GET` and `HEAD` and nothing else, takes no bodies, has a thread for each
//! connection and a limit for everything: connections, bytes of a request, time to read one, time
//! to write an answer. Whatever arrives, it answers with a status or closes the connection.
//!
//! - [`Server`] owns the listening socket and the threads, and ends both when it is dropped;
//! - [`Request`] is what was asked, decoded; [`Response`] what is answered, at once or as a
//!   stream (server-sent events) through an [`Outlet`];
//! - [`Guard`] says who may ask: on loopback pages of other sites are kept out, beyond loopback
//!   a token is needed. [`bind`] refuses to listen where the guard would let everybody in.
//!
//! ```
//! use paceline_http::{Guard, Limits, Response, Server, bind};
//!
//! let guard = Guard::open();
//! let listener = bind("127.0.0.1:0", &guard)?;
//! let server = Server::start(listener, guard, Limits::default(), |request| {
//!     match request.path.as_str() {
//!         "/healthz" => Response::text(200, "ok\n"),
//!         _ => Response::not_found(),
//!     }
//! })?;
//! println!("http://{}/", server.address());
//! # Ok::<(), std::io::Error>(())
//! ```

mod connection;
mod guard;
mod request;
mod response;
mod server;

pub use connection::Outlet;
pub use guard::{Guard, bind};
pub use request::{Method, Request};
pub use response::Response;
pub use server::{Limits, Server};
