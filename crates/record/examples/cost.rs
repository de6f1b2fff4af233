//! What observing costs: nanoseconds for a scalar event and for a change of phase.
//!
//! ```text
//! cargo run --release --package paceline-record --example cost
//! ```

use std::io;
use std::time::Instant;

use paceline_observe::{Phase, PhaseClock};
use paceline_record::EventWriter;

const TIMES: u64 = 2_000_000;

fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut events = EventWriter::create(dir.path())?;
    let loss = events.tag("train/loss");

    let started = Instant::now();
    for step in 0..TIMES {
        events.scalar(&loss, step, step as f32)?;
    }
    events.flush()?;
    report("scalar, reading the clock and writing the file", started);

    let started = Instant::now();
    for step in 0..TIMES {
        events.scalar_at(&loss, step, step as f32, 1_700_000_000.0 + step as f64 * 1e-9)?;
    }
    events.flush()?;
    report("scalar_at, the time given", started);

    let mut clock = PhaseClock::start(Phase::Input);
    let started = Instant::now();
    for turn in 0..TIMES as usize {
        clock.enter(Phase::ALL[turn % 5]);
    }
    report("change of phase", started);
    Ok(())
}

fn report(what: &str, started: Instant) {
    println!("{:6.1} ns  {what}", started.elapsed().as_nanos() as f64 / TIMES as f64);
}
