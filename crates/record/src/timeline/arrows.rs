//! The path of each gradient through a timeline: from the push that sends it to the operation that
//! applies it, and on to the pull that receives the resulting parameters.

use std::collections::HashMap;

use paceline_observe::trace::{APPLY, GradientEvent, PULL, PUSH};

use super::task_trace::TaskTrace;

/// How far inside a span an arrow begins or ends. At the very edge it would seem to belong to the
/// neighbouring span.
const INSIDE_NS: i64 = 100;

/// The path of one gradient.
pub(super) struct GradientArrow {
    /// Unique within the timeline.
    pub(super) id: u64,
    /// Two or three points.
    pub(super) points: Vec<TracePoint>,
}

/// A moment on a thread of a task, by the task's own clock.
#[derive(Clone, Copy)]
pub(super) struct TracePoint {
    pub(super) task: usize,
    pub(super) thread: usize,
    pub(super) at_ns: i64,
}

/// The arrows of all gradients whose push and one other end were recorded.
pub(super) fn gradient_arrows(traces: &[TaskTrace]) -> Vec<GradientArrow> {
    let spans = ArrowSpans::of(traces);
    let marks = marks(traces);
    let mut sent: Vec<_> =
        marks.iter().filter(|(key, _)| key.event == GradientEvent::Sent).collect();
    sent.sort_by_key(|(key, _)| (key.task, key.peer, key.step));
    let mut arrows = Vec::new();
    for (id, (&MarkKey { task: from, peer: to, step, .. }, &begun)) in (1..).zip(sent) {
        let applied =
            marks.get(&MarkKey { task: to, peer: from, event: GradientEvent::Applied, step });
        let got = marks.get(&MarkKey { task: from, peer: to, event: GradientEvent::Got, step });
        let Some(begun) = spans.nearest(begun, PUSH) else { continue };
        let applied = applied.and_then(|&point| spans.nearest(point, APPLY));
        let got = got.and_then(|&point| spans.nearest(point, PULL));
        let points: Vec<_> = [Some(begun), applied, got].into_iter().flatten().collect();
        if points.len() >= 2 {
            arrows.push(GradientArrow { id, points });
        }
    }
    arrows
}

/// What identifies a mark within a timeline.
#[derive(PartialEq, Eq, Hash)]
struct MarkKey<'a> {
    /// The task that wrote the mark.
    task: &'a str,
    peer: &'a str,
    event: GradientEvent,
    step: u64,
}

/// The place of each mark; of several equal ones the first.
fn marks(traces: &[TaskTrace]) -> HashMap<MarkKey<'_>, TracePoint> {
    let mut marks = HashMap::new();
    for (task, trace) in traces.iter().enumerate() {
        for (thread, tracks) in trace.threads.iter().enumerate() {
            for mark in &tracks.marks {
                let peer = trace.peers[mark.peer as usize].as_str();
                let key = MarkKey { task: &trace.task, peer, event: mark.what, step: mark.step };
                let point = TracePoint { task, thread, at_ns: mark.at_ns as i64 };
                marks.entry(key).or_insert(point);
            }
        }
    }
    marks
}

/// The spans that arrows begin or end at, by their threads and operations, in the order of time.
struct ArrowSpans<'a>(HashMap<ThreadOp<'a>, Vec<SpanEnds>>);

#[derive(PartialEq, Eq, Hash)]
struct ThreadOp<'a> {
    task: usize,
    thread: usize,
    op: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SpanEnds {
    begun: i64,
    ended: i64,
}

impl<'a> ArrowSpans<'a> {
    fn of(traces: &'a [TaskTrace]) -> Self {
        let mut spans: HashMap<_, Vec<SpanEnds>> = HashMap::new();
        for (task, trace) in traces.iter().enumerate() {
            for (index, thread) in trace.threads.iter().enumerate() {
                for span in &thread.spans {
                    let op = thread.ops[span.op as usize].name.as_str();
                    if [PUSH, APPLY, PULL].contains(&op) {
                        let (begun, ended) = (span.begun_ns as i64, span.ended_ns as i64);
                        let key = ThreadOp { task, thread: index, op };
                        spans.entry(key).or_default().push(SpanEnds { begun, ended });
                    }
                }
            }
        }
        spans.values_mut().for_each(|spans| spans.sort_unstable());
        Self(spans)
    }

    /// The moment nearest to a point that is inside a span of this operation on the same thread.
    fn nearest(&self, point: TracePoint, op: &str) -> Option<TracePoint> {
        let spans = self.0.get(&ThreadOp { task: point.task, thread: point.thread, op })?;
        let at = point.at_ns;
        let after = spans.partition_point(|span| span.begun <= at);
        let around = spans[after.saturating_sub(1)..].iter().take(2);
        let distance = |span: &SpanEnds| (span.begun - at).max(at - span.ended).max(0);
        let SpanEnds { begun, ended } = *around.min_by_key(|span| distance(span))?;
        let inside = ((ended - begun) / 4).min(INSIDE_NS);
        Some(TracePoint { at_ns: at.clamp(begun + inside, ended - inside), ..point })
    }
}
