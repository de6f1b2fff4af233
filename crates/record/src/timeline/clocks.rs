//! One clock for all parts.
//!
//! A gradient arrives after it was sent, and so does the answer to it. Each such pair of moments,
//! one by either task's clock, bounds how far the two clocks can differ: gradients from above,
//! answers from below. Over all round trips that were recorded the bounds leave a stretch that is
//! no longer than the quickest of them takes. Where the wall clocks of both machines agree with
//! it they are believed, as on one machine, where they are the same; else its middle is taken.

use std::collections::HashMap;

use paceline_observe::trace::GradientEvent;

use super::task_trace::TaskTrace;

/// How a part's clock differs from that of the first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// To be taken from the part's times, to have them by the first part's clock.
    pub offset_ns: i64,
    /// How far that may be wrong, by what was measured; none if nothing was, and the wall clocks
    /// had to do.
    pub within_ns: Option<u64>,
}

/// What is known of how far a clock is ahead of another.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    most: Option<i64>,
    least: Option<i64>,
}

/// How each part's clock differs from that of the first.
pub(super) fn align(parts: &[TaskTrace]) -> Vec<ClockOffset> {
    let moments: Vec<_> = parts.iter().map(moments).collect();
    let mut found: Vec<Option<ClockOffset>> = vec![None; parts.len()];
    if let Some(first) = found.first_mut() {
        *first = Some(ClockOffset { offset_ns: 0, within_ns: Some(0) });
    }
    // From the first part along the connections: whoever has spoken with somebody whose clock is
    // known. The nearest way is taken first, which is the most exact.
    let mut open: Vec<usize> = (0..found.len().min(1)).collect();
    while let Some(known) = open.first().copied() {
        open.remove(0);
        let Some(base) = found[known] else { continue };
        for other in 0..parts.len() {
            if found[other].is_some() {
                continue;
            }
            let bounds = bounds(&parts[known], &moments[known], &parts[other], &moments[other]);
            if bounds.most.is_none() && bounds.least.is_none() {
                continue;
            }
            let (ahead_ns, within_ns) = settle(by_wall(&parts[known], &parts[other]), bounds);
            found[other] = Some(ClockOffset {
                offset_ns: base.offset_ns + ahead_ns,
                within_ns: base.within_ns.zip(within_ns).map(|(base, more)| base + more),
            });
            open.push(other);
        }
    }
    let by_wall = |other: usize| ClockOffset {
        offset_ns: by_wall(&parts[0], &parts[other]),
        within_ns: None,
    };
    found.iter().enumerate().map(|(at, one)| one.unwrap_or_else(|| by_wall(at))).collect()
}

/// How far the second part's clock is ahead, if the wall clocks are right.
fn by_wall(one: &TaskTrace, other: &TaskTrace) -> i64 {
    one.base_unix_ns as i64 - other.base_unix_ns as i64
}

/// How far a clock is ahead, given what the wall clocks say, and how exact that is.
fn settle(by_wall_ns: i64, bounds: Bounds) -> (i64, Option<u64>) {
    match (bounds.least, bounds.most) {
        (Some(least), Some(most)) => {
            let middle = least + (most - least) / 2;
            let is_borne_out = (least..=most).contains(&by_wall_ns);
            let ahead = if is_borne_out { by_wall_ns } else { middle };
            (ahead, Some((most - least).unsigned_abs()))
        }
        (least, most) => {
            let low = least.unwrap_or(i64::MIN);
            (by_wall_ns.clamp(low, most.unwrap_or(i64::MAX).max(low)), None)
        }
    }
}

/// When what happened to whose gradient of which step.
type Moments<'a> = HashMap<(GradientEvent, &'a str, u64), i64>;

fn moments(part: &TaskTrace) -> Moments<'_> {
    let mut moments = Moments::new();
    for mark in part.threads.iter().flat_map(|thread| &thread.marks) {
        let peer = part.peers[mark.peer as usize].as_str();
        moments.entry((mark.what, peer, mark.step)).or_insert(mark.at_ns as i64);
    }
    moments
}

/// How far the other's clock can be ahead of one's.
fn bounds(one: &TaskTrace, ones: &Moments<'_>, other: &TaskTrace, others: &Moments<'_>) -> Bounds {
    let mut bounds = Bounds::default();
    for (&(what, peer, step), &at) in ones {
        if peer != other.task {
            continue;
        }
        let there = |what| others.get(&(what, one.task.as_str(), step)).copied();
        match what {
            GradientEvent::Sent => bounds.at_most(there(GradientEvent::Arrived), at),
            GradientEvent::Answered => bounds.at_most(there(GradientEvent::Got), at),
            GradientEvent::Arrived => bounds.at_least(there(GradientEvent::Sent), at),
            GradientEvent::Got => bounds.at_least(there(GradientEvent::Answered), at),
            GradientEvent::Applied => {}
        }
    }
    bounds
}

impl Bounds {
    /// Something left here at `here` and came there at `there`.
    fn at_most(&mut self, there: Option<i64>, here: i64) {
        let Some(ahead) = there.map(|there| there - here) else { return };
        self.most = Some(self.most.map_or(ahead, |most| most.min(ahead)));
    }

    /// Something left there at `there` and came here at `here`.
    fn at_least(&mut self, there: Option<i64>, here: i64) {
        let Some(ahead) = there.map(|there| there - here) else { return };
        self.least = Some(self.least.map_or(ahead, |least| least.max(ahead)));
    }
}
