//! What one thread did, as spans of time.
//!
//! A track allocates all its memory when it is created, so that writing to it costs no more than
//! reading the clock. It counts what no longer fits and drops it. Times are nanoseconds of the
//! monotonic clock since the process's [time base](time_base_unix_ns).

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The most spans of a track: 8 MiB of memory, of which the system provides only what is used.
const MAX_SPANS: usize = 1 << 18;
/// The most marks of a track.
const MAX_MARKS: usize = 1 << 16;

/// The moment that times of this process count from, by the monotonic and the wall clock.
static BASE: LazyLock<(Instant, u64)> = LazyLock::new(|| {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    (Instant::now(), unix.map_or(0, |since| since.as_nanos() as u64))
});

/// The moment that times of this process count from, in nanoseconds since 1970 by the wall clock.
/// The first call or the first track sets it.
pub fn time_base_unix_ns() -> u64 {
    BASE.1
}

fn since_base_ns(time: Instant) -> u64 {
    time.saturating_duration_since(BASE.0).as_nanos() as u64
}

/// An operation of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Its name.
    pub name: String,
    /// The shape of its output, such as `60x784`; empty if it has none.
    pub size: String,
}

impl Op {
    /// An operation whose output has this shape.
    pub fn new(name: impl Into<String>, sizes: &[usize]) -> Self {
        let sizes: Vec<_> = sizes.iter().map(usize::to_string).collect();
        Self { name: name.into(), size: sizes.join("x") }
    }
}

/// The time that one operation took. In files: `[op, step, begun, ended]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u64, u64, u64)", into = "(u32, u64, u64, u64)")]
pub struct TraceSpan {
    /// The index of the operation in [`Track::ops`].
    pub op: u32,
    /// The step of the plan that the operation belongs to.
    pub step: u64,
    /// When it began, since the time base.
    pub begun_ns: u64,
    /// When it ended, since the time base.
    pub ended_ns: u64,
}

impl From<(u32, u64, u64, u64)> for TraceSpan {
    fn from((op, step, begun_ns, ended_ns): (u32, u64, u64, u64)) -> Self {
        Self { op, step, begun_ns, ended_ns }
    }
}

impl From<TraceSpan> for (u32, u64, u64, u64) {
    fn from(span: TraceSpan) -> Self {
        (span.op, span.step, span.begun_ns, span.ended_ns)
    }
}

/// What happens to a gradient on its way. The task where it happens writes the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradientEvent {
    /// The task sends its gradient to the peer.
    Sent,
    /// The peer's gradient arrived.
    Arrived,
    /// The peer's gradient was applied.
    Applied,
    /// The task sends the resulting parameters to the peer.
    Answered,
    /// The parameters that result from the task's gradient arrived from the peer.
    Got,
}

/// An event of a gradient: `[what, peer, step, when]` in files. A gradient is identified by the
/// task that computed it and the step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(GradientEvent, u32, u64, u64)", into = "(GradientEvent, u32, u64, u64)")]
pub struct TraceMark {
    /// What happened.
    pub what: GradientEvent,
    /// The index of the other task among this task's peers.
    pub peer: u32,
    /// The step of the plan that the gradient belongs to.
    pub step: u64,
    /// When it happened, since the time base.
    pub at_ns: u64,
}

impl From<(GradientEvent, u32, u64, u64)> for TraceMark {
    fn from((what, peer, step, at_ns): (GradientEvent, u32, u64, u64)) -> Self {
        Self { what, peer, step, at_ns }
    }
}

impl From<TraceMark> for (GradientEvent, u32, u64, u64) {
    fn from(mark: TraceMark) -> Self {
        (mark.what, mark.peer, mark.step, mark.at_ns)
    }
}

