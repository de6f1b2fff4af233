//! Parts as one file in Chrome's trace format, which Perfetto reads too.
//!
//! A task is a process there and a thread a thread. Spans are complete events (`X`), which must
//! lie in one another on a thread and do: whoever records one at a time cannot do otherwise.
//! Processor and network are counters (`C`). A gradient is an arrow (`s`, `t`, `f`) from the push to
//! where it is applied and on to the pull that brings what came of it.

use std::collections::HashMap;
use std::io::{self, Write};

use paceline_observe::trace::{APPLY, GradientEvent, PULL, PUSH, TraceSpan};
use serde_json::{Value, json};

use super::clocks::{ClockOffset, align};
use super::task_trace::TaskTrace;

/// Parts that have been brought onto one clock.
#[derive(Debug)]
pub struct Timeline {
    parts: Vec<TaskTrace>,
    aligned: Vec<ClockOffset>,
    /// The moment that the file counts from, by the first part's clock.
    zero_ns: i64,
}

/// How far inside a span an arrow begins or ends, so that nobody takes it for one beside it.
const INSIDE_NS: i64 = 100;

/// A moment on a thread of a task.
#[derive(Clone, Copy)]
struct TracePoint {
    part: usize,
    thread: usize,
    at_ns: i64,
}

impl Timeline {
    /// Brings parts onto the clock of the first.
    pub fn of(parts: Vec<TaskTrace>) -> Self {
        let aligned = align(&parts);
        let starts = parts.iter().zip(&aligned).flat_map(|(part, aligned)| {
            let spans = part.threads.iter().flat_map(|thread| &thread.spans);
            spans.map(|span| span.begun_ns as i64 - aligned.offset_ns)
        });
        let zero_ns = starts.min().unwrap_or(0);
        Self { parts, aligned, zero_ns }
    }

    /// The parts.
    pub fn parts(&self) -> &[TaskTrace] {
        &self.parts
    }

    /// How each part's clock was brought in line.
    pub fn aligned(&self) -> &[ClockOffset] {
        &self.aligned
    }

    /// A moment of a part in microseconds since the file's zero.
    fn us(&self, part: usize, at_ns: i64) -> f64 {
        (at_ns - self.aligned[part].offset_ns - self.zero_ns) as f64 / 1e3
    }

