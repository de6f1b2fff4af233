//! Records a session into a run directory, as the program does.

use std::sync::Arc;

use paceline_engine::{FinalModel, NoteLevel, Session, TaskContext, TrainError};
use paceline_observe::{Recorder, ServerRecorder, Summary};
use paceline_record::names::files;
use paceline_record::{
    EventLog, EventLogConfig, RunDescription, RunDir, RunFileError, ServerEventLog,
    ServerLogConfig, TaskLog, model_file, write_summary,
};

/// Records a session into a run directory.
pub trait RecordRun {
    /// Writes logs, TensorBoard events, resource samples, the model and the summary to `run`. There
    /// is no job file: a session has no job.
    #[must_use]
    fn record(self, run: RunDir) -> Self;
}

impl RecordRun for Session {
    fn record(self, run: RunDir) -> Self {
        let graph = self.graph().unwrap_or_default();
        remove_empty_job(&run);
        self.contexts(move |task| {
            let log = TaskLog::create(&run, task).map_err(refused)?;
            let graph = if task == "worker:0" { graph.clone() } else { Vec::new() };
            Ok(Arc::new(RunDirContext { run: run.clone(), task: task.to_owned(), log, graph }))
        })
    }
}

/// Removes the empty job file by which a new run claims its directory: it would read as the
/// built-in job.
fn remove_empty_job(run: &RunDir) {
    let path = run.path().join(files::JOB);
    if std::fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
        // What cannot be removed is harmless.
        let _ = std::fs::remove_file(path);
    }
}

/// The context of a task whose records go to a run directory.
struct RunDirContext {
    run: RunDir,
    task: String,
    log: TaskLog,
    /// The model's operations; only worker 0 has them.
    graph: Vec<paceline_model::OpNode>,
}

impl TaskContext for RunDirContext {
    fn note(&self, _level: NoteLevel, text: &str) {
        self.log.info(text);
    }

    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        let description = RunDescription { graph: self.graph.clone(), hparams: Vec::new() };
        let config = EventLogConfig {
            description: (!self.graph.is_empty()).then_some(description),
            ..EventLogConfig::new(&self.task)
        };
        let log = EventLog::create(&self.run.task(&self.task), config).map_err(refused)?;
        Ok(Box::new(log))
    }

    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        let sample = EventLogConfig::new(&self.task).sample;
        let config = ServerLogConfig { task: self.task.clone(), sample, workers: Vec::new() };
        let log = ServerEventLog::create(&self.run.task(&self.task), config).map_err(refused)?;
        Ok(Box::new(log))
    }

    fn save_model(&self, model: FinalModel<'_>) -> Result<(), TrainError> {
        let path = self.run.path().join(files::MODEL);
        let (layout, step) = (model.layout, model.step);
        model_file::save::<RunFileError>(&path, layout, step, |visit| {
            let mut failure = None;
            let visited = model.for_each_piece(&mut |piece| {
                visit(piece).map_err(|error| {
                    let text = error.to_string();
                    failure = Some(error);
                    TrainError::Training(text)
                })
            });
            match (visited, failure) {
                (Ok(()), _) => Ok(()),
                (Err(_), Some(error)) => Err(error),
                (Err(error), None) => Err(RunFileError::Refused(error.to_string())),
            }
        })
        .map_err(refused)
    }

    fn save_summary(&self, summary: &Summary, _has_timeline: bool) -> Result<(), TrainError> {
        write_summary(&self.run, summary).map_err(refused)
    }
}

fn refused(error: RunFileError) -> TrainError {
    match error {
        RunFileError::Refused(text) => TrainError::Settings(text),
        RunFileError::Io { what, source } => TrainError::Io { what, source },
    }
}
