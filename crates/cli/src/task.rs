//! One task of a run whose tasks know each other's addresses: a worker, a server or an evaluator.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use paceline_depot::DepotClient;
use paceline_engine::checkpoint::{Checkpoint, CheckpointDir, PlanOrigin, ResumePoint};
use paceline_engine::{
    EvaluatorTask, LossReport, Mode, ModelSizing, ModelSource, NoteLevel, OnWorkerLoss, ServerTask,
    TaskContext, TaskPlace, TrainSettings, TrainingTask, WorkerEntry, Workload, run_evaluator,
    run_server, run_worker,
};
use paceline_net::Credentials;
use paceline_place::{Cluster, Role, bind_named, inherited_listener, run_token};
use paceline_record::RunDir;
use paceline_record::names::files;

use crate::Failure;
use crate::checkpoint_copies::{self, RunCopier};
use crate::credentials::{NO_SECRET, credentials};
use crate::data_display::DataDisplay;
use crate::end_limit::TaskActivity;
use crate::join::JoinInfo;
use crate::load_data::{data_shape, load_data};
use crate::model_memory::table_limit;
use crate::progress::Progress;
use crate::run_files::{DepotPlace, wait_for_files};
use crate::start_file::open_start;
use crate::stop_source::StopSource;
use crate::task_context::{ProgramContext, TaskIdentity, warn_of_test_set};
use crate::test_hooks;
use crate::train_options::{
    FinishedRun, NOT_RESTARTED_VARIABLE, TrainOptions, announcement, checkpoint_dir, record_failure,
};
use crate::workload::{build_workload, model_source};
use paceline_job::{Plan, RawJob};

/// A task's place in its run, and what it brings along.
pub(crate) struct TaskStart {
    pub(crate) cluster: Cluster,
    /// The run's secret.
    pub(crate) token: Vec<u8>,
    /// The task's listening socket, if it is bound already.
    pub(crate) listener: Option<TcpListener>,
    pub(crate) activity: TaskActivity,
    /// Lost workers are not started again.
    pub(crate) is_not_restarted: bool,
    /// Receives the slots of lost workers in `mirrored`.
    pub(crate) losses: Option<LossReport>,
}

impl TaskStart {
    /// The start of a task that `TF_CONFIG` lists.
    pub(crate) fn listed(
        cluster: Cluster,
        plan: &Plan,
        stop: &StopSource,
    ) -> Result<Self, Failure> {
        let activity = TaskActivity::default();
        activity.enforce(stop.clone())?;
        // A launcher gives its tasks a secret of its own.
        let file = plan.cluster.token_file.as_deref().filter(|_| stop.channel.is_none());
        let token = run_token(file)?;
        if token.is_empty() && plan.cluster.tls.is_none() {
            return Err(Failure::Usage(NO_SECRET.into()));
        }
        let is_not_restarted = std::env::var_os(NOT_RESTARTED_VARIABLE).is_some();
        Ok(Self { cluster, token, listener: None, activity, is_not_restarted, losses: None })
    }

    /// What the task shows to others.
    fn credentials(
        &self,
        plan: &Plan,
        options: &TrainOptions,
        stop: &StopSource,
    ) -> Result<Credentials, Failure> {
        // A launcher that does not restart its tasks has launched only some of the run's.
        let is_local = stop.channel.is_some() && !self.is_not_restarted;
        let launched = options.known_dir().filter(|_| is_local);
        credentials(plan, &self.cluster.task.to_string(), launched, &self.token)
    }
}

