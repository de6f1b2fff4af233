//! `paceline worker --join`: a worker that joins a run which is under way.
//!
//! It knows the address of a server, or the directory of a run on this machine, and nothing else.
//! Any server tells it what the run is; server 0 then gives it a name and, as soon as one is free,
//! a slot.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use paceline_engine::checkpoint::PlanOrigin;
use paceline_engine::{
    EnrolledWorker, Mode, NoteLevel, TaskContext, TaskPlace, TrainingTask, WorkerEntry, run_worker,
};
use paceline_exchange::{CONTROL_BYTES, MAX_WORKERS};
use paceline_net::{Credentials, LinkError, request_join_info};
use paceline_place::{Cluster, Role, Task, read_token, split_address};
use paceline_record::RunDir;
use paceline_record::names::files::{self, JOIN};
use paceline_trust::{TlsIdentity, is_own, is_private, read_credential};
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::credentials::{join_identity, run_keys};
use crate::data_display::DataDisplay;
use crate::end_limit::TaskActivity;
use crate::interrupt::Interrupt;
use crate::join_paths::confirm_paths;
use crate::load_data::load_data;
use crate::progress::{Progress, write_line};
use crate::stop_source::StopSource;
use crate::task_context::{ProgramContext, TaskIdentity};
use crate::test_hooks;
use crate::workload::build_workload;
use paceline_job::{Plan, RawJob};

/// How long a server may take to say what the run is.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer file is not read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a server tells a process that joins.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct JoinInfo {
    /// The resolved job.
    job: String,
    /// What else the run's tasks agree on.
    #[serde(default)]
    terms: Vec<String>,
    /// Slots of the batch plan.
    slots: usize,
    /// The servers' addresses, by index.
    servers: Vec<String>,
    /// Where the batch plan starts to count.
    origin: PlanOrigin,
    /// The run directory on the server's machine.
    run: PathBuf,
}

impl JoinInfo {
    /// What processes that join this run must know.
    pub(crate) fn new(
        job: &RawJob,
        place: &TaskPlace,
        terms: Vec<String>,
        origin: PlanOrigin,
        run: &RunDir,
    ) -> Self {
        Self {
            job: job.explain(),
            terms,
            slots: place.slots,
            servers: place.servers.clone(),
            origin,
            run: std::path::absolute(run.path()).unwrap_or_else(|_| run.path().to_owned()),
        }
    }

    /// The information as it travels; empty if it is too long.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        if bytes.len() <= CONTROL_BYTES { bytes } else { Vec::new() }
    }

    /// The cluster as the joining process sees it: the servers and itself.
    fn cluster(&self, index: usize) -> Cluster {
        let task = Task { role: Role::Worker, index };
        let server = |(index, at): (usize, &String)| (Task { role: Role::Ps, index }, at.clone());
        let mut addresses: BTreeMap<_, _> = self.servers.iter().enumerate().map(server).collect();
        addresses.insert(task, "127.0.0.1:0".into());
        Cluster { task, addresses, remarks: Vec::new() }
    }
}

/// The contents of the file that says how to join a local run.
#[derive(Debug, Deserialize, Serialize)]
struct JoinAddress {
    servers: Vec<String>,
    token: String,
    /// The folder with the certificate, if connections are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<PathBuf>,
}

/// The file that says how to join a local run. Only its owner may read it, and it is removed when
/// this is dropped.
pub(crate) struct JoinFile(PathBuf);

impl JoinFile {
    /// Writes the servers' addresses and the secret of a local run, and where the certificate is
    /// if the launcher has made keys.
    pub(crate) fn create(
        run: &RunDir,
        servers: &[String],
        token: &str,
        has_keys: bool,
    ) -> Result<Self, Failure> {
        let keys = has_keys.then(|| run_keys(run.path()));
        let keys = keys.map(|keys| std::path::absolute(&keys).unwrap_or(keys));
        let address = JoinAddress { servers: servers.to_vec(), token: token.to_owned(), keys };
        let bytes = serde_json::to_vec_pretty(&address).unwrap_or_default();
        run.write_secret(JOIN, &bytes)?;
        Ok(Self(run.path().join(JOIN)))
    }
}

impl Drop for JoinFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes the file that says how to join the run in this directory: its launcher was killed.
pub(crate) fn remove_join_file(run: &Path) {
    let _ = fs::remove_file(run.join(JOIN));
}

