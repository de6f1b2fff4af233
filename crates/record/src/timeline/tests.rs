//! Timelines of tasks whose clocks differ.

use paceline_observe::trace::{APPLY, GradientEvent, Op, PULL, PUSH, TraceMark, TraceSpan};

use super::chrome::AlignedTraces;
use super::clocks::ClockOffset;
use super::*;

/// A task whose clock is ahead of the true time.
struct SkewedTask {
    ahead_ns: i64,
    trace: TaskTrace,
}

impl SkewedTask {
    fn new(task: &str, peers: &[&str], ahead_ns: i64, wall_wrong_ns: i64) -> Self {
        let thread = ThreadTrace {
            name: "main".into(),
            ops: [PUSH, APPLY, PULL].map(|name| Op::new(name, &[3])).to_vec(),
            ..ThreadTrace::default()
        };
        let trace = TaskTrace {
            format: 1,
            task: task.into(),
            base_unix_ns: (1_000_000_000_000_000_000 - ahead_ns + wall_wrong_ns) as u64,
            peers: peers.iter().map(|&peer| peer.into()).collect(),
            threads: vec![thread],
            ..TaskTrace::default()
        };
        Self { ahead_ns, trace }
    }

    fn at(&self, true_ns: i64) -> u64 {
        (true_ns + self.ahead_ns) as u64
    }

    fn mark(&mut self, what: GradientEvent, peer: u32, step: u64, true_ns: i64) {
        let at_ns = self.at(true_ns);
        self.trace.threads[0].marks.push(TraceMark { what, peer, step, at_ns });
    }

    fn span(&mut self, op: u32, step: u64, begun: i64, ended: i64) {
        let (begun_ns, ended_ns) = (self.at(begun), self.at(ended));
        self.trace.threads[0].spans.push(TraceSpan { op, step, begun_ns, ended_ns });
    }
}

/// The traces of two workers that push to a server, and of the server.
fn cluster(wall_wrong_ns: i64) -> Vec<TaskTrace> {
    let mut server = SkewedTask::new("ps:0", &["worker:0", "worker:1"], 40_000_000, wall_wrong_ns);
    let mut traces = Vec::new();
    for slot in [0, 1] {
        let name = format!("worker:{slot}");
        let ahead = 1_000_000 * (1 + i64::from(slot));
        let mut worker = SkewedTask::new(&name, &["ps:0"], ahead, -i64::from(slot) * wall_wrong_ns);
        for step in 0..5 {
            let t = 1_000_000 * step as i64 + 300_000 * i64::from(slot);
            let slow = 10_000 * step as i64;
            worker.span(0, step, t, t + 20_000);
            worker.mark(GradientEvent::Sent, 0, step, t);
            server.mark(GradientEvent::Arrived, slot, step, t + 30_000 + slow);
            server.span(1, step, t + 31_000 + slow, t + 40_000 + slow);
            server.mark(GradientEvent::Applied, slot, step, t + 41_000 + slow);
            server.mark(GradientEvent::Answered, slot, step, t + 50_000 + slow);
            worker.mark(GradientEvent::Got, 0, step, t + 80_000 + 3 * slow);
            worker.span(2, step, t + 60_000, t + 90_000 + 3 * slow);
        }
        traces.push(worker.trace);
    }
    traces.push(server.trace);
    traces
}

#[test]
fn clocks_are_aligned_by_exchanges_whatever_the_wall_clocks_say() {
    // The first worker's clock is 1 ms ahead of the true time.
    let truth = [0, 1_000_000, 39_000_000];
    for (wall_wrong_ns, error_ns) in [(0, 0), (5_000_000_000, 60_000), (-90_000, 60_000)] {
        let merged = AlignedTraces::new(cluster(wall_wrong_ns));
        for (aligned, truth) in merged.offsets.iter().zip(truth) {
            let error = (aligned.ahead_ns - truth).abs();
            let within = aligned.within_ns.unwrap() as i64;
            assert!(error <= error_ns && error <= within, "{wall_wrong_ns}: {aligned:?}");
            assert!(within <= 120_000, "{aligned:?}: the quickest round trips took 60 us");
        }
    }
}

