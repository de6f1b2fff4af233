//! What one thread did, as spans of time.
//!
//! All memory is set aside when a track is made, so that writing to it costs no more than reading
//! the clock. What no longer fits is counted and not kept. Times are nanoseconds since the
//! process first asked for its [time base](time_base_unix_ns), by the clock that never goes back.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Spans that a track holds at most: 8 MiB of memory, of which only what is used becomes real.
const MAX_SPANS: usize = 1 << 18;
/// Marks that a track holds at most.
const MAX_MARKS: usize = 1 << 16;

/// The moment that this process counts from, by both clocks.
static BASE: LazyLock<(Instant, u64)> = LazyLock::new(|| {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    (Instant::now(), unix.map_or(0, |since| since.as_nanos() as u64))
});

/// When this process's time began, in nanoseconds since 1970 by the wall clock. To be asked for
/// before anything is recorded.
pub fn time_base_unix_ns() -> u64 {
    BASE.1
}

fn since_base_ns(time: Instant) -> u64 {
    time.saturating_duration_since(BASE.0).as_nanos() as u64
}

/// An operation that spans are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// What it is called.
    pub name: String,
    /// The size of what comes out, such as `60x784`; empty if that says nothing.
    pub size: String,
}

impl Op {
    /// An operation whose output has these sizes.
    pub fn new(name: impl Into<String>, sizes: &[usize]) -> Self {
        let sizes: Vec<_> = sizes.iter().map(usize::to_string).collect();
        Self { name: name.into(), size: sizes.join("x") }
    }
}

/// A stretch of time that went to one operation. In files: `[op, step, begun, ended]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u64, u64, u64)", into = "(u32, u64, u64, u64)")]
pub struct Span {
    /// Its place among the track's operations.
    pub op: u32,
    /// The step of the plan that it belongs to.
    pub step: u64,
    /// When it began.
    pub begun_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
}

impl From<(u32, u64, u64, u64)> for Span {
    fn from((op, step, begun_ns, ended_ns): (u32, u64, u64, u64)) -> Self {
        Self { op, step, begun_ns, ended_ns }
    }
}

impl From<Span> for (u32, u64, u64, u64) {
    fn from(span: Span) -> Self {
        (span.op, span.step, span.begun_ns, span.ended_ns)
    }
}

/// What happened to a gradient on its way. Each is written down by the task where it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GradientEvent {
    /// Mine is about to go to the peer.
    Sent,
    /// The peer's has come.
    Arrived,
    /// The peer's is applied.
    Applied,
    /// The peer is about to be sent what came of it.
    Answered,
    /// What came of mine has come from the peer.
    Got,
}

/// Something that happened to a gradient: `[what, peer, step, when]` in files. A gradient is
/// known by who made it and for which step of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(GradientEvent, u32, u64, u64)", into = "(GradientEvent, u32, u64, u64)")]
pub struct TraceMark {
    /// What.
    pub what: GradientEvent,
    /// The other task: its place among the part's peers.
    pub peer: u32,
    /// The step of the plan whose gradient it is.
    pub step: u64,
    /// When.
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
    /// What its spans are of.
    pub ops: Vec<Op>,
    /// The step that spans belong to from now on.
    pub step: u64,
    spans: Vec<Span>,
    marks: Vec<TraceMark>,
    lost: u64,
    /// When the last operation of a row of them ended.
    last: Option<Instant>,
    /// The step of the last gradient that was sent, and whether gradients of it were applied here.
    sent: (u64, bool),
}

impl Track {
    /// An empty track of a thread, with all the memory that it will need.
    pub fn new(name: impl Into<String>, ops: Vec<Op>) -> Self {
        LazyLock::force(&BASE);
        Self {
            name: name.into(),
            ops,
            step: 0,
            spans: Vec::with_capacity(MAX_SPANS),
            marks: Vec::with_capacity(MAX_MARKS),
            lost: 0,
            last: None,
            sent: (0, false),
        }
    }

    /// So much time went to an operation.
    pub fn span(&mut self, op: u32, begun: Instant, ended: Instant) {
        if self.spans.len() == MAX_SPANS {
            self.lost += 1;
            return;
        }
        let (begun_ns, ended_ns) = (since_base_ns(begun), since_base_ns(ended));
        self.spans.push(Span { op, step: self.step, begun_ns, ended_ns });
    }

    /// A row of operations begins now, each of which begins where the last one ends.
    pub fn begin_row(&mut self) {
        self.last = Some(Instant::now());
    }

    /// An operation of the row has just ended.
    pub fn next_of_row(&mut self, op: u32) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.span(op, last, now);
        }
    }

    /// Something has just happened to a gradient.
    pub fn mark(&mut self, what: GradientEvent, peer: u32, step: u64) {
        if self.marks.len() == MAX_MARKS {
            self.lost += 1;
            return;
        }
        self.marks.push(TraceMark { what, peer, step, at_ns: since_base_ns(Instant::now()) });
    }

    /// The own gradient of a step is about to go to these peers.
    pub fn sends(&mut self, peers: impl Iterator<Item = u32>, step: u64) {
        self.sent = (step, false);
        peers.for_each(|peer| self.mark(GradientEvent::Sent, peer, step));
    }

    /// What came of the gradient that was sent last has come from a peer.
    pub fn got(&mut self, peer: u32) {
        self.mark(GradientEvent::Got, peer, self.sent.0);
    }

    /// Without servers: the gradients of these peers for the step of the own one were applied,
    /// if that is the first one hears of it, and what came of them is about to be sent.
    pub fn applied_all(&mut self, peers: impl Iterator<Item = u32>) {
        let (step, is_known) = self.sent;
        self.sent.1 = true;
        for peer in peers.take_while(|_| !is_known) {
            self.mark(GradientEvent::Applied, peer, step);
            self.mark(GradientEvent::Answered, peer, step);
        }
    }

    /// The spans, as they ended one after another.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The marks, in the order of time.
    pub fn marks(&self) -> &[TraceMark] {
        &self.marks
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.marks.is_empty()
    }

    /// How many spans and marks did not fit.
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