/// How to join, as the command line says.
#[derive(Clone, Debug)]
pub struct JoinOptions {
    /// The address of a server, or the directory of a run on this machine.
    pub target: String,
    /// The file with the run's secret.
    pub token_file: Option<PathBuf>,
    /// The certificate of this worker, if the run's connections are encrypted.
    pub tls: Option<JoinCertificate>,
    /// Where this process creates its folder.
    pub run_dir: Option<PathBuf>,
    /// The files and directories of this machine that the run may use.
    pub allowed: Vec<PathBuf>,
}

/// The files with a worker's certificate.
#[derive(Clone, Debug)]
pub struct JoinCertificate {
    /// The authority's certificate.
    pub ca: PathBuf,
    /// The worker's certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A server's address and the run's secret.
struct RunAccess {
    address: String,
    credentials: Credentials,
    /// The worker's name, if its certificate states one; server 0 gives it one otherwise.
    name: String,
    /// Both were in the run's directory.
    is_from_file: bool,
    /// They were, in a file of the user's own: the paths of the run need no confirmation.
    is_own_run: bool,
}

impl JoinOptions {
    /// The file names a server that does not answer: whatever wrote it was killed before it could
    /// remove it.
    fn stale(&self, error: &LinkError) -> Failure {
        Failure::Usage(format!(
            "--join {}: its {JOIN} is left from a run that has ended: {error}",
            self.target
        ))
    }

