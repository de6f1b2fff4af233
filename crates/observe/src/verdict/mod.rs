//! What limits a run, in a sentence, with the shares of time behind it.
//!
//! All of the workers' time is divided among seven causes, and the greatest is named. A worker's
//! clock measures push, pull and wait; these are attributed by subtraction. The coordinator knows
//! how long it tested; the system knows how long a thread was ready to run but had no core; the
//! servers know how long they held replies back for other workers and how long they worked
//! themselves. On a server without a spare core, a worker that waits while the server works for
//! others waits for the server too. The rest of an exchange is attributed to the network: bytes in
//! transit, and threads that wait to be woken.
//!
//! Training of less than a second is too short to judge: connecting and first accesses to memory
//! take most of it, and samples are few.

mod facts;
mod judge;
mod shares;
mod text;

pub use facts::{Facts, ServerFacts, WorkerFacts};
pub use judge::{Verdict, verdict};
pub use shares::{Shares, VerdictKind};
pub use text::evidence_in;

#[cfg(test)]
mod tests;
