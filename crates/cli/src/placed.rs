//! A process that a scheduler or launcher started together with others: it meets them, runs the
//! servers it has to run as its children, and takes its own part in the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use paceline_engine::{LossReport, Mode, OnWorkerLoss};
use paceline_place::{
    AgreedRun, CHANNEL_VARIABLE, Cluster, LaunchedRun, Meeting, MeetingHooks, MeetingSettings,
    PlaceFlags, Placement, RankedPlace, RoleSettings, RunId, Variables, run_token,
};
use paceline_record::RunDir;
use paceline_record::names::{files, folders};

use crate::Failure;
use crate::checkpoint_copies::restore_own;
use crate::credentials::tls_identity;
use crate::end_limit::TaskActivity;
use crate::launch::{LostSlots, TrainHooks, launch_settings, read_summary};
use crate::progress::Progress;
use crate::stop_source::StopSource;
use crate::task::{TaskStart, run_task};
use crate::train_options::{FinishedRun, TrainOptions, has_finished, resume_line};
use paceline_job::{EarlierRun, Plan, RawJob};

/// Where the command line and the environment place this process.
pub(crate) fn find_placement(flags: &PlaceFlags) -> Result<Placement, Failure> {
    // A launcher's task knows its place from the launcher alone.
    if std::env::var_os(CHANNEL_VARIABLE).is_some() {
        return Ok(Cluster::from_env()?.map_or(Placement::Local, Placement::Listed));
    }
    let parent = std::os::unix::process::parent_id();
    Ok(Placement::find(flags, &Variables::of_process(), parent)?)
}

/// How the roles of a run are divided among the processes of a launcher.
pub(crate) fn role_settings(plan: &Plan, place: &RankedPlace) -> RoleSettings {
    let servers = if plan.cluster.mode == Mode::Mirrored { 0 } else { plan.cluster.servers };
    let dedicated = plan.cluster.dedicated_servers || place.servers.is_some();
    RoleSettings { servers, dedicated: dedicated && servers > 0 }
}

/// One of several processes that were started together.
pub(crate) struct PlacedProcess<'a> {
    job: &'a RawJob,
    plan: &'a Plan,
    place: &'a RankedPlace,
    options: &'a TrainOptions,
}

impl<'a> PlacedProcess<'a> {
    /// The process at this place.
    pub(crate) fn new(
        job: &'a RawJob,
        plan: &'a Plan,
        place: &'a RankedPlace,
        options: &'a TrainOptions,
    ) -> Self {
        Self { job, plan, place, options }
    }

    /// Meets the other processes and takes part in the run. Only rank 0 has a result.
    pub(crate) fn run(&self, stop: StopSource) -> Result<Option<FinishedRun>, Failure> {
        let activity = TaskActivity::default();
        activity.enforce(stop.clone())?;
        activity.introduce(&format!("rank {}", self.place.rank), None);
        let token = run_token(self.plan.cluster.token_file.as_deref())?;
        let secret = String::from_utf8_lossy(&token).into_owned();
        let dir = self.wanted_dir();
        let roles = role_settings(self.plan, self.place);
        // The process that only holds the meeting has no task of its own.
        let rank = if self.place.part.joins() { self.place.rank } else { 0 };
        let task = roles.task_of(rank, self.place.size)?.to_string();
        let tls = tls_identity(self.plan, &task, None)?;
        let settings = MeetingSettings {
            place: self.place,
            roles,
            tls: tls.as_ref(),
            secret: Some(secret.as_str()).filter(|secret| !secret.is_empty()),
            dir: dir.as_deref(),
            run: None,
            version: env!("CARGO_PKG_VERSION"),
            job: &self.job.shared_keys(),
            timeout: self.plan.cluster.start_timeout,
        };
        let hooks = WaitingProcess {
            stop: stop.clone(),
            activity: activity.clone(),
            progress: Mutex::new(Progress::new(self.options.quiet)),
        };
        settings.check_alone(&hooks)?;
        let start = self.place.part.holds().then(|| self.decide_start()).transpose()?;
        let settings = MeetingSettings { run: start.as_ref(), ..settings };
        let Some(mut meeting) = settings.meet(&hooks)? else { return Ok(None) };
        drop(hooks);
        let missing = || Failure::Usage("rank 0 did not say where the run is".into());
        let start = meeting.run.take().ok_or_else(missing)?;
        if start.is_finished {
            let has_result = self.place.rank == 0;
            return has_result.then(|| show_finished(self.options, &start.dir)).transpose();
        }
        let took_part = self.take_part(meeting, &start, activity, stop.clone());
        match (took_part, stop.signal()) {
            (Ok(None), Some(signal)) => {
                let why = format!("; rank {} has left the run", self.place.rank);
                Err(Failure::Unfinished { signal, why })
            }
            // The others were asked to end too, and some have ended before this process.
            (Err(Failure::Lost(text)), Some(signal)) => {
                Err(Failure::Unfinished { signal, why: format!(": {text}") })
            }
            (took_part, _) => took_part,
        }
    }