/// Runs this process's task of the cluster. Only a coordinator that was not launched has a result.
pub(crate) fn run_task(
    job: &RawJob,
    plan: &Plan,
    start: TaskStart,
    options: &TrainOptions,
    stop: StopSource,
) -> Result<Option<FinishedRun>, Failure> {
    let credentials = &start.credentials(plan, options, &stop)?;
    let TaskStart { ref cluster, listener, activity, is_not_restarted, losses, .. } = start;
    // Of a run without servers, only substitutes of lost workers are launched by other workers.
    let is_substitute = is_not_restarted && stop.channel.is_some();
    activity.introduce(&cluster.task.to_string(), None);
    let depot = DepotPlace::of(plan, cluster, credentials)?;
    let depot = depot.as_ref();
    let depot_listener = depot.map_or(Ok(None), DepotPlace::listen)?;
    let client = depot.and_then(|depot| depot.client(&activity, &stop));
    let sender = depot.zip(client.as_ref());
    let checkpoint = find_checkpoint(plan, options, sender)?;
    let run = join_run_dir(job, plan, cluster, options, checkpoint.as_ref())?;
    let place = task_place(plan, cluster)?;
    let credentials = credentials.clone();
    let place = TaskPlace { credentials, is_not_restarted, is_substitute, losses, ..place };
    let settings = task_settings(job, plan, cluster, &place, options)?;
    let from = checkpoint.map(|from| ResumePoint::new(from, settings.step_layout(place.slots)));
    let checkpoints = match sender {
        Some((depot, client)) => depot.remote_dir(run.path(), client),
        None => checkpoint_dir(run.path()),
    };
    let task = ProgramTask {
        job,
        plan,
        cluster,
        options,
        settings: &settings,
        place: &place,
        run: &run,
        checkpoints: &checkpoints,
        from: from.as_ref(),
        listener,
    };
    let (is_launched, signals) = (stop.channel.is_some(), stop.clone());
    let context = ProgramContext::new(plan, TaskIdentity::of(cluster), &run, stop, activity)?;
    // A launched task's waits are those of its run, which the coordinator shows.
    let context = if is_launched { context } else { context.showing_waits(options.quiet) };
    let keep = |listener| depot.map(|at| at.keep(listener, &run, &checkpoints, context.log()));
    let kept = depot_listener.and_then(keep).transpose()?;
    let gather = |(depot, client): (&DepotPlace<'_>, _)| depot.gather(client, &run, context.log());
    let _gatherer = sender.map(gather).transpose()?;
    let copier = task.copier(&context)?;
    let finished = match cluster.task.role {
        Role::Ps => match task.serve(context) {
            // The launcher ended a server that no worker needs any more.
            Err(Failure::Unfinished { .. }) if is_launched && signals.signal().is_some() => {
                Ok(None)
            }
            served => served.map(|()| None),
        },
        Role::Evaluator => task.evaluate(context).map(|()| None),
        Role::Chief | Role::Worker => task.load_worker(context).and_then(|worker| {
            let task = task.training_task(&worker.workload, worker.context);
            let trained = run_worker(&task, WorkerEntry::Planned(worker.listener));
            let report = trained.inspect_err(|error| record_failure(&run, error))?;
            Ok(report.map(|report| FinishedRun::new(&run, report)).filter(|_| !is_launched))
        }),
    };
    // Other tasks may still deliver the last checkpoint.
    kept.iter().for_each(wait_for_files);
    copier.into_iter().for_each(|copier| copier.finish(&signals));
    finished
}

/// The checkpoint to resume from.
fn find_checkpoint(
    plan: &Plan,
    options: &TrainOptions,
    sender: Option<(&DepotPlace<'_>, &DepotClient)>,
) -> Result<Option<Checkpoint>, Failure> {
    if let Some((depot, client)) = sender {
        return depot.checkpoint(client, options);
    }
    let waits = plan.cluster.on_worker_loss == OnWorkerLoss::Wait;
    match options.checkpoint() {
        // A process that takes a lost worker's place may find newer checkpoints instead.
        Err(_) if waits && options.checkpoint.is_some() => {
            TrainOptions { checkpoint: None, ..options.clone() }.checkpoint()
        }
        found => found,
    }
}

/// The task's place in the run, as the engine takes it.
fn task_place(plan: &Plan, cluster: &Cluster) -> Result<TaskPlace, Failure> {
    let is_mirrored = plan.cluster.mode == Mode::Mirrored;
    if is_mirrored && matches!(cluster.task.role, Role::Ps | Role::Evaluator) {
        return Err(Failure::Usage(match cluster.task.role {
            Role::Ps => format!(
                "cluster.mode = \"mirrored\" has no servers, but TF_CONFIG makes this task {}",
                cluster.task
            ),
            _ => format!(
                "cluster.mode = \"mirrored\" has no servers that {} could ask",
                cluster.task
            ),
        }));
    }
    let servers = if is_mirrored { Vec::new() } else { cluster.servers()? };
    if servers.is_empty() && !is_mirrored {
        return Err(Failure::Usage(format!(
            "cluster.mode = \"{}\" needs a server, but TF_CONFIG lists no ps",
            plan.cluster.mode.name()
        )));
    }
    Ok(TaskPlace {
        name: cluster.task.to_string(),
        slot: cluster.slot(),
        index: cluster.task.index,
        slots: plan.cluster.slots(cluster.slots()),
        processes: (0..cluster.slots()).map(|slot| cluster.slot_name(slot)).collect(),
        servers,
        workers: if is_mirrored { cluster.workers()? } else { Vec::new() },
        ..TaskPlace::default()
    })
}

/// The settings of a task. Only those that hold parameters start from a model.
fn task_settings(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    place: &TaskPlace,
    options: &TrainOptions,
) -> Result<TrainSettings, Failure> {
    let identity = job.run_identity(&terms(cluster, place));
    let mut settings = plan.settings(identity, test_hooks::from_env());
    settings.table_memory = table_limit(settings.table_memory);
    place.refuse_servers(cluster.servers()?, &settings)?;
    let has_params = cluster.task.role == Role::Ps || plan.cluster.mode == Mode::Mirrored;
    if has_params && options.resume.is_none() {
        settings.start = open_start(job, plan, &|_| {})?;
    }
    Ok(settings)
}

/// What the tasks of a run must agree on besides the job: how many slots it has. A task that does
/// not know of all others cannot count them.
fn terms(cluster: &Cluster, place: &TaskPlace) -> Vec<String> {
    let counts = !cluster.has_sparse_map();
    counts.then(|| format!("the number of workers = {}", place.slots)).into_iter().collect()
}

/// A task of this program, with everything it is started with.
struct ProgramTask<'a> {
    job: &'a RawJob,
    plan: &'a Plan,
    cluster: &'a Cluster,
    options: &'a TrainOptions,
    settings: &'a TrainSettings,
    place: &'a TaskPlace,
    run: &'a RunDir,
    checkpoints: &'a CheckpointDir,
    from: Option<&'a ResumePoint>,
    /// The task's listening socket, if it is bound already.
    listener: Option<TcpListener>,
}

/// What a worker of this program trains with.
struct LoadedWorker {
    workload: Workload,
    context: ProgramContext,
    /// Where a worker of `mirrored` accepts the connections of the others.
    listener: Option<TcpListener>,
}

impl ProgramTask<'_> {
    /// Copies the run's checkpoints, if this task coordinates it and the job says so.
    fn copier(&self, context: &ProgramContext) -> Result<Option<RunCopier>, Failure> {
        if self.place.slot != Some(0) {
            return Ok(None);
        }
        checkpoint_copies::start(self.plan, self.run, context.log())
    }

    /// What processes that join this run must know.
    fn join_info(&self) -> JoinInfo {
        let terms = terms(self.cluster, self.place);
        JoinInfo::new(self.job, self.place, terms, self.origin(), self.run)
    }

    fn origin(&self) -> PlanOrigin {
        self.from.map_or(PlanOrigin::default(), ResumePoint::origin)
    }

    fn listen(&self, context: &ProgramContext) -> Result<TcpListener, Failure> {
        if let Some(bound) = &self.listener {
            let cannot = |source| Failure::Files { what: "cannot listen".into(), source };
            return bound.try_clone().map_err(cannot);
        }
        if let Some(inherited) = inherited_listener()? {
            return Ok(inherited);
        }
        let address = &self.cluster.addresses[&self.cluster.task];
        let mut note = |text: &str| context.note(NoteLevel::Info, text);
        Ok(bind_named(address, self.place.credentials.has_secret(), &mut note)?)
    }

    /// Holds a shard of the parameters until the coordinator ends the run.
    fn serve(&self, context: ProgramContext) -> Result<(), Failure> {
        let listener = self.listen(&context)?;
        let shape = data_shape(self.job, self.plan, &mut self.display(&context))?;
        let model = model_source(self.plan, shape);
        let layout = match &model {
            ModelSource::Dense { build, .. } => build(ModelSizing::LEAST)?.layout().clone(),
            ModelSource::Sparse(build) => build().layout().clone(),
        };
        let context = context.with_room_for(&layout);
        let join_info = self.join_info().encode();
        let task = ServerTask {
            settings: self.settings,
            model: &model,
            place: self.place,
            context: Arc::new(context),
            checkpoints: Some(self.checkpoints),
            from: self.from,
            join_info,
        };
        Ok(run_server(&task, &listener)?)
    }

    /// Tests the parameters until the run is over.
    fn evaluate(&self, context: ProgramContext) -> Result<(), Failure> {
        let data = load_data(self.job, self.plan, &mut self.display(&context))?;
        let workload = build_workload(self.plan, data);
        let context = context.with_room_for(&workload.layout()?);
        let (settings, place, context) = (self.settings, self.place, Arc::new(context));
        Ok(run_evaluator(&EvaluatorTask { settings, workload: &workload, place, context })?)
    }

    /// Shows how data is read. A launcher has read it before; of its tasks, only the coordinator
    /// shows what still takes long. Of tasks without a launcher, only the coordinator says what
    /// was decided about the data.
    fn display(&self, context: &ProgramContext) -> DataDisplay {
        let is_coordinator = self.place.slot == Some(0);
        let silent = self.options.quiet || (context.is_launched() && !is_coordinator);
        let display = DataDisplay::new(silent, context.stop_source()).for_task(&self.place.name);
        if context.is_launched() || !is_coordinator { display.without_decisions() } else { display }
    }

    /// What a worker trains with.
    fn load_worker(&self, context: ProgramContext) -> Result<LoadedWorker, Failure> {
        let data = load_data(self.job, self.plan, &mut self.display(&context))?;
        if let Some(from) = self.from.filter(|_| self.options.checkpoint.is_none()) {
            from.check_unfinished(self.plan.stop.planned_end(), data.train_len())?;
        }
        let workload = build_workload(self.plan, data);
        let context = self.introduce(context, &workload)?;
        let is_in_mesh = self.plan.cluster.mode == Mode::Mirrored && self.place.slots > 1;
        let listener = is_in_mesh.then(|| self.listen(&context)).transpose()?;
        Ok(LoadedWorker { workload, context, listener })
    }

    /// Makes the context of the coordinator the one that leads the run, and says what the run
    /// trains. That of another worker stays as it is.
    fn introduce(
        &self,
        context: ProgramContext,
        workload: &Workload,
    ) -> Result<ProgramContext, Failure> {
        let context = context.with_room_for(&workload.layout()?);
        if self.place.slot != Some(0) {
            return Ok(context);
        }
        let progress = Progress::new(self.options.quiet);
        let context = context.leading(progress, workload.small_model()?.graph(), &workload.data)?;
        context.say(&announcement(self.plan, &workload.data, self.run.path()));
        warn_of_test_set(&context, workload);
        Ok(context)
    }

    /// What a worker trains, as the engine takes it.
    fn training_task<'t>(
        &'t self,
        workload: &'t Workload,
        context: ProgramContext,
    ) -> TrainingTask<'t> {
        TrainingTask {
            run_name: &self.plan.name,
            settings: self.settings,
            workload,
            place: self.place,
            context: Arc::new(context),
            threads: self.plan.threads(self.cluster.workers_here()),
            test_threads: 1,
            checkpoints: Some(self.checkpoints),
            from: self.from,
            origin: self.origin(),
            started: Instant::now(),
        }
    }
}

