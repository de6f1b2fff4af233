//! Calls a target with one mutated input after another.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_observe::process::peak_rss_bytes;

use crate::mutate::Mutator;
use crate::target::FuzzTarget;

/// The longest that a target may take for one input. Loaded machines are slow.
const INPUT_LIMIT: Duration = Duration::from_secs(20);

/// The most memory that a process may have taken, in bytes.
const MEMORY_LIMIT: f64 = 256e6;

/// Shorter inputs cannot have taken much memory, and asking for it costs more than many an input.
const MEMORY_TAKES: Duration = Duration::from_micros(500);

/// How long a target is driven.
#[derive(Clone, Copy, Debug)]
pub enum DriveLimit {
    /// For this many inputs.
    Inputs(u64),
    /// For this long.
    Time(Duration),
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub struct DriveResult {
    /// Inputs that the target has read.
    pub inputs: u64,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// The most memory that the process has taken so far, in bytes.
    pub peak_bytes: f64,
}

/// Calls a target with its seeds, and then with changed ones.
///
/// # Panics
/// If the target panics, takes longer than 20 s for an input, or has taken more than 256 MB. The
/// message has the number of the input, and the input itself is written to a file.
pub fn drive(target: &FuzzTarget, limit: DriveLimit, seed: u64) -> DriveResult {
    drive_from(target, 0, limit, seed)
}

/// As [`drive`], but the inputs before this one are only counted. So a failure is repeated quickly.
///
/// # Panics
/// In the same cases.
pub fn drive_from(target: &FuzzTarget, first: u64, limit: DriveLimit, seed: u64) -> DriveResult {
    let started = Instant::now();
    let (is_over, current) = (AtomicBool::new(false), AtomicU64::new(0));
    let inputs = thread::scope(|scope| {
        scope.spawn(|| watch(target, seed, &is_over, &current));
        let driven = catch_unwind(AssertUnwindSafe(|| call(target, first, limit, seed, &current)));
        is_over.store(true, Ordering::Relaxed);
        driven.unwrap_or_else(|panic| resume_unwind(panic))
    });
    let peak_bytes = check_memory(target.name);
    DriveResult { inputs, seconds: started.elapsed().as_secs_f64(), peak_bytes }
}

/// The most memory that the process has taken so far, in bytes.
///
/// # Panics
/// If that is too much.
fn check_memory(name: &str) -> f64 {
    let peak_bytes = peak_rss_bytes().unwrap_or_default() as f64;
    assert!(peak_bytes <= MEMORY_LIMIT, "{name}: {:.0} MB of memory", peak_bytes / 1e6);
    peak_bytes
}

/// Calls the target until the limit. Returns the number of inputs.
fn call(target: &FuzzTarget, first: u64, limit: DriveLimit, seed: u64, current: &AtomicU64) -> u64 {
    let (mut inputs, mut input) = (FuzzInputs::new(target, seed), Vec::new());
    let started = Instant::now();
    for number in 0.. {
        let is_over = match limit {
            DriveLimit::Inputs(most) => number >= most,
            DriveLimit::Time(most) => started.elapsed() >= most,
        };
        if is_over {
            return number;
        }
        inputs.next(&mut input);
        current.store(number, Ordering::Relaxed);
        if number < first {
            continue;
        }
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            (target.run)(&input);
            if begun.elapsed() >= MEMORY_TAKES {
                check_memory(target.name);
            }
        }));
        if let Err(panic) = result {
            report(target, &input, &format!("input {number} of seed {seed} fails"));
            resume_unwind(panic);
        }
    }
    0
}

/// The inputs of a target: its seeds, and then changed ones.
struct FuzzInputs {
    seeds: std::vec::IntoIter<Vec<u8>>,
    mutator: Mutator,
}

impl FuzzInputs {
    fn new(target: &FuzzTarget, seed: u64) -> Self {
        let seeds = (target.seeds)();
        Self { mutator: Mutator::new(seeds.clone(), seed), seeds: seeds.into_iter() }
    }

    fn next(&mut self, input: &mut Vec<u8>) {
        match self.seeds.next() {
            Some(seed) => *input = seed,
            None => self.mutator.next(input),
        }
    }
}

/// Writes an input to a file, and says what it does.
fn report(target: &FuzzTarget, input: &[u8], what: &str) {
    let path = std::env::temp_dir().join(format!("paceline-fuzz-{}", target.name));
    let _ = std::fs::write(&path, input);
    eprintln!("{}: {what}; it is in {}", target.name, path.display());
}

/// Ends the process if one input takes too long.
fn watch(target: &FuzzTarget, seed: u64, is_over: &AtomicBool, current: &AtomicU64) {
    let (mut last, mut since) = (u64::MAX, Instant::now());
    while !is_over.load(Ordering::Relaxed) {
        let now = current.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > INPUT_LIMIT {
            // The thread that reads it keeps it, but the same seed makes it once more.
            let (mut inputs, mut input) = (FuzzInputs::new(target, seed), Vec::new());
            (0..=now).for_each(|_| inputs.next(&mut input));
            let what = format!("input {now} of seed {seed} takes longer than {INPUT_LIMIT:?}");
            report(target, &input, &what);
            std::process::abort();
        }
        thread::sleep(Duration::from_millis(20));
    }
}
