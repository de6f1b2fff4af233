//! What surrounds a task of this program: its run directory, its log, its progress, and the signals
//! that ask it to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_engine::{
    FinalModel, LongWork, NoteLevel, TaskContext, TrainError, TrainingData, Workload,
};
use paceline_model::{Group, Layout, OpNode};
use paceline_observe::{BestTest, Recorder, ServerRecorder, Summary};
use paceline_place::Cluster;
use paceline_record::events::HParam;
use paceline_record::model_file::ModelWriter;
use paceline_record::timeline::finish_timeline;
use paceline_record::{
    EventLog, EventLogConfig, ModelDescription, Notice, RunDescription, RunDir, RunFileError,
    ServerEventLog, ServerLogConfig, TaskLog, write_summary,
};

use crate::Failure;
use crate::describe_model::describe_model;
use crate::end_limit::TaskActivity;
use crate::failure::{labelled, train_error};
use crate::metrics::{Metrics, MetricsTask};
use crate::progress::{Progress, write_line};
use crate::stop_source::StopSource;
use crate::task_recorders::{MetricsRecorder, ProgressRecorder, ServerRecorders};
use crate::train_options::has_finished;
use paceline_job::{Plan, keep_features};

/// Parameters that are written to the model's file at a time.
const WRITE_FLOATS: usize = 4 << 20;

/// A task's name and peers, for its recorders.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskIdentity {
    /// The task's name, such as `worker:0`.
    pub(crate) name: String,
    /// The task's number among the tasks of its host.
    pub(crate) number: usize,
    /// The tasks it exchanges gradients and parameters with, by number.
    pub(crate) peers: Vec<String>,
    /// The peers without this task.
    pub(crate) others: Vec<String>,
    /// Whether the task joined the run later: the port of its metrics may then be taken.
    pub(crate) joined_later: bool,
    /// The task that leads the run, if it is another one.
    pub(crate) coordinator: Option<String>,
}

impl TaskIdentity {
    /// The identity of this process's task in a cluster.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self {
            name: cluster.task.to_string(),
            number: cluster.number_on_host(),
            peers: cluster.peers(),
            others: cluster.others(),
            joined_later: false,
            coordinator: (cluster.slot() != Some(0)).then(|| cluster.slot_name(0)),
        }
    }
}

/// What surrounds a task of this program.
pub(crate) struct ProgramContext {
    plan: Plan,
    identity: TaskIdentity,
    run: RunDir,
    log: Arc<TaskLog>,
    progress: Arc<Mutex<Progress>>,
    stop: StopSource,
    activity: TaskActivity,
    description: Option<RunDescription>,
    model: Option<ModelDescription>,
    /// Bytes that the run's model and a checkpoint of it take.
    model_bytes: u64,
    /// The SHA-256 of the model's file, once it is written.
    model_digest: Mutex<Option<String>>,
}

impl ProgramContext {
    /// The context of a task with this identity in a run.
    pub(crate) fn new(
        plan: &Plan,
        identity: TaskIdentity,
        run: &RunDir,
        stop: StopSource,
        activity: TaskActivity,
    ) -> Result<Self, Failure> {
        let log = Arc::new(TaskLog::create(run, &identity.name)?);
        Ok(Self {
            plan: plan.clone(),
            identity,
            run: run.clone(),
            log,
            progress: Arc::new(Mutex::new(Progress::new(true))),
            stop,
            activity,
            description: None,
            model: None,
            model_bytes: 0,
            model_digest: Mutex::default(),
        })
    }

    /// The context of a task whose model has this layout: its records leave room on the disk for
    /// the model and a checkpoint.
    pub(crate) fn with_room_for(mut self, layout: &Layout) -> Self {
        let values = if self.plan.checkpoint.is_some() {
            2 + self.plan.optimizer.optimizer().state_names().len()
        } else {
            1
        };
        self.model_bytes = (layout.len() * values * size_of::<f32>()) as u64;
        self
    }

    /// Takes the warnings of event logs.
    fn notice(&self) -> Notice {
        let (log, is_alone) = (self.log.clone(), self.identity.peers.is_empty());
        Notice::new(move |text| warn(&log, is_alone, text))
    }

    /// The context of a task that no launcher started and that does not lead the run: it shows what
    /// it waits for.
    pub(crate) fn showing_waits(mut self, quiet: bool) -> Self {
        self.set_progress(Progress::new(quiet));
        self
    }

    fn set_progress(&mut self, progress: Progress) {
        self.activity.introduce(&self.shown_name(), progress.bar());
        self.progress = Arc::new(Mutex::new(progress));
    }

