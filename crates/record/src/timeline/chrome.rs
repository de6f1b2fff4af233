//! The traces of all tasks as one file in Chrome's trace format, which Perfetto reads too.
//!
//! Each task is a process of the file. Spans are complete events (`X`); the spans of a thread must
//! nest, which they do because a thread ends one operation before it begins the next or inside it.
//! Processor and network are counters (`C`). Gradients are arrows (`s`, `t`, `f`).

use std::cmp::Reverse;
use std::io::{self, Write};

use paceline_observe::phase_color;
use paceline_observe::trace::TraceSpan;
use serde_json::{Value, json};

use super::arrows::gradient_arrows;
use super::clocks::{ClockOffset, align};
use super::task_trace::{TaskTrace, lost_of};

/// The traces of all tasks on one clock.
#[derive(Debug)]
pub(super) struct AlignedTraces {
    pub(super) traces: Vec<TaskTrace>,
    pub(super) offsets: Vec<ClockOffset>,
    /// The first moment of the file, by the first task's clock.
    zero_ns: i64,
}

impl AlignedTraces {
    /// Aligns traces with the clock of the first.
    pub(super) fn new(traces: Vec<TaskTrace>) -> Self {
        let offsets = align(&traces);
        let starts = traces.iter().zip(&offsets).flat_map(|(trace, offset)| {
            let spans = trace.threads.iter().flat_map(|thread| &thread.spans);
            spans.map(|span| (span.begun_ns as i64).saturating_sub(offset.ahead_ns))
        });
        let zero_ns = starts.min().unwrap_or(0);
        Self { traces, offsets, zero_ns }
    }

    /// A task's time in microseconds since the first moment of the file.
    fn us(&self, task: usize, at_ns: i64) -> f64 {
        at_ns.saturating_sub(self.offsets[task].ahead_ns).saturating_sub(self.zero_ns) as f64 / 1e3
    }

    /// Writes the file. `missing` are the tasks without traces.
    pub(super) fn write(&self, out: &mut impl Write, missing: &[String]) -> io::Result<()> {
        let other = json!({"missing": missing, "tasks": self.tasks()});
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[")?;
        let mut lines = EventLines { out, count: 0 };
        for task in 0..self.traces.len() {
            self.write_names(task, &mut lines)?;
            for thread in 0..self.traces[task].threads.len() {
                self.write_spans(task, thread, &mut lines)?;
            }
            self.write_counters(task, &mut lines)?;
        }
        self.write_arrows(&mut lines)?;
        writeln!(lines.out, "\n]}}")
    }

    /// A description of each task.
    fn tasks(&self) -> Value {
        let describe = |(trace, offset): (&TaskTrace, &ClockOffset)| {
            let lost = lost_of(&trace.threads);
            let within = offset.within_ns.map(|within| within as f64 / 1e3);
            json!({"task": trace.task, "host": trace.host, "clock_within_us": within, "lost": lost})
        };
        self.traces.iter().zip(&self.offsets).map(describe).collect()
    }

    fn write_names(&self, task: usize, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        let TaskTrace { task: task_name, host, threads, .. } = &self.traces[task];
        let pid = task + 1;
        let name = |what: &str, tid: usize, args: Value| -> Value {
            json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})
        };
        lines.write(&name("process_name", 0, json!({"name": format!("{task_name}@{host}")})))?;
        lines.write(&name("process_sort_index", 0, json!({"sort_index": task})))?;
        for (tid, thread) in (1..).zip(threads) {
            lines.write(&name("thread_name", tid, json!({"name": thread.name})))?;
            lines.write(&name("thread_sort_index", tid, json!({"sort_index": tid})))?;
        }
        Ok(())
    }

    fn write_spans(
        &self,
        task: usize,
        thread: usize,
        lines: &mut EventLines<impl Write>,
    ) -> io::Result<()> {
        let ops = &self.traces[task].threads[thread].ops;
        let mut spans = self.traces[task].threads[thread].spans.clone();
        // A span comes before those that it contains.
        spans.sort_by_key(|span| (span.begun_ns, Reverse(span.ended_ns)));
        for TraceSpan { op, step, begun_ns, ended_ns } in spans {
            let op = &ops[op as usize];
            let mut event = json!({
                "ph": "X", "name": op.name, "pid": task + 1, "tid": thread + 1,
                "ts": self.us(task, begun_ns as i64),
                "dur": (ended_ns - begun_ns) as f64 / 1e3,
                "args": {"step": step, "size": op.size},
            });
            // Perfetto chooses its own colors; Chrome's viewer shows these.
            if let Some(color) = phase_color(&op.name) {
                event["cname"] = color.chrome.into();
            }
            lines.write(&event)?;
        }
        Ok(())
    }

    /// Writes counters. A counter describes the time up to its own, so its value is shown from the
    /// time of the counter before.
    fn write_counters(&self, task: usize, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        let counters = &self.traces[task].counters;
        let begun = [counters.first()].into_iter().chain(counters.iter().map(Some)).flatten();
        for (begun, counter) in begun.zip(counters.iter().chain(counters.last())) {
            let ts = self.us(task, begun.at_ns).max(0.0);
            let pid = task + 1;
            let mut write = |name: &str, args: Value| {
                let event =
                    json!({"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": args});
                lines.write(&event)
            };
            write("cpu_percent", json!({"percent": counter.cpu_percent}))?;
            let (received, sent) = (counter.received_bytes_per_s, counter.sent_bytes_per_s);
            write("received_bytes_per_s", json!({"bytes_per_s": received}))?;
            write("sent_bytes_per_s", json!({"bytes_per_s": sent}))?;
        }
        Ok(())
    }

    fn write_arrows(&self, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        for arrow in gradient_arrows(&self.traces) {
            let last = arrow.points.len() - 1;
            for (at, point) in arrow.points.iter().enumerate() {
                let phase = match at {
                    0 => "s",
                    at if at < last => "t",
                    _ => "f",
                };
                lines.write(&json!({
                    "ph": phase, "bp": "e", "cat": "gradient", "name": "gradient", "id": arrow.id,
                    "pid": point.task + 1, "tid": point.thread + 1,
                    "ts": self.us(point.task, point.at_ns),
                }))?;
            }
        }
        Ok(())
    }
}

/// Writes events, one on each line.
struct EventLines<'a, W> {
    out: &'a mut W,
    count: usize,
}

impl<W: Write> EventLines<'_, W> {
    fn write(&mut self, event: &Value) -> io::Result<()> {
        let before = if self.count == 0 { "\n" } else { ",\n" };
        self.count += 1;
        write!(self.out, "{before}{event}")
    }
}
