//! The worker process of `paceline bench allreduce`.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use paceline_exchange::{Replica, ReplicaConfig};
use paceline_model::Sgd;
use paceline_net::{LocalGradient, Mesh, MeshConfig};

use crate::bench_observer::{BenchObserver, flat_layout};

/// Runs one of the workers to its end.
pub(crate) fn run_mesh_worker(
    listener: TcpListener,
    floats: usize,
    seconds: f64,
) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let (slot, addresses) = line.trim().split_once(' ').unwrap_or_default();
    let slot = slot.parse().map_err(io::Error::other)?;
    let addresses: Vec<_> = addresses.split(',').map(String::from).collect();
    let config =
        ReplicaConfig { check_every: u64::MAX, ..ReplicaConfig::new(slot, addresses.len()) };
    let limit = Duration::from_secs(60);
    let mesh =
        MeshConfig { start_timeout: limit, stall_timeout: limit, ..MeshConfig::new(addresses) };
    let spec = Sgd::new(0.01);
    let replica = Replica::new(config, vec![0.0; floats], spec, &flat_layout(floats));
    let mut mesh = Mesh::connect(replica, mesh, Some(listener), &mut BenchObserver)
        .map_err(io::Error::other)?;
    let values = vec![1e-3; floats];
    let gradient = LocalGradient { examples: 1, values: &values };
    let mut times = Vec::new();
    let begun = Instant::now();
    while !mesh.is_over() {
        let step = Instant::now();
        mesh.reduce(Some(gradient), &mut BenchObserver).map_err(io::Error::other)?;
        times.push(step.elapsed().as_secs_f64() * 1e3);
        if slot == 0 && begun.elapsed().as_secs_f64() > seconds {
            mesh.request_stop();
        }
    }
    // The first steps are slower: they touch memory for the first time.
    let mut times = times.split_off(2.min(times.len() - 1));
    times.sort_by(f64::total_cmp);
    if slot == 0 {
        println!("{} {} {}", times[times.len() / 2], times[0], times.len());
    }
    mesh.leave(&[], &mut BenchObserver).map_err(io::Error::other)?;
    if slot == 0 {
        mesh.collect_reports(&mut BenchObserver).map_err(io::Error::other)?;
    }
    Ok(())
}
