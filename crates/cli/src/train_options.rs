//! What the command line adds to a job, and what a run leaves for it to show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_engine::checkpoint::{Checkpoint, CheckpointDir};
use paceline_engine::{RunReport, StopReason, TrainError, TrainingData};
use paceline_observe::Summary;
use paceline_place::{AgreedRun, PlaceFlags};
use paceline_record::names::{files, folders};
use paceline_record::{RunDir, read_summary};

use crate::Failure;
use crate::progress::write_line;
use crate::watch::PageProcess;
use paceline_job::Plan;
use paceline_terminal::counted;

/// Set for the servers that a worker runs as its children under a launcher that does not start lost
/// workers again: other workers then take their slots at once.
pub(crate) const NOT_RESTARTED_VARIABLE: &str = "PACELINE_NOT_RESTARTED";

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
    /// What the command line says of this process's place.
    pub place: PlaceFlags,
    /// The page that shows the run.
    pub watch: Option<Arc<PageProcess>>,
    /// In benches: tasks omit their accounting.
    pub bare: bool,
}

impl TrainOptions {
    /// These options, with the run as it was agreed on.
    pub(crate) fn starting(&self, run: &AgreedRun) -> Self {
        let dir = Some(run.dir.clone());
        match run.checkpoint {
            None => Self { run_dir: dir, resume: None, ..self.clone() },
            checkpoint => Self { run_dir: None, resume: dir, checkpoint, ..self.clone() },
        }
    }

    /// The run's directory, if it is known: a launcher has opened it for its tasks.
    pub(crate) fn known_dir(&self) -> Option<&Path> {
        self.resume.as_deref().or(self.run_dir.as_deref())
    }

    /// The checkpoint to resume from. Newer ones that are skipped are reported even if quiet.
    pub(crate) fn checkpoint(&self) -> Result<Option<Checkpoint>, Failure> {
        let Some(run) = &self.resume else { return Ok(None) };
        let dir = checkpoint_dir(run);
        Ok(Some(dir.choose(self.checkpoint, &mut write_line)?))
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
                run.begin_session()?;
                checkpoint_dir(path).set_aside_after(from.manifest.info.step)?;
                // An earlier session may have failed.
                let _ = std::fs::remove_file(path.join(files::FAILURE));
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

/// Where the checkpoints and generations of the run in this directory are.
pub(crate) fn checkpoint_dir(run: &Path) -> CheckpointDir {
    CheckpointDir::new(run.join(folders::CHECKPOINTS)).with_generations_in(run)
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
    /// Whether the final parameters were not tested.
    pub(crate) fn skipped_test(&self) -> bool {
        self.summary.test_loss.is_nan() || self.summary.test_step.is_some()
    }

    /// The result of a run that this process led.
    pub(crate) fn new(run: &RunDir, report: RunReport) -> Self {
        let signal = report.reason.and_then(StopReason::signal);
        Self { run: run.path().to_owned(), summary: report.summary, signal }
    }
}

/// Whether the run in this directory has ended by itself. One that was interrupted has not.
pub(crate) fn has_finished(run: &Path) -> bool {
    let summary = read_summary(&run.join(files::SUMMARY)).unwrap_or_default();
    let summary: Result<Summary, _> = serde_json::from_str(&summary);
    summary.is_ok_and(|summary| summary.stop_reason != "interrupted")
}

/// Records that a run has diverged, for the page. Other failures leave no trace in the directory
/// but the tasks' logs.
pub(crate) fn record_failure(run: &RunDir, error: &TrainError) {
    if let TrainError::Diverged(divergence) = error {
        let failure = serde_json::json!({ "kind": "diverged", "why": divergence.to_string() });
        // A page that cannot say why the run ended is no reason for another error.
        let _ = run.write(files::FAILURE, format!("{failure}\n").as_bytes());
    }
}

/// The line that says where a run resumes.
pub(crate) fn resume_line(step: u64) -> String {
    format!("resuming from the checkpoint of step {step}")
}

/// The line that says what a run trains.
pub(crate) fn announcement(plan: &Plan, data: &TrainingData, run: &Path) -> String {
    format!(
        "{}: {} on {} ({}), into {}",
        plan.name,
        plan.model.name(),
        counted(data.train_len() as u64, "example"),
        data.origin(),
        run.display()
    )
}