/// What one thread did.
#[derive(Clone, Debug)]
pub struct Track {
    /// The thread's name.
    pub name: String,
    /// The operations that spans refer to.
    pub ops: Vec<Op>,
    /// The step that the next spans belong to.
    pub step: u64,
    spans: Vec<TraceSpan>,
    marks: Vec<TraceMark>,
    lost: u64,
    /// When the last operation of a sequence ended.
    last_end: Option<Instant>,
    /// The step of the last gradient that was sent.
    sent_step: u64,
    /// Whether the peers' gradients of that step have been marked as applied here.
    has_applied: bool,
}

impl Track {
    /// An empty track, with all the memory that it will need.
    pub fn new(name: impl Into<String>, ops: Vec<Op>) -> Self {
        LazyLock::force(&BASE);
        Self {
            name: name.into(),
            ops,
            step: 0,
            spans: Vec::with_capacity(MAX_SPANS),
            marks: Vec::with_capacity(MAX_MARKS),
            lost: 0,
            last_end: None,
            sent_step: 0,
            has_applied: false,
        }
    }

    /// Writes the span of an operation.
    pub fn span(&mut self, op: u32, begun: Instant, ended: Instant) {
        if self.spans.len() == MAX_SPANS {
            self.lost += 1;
            return;
        }
        let (begun_ns, ended_ns) = (since_base_ns(begun), since_base_ns(ended));
        self.spans.push(TraceSpan { op, step: self.step, begun_ns, ended_ns });
    }

    /// Begins a sequence of operations, each of which begins where the one before ends.
    pub fn begin_row(&mut self) {
        self.last_end = Some(Instant::now());
    }

    /// Writes the span of an operation of the sequence that ends now.
    pub fn next_of_row(&mut self, op: u32) {
        let now = Instant::now();
        if let Some(last) = self.last_end.replace(now) {
            self.span(op, last, now);
        }
    }

    /// Marks an event of a gradient that happens now.
    pub fn mark(&mut self, what: GradientEvent, peer: u32, step: u64) {
        if self.marks.len() == MAX_MARKS {
            self.lost += 1;
            return;
        }
        self.marks.push(TraceMark { what, peer, step, at_ns: since_base_ns(Instant::now()) });
    }

    /// Marks that the task sends its gradient of a step to these peers.
    pub fn sends(&mut self, peers: impl Iterator<Item = u32>, step: u64) {
        (self.sent_step, self.has_applied) = (step, false);
        peers.for_each(|peer| self.mark(GradientEvent::Sent, peer, step));
    }

    /// Marks that the parameters which result from the last sent gradient arrived from a peer.
    pub fn got(&mut self, peer: u32) {
        self.mark(GradientEvent::Got, peer, self.sent_step);
    }

    /// Without servers: marks that these peers' gradients of the last sent step were applied here
    /// and that the result is sent to them. Further calls for the same step do nothing.
    pub fn applied_all(&mut self, peers: impl Iterator<Item = u32>) {
        if std::mem::replace(&mut self.has_applied, true) {
            return;
        }
        for peer in peers {
            self.mark(GradientEvent::Applied, peer, self.sent_step);
            self.mark(GradientEvent::Answered, peer, self.sent_step);
        }
    }

    /// The spans in the order of their ends.
    pub fn spans(&self) -> &[TraceSpan] {
        &self.spans
    }

    /// The marks in the order of time.
    pub fn marks(&self) -> &[TraceMark] {
        &self.marks
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.marks.is_empty()
    }

    /// The number of spans and marks that did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_full_track_counts_what_it_drops() {
        let mut track = Track::new("loop", vec![Op::new("x", &[])]);
        let (begun, room) = (Instant::now(), 1 << 18);
        for _ in 0..room + 5 {
            track.span(0, begun, begun + Duration::from_nanos(7));
        }
        assert_eq!((track.spans().len(), track.lost()), (room, 5));
        assert_eq!(track.spans()[0].ended_ns - track.spans()[0].begun_ns, 7);
        track.begin_row();
        track.next_of_row(0);
        assert_eq!(track.lost(), 6);
    }
}
