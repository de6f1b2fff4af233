//! `paceline bench`: what this machine can do, beside what we make of it.
//!
//! Machines are shared and noisy, so two sides are always timed in turn within one run and the
//! best turn of each counts: other work on the machine only ever slows a turn down.

mod allreduce;
mod bare;
mod guards;
mod layers;
mod net;
mod observe;
mod parse;
mod products;
mod sparse;
mod step;

use std::time::Duration;

pub use allreduce::allreduce;
pub use bare::{Peer, Terms, run_peer};
pub use layers::{Layers, layers};
pub use net::net;
pub use observe::observe;
pub use parse::parse;
pub use sparse::sparse;
pub use step::step;

/// How long one turn of a quick bench lasts.
const TURN: Duration = Duration::from_millis(200);
