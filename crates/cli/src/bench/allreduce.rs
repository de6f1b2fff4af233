//! `paceline bench allreduce`: how fast the workers of mode `mirrored` make one update out of
//! everybody's gradients. `bench/allreduce.py` times Open MPI beside it.
//!
//! Each worker is a process, started as `paceline bench peer mesh-worker`. It says where it
//! listens, is told its slot and where all others are, and makes steps; slot 0 says how long they
//! took. A step here is more than an all-reduce: it also applies the mean, by plain SGD.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use paceline_exchange::{Replica, ReplicaConfig};
use paceline_model::{Momentum, OptimizerState, Sgd};
use paceline_net::{LocalGradient, Mesh, MeshConfig};

use super::bare::{Silent, flat};
use super::net::{LARGE, SMALL, TURNS};
use crate::Failure;
use crate::table::aligned;

/// Measures everything and renders it.
pub fn allreduce() -> Result<String, Failure> {
    let mut rows = vec![["", "workers", "median ms", "best ms", "GB/s"].map(String::from).to_vec()];
    for (floats, workers) in [(SMALL, 2), (SMALL, 3), (LARGE, 2), (LARGE, 3)] {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..TURNS {
            let times = run(floats, workers)
                .map_err(|source| Failure::Files { what: "bench allreduce".into(), source })?;
            best = [best[0].min(times[0]), best[1].min(times[1])];
        }
        let megabytes = floats as f64 * 4.0 / 1e6;
        rows.push(vec![
            format!("{megabytes:.4} MB"),
            workers.to_string(),
            format!("{:.3}", best[0]),
            format!("{:.3}", best[1]),
            format!("{:.2}", megabytes / best[0]),
        ]);
    }
    let mut text = String::from(
        "one update out of everybody's gradients, with plain SGD; the best of some turns, GB/s of \
         the gradient at the median\n",
    );
    text.push_str(&aligned(&rows));
    text.push_str(&sharding());
    Ok(text)
}

/// What it is worth that every worker updates its own shard only.
fn sharding() -> String {
    let time = |floats: usize| {
        let spec = Momentum::new(0.01, 0.9);
        let mut optimizer = OptimizerState::new(spec, &flat(floats), 0..floats);
        let (mut params, grad) = (vec![0.1; floats], vec![0.1; floats]);
        let turns = (0..TURNS as u64 + 1).map(|turn| {
            let begun = Instant::now();
            optimizer.apply(turn, 0, &mut params, &grad);
            begun.elapsed().as_secs_f64() * 1e3
        });
        turns.fold(f64::INFINITY, f64::min)
    };
    let (whole, half) = (time(LARGE), time(LARGE / 2));
    format!(
        "\nmomentum on the whole of the large model: {whole:.0} ms and 244 MB of velocity a \
         worker;\non half of it, as 2 workers share it: {half:.0} ms and 122 MB\n"
    )
}

/// The median and the best time of a step, in milliseconds. (A worker also says how many it made.)
fn run(floats: usize, workers: usize) -> io::Result<[f64; 2]> {
    let mut children = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..workers {
        let mut child = start(floats)?;
        let mut said = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        addresses.push(read_line(&mut said)?);
        children.push((child, said));
    }
    for (slot, (child, _)) in children.iter_mut().enumerate() {
        let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stdin, "{slot} {}", addresses.join(","))?;
    }
    let times = read_line(&mut children[0].1)?;
    for (mut child, _) in children {
        child.wait()?;
    }
    let mut numbers = times.split(' ').map(|number| number.parse().unwrap_or(f64::NAN));
    Ok([(); 2].map(|()| numbers.next().unwrap_or(f64::NAN)))
}

fn start(floats: usize) -> io::Result<Child> {
    let seconds = if floats > SMALL { "4" } else { "1" };
    Command::new(std::env::current_exe()?)
        .args(["bench", "peer", "mesh-worker", "--address", ""])
        .args(["--floats", &floats.to_string(), "--seconds", seconds])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

fn read_line(from: &mut BufReader<ChildStdout>) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Is one of the workers, to its end.
pub(super) fn work(listener: TcpListener, floats: usize, seconds: f64) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let (slot, addresses) = line.trim().split_once(' ').unwrap_or_default();
    let slot = slot.parse().map_err(io::Error::other)?;
    let addresses: Vec<_> = addresses.split(',').map(String::from).collect();
    let config =
        ReplicaConfig { check_every: u64::MAX, ..ReplicaConfig::new(slot, addresses.len()) };
    let limit = Duration::from_secs(60);
    let mesh =
        MeshConfig { addresses, start_timeout: limit, stall_timeout: limit, rejoin_timeout: limit };
    let spec = Sgd::new(0.01);
    let replica = Replica::new(config, vec![0.0; floats], spec, &flat(floats));
    let mut mesh =
        Mesh::connect(replica, mesh, Some(listener), &mut Silent).map_err(io::Error::other)?;
    let values = vec![1e-3; floats];
    let gradient = LocalGradient { examples: 1, values: &values };
    let mut times = Vec::new();
    let begun = Instant::now();
    while !mesh.is_over() {
        let step = Instant::now();
        mesh.reduce(Some(gradient), &mut Silent).map_err(io::Error::other)?;
        times.push(step.elapsed().as_secs_f64() * 1e3);
        if slot == 0 && begun.elapsed().as_secs_f64() > seconds {
            mesh.request_stop();
        }
    }
    // The first steps touch memory for the first time.
    let mut times = times.split_off(2.min(times.len() - 1));
    times.sort_by(f64::total_cmp);
    if slot == 0 {
        println!("{} {} {}", times[times.len() / 2], times[0], times.len());
    }
    mesh.leave(&[], &mut Silent).map_err(io::Error::other)?;
    if slot == 0 {
        mesh.collect_reports(&mut Silent).map_err(io::Error::other)?;
    }
    Ok(())
}
