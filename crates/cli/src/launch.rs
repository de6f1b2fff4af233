//! The launcher's side of `paceline train`: it starts the tasks of a run on this machine and shows
//! their result.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use paceline_engine::checkpoint::ResumeRequest;
use paceline_engine::{Mode, OnWorkerLoss, TestHooks};
use paceline_observe::Summary;
use paceline_place::{
    EmulatedHosts, LaunchHooks, LaunchSettings, LaunchedRun, Role, Task, read_token,
};
use paceline_record::RunDir;
use paceline_record::names::files;

use crate::Failure;
use crate::credentials::RunKeys;
use crate::data_display::DataDisplay;
use crate::interrupt::Interrupt;
use crate::join::JoinFile;
use crate::load_data::check_data;
use crate::progress::write_line;
use crate::start_file::open_start;
use crate::stop_source::StopSource;
use crate::test_hooks::BARE_VARIABLE;
use crate::train_options::{
    FinishedRun, NOT_RESTARTED_VARIABLE, TrainOptions, checkpoint_dir, resume_line,
};
use paceline_job::{Plan, RawJob};

/// Starts all tasks of the plan on this machine and waits for their end.
pub fn launch(
    job: &RawJob,
    plan: &Plan,
    options: &TrainOptions,
    interrupt: &Interrupt,
) -> Result<FinishedRun, Failure> {
    let secret_file = plan.cluster.token_file.as_deref();
    let secret = secret_file.map(|path| read_token("cluster.token_file", path)).transpose()?;
    // Bad data is better reported once, here, than by every task.
    let stop = StopSource { interrupt: interrupt.clone(), channel: None };
    let examples = check_data(job, plan, &mut DataDisplay::new(options.quiet, &stop))?;
    let checkpoint = options.checkpoint()?;
    if checkpoint.is_none() {
        open_start(job, plan, &|text| options.say(text))?;
    }
    if let Some(checkpoint) = &checkpoint {
        let slots = plan.cluster.slots(plan.cluster.workers);
        let steps = plan.settings(job.run_identity(&[]), TestHooks::default()).step_layout(slots);
        // The tasks check the model, which the launcher does not build.
        let request = ResumeRequest { steps, end: plan.stop.planned_end(), examples, model: None };
        request.resume_point(checkpoint.clone())?;
        options.say(&resume_line(checkpoint.manifest.global_step()));
    }
    // Created before the tasks, so that they are gone when the hosts go.
    let servers = plan.cluster.servers;
    let hosts = plan.cluster.emulate.map(|emulate| EmulatedHosts::create(emulate, servers));
    let hosts = hosts.transpose()?;
    let run = options.open_run(&plan.name, checkpoint.as_ref())?;
    run.write(files::JOB, job.explain().as_bytes())?;
    let keys = RunKeys::make(plan, run.path())?;
    let hooks = TrainHooks {
        run: &run,
        options,
        interrupt,
        from: checkpoint.map(|checkpoint| checkpoint.manifest.info.step),
        has_servers: plan.cluster.mode != Mode::Mirrored,
        has_own_task_ended: AtomicBool::new(false),
        is_not_restarted: false,
        lost: None,
    };
    let mut launched = LaunchedRun::start(launch_settings(plan), secret, hosts.as_ref(), &hooks)?;
    let servers = launched.servers();
    let token = launched.token();
    let has_keys = keys.is_some();
    let join_file = || JoinFile::create(&run, &servers, token, has_keys);
    let _join_file = (!servers.is_empty()).then(join_file).transpose()?;
    launched.wait()?;
    let summary = read_summary(&run)?;
    let signal = interrupt.signal().filter(|_| summary.stop_reason == "interrupted");
    Ok(FinishedRun { run: run.path().to_owned(), summary, signal })
}

pub(crate) fn launch_settings(plan: &Plan) -> LaunchSettings {
    let cluster = &plan.cluster;
    LaunchSettings {
        workers: cluster.workers,
        servers: (cluster.mode != Mode::Mirrored).then_some(cluster.servers),
        restarts: cluster.restarts,
        restarts_workers: cluster.on_worker_loss == OnWorkerLoss::Wait,
        restarts_servers: cluster.waits_for_servers,
        spares_workers: cluster.on_worker_loss == OnWorkerLoss::Continue,
        writes_checkpoints: plan.checkpoint.is_some(),
    }
}

pub(crate) fn read_summary(run: &RunDir) -> Result<Summary, Failure> {
    let path = run.path().join(files::SUMMARY);
    let text = std::fs::read(&path).map_err(Failure::at("read", &path))?;
    serde_json::from_slice(&text)
        .map_err(|error| Failure::Training(format!("{}: {error}", path.display())))
}

/// How the launcher starts a task of this program.
pub(crate) struct TrainHooks<'a> {
    pub(crate) run: &'a RunDir,
    pub(crate) options: &'a TrainOptions,
    pub(crate) interrupt: &'a Interrupt,
    /// The step of the checkpoint the run resumes from.
    pub(crate) from: Option<u64>,
    pub(crate) has_servers: bool,
    /// The process's own task of the run has ended.
    pub(crate) has_own_task_ended: AtomicBool,
    /// The launcher that started this process does not start lost workers again.
    pub(crate) is_not_restarted: bool,
    /// The slots of lost workers, if this process starts others in their place.
    pub(crate) lost: Option<LostSlots>,
}

/// The slots of workers that are lost.
pub(crate) type LostSlots = Arc<Mutex<BTreeSet<usize>>>;

impl TrainHooks<'_> {
    /// The checkpoint that a task resumes from. With servers, the one the run resumed from may be
    /// pruned by the time a task is started again, but a newer one says the same.
    fn resume_step(&self, is_restart: bool) -> Option<u64> {
        let from = self.from?;
        if !is_restart || !self.has_servers {
            return Some(from);
        }
        let dir = checkpoint_dir(self.run.path());
        let newest = dir.steps().into_iter().find(|&step| dir.is_complete(step));
        Some(newest.unwrap_or(from))
    }
}

impl LaunchHooks for TrainHooks<'_> {
    fn configure(&self, command: &mut Command, is_restart: bool) {
        let from = self.resume_step(is_restart);
        command
            .arg("train")
            .arg(self.run.path().join(files::JOB))
            .arg(if from.is_some() { "--resume" } else { "--run-dir" })
            .arg(self.run.path())
            .args(from.map(|step| format!("--checkpoint={step}")))
            .args(self.options.quiet.then_some("--quiet"));
        if self.options.bare {
            command.env(BARE_VARIABLE, "1");
        }
        if self.is_not_restarted {
            command.env(NOT_RESTARTED_VARIABLE, "1");
        }
    }

    fn has_ended(&self) -> bool {
        self.run.has_ended()
    }

    fn stop_signal(&self) -> Option<i32> {
        self.interrupt.signal()
    }

    fn note(&self, text: &str) {
        write_line(text);
    }

    fn has_own_task_ended(&self) -> bool {
        self.has_own_task_ended.load(Ordering::Relaxed)
    }

    fn replaces_others(&self) -> bool {
        self.lost.is_some()
    }

    fn lost_worker(&self) -> Option<Task> {
        let mut lost = self.lost.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        lost.pop_first().map(|index| Task { role: Role::Worker, index })
    }
}
