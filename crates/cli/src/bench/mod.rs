//! `paceline bench`: measures this program, compared with what the machine can do.
//!
//! Machines are shared and noisy. So both sides of a comparison alternate within one run, and the
//! best turn of each counts: other work on the machine can only slow a turn down.

mod allreduce;
mod bench_observer;
mod layers;
mod mesh_worker;
mod net;
mod observe;
mod parse;
mod processes;
mod products;
mod push_checks;
mod sizes;
mod sparse;
mod step;

pub use allreduce::allreduce;
pub use layers::layers;
pub use net::net;
pub use observe::observe;
pub use parse::parse;
pub use processes::run_peer;
pub use sparse::sparse;
pub use step::step;
