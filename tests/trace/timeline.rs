//! A strict reader of `trace.json`.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use serde_json::Value;

use crate::support::RunFolder;

/// A slice of a thread. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct TimelineSlice {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) name: String,
    pub(crate) args: Value,
}

/// One end of an arrow.
#[derive(Debug)]
pub(crate) struct ArrowEnd {
    /// `s`, `t` or `f`: the start, a step or the finish of the arrow.
    pub(crate) phase: String,
    pub(crate) task: String,
    /// The innermost slice at this time.
    pub(crate) operation: String,
    pub(crate) at: i64,
}

/// A process and a thread of it, as the file numbers them.
type ThreadKey = (u64, u64);

/// A timeline that has been checked.
pub(crate) struct ParsedTimeline {
    tasks: BTreeMap<u64, String>,
    threads: BTreeMap<ThreadKey, String>,
    pub(crate) slices: BTreeMap<ThreadKey, Vec<TimelineSlice>>,
    /// The number of points of each counter, by task and name.
    pub(crate) counters: HashMap<(String, String), usize>,
    /// The ends of each arrow, by the arrow's id.
    pub(crate) arrows: BTreeMap<u64, Vec<ArrowEnd>>,
    pub(crate) other: Value,
}

impl ParsedTimeline {
    /// Reads the timeline of a run. Panics at an unknown event, at slices that overlap without one
    /// containing the other, and at arrows that do not start and end in slices.
    #[track_caller]
    pub(crate) fn read(run: &RunFolder) -> Self {
        let file = fs::read(run.file("trace.json")).unwrap();
        let file: Value = serde_json::from_slice(&file).unwrap();
        let mut timeline = Self {
            tasks: BTreeMap::new(),
            threads: BTreeMap::new(),
            slices: BTreeMap::new(),
            counters: HashMap::new(),
            arrows: BTreeMap::new(),
            other: file["otherData"].clone(),
        };
        let events = file["traceEvents"].as_array().unwrap();
        for event in events {
            timeline.add_event(event);
        }
        timeline.check_nesting();
        for event in events.iter().filter(|event| event["cat"] == "gradient") {
            timeline.add_arrow(event);
        }
        timeline
    }

    fn add_event(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let thread = thread_of(event);
        match event["ph"].as_str().unwrap() {
            "M" => match event["name"].as_str().unwrap() {
                "process_name" => {
                    let name = text(&event["args"]["name"]);
                    let task = name.split_once('@').unwrap().0.to_owned();
                    assert!(self.tasks.insert(thread.0, task).is_none(), "twice: {event}");
                }
                "thread_name" => {
                    let name = text(&event["args"]["name"]);
                    assert!(self.threads.insert(thread, name).is_none(), "twice: {event}");
                }
                name => assert!(name.ends_with("_sort_index"), "{event}"),
            },
            "X" => {
                assert!(self.threads.contains_key(&thread), "a thread without a name: {event}");
                let (start, length) = (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
                assert!(start >= 0 && length >= 0, "{event}");
                let (name, args) = (text(&event["name"]), event["args"].clone());
                let slice = TimelineSlice { start, end: start + length, name, args };
                self.slices.entry(thread).or_default().push(slice);
            }
            "C" => {
                assert!(event["args"].as_object().unwrap().values().all(Value::is_number));
                let key = (self.tasks[&thread.0].clone(), text(&event["name"]));
                *self.counters.entry(key).or_default() += 1;
            }
            "s" | "t" | "f" => {}
            _ => panic!("{event}"),
        }
    }

    fn check_nesting(&self) {
        for (thread, slices) in &self.slices {
            let mut open_ends: Vec<i64> = Vec::new();
            let mut last = 0;
            for TimelineSlice { start, end, name, .. } in slices {
                assert!(*start >= last, "{thread:?}: {name} is out of order");
                last = *start;
                while open_ends.last().is_some_and(|outer| outer <= start) {
                    open_ends.pop();
                }
                let is_inside = open_ends.last().is_none_or(|outer| end <= outer);
                assert!(is_inside, "{thread:?}: {name} at {start} ends after the slice around it");
                open_ends.push(*end);
            }
        }
    }

    fn add_arrow(&mut self, event: &Value) {
        let thread = thread_of(event);
        let at = nanoseconds(&event["ts"]);
        let around = self.slices[&thread].iter().filter(|s| s.start <= at && at <= s.end);
        let innermost = around.max_by_key(|slice| (slice.start, -slice.end));
        let operation = innermost.unwrap_or_else(|| panic!("in no slice: {event}")).name.clone();
        let phase = event["ph"].as_str().unwrap().to_owned();
        let end = ArrowEnd { phase, task: self.tasks[&thread.0].clone(), operation, at };
        self.arrows.entry(event["id"].as_u64().unwrap()).or_default().push(end);
    }

    /// The slices of a task's thread.
    #[track_caller]
    pub(crate) fn thread(&self, task: &str, thread: &str) -> &[TimelineSlice] {
        let found = self
            .threads
            .iter()
            .find(|((pid, _), name)| self.tasks[pid] == task && name.as_str() == thread);
        &self.slices[found.unwrap_or_else(|| panic!("no thread {thread} of {task}")).0]
    }

    /// The number of slices of each name on all threads of a task.
    pub(crate) fn counts(&self, task: &str) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for ((pid, _), slices) in &self.slices {
            for slice in slices.iter().filter(|_| self.tasks[pid] == task) {
                *counts.entry(slice.name.as_str()).or_default() += 1;
            }
        }
        counts
    }
}

fn thread_of(event: &Value) -> ThreadKey {
    (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap())
}

/// A time of the file, which is in microseconds.
fn nanoseconds(value: &Value) -> i64 {
    (value.as_f64().unwrap() * 1e3).round() as i64
}

/// The share of the time from the first slice to the last that slices cover.
pub(crate) fn coverage(slices: &[TimelineSlice]) -> f64 {
    let (first, last) = (slices[0].start, slices.iter().map(|slice| slice.end).max().unwrap());
    let (mut sum, mut end) = (0, first);
    for slice in slices {
        sum += (slice.end - end.max(slice.start)).max(0);
        end = end.max(slice.end);
    }
    sum as f64 / (last - first) as f64
}

/// The steps that slices belong to.
pub(crate) fn steps(slices: &[TimelineSlice]) -> Vec<u64> {
    let mut steps: Vec<_> =
        slices.iter().map(|slice| slice.args["step"].as_u64().unwrap()).collect();
    steps.dedup();
    steps
}