    /// Runs this process's servers and its own task until the run is over.
    fn take_part(
        &self,
        mut meeting: Meeting,
        start: &AgreedRun,
        activity: TaskActivity,
        stop: StopSource,
    ) -> Result<Option<FinishedRun>, Failure> {
        let run = RunDir::prepare(&start.dir)?;
        let options = self.options.starting(start);
        let interrupt = stop.interrupt.clone();
        let hooks = TrainHooks {
            run: &run,
            options: &options,
            interrupt: &interrupt,
            from: start.checkpoint,
            has_servers: self.plan.cluster.mode != Mode::Mirrored,
            has_own_task_ended: AtomicBool::new(false),
            is_not_restarted: true,
            lost: self.replaces_workers().then(Arc::default),
        };
        let losses = hooks.lost.clone().map(report_to);
        let mut hosted = None;
        if !meeting.servers.is_empty() || losses.is_some() {
            // The children read the job there. Rank 0 has written it, if the directory is shared.
            run.write_new(files::JOB, self.job.explain().as_bytes())?;
            let settings = launch_settings(self.plan);
            hosted = Some(LaunchedRun::host(settings, &mut meeting, &hooks)?);
        }
        let Meeting { cluster, listener, token, .. } = meeting;
        let token = token.into_bytes();
        let is_not_restarted = true;
        let task = TaskStart { cluster, token, listener, activity, is_not_restarted, losses };
        thread::scope(|scope| {
            let hosted = hosted.map(|mut hosted| scope.spawn(move || hosted.wait()));
            let trained = run_task(self.job, self.plan, task, &options, stop);
            // Other workers may still need the servers, until the coordinator ends the run.
            let is_over = self.place.rank == 0 || trained.is_err();
            hooks.has_own_task_ended.store(is_over, Ordering::Relaxed);
            let served = hosted.map_or(Ok(Ok(())), |hosted| hosted.join());
            let failure = match served {
                Ok(Ok(())) => return trained,
                Ok(Err(error)) => Failure::from(error),
                Err(_) => Failure::Training("the thread that watches the servers failed".into()),
            };
            // A worker that loses a server which failed by itself only sees the consequence.
            match trained {
                Err(Failure::Lost(_)) => Err(failure),
                trained => trained,
            }
        })
    }

    /// Whether this process starts others in place of lost workers: the coordinator does, where
    /// workers hold the parameters.
    fn replaces_workers(&self) -> bool {
        let cluster = &self.plan.cluster;
        let waits = cluster.on_worker_loss == OnWorkerLoss::Wait;
        waits && cluster.mode == Mode::Mirrored && self.place.rank == 0
    }

    /// The run directory that the user names or that follows from the scheduler's identifier. Its
    /// tasks may find each other there.
    fn wanted_dir(&self) -> Option<PathBuf> {
        let named = self.options.resume.clone().or_else(|| self.options.run_dir.clone());
        let derived = || {
            let run = self.place.run_id.as_ref()?;
            Some(scheduled_dir(&self.plan.name, run))
        };
        named.or_else(derived)
    }

