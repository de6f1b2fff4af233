//! The command line of `paceline bench`.

use clap::Subcommand;
use paceline_bench::{BenchProcess, LayersArgs};

/// Benchmarks.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Steps/s of softmax regression on one thread, compared with bare matrix products
    Step,
    /// Rows/s of sparse logistic regression with the features of a click log, by phase
    Sparse,
    /// A step of LeNet-5 or AlexNet, layer by layer, compared with bare matrix products
    Layers(LayersArgs),
    /// Exchange rate of gradients and parameters between processes, compared with bare sockets
    Net,
    /// The cost of sampling resources: steps/s with and without it, alternating
    Observe,
    /// Reading rate of click data: every format, and the cache
    Parse,
    /// Update rate of workers without servers, which all-reduce their gradients
    Allreduce,
    /// One process of another benchmark
    #[command(hide = true)]
    Peer {
        /// Kind of process
        peer: BenchProcess,
        /// Address of the server
        #[arg(long)]
        address: String,
        /// Numbers sent in each direction
        #[arg(long)]
        floats: usize,
        /// Duration in seconds
        #[arg(long)]
        seconds: f64,
    },
}
