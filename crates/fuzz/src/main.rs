//! Drives fuzz targets; [`USAGE`] says how.
//!
//! Each target runs in a process of its own, so that its memory is measured alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use paceline_fuzz::{DriveLimit, FuzzTarget, TARGETS, drive_from};

/// The answer to `--help`, before the names of the targets.
const USAGE: &str = "\
Drives fuzz targets: mutated input for everything that reads bytes from elsewhere

Usage: cargo xtask fuzz [OPTIONS] [TARGET]...

Options:
  --minutes N        Share N minutes among the targets
  --seconds N        Drive each target for N seconds [default: 1]
  --inputs N         Give each target N inputs
  --seed N           Seed of the inputs [default: 1]
  --from N           Only count the inputs before number N, to repeat a failure by its number
  --write-seeds DIR  Write the seeds of each target into DIR, and drive none
  -h, --help         Print help

Targets [default: all]:
 ";

/// What the command line asks for.
struct FuzzArgs {
    limit: DriveLimit,
    seed: u64,
    /// The first input that a target is called with.
    first: u64,
    targets: Vec<String>,
    /// Whether this process drives the target itself.
    is_child: bool,
    /// Where to write the seeds, in place of driving.
    write_seeds: Option<PathBuf>,
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE} {}", target_names().join(" "));
        return ExitCode::SUCCESS;
    }
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let wanted = |target: &&FuzzTarget| {
        args.targets.is_empty() || args.targets.iter().any(|name| name == target.name)
    };
    let targets: Vec<_> = TARGETS.iter().filter(wanted).collect();
    if let Some(dir) = &args.write_seeds {
        return write_seeds(dir, &targets);
    }
    let mut failed = false;
    for target in targets {
        if args.is_child {
            let done = drive_from(target, args.first, args.limit, args.seed);
            let rate = done.inputs as f64 / done.seconds.max(1e-9);
            let megabytes = done.peak_bytes / 1e6;
            println!(
                "{:12} {:>12} inputs {rate:>10.0} /s {megabytes:>6.0} MB",
                target.name, done.inputs
            );
        } else {
            failed |= !in_own_process(target, &args);
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Writes the seeds of each target into a folder of its name.
fn write_seeds(dir: &Path, targets: &[&FuzzTarget]) -> ExitCode {
    let write = |target: &FuzzTarget| {
        let folder = dir.join(target.name);
        fs::create_dir_all(&folder)?;
        let mut seeds = (target.seeds)().into_iter().enumerate();
        seeds.try_for_each(|(number, seed)| fs::write(folder.join(format!("seed-{number}")), seed))
    };
    match targets.iter().try_for_each(|target| write(target)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

/// Drives a target in a process of its own. Returns whether it has passed.
fn in_own_process(target: &FuzzTarget, args: &FuzzArgs) -> bool {
    let limit = match args.limit {
        DriveLimit::Inputs(inputs) => ["--inputs".to_owned(), inputs.to_string()],
        DriveLimit::Time(time) => ["--seconds".to_owned(), time.as_secs_f64().to_string()],
    };
    let status = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        let [seed, first] = [args.seed, args.first].map(|number| number.to_string());
        command.args(["--child", "--seed", &seed, "--from", &first]).args(limit).arg(target.name);
        command.status()
    });
    let passed = status.as_ref().is_ok_and(|status| status.success());
    if !passed {
        eprintln!("{} failed: {status:?}", target.name);
    }
    passed
}

fn target_names() -> Vec<&'static str> {
    TARGETS.iter().map(|target| target.name).collect()
}

fn parse(args: impl Iterator<Item = String>) -> Result<FuzzArgs, String> {
    let mut parsed = FuzzArgs {
        limit: DriveLimit::Time(Duration::from_secs(1)),
        seed: 1,
        first: 0,
        targets: Vec::new(),
        is_child: false,
        write_seeds: None,
    };
    let (mut args, mut minutes) = (args, None);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(format!("{arg} needs a number"))?;
            text.parse::<f64>().map_err(|_| format!("{arg} {text}: this is not a number"))
        };
        match arg.as_str() {
            "--minutes" => minutes = Some(number()?),
            "--seconds" => parsed.limit = DriveLimit::Time(Duration::from_secs_f64(number()?)),
            "--inputs" => parsed.limit = DriveLimit::Inputs(number()? as u64),
            "--seed" => parsed.seed = number()? as u64,
            "--from" => parsed.first = number()? as u64,
            "--write-seeds" => parsed.write_seeds = args.next().map(PathBuf::from),
            "--child" => parsed.is_child = true,
            name if TARGETS.iter().any(|target| target.name == name) => {
                parsed.targets.push(name.to_owned());
            }
            name => {
                let known = target_names().join(", ");
                return Err(format!("there is no target {name}; there are {known}"));
            }
        }
    }
    if let Some(minutes) = minutes {
        let targets = if parsed.targets.is_empty() { TARGETS.len() } else { parsed.targets.len() };
        parsed.limit = DriveLimit::Time(Duration::from_secs_f64(60.0 * minutes / targets as f64));
    }
    Ok(parsed)
}