    /// Decides where the run is, and whether it begins or continues. Opens its directory.
    fn decide_start(&self) -> Result<AgreedRun, Failure> {
        if let Some(dir) = self.wanted_dir() {
            restore_own(self.job, self.plan, &dir, self.options)?;
        }
        let start = match (&self.options.resume, self.wanted_dir()) {
            (Some(dir), _) => {
                let checkpoint = self.options.checkpoint()?;
                let step = checkpoint.map(|checkpoint| checkpoint.manifest.info.step);
                AgreedRun { dir: dir.clone(), checkpoint: step, is_finished: false }
            }
            (None, Some(dir)) if self.options.run_dir.is_some() => {
                let found = EarlierRun::read(&dir, self.job, has_finished(&dir));
                let checkpoint = found.checkpoint.filter(|_| !found.is_over);
                AgreedRun { dir, checkpoint, is_finished: found.is_over && found.is_same }
            }
            (None, Some(dir)) => EarlierRun::own_or_free(&dir, self.job, has_finished),
            (None, None) => {
                let dir = RunDir::create_in_runs(&self.plan.name)?.path().to_owned();
                AgreedRun { dir, checkpoint: None, is_finished: false }
            }
        };
        if start.is_finished {
            return Ok(start);
        }
        if let Some(step) = start.checkpoint {
            let resume = Some(start.dir.clone());
            let options = TrainOptions { resume, checkpoint: Some(step), ..self.options.clone() };
            options.open_run(&self.plan.name, options.checkpoint()?.as_ref())?;
            self.options.say(&resume_line(step));
        }
        RunDir::prepare(&start.dir)?.write_new(files::JOB, self.job.explain().as_bytes())?;
        Ok(start)
    }
}

/// The run directory that follows from a scheduler's identifier.
fn scheduled_dir(name: &str, run: &RunId) -> PathBuf {
    Path::new(folders::RUNS).join(format!("{name}-{}", run.id))
}

/// Decides where the run of a scheduler's job with one task is, and whether it begins or continues,
/// unless the user says it.
pub(crate) fn start_of_one_task(
    job: &RawJob,
    plan: &Plan,
    options: &TrainOptions,
) -> Result<Option<AgreedRun>, Failure> {
    if options.resume.is_some() || options.run_dir.is_some() {
        return Ok(None);
    }
    let run = Placement::run_of_one_task(&options.place, &Variables::of_process())?;
    Ok(run.map(|run| {
        let dir = scheduled_dir(&plan.name, &run);
        // A job that was not started again may train the same twice.
        let is_again = run.restarts > 0;
        if is_again {
            EarlierRun::own_or_free(&dir, job, has_finished)
        } else {
            EarlierRun::free(&dir)
        }
    }))
}

/// The result of a run that was finished before.
pub(crate) fn show_finished(options: &TrainOptions, dir: &Path) -> Result<FinishedRun, Failure> {
    options.say(&format!(
        "the run in {} is finished and is not trained again; to train from the start, name \
         another directory with --run-dir",
        dir.display()
    ));
    let summary = read_summary(&RunDir::prepare(dir)?)?;
    Ok(FinishedRun { run: dir.to_owned(), summary, signal: None })
}

/// Adds the slots of lost workers to this list.
fn report_to(lost: LostSlots) -> LossReport {
    LossReport(Arc::new(move |slot| {
        lost.lock().unwrap_or_else(PoisonError::into_inner).insert(slot);
    }))
}

/// A process that has not met the others yet.
struct WaitingProcess {
    stop: StopSource,
    activity: TaskActivity,
    progress: Mutex<Progress>,
}

impl MeetingHooks for WaitingProcess {
    fn waiting(&self, text: Option<&str>) {
        self.activity.set_wait(text);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).show_wait("", text);
    }

    fn stop_signal(&self) -> Option<i32> {
        self.stop.signal()
    }
}
