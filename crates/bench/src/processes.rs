//! The processes of `paceline bench net` and `bench allreduce`: bare sockets for comparison, and
//! this program's server and worker without a model.
//!
//! The benchmark starts each as `paceline bench peer KIND`, because the tasks of a run are
//! processes too. It prints its results to standard output.

use std::env;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{
    CHUNK_BYTES, ClientConfig, ModeConfig, PeerRole, ProcessName, Server, ServerConfig, Store,
};
use paceline_model::{OptimizerState, Sgd};
use paceline_net::{ConnectConfig, Credentials, ServerConnections, serve};
use paceline_observe::process;
use paceline_trust::{Authority, CA_FILE, CertificateFiles, TlsIdentity};

use crate::args::{BenchProcess, BenchProcessArgs};
use crate::bench_observer::{BenchObserver, flat_layout};
use crate::error::BenchError;
use crate::mesh_worker::run_mesh_worker;

/// Runs a process to its end. Servers print their address, and at the end their peak memory;
/// clients print exchanges per second.
pub fn run_peer(args: &BenchProcessArgs) -> Result<(), BenchError> {
    let done = match args.peer {
        BenchProcess::BareServer => serve_bare(args.floats * 4, answer_whole),
        BenchProcess::ChunkServer => serve_bare(args.floats * 4, answer_chunks),
        BenchProcess::BareClient => exchange_bare(args, send_whole),
        BenchProcess::ChunkClient => exchange_bare(args, send_chunks),
        BenchProcess::OurServer => serve_ours(args.floats, bench_credentials().trusting_loopback()),
        BenchProcess::OurClient => exchange_ours(args, bench_credentials().trusting_loopback()),
        BenchProcess::SealedServer => serve_ours(args.floats, bench_credentials()),
        BenchProcess::SealedClient => exchange_ours(args, bench_credentials()),
        BenchProcess::TlsServer => serve_encrypted(args.floats),
        BenchProcess::TlsClient => exchange_encrypted(args),
        BenchProcess::MeshWorker => {
            announce().and_then(|listener| run_mesh_worker(listener, args.floats, args.seconds))
        }
    };
    done.map_err(|source| BenchError::Io { what: format!("{:?}", args.peer), source })
}

/// Listens, prints the address, and serves each client on a thread until all have disconnected.
fn serve_bare(bytes: usize, answer: fn(TcpStream, usize) -> io::Result<()>) -> io::Result<()> {
    let listener = announce()?;
    let mut threads = Vec::new();
    // The benchmark writes the number of clients to standard input.
    for _ in 0..clients()? {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        threads.push(thread::spawn(move || answer(stream, bytes)));
    }
    for thread in threads {
        // A client that disconnects ends the thread; that is not an error.
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

/// Connects, exchanges for the given time, and prints exchanges per second.
fn exchange_bare(
    args: &BenchProcessArgs,
    exchange: fn(&TcpStream, &[u8], &mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let stream = TcpStream::connect(&args.address)?;
    stream.set_nodelay(true)?;
    let gradient = vec![1u8; args.floats * 4];
    let mut params = vec![0u8; args.floats * 4];
    repeat(args.seconds, || exchange(&stream, &gradient, &mut params))
}

fn send_whole(mut stream: &TcpStream, gradient: &[u8], params: &mut [u8]) -> io::Result<()> {
    stream.write_all(gradient)?;
    stream.read_exact(params)
}

fn send_chunks(mut stream: &TcpStream, gradient: &[u8], params: &mut [u8]) -> io::Result<()> {
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

fn bench_credentials() -> Credentials {
    Credentials::with_token(b"bench")
}

/// The credentials of a task with a certificate in a directory.
fn tls_credentials(keys: &Path, task: &str) -> io::Result<Credentials> {
    let CertificateFiles { cert, key } = CertificateFiles::of(keys, task);
    let identity = TlsIdentity::read(&keys.join(CA_FILE), &cert, &key).map_err(io::Error::other)?;
    Ok(bench_credentials().with_tls(identity))
}

fn serve_encrypted(floats: usize) -> io::Result<()> {
    let keys = env::temp_dir().join(format!("paceline-bench-keys-{}", std::process::id()));
    let tasks = ["ps:0", "worker:0"].map(str::to_owned);
    let made = Authority::of_run().and_then(|authority| authority.write(&keys, &tasks));
    made.map_err(io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{} {}", listener.local_addr()?, keys.display());
    let served = serve_at(&listener, floats, tls_credentials(&keys, "ps:0")?);
    std::fs::remove_dir_all(&keys)?;
    served
}

fn exchange_encrypted(args: &BenchProcessArgs) -> io::Result<()> {
    let (address, keys) = args.address.split_once(' ').unwrap_or((&args.address, ""));
    let credentials = tls_credentials(Path::new(keys), "worker:0")?;
    exchange_ours(&BenchProcessArgs { address: address.to_owned(), ..args.clone() }, credentials)
}

fn serve_ours(floats: usize, credentials: Credentials) -> io::Result<()> {
    serve_at(&announce()?, floats, credentials)
}

fn serve_at(listener: &TcpListener, floats: usize, credentials: Credentials) -> io::Result<()> {
    let workers = clients()?;
    let config =
        ServerConfig { stall_ms: 60_000, ..ServerConfig::new(ModeConfig::Async, workers, floats) };
    let optimizer = OptimizerState::new(Sgd::new(0.01), &flat_layout(floats), 0..floats);
    let mut machine = Server::new(config, Store::dense(vec![0.0; floats], optimizer));
    // Clients disconnect at the end without a goodbye, which the server reports as a failure.
    let _ = serve(listener, &mut machine, &credentials, &mut BenchObserver);
    println!("{}", process::peak_rss_bytes().unwrap_or_default());
    Ok(())
}

fn exchange_ours(args: &BenchProcessArgs, credentials: Credentials) -> io::Result<()> {
    let process = ProcessName { id: 1, name: "worker:0".into() };
    let config = ConnectConfig {
        client: ClientConfig { process, ..ClientConfig::new(PeerRole::Worker, 1, args.floats) },
        servers: vec![args.address.clone()],
        order: None,
        credentials,
        start_timeout: Duration::from_secs(10),
        stall_timeout: Duration::from_secs(60),
        rejoin_timeout: None,
    };
    let gradient = vec![1e-3f32; args.floats];
    let mut link =
        ServerConnections::connect(config, &mut BenchObserver).map_err(io::Error::other)?;
    let mut step = 0;
    repeat(args.seconds, || {
        step += 1;
        link.exchange(step - 1, 1, &gradient, &mut BenchObserver)
            .map(drop)
            .map_err(io::Error::other)
    })
}
