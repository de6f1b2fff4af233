//! Aligning the clocks of all tasks.
//!
//! A gradient arrives after it is sent, and so does the reply to it. Each such pair of moments, one
//! by each task's clock, bounds how far the two clocks can differ: gradients from above, replies
//! from below. Over all recorded round trips, the bounds leave an interval that is no longer than
//! the quickest round trip. If the offset by the wall clocks lies within it, it is used, as on one
//! machine, where both tasks have the same wall clock; otherwise the middle of the interval is.

use std::collections::HashMap;

use paceline_observe::trace::GradientEvent;

use super::task_trace::TaskTrace;

/// How a task's clock differs from the first task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockOffset {
    /// How far the clock is ahead.
    pub(super) ahead_ns: i64,
    /// The greatest possible error of `ahead_ns`; `None` if it comes from the wall clocks alone.
    pub(super) within_ns: Option<u64>,
}

/// How each task's clock differs from the first task's.
pub(super) fn align(traces: &[TaskTrace]) -> Vec<ClockOffset> {
    let marks: Vec<_> = traces.iter().map(MarkTimes::of).collect();
    let mut found: Vec<Option<ClockOffset>> = vec![None; traces.len()];
    if let Some(first) = found.first_mut() {
        *first = Some(ClockOffset { ahead_ns: 0, within_ns: Some(0) });
    }
    // Breadth first from the first task along the exchanges: the shortest way is the most exact.
    let mut open: Vec<usize> = (0..found.len().min(1)).collect();
    while let Some(known) = open.first().copied() {
        open.remove(0);
        let Some(base) = found[known] else { continue };
        for other in 0..traces.len() {
            if found[other].is_some() {
                continue;
            }
            let bounds = Bounds::between(&marks[known], &marks[other]);
            if bounds.most.is_none() && bounds.least.is_none() {
                continue;
            }
            let more = bounds.offset(ahead_by_wall(&traces[known], &traces[other]));
            found[other] = Some(ClockOffset {
                ahead_ns: base.ahead_ns.saturating_add(more.ahead_ns),
                within_ns: base.within_ns.zip(more.within_ns).map(|(a, b)| a.saturating_add(b)),
            });
            open.push(other);
        }
    }
    let by_wall = |other: usize| ClockOffset {
        ahead_ns: ahead_by_wall(&traces[0], &traces[other]),
        within_ns: None,
    };
    found.iter().enumerate().map(|(at, one)| one.unwrap_or_else(|| by_wall(at))).collect()
}

/// How far the second task's clock is ahead if the wall clocks agree.
fn ahead_by_wall(one: &TaskTrace, other: &TaskTrace) -> i64 {
    one.base_unix_ns as i64 - other.base_unix_ns as i64
}

/// When each event of a gradient happened, by event, peer and step.
struct MarkTimes<'a> {
    task: &'a str,
    times: HashMap<(GradientEvent, &'a str, u64), i64>,
}

impl<'a> MarkTimes<'a> {
    fn of(trace: &'a TaskTrace) -> Self {
        let mut times = HashMap::new();
        for mark in trace.threads.iter().flat_map(|thread| &thread.marks) {
            let peer = trace.peers[mark.peer as usize].as_str();
            times.entry((mark.what, peer, mark.step)).or_insert(mark.at_ns as i64);
        }
        Self { task: &trace.task, times }
    }
}

/// How far a clock can be ahead of another.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    most: Option<i64>,
    least: Option<i64>,
}

impl Bounds {
    /// How far the other task's clock can be ahead, by all messages between the two.
    fn between(one: &MarkTimes<'_>, other: &MarkTimes<'_>) -> Self {
        let mut bounds = Self::default();
        for (&(event, peer, step), &at) in &one.times {
            if peer != other.task {
                continue;
            }
            let there = |event| other.times.get(&(event, one.task, step)).copied();
            match event {
                GradientEvent::Sent => bounds.limit_above(at, there(GradientEvent::Arrived)),
                GradientEvent::Answered => bounds.limit_above(at, there(GradientEvent::Got)),
                GradientEvent::Arrived => bounds.limit_below(there(GradientEvent::Sent), at),
                GradientEvent::Got => bounds.limit_below(there(GradientEvent::Answered), at),
                GradientEvent::Applied => {}
            }
        }
        bounds
    }

    /// A message left here and arrived there.
    fn limit_above(&mut self, left_here: i64, arrived_there: Option<i64>) {
        let Some(ahead) = arrived_there.map(|there| there - left_here) else { return };
        self.most = Some(self.most.map_or(ahead, |most| most.min(ahead)));
    }

    /// A message left there and arrived here.
    fn limit_below(&mut self, left_there: Option<i64>, arrived_here: i64) {
        let Some(ahead) = left_there.map(|there| there - arrived_here) else { return };
        self.least = Some(self.least.map_or(ahead, |least| least.max(ahead)));
    }

    /// The best offset within the bounds, given the one by the wall clocks.
    fn offset(self, by_wall_ns: i64) -> ClockOffset {
        match (self.least, self.most) {
            (Some(least), Some(most)) => {
                let middle = least + (most - least) / 2;
                let is_plausible = (least..=most).contains(&by_wall_ns);
                let ahead_ns = if is_plausible { by_wall_ns } else { middle };
                ClockOffset { ahead_ns, within_ns: Some((most - least).unsigned_abs()) }
            }
            (least, most) => {
                let low = least.unwrap_or(i64::MIN);
                let ahead_ns = by_wall_ns.clamp(low, most.unwrap_or(i64::MAX).max(low));
                ClockOffset { ahead_ns, within_ns: None }
            }
        }
    }
}
