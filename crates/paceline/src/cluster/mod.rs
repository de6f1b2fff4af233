//! Runs of several tasks: who is who, how they are started, and what each does.
//!
//! A task is a process of this same program. It learns its place from `TF_CONFIG`
//! ([`tf_config`]), whether that was set by the local launcher ([`launch`]), by hand or by
//! Kubeflow, so that a run on one machine goes the same way as one on many, also if its hosts
//! are emulated (`emulate`). A task is then a worker ([`task`] and `part`, whose slots `crew` and
//! `slot` see to), a server ([`server`], with `server_watch`) or an evaluator ([`evaluator`]). A worker
//! calls servers (`calling`) and reaches the parameters on them ([`remote`]), or holds them itself as
//! all others do (`mirror`). Somebody who comes later learns its place from a server ([`join`]).

mod attendants;
pub(crate) mod calling;
mod crew;
mod emulate;
pub mod evaluator;
mod follow;
pub mod join;
pub mod launch;
pub(crate) mod leash;
pub(crate) mod listen;
mod mirror;
mod part;
pub mod remote;
pub mod server;
mod server_watch;
mod shared;
mod slot;
pub mod task;
pub mod tf_config;

pub(crate) use emulate::may_make_networks;
pub use leash::Leash;
pub use tf_config::{Cluster, Role, Task};