    /// The task's name, unless it is the only one of its run.
    fn shown_name(&self) -> String {
        let is_alone = self.identity.peers.is_empty();
        if is_alone { String::new() } else { self.identity.name.clone() }
    }

    /// The context of the task that leads the run, with the operations of its model: it shows
    /// progress and describes the run and the model.
    pub(crate) fn leading(
        mut self,
        progress: Progress,
        graph: Vec<OpNode>,
        data: &TrainingData,
    ) -> Result<Self, Failure> {
        let model = describe_model(&self.plan, data)?;
        keep_features(&self.run, &model.input.kind)?;
        self.model = Some(model);
        let progress = progress.with_log(self.log.clone());
        let hparams = hyperparameters(&self.plan);
        self.description = Some(RunDescription { graph, hparams });
        self.set_progress(progress);
        Ok(self)
    }

    /// The task's log.
    pub(crate) fn log(&self) -> Arc<TaskLog> {
        self.log.clone()
    }

    /// How the task learns that it must stop.
    pub(crate) fn stop_source(&self) -> &StopSource {
        &self.stop
    }

    /// Whether a launcher started the task.
    pub(crate) fn is_launched(&self) -> bool {
        self.stop.channel.is_some()
    }

    /// A message for people and for the log.
    pub(crate) fn say(&self, text: &str) {
        self.progress().say(text);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metrics(&self, peers: Vec<String>) -> Result<Option<Metrics>, Failure> {
        let TaskIdentity { name, number, joined_later, .. } = &self.identity;
        let task = MetricsTask { name, number: *number, peers };
        let metrics = match Metrics::start(&self.plan, task, &self.run.task(name)) {
            // The port of a task that joined later may belong to another.
            Err(failure) if *joined_later => {
                warn(&self.log, false, &format!("metrics are not served: {failure}"));
                None
            }
            started => started?,
        };
        if let Some(metrics) = &metrics {
            self.log.info(&format!("metrics at http://{}/metrics", metrics.address()));
        }
        Ok(metrics)
    }

    /// The event log; `None` if the disk is full, with a warning.
    fn event_log(&self) -> Result<Option<EventLog>, Failure> {
        let TaskIdentity { name, peers, others, .. } = self.identity.clone();
        let config = EventLogConfig {
            loss_every: self.plan.observe_every,
            sample: self.plan.observe_sample,
            // Other workers have the same parameters.
            histograms_every: self.description.as_ref().and(self.plan.observe_histograms),
            reserve_bytes: self.model_bytes,
            notice: self.notice(),
            traffic_peers: others,
            trace_peers: peers,
            description: self.description.clone(),
            ..EventLogConfig::new(&name)
        };
        match EventLog::create(&self.run.task(&name), config) {
            Err(error) if error.is_full() => {
                let text = format!("{error}; the task records no events and continues");
                warn(&self.log, self.identity.peers.is_empty(), &text);
                Ok(None)
            }
            created => Ok(Some(created?)),
        }
    }

    fn server_recorders(&self) -> Result<ServerRecorders, Failure> {
        let TaskIdentity { name, peers, .. } = self.identity.clone();
        let config = ServerLogConfig {
            sample: self.plan.observe_sample,
            workers: peers.clone(),
            reserve_bytes: self.model_bytes,
            notice: self.notice(),
            ..ServerLogConfig::new(&name)
        };
        let events = ServerEventLog::create(&self.run.task(&name), config)?;
        Ok(ServerRecorders::new(events, self.metrics(peers)?))
    }

    /// Writes a model's parameters, and shows how far that has come. Returns the file's digest.
    fn write_model(
        &self,
        model: FinalModel<'_>,
        mut file: ModelWriter,
    ) -> Result<String, TrainError> {
        let (mut done, total) = (0, 4 * model.layout.len() as u64);
        self.working(LongWork::SaveModel { done, total });
        model.for_each_piece(&mut |piece| {
            for part in piece.chunks(WRITE_FLOATS) {
                file.write(part).map_err(refused)?;
                done += 4 * part.len() as u64;
                self.working(LongWork::SaveModel { done: done.min(total - 1), total });
            }
            Ok(())
        })?;
        let finished = file.finish().map_err(refused);
        self.working(LongWork::SaveModel { done: total, total });
        finished
    }
}

fn refused(error: RunFileError) -> TrainError {
    train_error(error.into())
}

impl TaskContext for ProgramContext {
    fn note(&self, level: NoteLevel, text: &str) {
        match level {
            NoteLevel::Info => self.log.info(text),
            NoteLevel::Warning => warn(&self.log, self.identity.peers.is_empty(), text),
        }
    }

    fn waiting(&self, text: Option<&str>) {
        self.activity.set_wait(text);
        match text {
            Some(text) => self.log.info(text),
            None => self.activity.start(),
        }
        let name = format!("{}: ", self.identity.name);
        self.progress().show_wait(&name, text);
    }

