//! Event files, read by TensorBoard's own package.
//!
//! TensorBoard defines the format, so its reader decides. It runs as
//! `tests/python/read_events.py` in the Python that `cargo xtask setup` installs.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[path = "../../../tests/support/interpreter.rs"]
mod interpreter;

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use paceline_model::{OpNode, Score, Tally};
use paceline_observe::{
    GradientTotals, Phase, PhaseClock, Recorder, RunStart, ServerRecorder, StalenessCounts,
    StepRecord, TableUse, TestRecord, WorkerTotals,
};
use paceline_record::events::{EventWriter, HParam, Histogram, SessionStatus};
use paceline_record::{
    EventLog, EventLogConfig, RunDescription, SampleSpacing, ServerEventLog, ServerLogConfig,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Everything that TensorBoard reads below `logdir`.
fn read(logdir: &Path) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python/read_events.py");
    let python = interpreter::python_interpreter();
    let output = Command::new(&python)
        .arg(script)
        .arg(logdir)
        .output()
        .unwrap_or_else(|error| panic!("{} does not start: {error}", python.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "read_events.py failed:\n{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A scalar's points without their times, which the test does not choose.
fn points(report: &Value, run: &str, tag: &str) -> Vec<(u64, f32)> {
    let points = report["runs"][run]["scalars"][tag].as_array().unwrap();
    points.iter().map(|p| (p[0].as_u64().unwrap(), p[1].as_f64().unwrap() as f32)).collect()
}

/// Writes `values` of one tag at the steps from `first` on.
fn write_loss(writer: &mut EventWriter, first: u64, values: &[f32]) {
    let loss = writer.tag("train/loss");
    for (step, value) in (first..).zip(values) {
        writer.scalar(&loss, step, *value).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn scalars_come_back_to_the_bit() {
    let dir = TempDir::new().unwrap();
    let mut writer = EventWriter::create(&dir.path().join("worker_0")).unwrap();
    let (loss, rate) = (writer.tag("train/loss"), writer.tag("rate"));
    // Values that do not survive a detour over text or fewer bits; and more points than
    // TensorBoard's samples or our buffer hold.
    let value = |step: u64| f32::from_bits(0x3f80_0001 + 0x9e37 * step as u32);
    for step in 0..5000 {
        writer.scalar(&loss, step, value(step)).unwrap();
    }
    let odd = [(0, f32::MIN_POSITIVE / 2.0), (1 << 40, f32::MAX), (1 << 41, -0.0)];
    for (step, value) in odd {
        writer.scalar_at(&rate, step, value, 1_700_000_000.25).unwrap();
    }
    writer.scalar(&rate, 1 << 42, f32::NAN).unwrap();
    writer.flush().unwrap();

    let report = read(dir.path());
    let expected: Vec<_> = (0..5000).map(|step| (step, value(step))).collect();
    assert_eq!(points(&report, "worker_0", "train/loss"), expected);
    let rates = &report["runs"]["worker_0"]["scalars"]["rate"];
    assert_eq!(rates[3], json!([1_u64 << 42, "nan", rates[3][2]]));
    for (rate, (step, value)) in rates.as_array().unwrap().iter().zip(odd) {
        assert_eq!((rate[0].as_u64(), rate[2].as_f64()), (Some(step), Some(1_700_000_000.25)));
        assert_eq!((rate[1].as_f64().unwrap() as f32).to_bits(), value.to_bits());
    }
    // Said once, by the first event, and known of all.
    let plugins = &report["runs"]["worker_0"]["plugins"];
    assert_eq!(plugins["train/loss"], json!(["scalars", "train/loss"]));
}

#[test]
fn histograms_and_the_graph_come_back() {
    let dir = TempDir::new().unwrap();
    let mut writer = EventWriter::create(dir.path()).unwrap();
    let mut staleness = Histogram::with_edges(vec![0.0, 1.0, 2.0, 8.0]);
    writer.histogram("staleness", 1, &staleness).unwrap();
    for value in [0.0, 1.0, 1.0, 7.5] {
        staleness.add(value);
    }
    writer.histogram("staleness", 2, &staleness).unwrap();
    writer
        .graph(&[
            OpNode::new("images", "Placeholder", &[], &[-1, 784]),
            OpNode::new("softmax/weights", "Variable", &[], &[784, 10]),
            OpNode::new("softmax/product", "MatMul", &["images", "softmax/weights"], &[-1, 10]),
        ])
        .unwrap();
    writer.flush().unwrap();

    let run = &read(dir.path())["runs"]["."];
    assert_eq!(
        run["histograms"]["staleness"],
        json!([
            [1, [[0.0, 1.0, 0.0], [1.0, 2.0, 0.0], [2.0, 8.0, 0.0]]],
            [2, [[0.0, 1.0, 1.0], [1.0, 2.0, 2.0], [2.0, 8.0, 1.0]]],
        ])
    );
    assert_eq!(
        run["graph"],
        json!({
            "images": {"op": "Placeholder", "inputs": [], "shapes": [[-1, 784]]},
            "softmax/weights": {"op": "Variable", "inputs": [], "shapes": [[784, 10]]},
            "softmax/product": {
                "op": "MatMul", "inputs": ["images", "softmax/weights"], "shapes": [[-1, 10]]
            },
        })
    );
}

#[test]
fn runs_fill_the_table_of_hyperparameters() {
    let dir = TempDir::new().unwrap();
    let hparams = |batch: i64| {
        [
            HParam::new("mode", "sync"),
            HParam::new("batch", batch),
            HParam::new("rate", 1e-5),
            HParam::new("shuffle", true),
            HParam::new("note", "\"ü\"\n😀"),
        ]
    };
    for (name, batch, loss) in [("run-1", 10, 0.5), ("run-2", 60, 0.25)] {
        let run = dir.path().join(name);
        let mut session = EventWriter::create(&run).unwrap();
        session.hparams_start(&hparams(batch)).unwrap();
        write_loss(&mut EventWriter::create(&run.join("worker_0")).unwrap(), 0, &[9.0, loss]);
        let accuracy = session.tag("test/accuracy");
        session.scalar(&accuracy, 1, 1.0 - loss).unwrap();
        session.hparams_end(SessionStatus::Success).unwrap();
        session.flush().unwrap();
    }

    let report = read(dir.path());
    let groups = report["session_groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2);
    for (run, batch, loss) in [("run-1", 10.0, 0.5), ("run-2", 60.0, 0.25)] {
        let group = groups.iter().find(|group| group["hparams"]["batch"] == batch).unwrap();
        assert_eq!(
            group["hparams"],
            json!({"mode": "sync", "batch": batch, "rate": 1e-5, "shuffle": true,
                   "note": "\"ü\"\n😀"})
        );
        assert_eq!(group["sessions"][0]["name"], run);
        assert_eq!(group["sessions"][0]["status"], "STATUS_SUCCESS");
        let metrics = group["metric_values"].as_array().unwrap();
        for (tag, value) in [("train/loss", loss), ("test/accuracy", 1.0 - loss)] {
            let metric = metrics.iter().find(|metric| metric["name"]["tag"] == tag);
            assert_eq!(metric.unwrap()["value"], value, "{tag}");
        }
        assert_eq!(group["name"], report["python_group_names"][run]);
    }
}

#[test]
fn a_second_writer_adds_a_file_and_a_restart_takes_steps_back() {
    let dir = TempDir::new().unwrap();
    // How the first and the second writer of a run start, and where the second continues.
    let runs = [
        ("resumed", None, None, 5),
        ("restarted", Some(0), Some(3), 3),
        ("restarted-unannounced", None, Some(3), 3),
        ("from-nothing", Some(0), Some(0), 0),
    ];
    for (run, first_start, second_start, from) in runs {
        let starts = [(first_start, 0, [0.0, 0.1, 0.2, 0.3, 0.4]), (second_start, from, [1.0; 5])];
        for (start, from, values) in starts {
            let mut writer = EventWriter::create(&dir.path().join(run)).unwrap();
            if let Some(step) = start {
                writer.session_start(step).unwrap();
            }
            write_loss(&mut writer, from, &values);
        }
    }

    let report = read(dir.path());
    for (run, _, _, from) in runs {
        assert_eq!(report["runs"][run]["files"].as_array().unwrap().len(), 2, "{run}");
        let kept = [0.0, 0.1, 0.2, 0.3, 0.4].into_iter().take(from as usize);
        let expected: Vec<_> = (0..).zip(kept.chain([1.0; 5])).collect();
        assert_eq!(points(&report, run, "train/loss"), expected, "{run}");
    }
}

/// A log without resource samples in this folder.
fn event_log(dir: &Path, description: Option<RunDescription>) -> EventLog {
    let config = EventLogConfig {
        loss_every: Some(2),
        sample: None,
        description,
        ..EventLogConfig::new("worker:0")
    };
    EventLog::create(dir, config).unwrap()
}

#[test]
fn an_event_log_has_losses_tests_and_the_description_and_drops_what_a_rewind_voids() {
    let dir = TempDir::new().unwrap();
    let description = RunDescription {
        graph: vec![OpNode::new("images", "Placeholder", &[], &[-1, 784])],
        hparams: vec![HParam::new("mode", "sync")],
    };
    let mut log = event_log(dir.path(), Some(description));
    let clock = PhaseClock::start(Phase::Compute);
    let score = Score { loss: 0.25, accuracy: 0.5, auc: None, ..Tally::default().score() };
    log.start(RunStart::New).unwrap();
    for step in 0..6 {
        log.step(&StepRecord::new(step, step as f32, &clock)).unwrap();
    }
    log.test(&TestRecord { step: 3, score: &score, steps_per_second: 10.0 }).unwrap();
    log.start(RunStart::Rewound { step: 3 }).unwrap();
    log.step(&StepRecord::new(3, 33.0, &clock)).unwrap();
    log.test(&TestRecord { step: 4, score: &score, steps_per_second: 20.0 }).unwrap();
    log.finish(true).unwrap();

    let report = read(dir.path());
    // Every second loss; those of steps 3 and later only from after the rewind.
    assert_eq!(points(&report, ".", "train/loss"), [(0, 0.0), (2, 2.0), (3, 33.0)]);
    assert_eq!(points(&report, ".", "test/loss"), [(4, 0.25)]);
    assert_eq!(points(&report, ".", "train/steps_per_second"), [(4, 20.0)]);
    assert!(report["runs"]["."]["scalars"]["test/auc"].is_null(), "the score has none");
    assert_eq!(report["runs"]["."]["graph"]["images"]["op"], "Placeholder");
}

#[test]
fn a_log_that_joins_a_run_describes_nothing() {
    let dir = TempDir::new().unwrap();
    let mut log = event_log(dir.path(), Some(RunDescription::default()));
    log.start(RunStart::Joined).unwrap();
    log.finish(true).unwrap();
    assert!(read(dir.path())["runs"]["."]["graph"].is_null());
}

#[test]
fn a_server_log_has_curves_of_its_workers_and_a_histogram_of_staleness() {
    let dir = TempDir::new().unwrap();
    let config = ServerLogConfig {
        sample: Some(SampleSpacing::exactly(Duration::from_millis(1))),
        workers: vec!["worker:0".into()],
        ..ServerLogConfig::new("ps:0")
    };
    let mut log = ServerEventLog::create(dir.path(), config).unwrap();
    let totals = |gradients: u64| GradientTotals {
        applied: gradients,
        staleness_sum: 2.0 * gradients as f64,
        workers: vec![WorkerTotals {
            task: "worker:0".into(),
            timed: gradients,
            gradient_ms: 5 * gradients,
            held_ms: 0,
        }],
        table: Some(TableUse { entries: 100 * gradients, bytes: 4_000 * gradients }),
        ..GradientTotals::default()
    };
    log.start();
    // Each sample that comes in gives a point; two are needed for the first.
    let polled = Cell::new(0);
    let deadline = Instant::now() + Duration::from_secs(60);
    while polled.get() < 3 && Instant::now() < deadline {
        log.poll(10 * polled.get(), &|| {
            polled.set(polled.get() + 1);
            totals(polled.get())
        })
        .unwrap();
    }
    let counts = StalenessCounts { applied: 3, edges: vec![-0.5, 0.5, 2.5], counts: vec![0, 3] };
    log.finish(&counts).unwrap();

    let report = read(dir.path());
    assert_eq!(points(&report, ".", "work_pace/staleness"), [(10, 2.0), (20, 2.0)]);
    assert_eq!(points(&report, ".", "work_pace/worker_0/gradient_ms"), [(10, 5.0), (20, 5.0)]);
    let entries = [(0, 100.0), (10, 200.0), (20, 300.0)];
    assert_eq!(points(&report, ".", "work_sparse/entries"), entries);
    let bytes = entries.map(|(step, entries)| (step, 40.0 * entries));
    assert_eq!(points(&report, ".", "work_sparse/entry_bytes"), bytes);
    let histogram = json!([[3, [[-0.5, 0.5, 0.0], [0.5, 2.5, 3.0]]]]);
    assert_eq!(report["runs"]["."]["histograms"]["work_staleness"], histogram);
}