    /// Writes the file. `missing` are the tasks of which nothing is known.
    pub fn write(&self, out: &mut impl Write, missing: &[String]) -> io::Result<()> {
        let other = json!({"missing": missing, "tasks": self.tasks()});
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{other},\"traceEvents\":[")?;
        let mut lines = EventLines { out, count: 0 };
        for part in 0..self.parts.len() {
            self.write_names(part, &mut lines)?;
            for thread in 0..self.parts[part].threads.len() {
                self.write_spans(part, thread, &mut lines)?;
            }
            self.write_counters(part, &mut lines)?;
        }
        self.write_arrows(&mut lines)?;
        writeln!(lines.out, "\n]}}")
    }

    /// What is to be known of the parts beside their events.
    fn tasks(&self) -> Value {
        let task = |(part, aligned): (&TaskTrace, &ClockOffset)| {
            let lost: u64 = part.threads.iter().map(|thread| thread.lost).sum();
            let within = aligned.within_ns.map(|within| within as f64 / 1e3);
            json!({"task": part.task, "host": part.host, "clock_within_us": within, "lost": lost})
        };
        self.parts.iter().zip(&self.aligned).map(task).collect()
    }

    fn write_names(&self, part: usize, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        let TaskTrace { task, host, threads, .. } = &self.parts[part];
        let pid = part + 1;
        let name = |what: &str, tid: usize, args: Value| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args});
        lines.write(&name("process_name", 0, json!({"name": format!("{task}@{host}")})))?;
        lines.write(&name("process_sort_index", 0, json!({"sort_index": part})))?;
        for (tid, thread) in (1..).zip(threads) {
            lines.write(&name("thread_name", tid, json!({"name": thread.name})))?;
            lines.write(&name("thread_sort_index", tid, json!({"sort_index": tid})))?;
        }
        Ok(())
    }

    fn write_spans(
        &self,
        part: usize,
        thread: usize,
        lines: &mut EventLines<impl Write>,
    ) -> io::Result<()> {
        let ops = &self.parts[part].threads[thread].ops;
        let mut spans = self.parts[part].threads[thread].spans.clone();
        // What lies around another comes before it.
        spans.sort_by_key(|span| (span.begun_ns, std::cmp::Reverse(span.ended_ns)));
        for TraceSpan { op, step, begun_ns, ended_ns } in spans {
            let op = &ops[op as usize];
            lines.write(&json!({
                "ph": "X", "name": op.name, "pid": part + 1, "tid": thread + 1,
                "ts": self.us(part, begun_ns as i64),
                "dur": (ended_ns - begun_ns) as f64 / 1e3,
                "args": {"step": step, "size": op.size},
            }))?;
        }
        Ok(())
    }

    /// A figure holds for the time up to its moment, so it is shown from the moment before.
    fn write_counters(&self, part: usize, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        let counters = &self.parts[part].counters;
        let begun = [counters.first()].into_iter().chain(counters.iter().map(Some)).flatten();
        for (begun, counter) in begun.zip(counters.iter().chain(counters.last())) {
            let mut show = |name: &str, args: Value| {
                let ts = self.us(part, begun.at_ns).max(0.0);
                let (pid, tid) = (part + 1, 0);
                lines.write(
                    &json!({"ph": "C", "name": name, "pid": pid, "tid": tid, "ts": ts, "args": args}),
                )
            };
            show("cpu_percent", json!({"percent": counter.cpu_percent}))?;
            let (received, sent) = (counter.received_bytes_per_s, counter.sent_bytes_per_s);
            show("received_bytes_per_s", json!({"bytes_per_s": received}))?;
            show("sent_bytes_per_s", json!({"bytes_per_s": sent}))?;
        }
        Ok(())
    }

    fn write_arrows(&self, lines: &mut EventLines<impl Write>) -> io::Result<()> {
        let slices = Slices::of(&self.parts);
        let moments = self.moments();
        let mut sent: Vec<_> =
            moments.iter().filter(|(key, _)| key.2 == GradientEvent::Sent).collect();
        sent.sort_by_key(|((task, peer, _, step), _)| (task.to_string(), peer.to_string(), *step));
        for (id, (&(from, to, _, step), &begun)) in (1..).zip(sent) {
            let applied = moments.get(&(to, from, GradientEvent::Applied, step));
            let got = moments.get(&(from, to, GradientEvent::Got, step));
            let begun = slices.nearest(begun, PUSH);
            let applied = applied.and_then(|&place| slices.nearest(place, APPLY));
            let got = got.and_then(|&place| slices.nearest(place, PULL));
            let way: Vec<_> = [begun, applied, got].into_iter().flatten().collect();
            // An arrow has two ends; one whose end was not recorded is none.
            if begun.is_none() || way.len() < 2 {
                continue;
            }
            let last = way.len() - 1;
            for (at, place) in way.into_iter().enumerate() {
                let phase = if at == 0 {
                    "s"
                } else if at < last {
                    "t"
                } else {
                    "f"
                };
                lines.write(&json!({
                    "ph": phase, "bp": "e", "cat": "gradient", "name": "gradient", "id": id,
                    "pid": place.part + 1, "tid": place.thread + 1,
                    "ts": self.us(place.part, place.at_ns),
                }))?;
            }
        }
        Ok(())
    }

    /// Where and when what happened to which gradient: by whom it was seen, who the other one
    /// is, and the step.
    fn moments(&self) -> HashMap<(&str, &str, GradientEvent, u64), TracePoint> {
        let mut moments = HashMap::new();
        for (at, part) in self.parts.iter().enumerate() {
            for (thread, tracks) in part.threads.iter().enumerate() {
                for mark in &tracks.marks {
                    let peer = part.peers[mark.peer as usize].as_str();
                    let place = TracePoint { part: at, thread, at_ns: mark.at_ns as i64 };
                    let key = (part.task.as_str(), peer, mark.what, mark.step);
                    moments.entry(key).or_insert(place);
                }
            }
        }
        moments
    }
}

/// The spans that arrows may begin or end at: for each part, thread and operation, by time.
struct Slices<'a>(HashMap<(usize, usize, &'a str), Vec<Ends>>);

/// When a span began and ended.
type Ends = (i64, i64);

impl<'a> Slices<'a> {
    fn of(parts: &'a [TaskTrace]) -> Self {
        let mut slices: HashMap<_, Vec<Ends>> = HashMap::new();
        for (at, part) in parts.iter().enumerate() {
            for (index, thread) in part.threads.iter().enumerate() {
                for span in &thread.spans {
                    let name = thread.ops[span.op as usize].name.as_str();
                    if [PUSH, APPLY, PULL].contains(&name) {
                        let ends = (span.begun_ns as i64, span.ended_ns as i64);
                        slices.entry((at, index, name)).or_default().push(ends);
                    }
                }
            }
        }
        slices.values_mut().for_each(|spans| spans.sort_unstable());
        Self(slices)
    }

    /// A moment inside the span of this operation that is nearest to a place.
    fn nearest(&self, place: TracePoint, op: &'static str) -> Option<TracePoint> {
        let spans = self.0.get(&(place.part, place.thread, op))?;
        let at = place.at_ns;
        let after = spans.partition_point(|(begun, _)| *begun <= at);
        let around = spans[after.saturating_sub(1)..].iter().take(2);
        let distance = |(begun, ended): &Ends| (begun - at).max(at - ended).max(0);
        let (begun, ended) = *around.min_by_key(|span| distance(span))?;
        let inside = ((ended - begun) / 4).min(INSIDE_NS);
        Some(TracePoint { at_ns: at.clamp(begun + inside, ended - inside), ..place })
    }
}

/// Events, one on each line.
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