    fn working(&self, work: LongWork) {
        self.activity.set_work(work);
        self.progress().show_work(work);
    }

    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        let boxed = |log| Box::new(log) as Box<dyn Recorder + Send>;
        let mut all = Vec::from_iter(self.event_log().map_err(train_error)?.map(boxed));
        if let Some(metrics) = self.metrics(self.identity.others.clone()).map_err(train_error)? {
            all.push(Box::new(MetricsRecorder::new(metrics)));
        }
        all.push(Box::new(ProgressRecorder::new(self.progress.clone())));
        Ok(Box::new(all))
    }

    fn server_recorder(&self) -> Result<Box<dyn ServerRecorder>, TrainError> {
        Ok(Box::new(self.server_recorders().map_err(train_error)?))
    }

    fn stop_signal(&self) -> Option<i32> {
        self.stop.signal()
    }

    fn is_run_ending(&self) -> bool {
        self.stop.is_run_ending()
    }

    fn should_leave(&self) -> bool {
        self.stop.should_leave()
    }

    fn is_run_over(&self) -> bool {
        // A run that was interrupted is started again.
        has_finished(self.run.path())
    }

    fn separate_run(&self) -> Option<String> {
        let coordinator = self.identity.coordinator.as_deref()?;
        let is_shared = self.plan.cluster.files_port.is_some();
        let path = self.run.path().display();
        (!is_shared && !self.run.task(coordinator).exists()).then(|| {
            format!(
                "{path} has no folder of {coordinator}: the tasks share no directory, so that no \
                 checkpoint would ever be complete; set cluster.files_port to send checkpoints to \
                 {coordinator}, or name a directory that all tasks share with --run-dir"
            )
        })
    }

    fn reopen_run(&self) -> Result<(), TrainError> {
        self.run.remove_summary().map_err(refused)
    }

    fn save_model(&self, model: FinalModel<'_>) -> Result<(), TrainError> {
        let file = self.run.model_writer(model.layout, model.step, self.model.as_ref());
        let digest = self.write_model(model, file.map_err(refused)?)?;
        *self.model_digest.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        Ok(())
    }

    fn save_best(&self, model: FinalModel<'_>, best: &BestTest) -> Result<(), TrainError> {
        let file = self.run.best_model_writer(model.layout, model.step, self.model.as_ref());
        self.write_model(model, file.map_err(refused)?)?;
        self.run.write_best_test(best).map_err(refused)
    }

    fn kept_best(&self) -> Result<Option<BestTest>, TrainError> {
        self.run.best_test().map_err(refused)
    }

    fn save_summary(&self, summary: &Summary, has_timeline: bool) -> Result<(), TrainError> {
        self.progress().finish();
        let model_sha256 = self.model_digest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let kept = Summary { model_sha256, ..summary.clone() };
        write_summary(&self.run, &kept).map_err(refused)?;
        if let Some(window) = self.plan.observe_trace {
            let tasks: Vec<_> = summary.tasks.iter().map(|task| task.task.clone()).collect();
            let warnings = finish_timeline(self.run.path(), window, has_timeline, &tasks);
            warnings.iter().for_each(|warning| write_line(&format!("warning: {warning}")));
        }
        Ok(())
    }
}

impl Drop for ProgramContext {
    /// Removes the progress bar, however the run ended.
    fn drop(&mut self) {
        self.progress().finish();
    }
}

/// Writes a warning to a task's log and to standard error. The only task of a run needs no name.
fn warn(log: &TaskLog, is_alone: bool, text: &str) {
    log.info(text);
    let source = if is_alone { "warning" } else { log.task() };
    write_line(&labelled(source, text));
}

/// Warns of a test set whose results mean little.
pub(crate) fn warn_of_test_set(context: &ProgramContext, workload: &Workload) {
    let warnings = workload.data.test_set_warnings();
    warnings.iter().for_each(|warning| context.note(NoteLevel::Warning, warning));
}

/// The hyper-parameters of a plan, for TensorBoard.
fn hyperparameters(plan: &Plan) -> Vec<HParam> {
    let optimizer = &plan.optimizer;
    let rate = optimizer.group(Group::Weights).rate.at(0);
    vec![
        HParam::new("model", plan.model.name()),
        HParam::new("data", plan.data.kind.name()),
        HParam::new("mode", plan.cluster.mode.name()),
        HParam::new("batch", plan.batch as i64),
        HParam::new("rate", f64::from(rate)),
        HParam::new("optimizer", optimizer.optimizer().name()),
        HParam::new("seed", plan.seed as i64),
    ]
}