/// The run directory of this task, with a new folder of the task's own in it. Tasks of one run may
/// share the directory, or have one on each machine.
fn join_run_dir(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    options: &TrainOptions,
    checkpoint: Option<&Checkpoint>,
) -> Result<RunDir, Failure> {
    // The launcher has already opened the run; without a launcher, the coordinator does.
    let is_led = options.checkpoint.is_some() || cluster.slot() != Some(0);
    if let Some(from) = checkpoint.filter(|_| !is_led) {
        let run = options.open_run(&plan.name, Some(from))?;
        run.write(files::JOB, job.explain().as_bytes())?;
    }
    let task = cluster.task.to_string();
    let run = match (&options.resume, &options.run_dir) {
        (Some(dir), _) => RunDir::rejoin(dir, &task)?,
        // A process that takes a lost task's place finds its folder there.
        (None, Some(dir)) if may_return(plan, cluster) => RunDir::rejoin(dir, &task)?,
        (None, Some(dir)) => RunDir::join(dir, &task)?,
        (None, None) => RunDir::create_in_runs(&plan.name)?.with_task(&task)?,
    };
    // With directories of their own, every task can be resumed from its own.
    if cluster.slot() == Some(0) || plan.cluster.files_port.is_some() {
        run.write_new(files::JOB, job.explain().as_bytes())?;
    }
    Ok(run)
}

/// Whether a process of this task may take the place of a lost one.
fn may_return(plan: &Plan, cluster: &Cluster) -> bool {
    match cluster.task.role {
        Role::Ps => plan.cluster.waits_for_servers,
        _ => plan.cluster.on_worker_loss == OnWorkerLoss::Wait,
    }
}
