//! The parts of `paceline bench` that measure whole runs. `paceline-bench` has the others.

mod net;
mod observe;
mod sparse;

pub use net::net;
pub use observe::observe;
pub use sparse::sparse;
