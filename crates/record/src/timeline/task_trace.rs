//! What one task recorded, as a file in its folder.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use paceline_filemap::open_regular;
use paceline_observe::trace::{Op, TraceMark, TraceSpan, Track, time_base_unix_ns};
use paceline_observe::{COLUMNS, Sample, column};
use serde::{Deserialize, Serialize};

use crate::names::files;

/// The latest time in a trace, in nanoseconds: half of what fits, so that differences fit too.
const MAX_TIME_NS: u64 = i64::MAX as u64 / 2;
/// The format of the file.
const FORMAT: u32 = 1;
/// The most processes of one task that can write a part.
const MAX_FILES: u32 = 1_000;
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// What one task recorded, by its own clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskTrace {
    /// The version of the format: 1.
    pub format: u32,
    /// The task's name.
    pub task: String,
    /// The machine that it ran on.
    pub host: String,
    /// When its clock was 0, by the wall clock of its machine, in nanoseconds since 1970.
    pub base_unix_ns: u64,
    /// The tasks that its marks refer to.
    pub peers: Vec<String>,
    /// What its threads did.
    pub threads: Vec<ThreadTrace>,
    /// What it used while it recorded.
    pub counters: Vec<Counter>,
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTrace {
    /// Its name.
    pub name: String,
    /// The operations that spans refer to.
    pub ops: Vec<Op>,
    /// The number of spans and marks that did not fit.
    pub lost: u64,
    /// The spans in the order of their ends.
    pub spans: Vec<TraceSpan>,
    /// The marks in the order of time.
    pub marks: Vec<TraceMark>,
}

/// What a task used over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    /// The end of the interval by the task's clock; negative if it is before the clock's zero.
    pub at_ns: i64,
    /// Processor time, in percent of one core.
    pub cpu_percent: f64,
    /// Bytes received from other tasks.
    pub received_bytes_per_s: f64,
    /// Bytes sent to other tasks.
    pub sent_bytes_per_s: f64,
}

impl TaskTrace {
    /// The trace of a task with these tracks, and with those samples that overlap them.
    pub fn new(task: &str, peers: Vec<String>, tracks: &[&Track], samples: &[Sample]) -> Self {
        let base_unix_ns = time_base_unix_ns();
        let threads: Vec<_> = tracks
            .iter()
            .filter(|track| !track.is_empty())
            .map(|track| ThreadTrace {
                name: track.name.clone(),
                ops: track.ops.clone(),
                lost: track.lost(),
                spans: track.spans().to_vec(),
                marks: track.marks().to_vec(),
            })
            .collect();
        let counters = samples.iter().map(|sample| Counter::of(sample, base_unix_ns)).collect();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = host.trim().to_owned();
        let mut trace = Self {
            format: FORMAT,
            task: task.to_owned(),
            host,
            base_unix_ns,
            peers,
            threads,
            counters,
        };
        trace.drop_idle_counters();
        trace
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Keeps the counters of the time that the spans cover, and one on each side.
    fn drop_idle_counters(&mut self) {
        let spans = || self.threads.iter().flat_map(|thread| &thread.spans);
        let from = spans().map(|span| span.begun_ns as i64).min().unwrap_or(0);
        let to = spans().map(|span| span.ended_ns as i64).max().unwrap_or(0);
        let before = self.counters.iter().filter(|counter| counter.at_ns < from).count();
        let until = self.counters.iter().filter(|counter| counter.at_ns <= to).count();
        let kept = before.saturating_sub(1)..(until + 1).min(self.counters.len());
        self.counters = self.counters[kept].to_vec();
    }

    /// Writes the trace into a task's folder, beside those of earlier processes of the task.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        let path = paths(folder).find(|path| !path.exists());
        let Some(path) = path else { return Err(io::ErrorKind::AlreadyExists.into()) };
        let temporary = path.with_extension("tmp");
        fs::write(&temporary, bytes)?;
        fs::rename(temporary, path)
    }

    /// Reads the last trace in a task's folder, if there is one.
    pub fn read_last(folder: &Path) -> io::Result<Option<Self>> {
        match paths(folder).take_while(|path| path.exists()).last() {
            Some(path) => Self::read(&path).map(Some),
            None => Ok(None),
        }
    }

    fn read(path: &Path) -> io::Result<Self> {
        let wrong = |why: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
        };
        let mut text = Vec::new();
        open_regular(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
        let trace: Self =
            serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let is_sound = |thread: &ThreadTrace| {
            let ops = thread.spans.iter().all(|span| (span.op as usize) < thread.ops.len());
            let peers = thread.marks.iter().all(|mark| (mark.peer as usize) < trace.peers.len());
            let ends = thread.spans.iter().map(|span| span.ended_ns);
            let marks = thread.marks.iter().map(|mark| mark.at_ns);
            let times = thread.spans.iter().all(|span| span.begun_ns <= span.ended_ns);
            ops && peers && times && ends.chain(marks).all(|at| at <= MAX_TIME_NS)
        };
        if trace.base_unix_ns > MAX_TIME_NS {
            return Err(wrong("its clock is wrong".into()));
        }
        match trace.format {
            FORMAT if trace.threads.iter().all(is_sound) => Ok(trace),
            FORMAT => Err(wrong("a span or a mark is invalid".into())),
            format => Err(wrong(format!("format {format}, not {FORMAT}"))),
        }
    }
}

/// Spans and marks that did not fit into the tracks of these threads.
pub(super) fn lost_of<'a>(threads: impl IntoIterator<Item = &'a ThreadTrace>) -> u64 {
    threads.into_iter().fold(0, |lost, thread| lost.saturating_add(thread.lost))
}

impl Counter {
    fn of(sample: &Sample, base_unix_ns: u64) -> Self {
        let figure = |name: &str| {
            let column = COLUMNS.iter().position(|column| *column == name);
            column.map_or(0.0, |at| sample.figures[at])
        };
        Self {
            at_ns: (sample.time_s * 1e9) as i64 - base_unix_ns as i64,
            cpu_percent: figure(column::TASK_CPU_PERCENT),
            received_bytes_per_s: figure(column::TASK_RECEIVED_BYTES_PER_S),
            sent_bytes_per_s: figure(column::TASK_SENT_BYTES_PER_S),
        }
    }
}

/// The files that the processes of a task write into its folder, in their order.
fn paths(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = folder.to_owned();
    (1..=MAX_FILES).map(move |number| folder.join(files::task_trace(number)))
}
