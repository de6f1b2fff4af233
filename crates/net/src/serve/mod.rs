//! A server's side: a thread for each connection, around one state machine.
//!
//! A connection's thread reads frames, hands each to the [`Server`](paceline_exchange::Server), and
//! writes the frames that the server sends in return, to whichever connection they go. A thread
//! holds the lock around the server only while the server decides and applies, a few microseconds
//! for a small model, and never across a call to a socket: outgoing parameters are copied under the
//! lock and written after it is released. There are threads and not one event loop because reading
//! and writing cost many times what deciding and applying do, and because a worker and the thread
//! that serves it can then take turns on one core without waking another.
//!
//! - `accept.rs`: [`serve`], which accepts connections and ticks;
//! - `strangers.rs`, `stranger_notes.rs`: connections before their `Hello`, and what is logged
//!   about them;
//! - `thread.rs`: what a connection's thread does;
//! - `host.rs`: what the server can do while a thread holds the lock;
//! - `shared.rs`: what all threads share;
//! - `connection.rs`: one connection, as all threads see it;
//! - `thread_time.rs`, `totals.rs`: where the threads' time goes;
//! - `core_affinity.rs`: why a thread follows its worker from core to core.

mod accept;
mod connection;
mod core_affinity;
mod host;
mod observer;
mod server_trace;
mod shared;
mod stranger_notes;
mod strangers;
mod thread;
mod thread_time;
mod totals;

pub use accept::{ServeEnd, ServeError, serve};
pub use observer::{ConnectionTracer, ServerObserver};
pub use server_trace::{ConnectionTrack, ServerTrace};
pub use totals::ServerTotals;
