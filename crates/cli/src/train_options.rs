//! What the command line adds to a job, and what a run leaves for it to show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_engine::checkpoint::{Checkpoint, CheckpointDir, ResumePoint};
use paceline_engine::{RunReport, StopReason, TrainingData};
use paceline_observe::Summary;
use paceline_record::RunDir;

use crate::Failure;
use crate::job::Plan;
use crate::progress::write_line;
use crate::watch::PageProcess;

/// What the command line adds to a job.
#[derive(Clone, Debug, Default)]
pub struct TrainOptions {
    /// The run directory; a new one under `runs/` if `None`.
    pub run_dir: Option<PathBuf>,
    /// The run to resume.
    pub resume: Option<PathBuf>,
    /// The step of the checkpoint to resume from; the newest if `None`.
    pub checkpoint: Option<u64>,
    /// Write nothing but errors to standard error.
    pub quiet: bool,
    /// The page that shows the run.
    pub watch: Option<Arc<PageProcess>>,
    /// In benches: tasks omit their accounting.
    pub bare: bool,
}

impl TrainOptions {
    /// The checkpoint to resume from. Newer ones that are passed over are reported even if quiet.
    pub(crate) fn checkpoint(&self) -> Result<Option<Checkpoint>, Failure> {
        let Some(run) = &self.resume else { return Ok(None) };
        let dir = CheckpointDir::of(run);
        let Some(step) = self.checkpoint else { return Ok(Some(dir.newest(&mut write_line)?)) };
        let wrong = |why| Failure::Usage(format!("the checkpoint of step {step}: {why}"));
        dir.verify(step).map(Some).map_err(wrong)
    }

    /// The directory of the run that this process leads: a new one, or that of the run to resume.
    pub(crate) fn open_run(
        &self,
        name: &str,
        from: Option<&Checkpoint>,
    ) -> Result<RunDir, Failure> {
        let run = match (&self.resume, from) {
            (Some(path), Some(from)) => {
                let run = RunDir::reopen(path)?;
                CheckpointDir::of(path).set_aside_after(from.manifest.info.step)?;
                run
            }
            _ => match &self.run_dir {
                Some(wanted) => RunDir::create(wanted)?,
                None => RunDir::create_in_runs(name)?,
            },
        };
        self.watch.iter().for_each(|watch| watch.begin(run.path()));
        Ok(run)
    }

    /// Writes a message for people, unless quiet.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            write_line(text);
        }
    }
}

/// A run that has ended cleanly.
#[derive(Debug)]
pub struct FinishedRun {
    /// The run directory.
    pub run: PathBuf,
    /// The run in numbers.
    pub summary: Summary,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

impl FinishedRun {
    /// The result of a run that this process led.
    pub(crate) fn new(run: &RunDir, report: RunReport) -> Self {
        let signal = report.reason.and_then(StopReason::signal);
        Self { run: run.path().to_owned(), summary: report.summary, signal }
    }
}

/// Refuses to resume a run that has ended.
pub(crate) fn check_unfinished(
    plan: &Plan,
    from: &ResumePoint,
    examples: usize,
) -> Result<(), Failure> {
    let (step, position) = (from.step(), from.position());
    let by_steps = plan.stop.steps.is_some_and(|steps| step >= steps);
    let end = |epochs: u64| epochs.saturating_mul(examples as u64);
    let by_epochs = plan.stop.epochs.is_some_and(|epochs| position >= end(epochs));
    if !by_steps && !by_epochs {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the run ended at step {step}, and there is nothing left to do; to train further, set a \
         later end with --set train.stop.steps=... or train.stop.epochs=..."
    )))
}

/// The line that says where a run resumes.
pub(crate) fn resume_line(step: u64) -> String {
    format!("resuming from the checkpoint of step {step}")
}

/// The line that says what a run trains.
pub(crate) fn announcement(plan: &Plan, data: &TrainingData, run: &Path) -> String {
    format!(
        "{}: {} on {} examples ({}), into {}",
        plan.name,
        plan.model.name(),
        data.train_len(),
        data.origin(),
        run.display()
    )
}
