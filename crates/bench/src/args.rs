//! The arguments of benchmarks, as the command line has them.

use clap::{Args, ValueEnum};

/// Arguments of `bench layers`.
#[derive(Args, Clone, Copy, Debug)]
pub struct LayersArgs {
    /// Network
    #[arg(long, default_value = "lenet")]
    pub model: NetworkChoice,
    /// Examples per step
    #[arg(long, default_value_t = 32)]
    pub batch: usize,
    /// Threads per step
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Duration in seconds; at least three steps are made
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Print only the time of the best step, as JSON
    #[arg(long)]
    pub json: bool,
}

/// A network to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkChoice {
    /// LeNet-5 for 28x28, SGD
    Lenet,
    /// AlexNet for 224x224 and 1,000 classes, without dropout, SGD with momentum
    Alexnet,
}

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchProcess {
    /// Answers every message with one of the same length.
    BareServer,
    /// Sends messages and waits for each answer.
    BareClient,
    /// Answers chunk by chunk while it reads the next chunk.
    ChunkServer,
    /// Sends chunks and reads the answers at the same time.
    ChunkClient,
    /// This program's server, in mode `async`, with plain SGD.
    OurServer,
    /// This program's worker, which pushes the same gradient repeatedly.
    OurClient,
    /// The same server, whose frames are sealed.
    SealedServer,
    /// The same worker, whose frames are sealed.
    SealedClient,
    /// The same server over TLS. Its address is followed by the directory of the certificates.
    TlsServer,
    /// The same worker over TLS.
    TlsClient,
    /// A worker of mode `mirrored`, for `bench allreduce`.
    MeshWorker,
}

/// The arguments of a process.
#[derive(Clone, Debug)]
pub struct BenchProcessArgs {
    /// The kind of process.
    pub peer: BenchProcess,
    /// The server's address; a server chooses its own.
    pub address: String,
    /// Numbers sent in each direction per exchange.
    pub floats: usize,
    /// How long clients run.
    pub seconds: f64,
}
