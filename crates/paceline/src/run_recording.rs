//! Records a session into a run directory, as the program does.

use std::sync::{Arc, Mutex, PoisonError};

use paceline_engine::{
    FinalModel, Mode, NoteLevel, Session, SessionDescription, TaskContext, TrainError,
};
use paceline_observe::{BestTest, Recorder, ServerRecorder, Summary};
use paceline_record::{
    EventLog, EventLogConfig, LibraryJob, Notice, RunDescription, RunDir, RunFileError,
    ServerEventLog, ServerLogConfig, TaskLog, write_summary,
};

/// Records a session into a run directory.
pub trait RecordRun {
    /// Writes logs, TensorBoard events, resource samples, the model and the summary to `run`. A
    /// session has no job: `job.toml` describes the session instead.
    ///
    /// To continue a run from its checkpoints, record into [`RunDir::reopen`]. The results of the
    /// session before move into `sessions/` when training starts: a run that has reached its end
    /// keeps them.
    #[must_use]
    fn record(self, run: RunDir) -> Self;
}

impl RecordRun for Session {
    fn record(self, run: RunDir) -> Self {
        let has_begun = Mutex::new(false);
        self.contexts(move |task| {
            // Before any task starts, and only once the session's settings have been checked.
            let mut has_begun = has_begun.lock().unwrap_or_else(PoisonError::into_inner);
            if !*has_begun {
                run.begin_session().map_err(refused)?;
                *has_begun = true;
            }
            drop(has_begun);
            let mut graph = Vec::new();
            if task.name == "worker:0" {
                library_job(task.session).write(&run).map_err(refused)?;
                graph.clone_from(&task.session.graph);
            }
            let log = Arc::new(TaskLog::create(&run, task.name).map_err(refused)?);
            let (run, task, digest) = (run.clone(), task.name.to_owned(), Mutex::default());
            Ok(Arc::new(RunDirContext { run, task, log, graph, digest }))
        })
    }
}

/// What the run directory says of a session.
fn library_job(session: &SessionDescription) -> LibraryJob {
    LibraryJob {
        name: session.name.clone(),
        seed: session.seed,
        model: session.model.clone(),
        data: session.data.to_owned(),
        data_origin: session.data_origin.clone(),
        batch: session.batch,
        mode: session.mode.name().to_owned(),
        quorum: match session.mode {
            Mode::Sync { quorum } => quorum,
            _ => None,
        },
        workers: session.workers,
        servers: session.servers,
    }
}

/// The context of a task whose records go to a run directory.
struct RunDirContext {
    run: RunDir,
    task: String,
    log: Arc<TaskLog>,
    /// The model's operations; only worker 0 has them.
    graph: Vec<paceline_model::OpNode>,
    /// The SHA-256 of the model's file, once it is written.
    digest: Mutex<Option<String>>,
}

impl RunDirContext {
    /// Takes the warnings of event logs.
    fn notice(&self) -> Notice {
        let log = self.log.clone();
        Notice::new(move |text| log.warn(text))
    }
}

impl TaskContext for RunDirContext {
    fn note(&self, level: NoteLevel, text: &str) {
        match level {
            NoteLevel::Info => self.log.info(text),
            NoteLevel::Warning => self.log.warn(text),
        }
    }

    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        let description = RunDescription { graph: self.graph.clone(), hparams: Vec::new() };
        let config = EventLogConfig {
            description: (!self.graph.is_empty()).then_some(description),
            notice: self.notice(),
            ..EventLogConfig::new(&self.task)
        };
        let log = EventLog::create(&self.run.task(&self.task), config).map_err(refused)?;
        Ok(Box::new(log))
    }

    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        let config = ServerLogConfig { notice: self.notice(), ..ServerLogConfig::new(&self.task) };
        let log = ServerEventLog::create(&self.run.task(&self.task), config).map_err(refused)?;
        Ok(Box::new(log))
    }

    fn is_run_over(&self) -> bool {
        self.run.has_ended()
    }

    fn reopen_run(&self) -> Result<(), TrainError> {
        self.run.remove_summary().map_err(refused)
    }

    fn save_model(&self, model: FinalModel<'_>) -> Result<(), TrainError> {
        let mut file = self.run.model_writer(model.layout, model.step, None).map_err(refused)?;
        model.for_each_piece(&mut |piece| file.write(piece).map_err(refused))?;
        let digest = file.finish().map_err(refused)?;
        *self.digest.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Ok(())
    }

    fn save_best(&self, model: FinalModel<'_>, best: &BestTest) -> Result<(), TrainError> {
        let mut file =
            self.run.best_model_writer(model.layout, model.step, None).map_err(refused)?;
        model.for_each_piece(&mut |piece| file.write(piece).map_err(refused))?;
        file.finish().and_then(|_| self.run.write_best_test(best)).map_err(refused)
    }

    fn kept_best(&self) -> Result<Option<BestTest>, TrainError> {
        self.run.best_test().map_err(refused)
    }

    fn save_summary(&self, summary: &Summary, _has_timeline: bool) -> Result<(), TrainError> {
        let model_sha256 = self.digest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = Summary { model_sha256, ..summary.clone() };
        write_summary(&self.run, &kept).map_err(refused)
    }
}

fn refused(error: RunFileError) -> TrainError {
    match error {
        RunFileError::Refused(text) => TrainError::Settings(text),
        RunFileError::Io { what, source } => TrainError::Io { what, source },
    }
}
