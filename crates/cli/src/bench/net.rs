//! `paceline bench net`: the exchange rate of gradients and parameters, compared with bare sockets.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::Failure;
use crate::interrupt::Interrupt;
use crate::launch::launch;
use crate::train_options::TrainOptions;
use paceline_bench::{BenchProcess, LARGE, SMALL, TURNS, push_checks};
use paceline_job::RawJob;
use paceline_terminal::{aligned, grouped};

/// Measures everything and renders it.
pub(crate) fn net(interrupt: &Interrupt) -> Result<String, Failure> {
    let scratch = env::temp_dir().join(format!("paceline-bench-{}", std::process::id()));
    fs::create_dir(&scratch).map_err(Failure::at("make", &scratch))?;
    let measured = measure(&scratch, interrupt);
    let _ = fs::remove_dir_all(&scratch);
    measured
}

fn measure(scratch: &Path, interrupt: &Interrupt) -> Result<String, Failure> {
    let mut text = format!(
        "softmax regression at batch 10 ({:.1} kB each way), 1 server; bare: blocking sockets \
         that exchange as many bytes\n",
        SMALL as f64 * 4.0 / 1e3
    );
    let small = small(scratch, interrupt)?;
    text.push_str(&small.table);
    text.push('\n');
    text.push_str(&push_checks(small.most_exchanges_per_second));
    text.push_str(&format!(
        "\na dense model of {} parameters ({:.0} MB), 1 server, 1 worker, both directions busy\n",
        grouped(LARGE as u64),
        LARGE as f64 * 4.0 / 1e6
    ));
    text.push_str(&large()?);
    Ok(text)
}

/// The figures of the small model.
struct SmallFigures {
    table: String,
    most_exchanges_per_second: f64,
}

fn small(scratch: &Path, interrupt: &Interrupt) -> Result<SmallFigures, Failure> {
    let mut most = 0f64;
    let head = ["mode", "workers", "steps/s", "exchanges/s", "bare exchanges/s", "ratio"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (mode, workers) in [("async", 2), ("sync", 2), ("async", 3), ("sync", 3)] {
        let (mut ours, mut bare) = (0f64, 0f64);
        for turn in 0..TURNS {
            let run = scratch.join(format!("{mode}-{workers}-{turn}"));
            ours = ours.max(steps_per_second(mode, workers, run, interrupt)?);
            let turn =
                exchange(BenchProcess::BareServer, BenchProcess::BareClient, SMALL, workers)?;
            bare = bare.max(turn.per_second);
        }
        // In mode sync every worker makes one exchange per global step.
        let exchanges = if mode == "sync" { ours * workers as f64 } else { ours };
        most = most.max(exchanges);
        rows.push(vec![
            mode.into(),
            workers.to_string(),
            grouped(ours as u64),
            grouped(exchanges as u64),
            grouped(bare as u64),
            format!("{:.2}", exchanges / bare),
        ]);
    }
    Ok(SmallFigures { table: aligned(&rows), most_exchanges_per_second: most })
}

/// Global steps/s of a real run.
fn steps_per_second(
    mode: &str,
    workers: usize,
    run: PathBuf,
    interrupt: &Interrupt,
) -> Result<f64, Failure> {
    let mut job = RawJob::built_in();
    job.set(&format!("cluster.mode={mode}"));
    job.set(&format!("cluster.workers={workers}"));
    job.set("train.batch=10");
    job.set("train.stop={seconds=2}");
    job.set("train.evaluate.every=1000000");
    let options = TrainOptions { run_dir: Some(run), quiet: true, ..TrainOptions::default() };
    let finished = launch(&job, &job.check()?, &options, interrupt)?;
    Ok(finished.summary.steps_per_second)
}

fn large() -> Result<String, Failure> {
    let (mut ours, mut bare, mut memory) = (0f64, 0f64, 0f64);
    for _ in 0..TURNS {
        let turn = exchange(BenchProcess::ChunkServer, BenchProcess::ChunkClient, LARGE, 1)?;
        bare = bare.max(turn.per_second);
        let turn = exchange(BenchProcess::OurServer, BenchProcess::OurClient, LARGE, 1)?;
        ours = ours.max(turn.per_second);
        memory = memory.max(turn.server_peak_bytes);
    }
    let gigabytes = |rate: f64| format!("{:.2} GB/s", rate * LARGE as f64 * 8.0 / 1e9);
    let rows = [
        ["", "exchanges/s", "push and pull", "server's peak"].map(String::from).to_vec(),
        vec!["bare".into(), format!("{bare:.2}"), gigabytes(bare), String::new()],
        vec![
            "ours".into(),
            format!("{ours:.2}"),
            gigabytes(ours),
            format!("{:.0} MB", memory / 1e6),
        ],
        vec!["ratio".into(), format!("{:.2}", ours / bare), String::new(), String::new()],
    ];
    Ok(aligned(&rows))
}

/// What one server and its clients achieved together.
struct ExchangeRate {
    per_second: f64,
    /// The server's peak memory; 0 if it prints none.
    server_peak_bytes: f64,
}

/// Measures one server and `clients` clients.
fn exchange(
    server: BenchProcess,
    client: BenchProcess,
    floats: usize,
    clients: usize,
) -> Result<ExchangeRate, Failure> {
    let run = || -> io::Result<ExchangeRate> {
        let mut server = start(server, "", floats)?;
        writeln!(server.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?, "{clients}")?;
        let mut stdout = BufReader::new(server.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let address = read_line(&mut stdout)?;
        let mut children = Vec::new();
        for _ in 0..clients {
            children.push(start(client, &address, floats)?);
        }
        let mut per_second = 0.0;
        for child in children {
            let output = child.wait_with_output()?;
            let text = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>();
            per_second += text.map_err(io::Error::other)?;
        }
        let server_peak_bytes = read_line(&mut stdout)?.parse().unwrap_or_default();
        server.wait()?;
        Ok(ExchangeRate { per_second, server_peak_bytes })
    };
    run().map_err(|source| Failure::Files { what: "bench net".into(), source })
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn start(peer: BenchProcess, address: &str, floats: usize) -> io::Result<Child> {
    let name = clap::ValueEnum::to_possible_value(&peer).map(|value| value.get_name().to_owned());
    Command::new(env::current_exe()?)
        .args(["bench", "peer", &name.unwrap_or_default(), "--address", address])
        .args([
            "--floats",
            &floats.to_string(),
            "--seconds",
            if floats > SMALL { "4" } else { "1.5" },
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}
