//! The processes of `paceline bench net` and `bench allreduce`: bare sockets to compare with, and our own server and
//! worker with nothing but numbers to exchange.
//!
//! Each is a process, started by the bench as `paceline bench peer KIND`, because a run's tasks
//! are processes too. It says on standard output what the bench must know.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use paceline_exchange::{
    CHUNK_BYTES, ClientConfig, Level, ModeConfig, PeerRole, Server, ServerConfig, Stats, Store,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{
    ConnectConfig, ExchangePhase, LinkObserver, ServerConnections, ServerObserver, ServerTotals,
    serve,
};
use paceline_observe::process;

use super::allreduce;
use crate::Failure;

/// Which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// Answers every message with one as long.
    BareServer,
    /// Sends messages and waits for each answer.
    BareClient,
    /// Answers chunk by chunk, while the next chunk is being read.
    ChunkServer,
    /// Sends chunks and reads the answers at the same time.
    ChunkClient,
    /// Our server, in mode `async`, with plain SGD.
    OurServer,
    /// Our worker, which pushes the same gradient again and again.
    OurClient,
    /// A worker of mode `mirrored`, for `bench allreduce`.
    MeshWorker,
}

/// What every such process is told.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Which process to be.
    pub peer: Peer,
    /// Where the server is; servers choose a port themselves.
    pub address: String,
    /// How many numbers go each way in one exchange.
    pub floats: usize,
    /// How long clients go on.
    pub seconds: f64,
}

/// Is one of the processes, to its end. Servers print their address, and at the end their peak
/// memory; clients print exchanges a second.
pub fn run_peer(terms: &Terms) -> Result<(), Failure> {
    let done = match terms.peer {
        Peer::BareServer => serve_bare(terms.floats * 4, answer_whole),
        Peer::ChunkServer => serve_bare(terms.floats * 4, answer_chunks),
        Peer::BareClient => ask(terms, ask_whole),
        Peer::ChunkClient => ask(terms, ask_chunks),
        Peer::OurServer => serve_ours(terms.floats),
        Peer::OurClient => ask_ours(terms),
        Peer::MeshWorker => {
            announce().and_then(|door| allreduce::work(door, terms.floats, terms.seconds))
        }
    };
    done.map_err(|source| Failure::Files { what: format!("{:?}", terms.peer), source })
}

/// Listens, says where, and serves every client on a thread until all of them have gone.
fn serve_bare(bytes: usize, answer: fn(TcpStream, usize) -> io::Result<()>) -> io::Result<()> {
    let listener = announce()?;
    let mut threads = Vec::new();
    // The bench says through standard input how many clients come.
    for _ in 0..clients()? {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        threads.push(thread::spawn(move || answer(stream, bytes)));
    }
    for thread in threads {
        // A client that has gone is the end, not an error.
        let _ = thread.join();
    }
    Ok(())
}

fn announce() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    Ok(listener)
}

fn clients() -> io::Result<usize> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim().parse().unwrap_or(1))
}

fn answer_whole(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; bytes];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
    }
}

fn answer_chunks(mut stream: TcpStream, bytes: usize) -> io::Result<()> {
    let (to_writer, chunks) = sync_channel::<usize>(64);
    let mut out = stream.try_clone()?;
    let params = vec![0u8; bytes];
    thread::spawn(move || -> io::Result<()> {
        let mut at = 0;
        for len in chunks {
            out.write_all(&params[at..at + len])?;
            at = (at + len) % bytes;
        }
        Ok(())
    });
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let mut left = bytes;
        while left > 0 {
            let len = left.min(CHUNK_BYTES);
            stream.read_exact(&mut buffer[..len])?;
            to_writer.send(len).map_err(io::Error::other)?;
            left -= len;
        }
    }
}

/// Connects, exchanges for as long as told, and says how often a second.
fn ask(
    terms: &Terms,
    exchange: fn(&TcpStream, &[u8], &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let stream = TcpStream::connect(&terms.address)?;
    stream.set_nodelay(true)?;
    let gradient = vec![1u8; terms.floats * 4];
    let mut params = vec![0u8; terms.floats * 4];
    repeat(terms.seconds, || exchange(&stream, &gradient, &mut params))
}

fn ask_whole(mut stream: &TcpStream, gradient: &[u8], params: &mut [u8]) -> io::Result<()> {
    stream.write_all(gradient)?;
    stream.read_exact(params)
}

fn ask_chunks(mut stream: &TcpStream, gradient: &[u8], params: &mut [u8]) -> io::Result<()> {
    let mut out = stream.try_clone()?;
    thread::scope(|scope| {
        let sent = scope.spawn(move || out.write_all(gradient));
        for chunk in params.chunks_mut(CHUNK_BYTES) {
            stream.read_exact(chunk)?;
        }
        sent.join().unwrap_or(Ok(()))
    })
}

fn repeat(seconds: f64, mut work: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let start = Instant::now();
    let mut done = 0u64;
    while start.elapsed().as_secs_f64() < seconds {
        work()?;
        done += 1;
    }
    println!("{}", done as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

/// A layout of one tensor.
pub(super) fn flat(floats: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[floats], Group::Weights);
    layout
}

/// Wants to know nothing.
pub(super) struct Silent;

impl ServerObserver for Silent {
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &ServerTotals, _: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn tick(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }
}

impl LinkObserver for Silent {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}

fn serve_ours(floats: usize) -> io::Result<()> {
    let listener = announce()?;
    let workers = clients()?;
    let config =
        ServerConfig { stall_ms: 60_000, ..ServerConfig::new(ModeConfig::Async, workers, floats) };
    let optimizer = OptimizerState::new(Sgd::new(0.01), &flat(floats), 0..floats);
    let mut machine = Server::new(config, Store::dense(vec![0.0; floats], optimizer));
    // The clients just go away at the end, which the server takes for a failure.
    let _ = serve(&listener, &mut machine, &mut Silent);
    println!("{}", process::peak_rss_bytes().unwrap_or_default());
    Ok(())
}

fn ask_ours(terms: &Terms) -> io::Result<()> {
    let config = ConnectConfig {
        client: ClientConfig::new(PeerRole::Worker, 1, terms.floats),
        servers: vec![terms.address.clone()],
        start_timeout: Duration::from_secs(10),
        stall_timeout: Duration::from_secs(60),
        rejoin_timeout: None,
    };
    let gradient = vec![1e-3f32; terms.floats];
    let mut link = ServerConnections::connect(config, &mut Silent).map_err(io::Error::other)?;
    let mut step = 0;
    repeat(terms.seconds, || {
        step += 1;
        link.exchange(step - 1, 1, &gradient, &mut Silent).map(drop).map_err(io::Error::other)
    })
}