    fn access(&self) -> Result<RunAccess, Failure> {
        let path = Path::new(&self.target);
        if !path.is_dir() {
            if split_address(&self.target).1.is_none() {
                return Err(Failure::Usage(format!(
                    "--join {}: this is neither the directory of a run nor an address such as \
                     host:2222",
                    self.target
                )));
            }
            let token = self.token_file.as_deref().map(|path| read_token("--token-file", path));
            let token = token.transpose()?.unwrap_or_default();
            let credentials = Credentials::with_token(token.as_bytes());
            let identity = self.tls.as_ref().map(JoinCertificate::read).transpose()?;
            return Ok(RunAccess {
                address: self.target.clone(),
                name: identity.as_ref().and_then(own_name).unwrap_or_default(),
                credentials: with_identity(credentials, identity),
                is_from_file: false,
                is_own_run: false,
            });
        }
        let path = path.join(JOIN);
        let wrong = |why: String| {
            Failure::Usage(format!(
                "--join {}: {why}; a local run has {JOIN} in its directory while it trains",
                self.target
            ))
        };
        let read = read_credential(&path, MAX_FILE_BYTES);
        let (text, about) = read.map_err(|error| wrong(error.to_string()))?;
        if !is_private(&about) {
            return Err(wrong(format!("others may read or change its {JOIN}")));
        }
        let found: JoinAddress =
            serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let identity = found.keys.as_deref().map(join_identity).transpose();
        let identity = identity.map_err(|error| wrong(error.to_string()))?;
        let credentials = Credentials::with_token(found.token.as_bytes());
        let credentials = with_identity(credentials, identity);
        let (name, is_own_run) = (String::new(), is_own(&about));
        match found.servers.into_iter().next() {
            Some(address) => {
                Ok(RunAccess { address, credentials, name, is_from_file: true, is_own_run })
            }
            None => Err(wrong(format!("{JOIN} names no server"))),
        }
    }
}

impl JoinCertificate {
    fn read(&self) -> Result<TlsIdentity, Failure> {
        let read = TlsIdentity::read(&self.ca, &self.cert, &self.key);
        read.map_err(|error| Failure::Usage(format!("--ca, --cert and --key: {error}")))
    }
}

/// The worker that a certificate states.
fn own_name(identity: &TlsIdentity) -> Option<String> {
    identity.own_task("worker", MAX_WORKERS)
}

fn with_identity(credentials: Credentials, identity: Option<TlsIdentity>) -> Credentials {
    match identity {
        None => credentials,
        Some(identity) => credentials.with_tls(identity),
    }
}

/// Joins a run and fills slots of it until it is over or this process leaves.
pub fn join(options: &JoinOptions, interrupt: &Interrupt) -> Result<(), Failure> {
    let stop = StopSource { interrupt: interrupt.clone(), channel: None };
    let activity = TaskActivity::default();
    activity.enforce(stop.clone())?;
    let RunAccess { address, credentials, name, is_from_file, is_own_run } = options.access()?;
    activity.set_wait(Some(&format!("waiting for the server at {address}")));
    let info = request_join_info(&address, &credentials, REQUEST_TIMEOUT)
        .map_err(|error| if is_from_file { options.stale(&error) } else { error.into() })?;
    let wrong = |why: String| Failure::Usage(format!("the run at {address}: {why}"));
    let info: JoinInfo = serde_json::from_slice(&info).map_err(|error| wrong(error.to_string()))?;
    let job = RawJob::parse(&info.job, Path::new("the run's job.toml"))?;
    if !is_own_run {
        confirm_paths(&job, &options.allowed, &address)?;
    }
    let plan = job.check()?;
    if matches!(plan.cluster.mode, Mode::Single | Mode::Mirrored) || info.servers.is_empty() {
        return Err(wrong("it has no servers, so no worker can join it".into()));
    }
    let data = load_data(&job, &plan, &mut DataDisplay::new(false, &stop).without_decisions())?;
    let workload = build_workload(&plan, data);
    let settings = plan.settings(job.run_identity(&info.terms), test_hooks::from_env());
    let run = open_run_dir(options, &info, &job, &plan)?;
    let task = |place, context: Arc<dyn TaskContext>| TrainingTask {
        run_name: &plan.name,
        settings: &settings,
        workload: &workload,
        place,
        context,
        threads: plan.threads(1),
        test_threads: 1,
        checkpoints: None,
        from: None,
        origin: info.origin,
        started: Instant::now(),
    };
    let place = join_place(&info, name, credentials);
    let enrolling = task(
        &place,
        Arc::new(EnrollingContext {
            interrupt: interrupt.clone(),
            activity: activity.clone(),
            progress: Mutex::new(Progress::new(false)),
        }),
    );
    let with_signal = |error| Failure::from(error).with_signal(interrupt.signal());
    let enrolled = EnrolledWorker::enrol(&enrolling).map_err(with_signal)?;
    let name = enrolled.name();
    let index = name.rsplit_once(':').and_then(|(_, index)| index.parse().ok());
    let index = index.ok_or_else(|| wrong(format!("server 0 sent a bad name: {name:?}")))?;
    let context = named_context(&plan, &info.cluster(index), &run, stop, activity.clone())?;
    let place = TaskPlace { name: name.to_owned(), ..place.clone() };
    let task = task(&place, Arc::new(context.showing_waits(false)));
    run_worker(&task, WorkerEntry::Joined(Box::new(enrolled))).map(drop).map_err(with_signal)
}

/// The place of a process that may have no name yet.
fn join_place(info: &JoinInfo, name: String, credentials: Credentials) -> TaskPlace {
    let servers = info.servers.clone();
    TaskPlace { name, slots: info.slots, servers, credentials, ..TaskPlace::default() }
}

/// Where this process creates its folder: the directory the user names, the run's own if it is on
/// this machine, or a new one.
fn open_run_dir(
    options: &JoinOptions,
    info: &JoinInfo,
    job: &RawJob,
    plan: &Plan,
) -> Result<RunDir, Failure> {
    let is_same = |there: &RawJob| there.digest() == job.digest();
    let is_here =
        |run: &Path| RawJob::read(&run.join(files::JOB)).is_ok_and(|there| is_same(&there));
    Ok(RunDir::for_late_worker(&info.run, options.run_dir.as_deref(), &plan.name, is_here)?)
}

/// The context of a process that has just received its name.
fn named_context(
    plan: &Plan,
    cluster: &Cluster,
    run: &RunDir,
    stop: StopSource,
    activity: TaskActivity,
) -> Result<ProgramContext, Failure> {
    let identity = TaskIdentity { joined_later: true, ..TaskIdentity::of(cluster) };
    let run = RunDir::rejoin(run.path(), &identity.name)?;
    let context = ProgramContext::new(plan, identity, &run, stop, activity)?;
    let text = format!("has joined {}, with its folder in {}", plan.name, run.path().display());
    context.note(NoteLevel::Warning, &text);
    Ok(context)
}

/// The context of a process that is not enrolled yet: it has no name and no folder.
struct EnrollingContext {
    interrupt: Interrupt,
    activity: TaskActivity,
    progress: Mutex<Progress>,
}

impl TaskContext for EnrollingContext {
    fn note(&self, _level: NoteLevel, text: &str) {
        write_line(text);
    }

    fn waiting(&self, text: Option<&str>) {
        self.activity.set_wait(text);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).show_wait("", text);
    }

    fn stop_signal(&self) -> Option<i32> {
        self.interrupt.signal()
    }
}
