//! Measures what recording costs: nanoseconds for a scalar event and for a change of phase.
//!
//! ```text
//! cargo run --release --package paceline-record --example cost
//! ```

use std::io;
use std::time::{Duration, Instant};

use paceline_observe::{
    PeerTraffic, Phase, PhaseClock, Recorder, RunPosition, StepRecord, no_table,
};
use paceline_record::{EventLog, EventLogConfig, EventWriter, SampleSpacing};

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

    let config = EventLogConfig {
        loss_every: Some(u64::MAX),
        sample: Some(SampleSpacing::exactly(Duration::from_secs(3600))),
        traffic_peers: vec!["ps:0".into(), "ps:1".into()],
        ..EventLogConfig::new("worker:0")
    };
    let mut log = EventLog::create(dir.path(), config)?;
    let first = StepRecord::new(0, 0.5, &clock);
    let started = Instant::now();
    for step in 0..TIMES {
        let traffic = |visit: &mut dyn FnMut(PeerTraffic)| {
            for peer in 0..2 {
                visit(PeerTraffic { peer, sent_bytes: step, received_bytes: step });
            }
        };
        let position = RunPosition { global_step: step, traffic: &traffic, table: &no_table };
        log.step(&StepRecord { step, position, ..first })?;
    }
    report("step of an event log in which nothing is due", started);
    Ok(())
}

fn report(what: &str, started: Instant) {
    println!("{:6.1} ns  {what}", started.elapsed().as_nanos() as f64 / TIMES as f64);
}
