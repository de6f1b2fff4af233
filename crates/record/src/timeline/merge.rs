//! Merging the traces of all tasks of a run into one file.
//!
//! Each task writes its part into its own folder when it leaves the run; a server does so when the
//! coordinator asks for its report. So once the coordinator has all reports, all parts are in the
//! run directory, provided that all tasks share it. Missing tasks are named: their parts can be
//! copied into the run and merged later with `paceline trace merge`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use paceline_observe::trace::TraceWindow;

use super::chrome::AlignedTraces;
use super::task_trace::{TaskTrace, lost_of};
use crate::error::RunFileError;
use crate::names::{evaluator_folder, files, task_folder};
use crate::whole_file::write_whole;

/// Which tasks a merged timeline covers.
#[derive(Debug, PartialEq, Eq)]
pub struct MergeReport {
    /// The tasks whose traces are in the file.
    pub tasks: Vec<String>,
    /// The tasks whose traces are not in the run directory.
    pub missing: Vec<String>,
    /// Spans and marks that did not fit into their tracks.
    pub lost: u64,
}

/// Merges the traces of these tasks, the coordinator first, and of all evaluators into
/// [`files::TIMELINE`]. Writes nothing if no task has left a trace.
pub fn merge_traces(run: &Path, tasks: &[String]) -> Result<MergeReport, RunFileError> {
    let (mut traces, mut missing) = (Vec::new(), Vec::new());
    for task in tasks {
        match read_last(&run.join(task_folder(task)))? {
            Some(trace) => traces.push(trace),
            None => missing.push(task.clone()),
        }
    }
    for folder in evaluators(run) {
        traces.extend(read_last(&folder)?);
    }
    let timeline = AlignedTraces::new(traces);
    let report = MergeReport {
        tasks: timeline.traces.iter().map(|trace| trace.task.clone()).collect(),
        lost: lost_of(timeline.traces.iter().flat_map(|trace| &trace.threads)),
        missing,
    };
    if !report.tasks.is_empty() {
        write_whole(&run.join(files::TIMELINE), |temporary| {
            let mut out = BufWriter::new(fs::File::create(temporary)?);
            timeline.write(&mut out, &report.missing)?;
            out.flush()
        })?;
    }
    Ok(report)
}

fn read_last(folder: &Path) -> Result<Option<TaskTrace>, RunFileError> {
    TaskTrace::read_last(folder)
        .map_err(RunFileError::at("read the part of the timeline in", folder))
}

/// The folders of evaluators. Evaluators are in no list of tasks, and the trace of one that left
/// none is not missing.
fn evaluators(run: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = |index: u32| run.join(evaluator_folder(index));
    (0..).map(folder).take_while(|folder| folder.is_dir())
}

impl MergeReport {
    /// What the user should know about the file, a line each.
    pub fn warnings(&self, run: &Path) -> Vec<String> {
        let name = files::TIMELINE;
        let mut warnings = Vec::new();
        if !self.missing.is_empty() {
            warnings.push(format!(
                "{name} has nothing of {}: if they recorded on other machines, copy their \
                 {} into this run and run `paceline trace merge {}`",
                self.missing.join(", "),
                files::TASK_TRACE,
                run.display()
            ));
        }
        if self.lost > 0 {
            warnings.push(format!("{name}: {} spans did not fit and are missing", self.lost));
        }
        warnings
    }
}

/// Merges the timeline at the end of a run whose job asks for one, and returns warnings for the
/// user. `has_trace` says whether the coordinator has recorded anything. A failure is a warning
/// too: it costs the timeline, not the run.
pub fn finish_timeline(
    run: &Path,
    window: TraceWindow,
    has_trace: bool,
    tasks: &[String],
) -> Vec<String> {
    let name = files::TIMELINE;
    if !has_trace {
        return vec![format!(
            "there is no {name}: the run ended before step {}, where observe.trace begins",
            window.from
        )];
    }
    match merge_traces(run, tasks) {
        Ok(report) => report.warnings(run),
        Err(error) => vec![format!("there is no {name}: {error}")],
    }
}