#[test]
fn no_gradient_arrives_before_it_is_sent() {
    for wall_wrong_ns in [0, 3_000_000, -7_000_000_000] {
        let mut file = Vec::new();
        AlignedTraces::new(cluster(wall_wrong_ns)).write(&mut file, &[]).unwrap();
        let file: serde_json::Value = serde_json::from_slice(&file).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let arrows: Vec<_> = events.iter().filter(|event| event["cat"] == "gradient").collect();
        assert_eq!(arrows.len(), 2 * 5 * 3);
        for arrow in arrows.chunks_exact(3) {
            let phases: Vec<_> = arrow.iter().map(|end| end["ph"].as_str().unwrap()).collect();
            assert_eq!(phases, ["s", "t", "f"]);
            let times: Vec<_> = arrow.iter().map(|end| end["ts"].as_f64().unwrap()).collect();
            assert!(times.is_sorted(), "{times:?}");
            assert!(arrow.iter().all(|end| end["id"] == arrow[0]["id"]), "{arrow:?}");
        }
    }
}

#[test]
fn a_task_that_exchanged_nothing_is_placed_by_its_wall_clock() {
    let mut traces = cluster(0);
    traces[2].threads[0].marks.clear();
    let merged = AlignedTraces::new(traces);
    assert_eq!(merged.offsets[2], ClockOffset { ahead_ns: 39_000_000, within_ns: None });
}

#[test]
fn the_table_sums_up_tasks_of_one_role() {
    let mut file = Vec::new();
    AlignedTraces::new(cluster(0)).write(&mut file, &["ps:1".into()]).unwrap();
    let rows = operation_table(&file).unwrap();
    let push = rows.iter().find(|row| row.name == PUSH).unwrap();
    assert_eq!((push.role.as_str(), push.size.as_str(), push.calls), ("worker", "3", 10));
    assert!((push.total_us - 200.0).abs() < 1e-6 && (push.mean_us() - 20.0).abs() < 1e-6);
    assert!(rows.is_sorted_by(|a, b| a.total_us >= b.total_us));
    assert!(String::from_utf8(file).unwrap().contains("\"missing\":[\"ps:1\"]"));
}

#[test]
fn a_trace_reads_as_it_was_written_and_the_last_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(TaskTrace::read_last(dir.path()).unwrap(), None);
    let mut traces = cluster(0);
    traces[0].write(dir.path()).unwrap();
    traces[1].write(dir.path()).unwrap();
    assert_eq!(TaskTrace::read_last(dir.path()).unwrap().unwrap(), traces[1]);
    traces[2].threads[0].spans[0].op = 99;
    traces[2].write(dir.path()).unwrap();
    let error = TaskTrace::read_last(dir.path()).unwrap_err().to_string();
    assert!(error.contains("trace-part-3.json: a span or a mark is invalid"), "{error}");
}

#[test]
fn times_that_do_not_fit_are_refused_and_those_that_do_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let wrong: [fn(&mut TaskTrace); 3] = [
        |trace| trace.base_unix_ns = u64::MAX,
        |trace| trace.threads[0].spans[0].ended_ns = 1 << 63,
        |trace| trace.threads[0].marks[0].at_ns = u64::MAX,
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut trace = cluster(0).remove(0);
        change(&mut trace);
        trace.write(dir.path()).unwrap();
        assert!(TaskTrace::read_last(dir.path()).is_err(), "change {number}");
    }
    let mut traces = cluster(0);
    let latest = i64::MAX as u64 / 2;
    (traces[0].base_unix_ns, traces[1].base_unix_ns) = (latest, 0);
    traces[0].threads[0].marks[0].at_ns = latest;
    traces[1].counters.push(Counter { at_ns: i64::MIN, ..Counter::default() });
    traces.iter_mut().for_each(|trace| trace.threads[0].lost = u64::MAX);
    AlignedTraces::new(traces).write(&mut Vec::new(), &[]).unwrap();
}
