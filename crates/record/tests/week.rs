//! A week of steps and tests on a simulated clock: the event file stays small and has every spike.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use paceline_model::Tally;
use paceline_observe::{Phase, PhaseClock, Recorder, RunStart, StepRecord, TestRecord};
use paceline_record::{EventLog, EventLogConfig};

const HOURS: u64 = 7 * 24;
const STEPS_PER_SECOND: u64 = 10;

fn event_bytes(dir: &Path) -> u64 {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    files.map(|file| file.metadata().unwrap().len()).sum()
}

/// Whether the bytes of a value are in a file.
fn has_value(bytes: &[u8], value: f32) -> bool {
    values_between(bytes, value, value).contains(&value.to_bits())
}

/// The bits of all positive values from `least` to `most` in a file. They are ordered as the values
/// are.
fn values_between(bytes: &[u8], least: f32, most: f32) -> HashSet<u32> {
    let (least, most) = (least.to_bits(), most.to_bits());
    let mut found = HashSet::new();
    let mut word = 0;
    for byte in bytes {
        word = u32::from(*byte) << 24 | word >> 8;
        if word >= least && word <= most {
            found.insert(word);
        }
    }
    found
}

#[test]
fn a_week_of_steps_takes_few_bytes_and_no_spike_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let config = EventLogConfig { sample: None, ..EventLogConfig::new("worker:0") };
    let mut log = EventLog::create(dir.path(), config).unwrap();
    log.start(RunStart::New).unwrap();
    let clock = PhaseClock::start(Phase::Compute);
    let first = StepRecord::new(0, 0.5, &clock);
    let begun = Instant::now();
    let (mut step, mut before) = (0, 0);
    let spike = |hour: u64| 1_000.0 + hour as f32;
    for hour in 0..HOURS {
        for at in 0..3_600 * STEPS_PER_SECOND {
            let seconds = 3_600.0 * hour as f64 + at as f64 / STEPS_PER_SECOND as f64;
            let loss = if at == 777 { spike(hour) } else { 0.5 };
            let now = begun + Duration::from_secs_f64(seconds);
            log.step(&StepRecord { step, loss, now, ..first }).unwrap();
            step += 1;
        }
        let bytes = event_bytes(dir.path());
        assert!(bytes - before < 5_000_000, "hour {hour}: {before} to {bytes}");
        before = bytes;
    }
    // The last losses are few, and their mean is written at the end.
    let last = 3_600.0 * HOURS as f64 + 0.001;
    let now = begun + Duration::from_secs_f64(last);
    for loss in [0.25, 0.75, 7_654.5] {
        log.step(&StepRecord { step, loss, now, ..first }).unwrap();
        step += 1;
    }
    log.finish(true).unwrap();
    let file = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(file).unwrap();
    assert!(has_value(&bytes, 7_654.5), "the greatest of the last losses");
    assert!(bytes.len() < 8_000_000, "{}", bytes.len());
    let spikes = values_between(&bytes, spike(0), spike(HOURS - 1));
    for hour in 0..HOURS {
        assert!(spikes.contains(&spike(hour).to_bits()), "the spike of hour {hour}");
    }
}

#[test]
fn a_fast_run_of_some_seconds_is_as_dense_at_its_end_as_in_its_middle() {
    let dir = tempfile::tempdir().unwrap();
    let config = EventLogConfig { sample: None, ..EventLogConfig::new("worker:0") };
    let mut log = EventLog::create(dir.path(), config).unwrap();
    let clock = PhaseClock::start(Phase::Compute);
    let first = StepRecord::new(0, 0.5, &clock);
    let begun = Instant::now();
    // 20,000 steps a second. The loss says in which tenth of a second a step was.
    let loss_in = |tenth: u64| 1_000.0 + tenth as f32;
    for step in 0..60_000 {
        let now = begun + Duration::from_micros(50 * step);
        log.step(&StepRecord { step, loss: loss_in(step / 2_000), now, ..first }).unwrap();
    }
    log.finish(true).unwrap();
    let file = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(file).unwrap();
    for tenth in 0..30 {
        assert!(has_value(&bytes, loss_in(tenth)), "{} s", tenth as f32 / 10.0);
    }
}

#[test]
fn losses_with_an_explicit_spacing_are_all_written() {
    let dir = tempfile::tempdir().unwrap();
    let config =
        EventLogConfig { sample: None, loss_every: Some(2), ..EventLogConfig::new("worker:0") };
    let mut log = EventLog::create(dir.path(), config).unwrap();
    let clock = PhaseClock::start(Phase::Compute);
    let first = StepRecord::new(0, 0.5, &clock);
    (0..100_000).for_each(|step| log.step(&StepRecord { step, ..first }).unwrap());
    log.finish(true).unwrap();
    assert!(event_bytes(dir.path()) > 50_000 * 50);
}

#[test]
fn tests_that_come_too_fast_are_thinned_and_the_last_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let config = EventLogConfig { sample: None, ..EventLogConfig::new("worker:0") };
    let mut log = EventLog::create(dir.path(), config).unwrap();
    let mut score = Tally::default().score();
    for step in 0..20_000 {
        score.loss = if step == 19_998 { 4_321.0 } else { 1.0 };
        score.accuracy = if step == 19_999 { 0.123_456 } else { 0.5 };
        log.test(&TestRecord { step, score: &score, steps_per_second: 1.0 }).unwrap();
    }
    log.finish(true).unwrap();
    assert!(event_bytes(dir.path()) < 700_000, "{}", event_bytes(dir.path()));
    let file = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    assert!(has_value(&fs::read(file).unwrap(), 0.123_456));
}
