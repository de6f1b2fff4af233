//! The files of a run, which reports, timelines and the page read.

use std::fs;
use std::path::PathBuf;

use paceline_lab::Run;
use paceline_observe::trace::{APPLY, GradientEvent, Op, PULL, PUSH, TraceMark, TraceSpan};
use paceline_record::EventWriter;
use paceline_record::names::files;
use paceline_record::timeline::{Counter, TaskTrace, ThreadTrace, merge_traces, operation_table};

use crate::file_targets::{joined, split};
use crate::scratch::scratch_dir;

fn dir(name: &str) -> PathBuf {
    let dir = scratch_dir().join(name);
    fs::create_dir_all(&dir).expect("a directory in memory");
    dir
}

/// The curves of a run: an event file, and a table of resources behind it.
pub(crate) fn events(bytes: &[u8]) {
    let (table, events) = split(bytes);
    let run = dir("run");
    let folder = dir("run/worker_0");
    fs::write(run.join(files::SUMMARY), r#"{"name": "a", "mode": "sync"}"#).expect("a file");
    fs::write(folder.join("events.out.tfevents.1.a"), events).expect("a file");
    fs::write(folder.join(files::RESOURCES), table).expect("a file");
    assert!(Run::read(&run).is_some(), "a run with a summary");
}

pub(crate) fn event_seeds() -> Vec<Vec<u8>> {
    let folder = dir("events");
    let write = || -> std::io::Result<()> {
        let mut writer = EventWriter::create(&folder)?;
        let (loss, accuracy) = (writer.tag("test/loss"), writer.tag("test/accuracy"));
        for step in 0..3 {
            writer.scalar(&loss, 10 * step, 0.5)?;
            writer.scalar(&accuracy, 10 * step, f32::NAN)?;
        }
        writer.session_start(5)?;
        writer.flush()
    };
    write().expect("events");
    let file = fs::read_dir(&folder).into_iter().flatten().flatten().next();
    let events = file.and_then(|file| fs::read(file.path()).ok()).unwrap_or_default();
    let table = "time,machine_cpu_percent,task_cpu_percent\n1.5,20,10\n2.5,30,\n";
    vec![joined(table.as_bytes(), &events)]
}

/// The parts of a timeline that two tasks have left, and a whole timeline.
pub(crate) fn timeline(bytes: &[u8]) {
    let (worker, server) = split(bytes);
    let run = dir("traced");
    for (task, trace) in [("worker_0", worker), ("ps_0", server)] {
        let folder = dir("traced").join(task);
        fs::create_dir_all(&folder).expect("a directory in memory");
        fs::write(folder.join(files::task_trace(1)), trace).expect("a file in memory");
    }
    let tasks = ["worker:0", "ps:0"].map(String::from);
    if let Ok(report) = merge_traces(&run, &tasks) {
        let _ = report.warnings(&run);
        let merged = fs::read(run.join(files::TIMELINE)).unwrap_or_default();
        assert!(report.tasks.is_empty() || operation_table(&merged).is_ok(), "no timeline");
    }
    let _ = operation_table(bytes);
}

pub(crate) fn timeline_seeds() -> Vec<Vec<u8>> {
    let trace = |task: &str, peer: &str, ahead: u64| {
        let mark = |what, at_ns| TraceMark { what, peer: 0, step: 3, at_ns: at_ns + ahead };
        let span = |op, begun, ended| TraceSpan {
            op,
            step: 3,
            begun_ns: begun + ahead,
            ended_ns: ended + ahead,
        };
        let thread = ThreadTrace {
            name: "main".into(),
            ops: [PUSH, APPLY, PULL].map(|name| Op::new(name, &[3])).to_vec(),
            spans: vec![span(0, 1_000, 3_000), span(1, 4_000, 5_000), span(2, 6_000, 9_000)],
            marks: vec![
                mark(GradientEvent::Sent, 1_500),
                mark(GradientEvent::Arrived, 4_100),
                mark(GradientEvent::Applied, 4_500),
                mark(GradientEvent::Answered, 4_900),
                mark(GradientEvent::Got, 8_000),
            ],
            ..ThreadTrace::default()
        };
        let counter = Counter { at_ns: 2_000, cpu_percent: 50.0, ..Counter::default() };
        TaskTrace {
            format: 1,
            task: task.into(),
            host: "a".into(),
            base_unix_ns: 1_000_000_000_000_000_000 - ahead,
            peers: vec![peer.into()],
            threads: vec![thread],
            counters: vec![counter],
        }
    };
    let bytes = |trace: TaskTrace| {
        let folder = dir("written-trace");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a directory in memory");
        trace.write(&folder).expect("a trace");
        fs::read(folder.join(files::task_trace(1))).expect("a trace that was just written")
    };
    let (worker, server) = (trace("worker:0", "ps:0", 0), trace("ps:0", "worker:0", 4_000_000));
    vec![joined(&bytes(worker), &bytes(server))]
}
