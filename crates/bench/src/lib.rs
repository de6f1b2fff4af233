//! Measures the parts of Paceline, compared with what the machine can do: `paceline bench`.
//!
//! Machines are shared and noisy. So both sides of a comparison alternate within one run, and the
//! best turn of each counts: other work on the machine can only slow a turn down.
//!
//! ```
//! use paceline_bench::{LayersArgs, NetworkChoice};
//!
//! let model = NetworkChoice::Lenet;
//! let args = LayersArgs { model, batch: 4, threads: 1, seconds: 0.0, json: true };
//! let text = paceline_bench::layers(&args)?;
//! assert!(text.starts_with('{'), "{text}");
//! # Ok::<(), paceline_bench::BenchError>(())
//! ```

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod allreduce;
mod args;
mod bench_observer;
mod error;
mod layers;
mod mesh_worker;
mod parse;
mod processes;
mod products;
mod push_checks;
mod sizes;
mod step;

pub use allreduce::allreduce;
pub use args::{BenchProcess, BenchProcessArgs, LayersArgs, NetworkChoice};
pub use error::BenchError;
pub use layers::layers;
pub use parse::parse;
pub use processes::run_peer;
pub use push_checks::push_checks;
pub use sizes::{LARGE, SMALL, TURNS};
pub use step::step;
