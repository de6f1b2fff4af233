//! `paceline bench allreduce`: the time of an update in mode `mirrored`, which all-reduces the
//! workers' gradients. `bench/allreduce.py` measures Open MPI for comparison.
//!
//! Each worker is a process, started as `paceline bench peer mesh-worker`. It prints its address,
//! reads its slot and the addresses of all workers, and makes steps; slot 0 prints how long they
//! took. A step is more than an all-reduce: it also applies the mean gradient, with plain SGD.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use paceline_model::{Momentum, OptimizerState};

use crate::bench_observer::flat_layout;
use crate::error::BenchError;
use crate::sizes::{LARGE, SMALL, TURNS};
use paceline_terminal::aligned;

/// Measures everything and renders it.
pub fn allreduce() -> Result<String, BenchError> {
    let mut rows = vec![["", "workers", "median ms", "best ms", "GB/s"].map(String::from).to_vec()];
    for (floats, workers) in [(SMALL, 2), (SMALL, 3), (LARGE, 2), (LARGE, 3)] {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..TURNS {
            let times = run(floats, workers)
                .map_err(|source| BenchError::Io { what: "bench allreduce".into(), source })?;
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
        "one update from all workers' gradients, with plain SGD; the best of several turns, GB/s \
         of the gradient at the median\n",
    );
    text.push_str(&aligned(&rows));
    text.push_str(&sharding());
    Ok(text)
}

/// The time and memory saved because every worker updates only its own shard.
fn sharding() -> String {
    let time = |floats: usize| {
        let spec = Momentum::new(0.01, 0.9);
        let mut optimizer = OptimizerState::new(spec, &flat_layout(floats), 0..floats);
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
        "\nmomentum on the whole large model: {whole:.0} ms and 244 MB of velocity per \
         worker;\non half of it, as with 2 workers: {half:.0} ms and 122 MB\n"
    )
}

/// The median and the best time of a step, in milliseconds.
fn run(floats: usize, workers: usize) -> io::Result<[f64; 2]> {
    let mut children = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..workers {
        let mut child = start(floats)?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        addresses.push(read_line(&mut stdout)?);
        children.push((child, stdout));
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
