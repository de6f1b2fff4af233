//! `paceline worker --join`: a worker that comes to a run which has begun.
//!
//! It knows the address of a server, or the directory of a run on this machine, and nothing else.
//! Any server tells it what the run is; server 0 then gives it a name and, as soon as there is one
//! to have, a slot.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline_exchange::{CONTROL_BYTES, MAX_TOKEN_BYTES, ProcessName};
use paceline_net::request_join_info;
use serde::{Deserialize, Serialize};

use super::attendants::Waiter;
use super::calling::read_token;
use super::crew::{self, process_id};
use super::part::Part;
use super::shared::Shared;
use super::{Cluster, Role, Task};
use crate::Failure;
use crate::build::{Room, build_model};
use crate::checkpoint::Origin;
use crate::interrupt::Interrupt;
use crate::job::{Mode, Plan, RawJob};
use crate::progress::write_line;
use crate::source::load_data;
use paceline_record::RunDir;
use paceline_record::TaskLog;
use paceline_record::names::files;

/// How long a server may take to tell what the run is.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
/// Where a local run tells how it can be joined.
const DOOR: &str = "join.json";
/// No such file is longer.
const MAX_DOOR_BYTES: u64 = 1 << 20;

/// What a newcomer is told of a run.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Terms {
    /// The job as it was resolved.
    pub(super) job: String,
    /// How many slots there are.
    pub(super) slots: usize,
    /// Where the servers are, by their index.
    pub(super) servers: Vec<String>,
    /// Where the plan begins to be counted.
    pub(super) origin: Origin,
    /// The run directory on the server's machine.
    pub(super) run: PathBuf,
}

impl Terms {
    /// As they are sent; empty if they are too long for that.
    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        if bytes.len() <= CONTROL_BYTES { bytes } else { Vec::new() }
    }
}

/// How a local run can be joined: written for its owner alone, for as long as it goes on.
#[derive(Debug, Deserialize, Serialize)]
struct Door {
    servers: Vec<String>,
    token: String,
}

/// A file that tells how a run can be joined, for as long as this lives.
pub(super) struct OpenDoor(PathBuf);

impl OpenDoor {
    /// Tells where the servers of a local run are, and its secret.
    pub(super) fn open(run: &RunDir, servers: &[String], token: &str) -> Result<Self, Failure> {
        let door = Door { servers: servers.to_vec(), token: token.to_owned() };
        let path = run.path().join(DOOR);
        let bytes = serde_json::to_vec_pretty(&door).unwrap_or_default();
        run.write_secret(DOOR, &bytes)?;
        Ok(Self(path))
    }
}

impl Drop for OpenDoor {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// How to join, as the command line tells it.
#[derive(Clone, Debug)]
pub struct Joining {
    /// The address of a server, or the directory of a run on this machine.
    pub whom: String,
    /// The file with the run's secret.
    pub token_file: Option<PathBuf>,
    /// The directory that this process's folder is made in.
    pub run_dir: Option<PathBuf>,
}

impl Joining {
    /// The address of a server and the secret.
    fn door(&self) -> Result<(String, Vec<u8>), Failure> {
        let path = Path::new(&self.whom);
        if !path.is_dir() {
            let token = self.token_file.as_deref().map(|path| read_token("--token-file", path));
            let token = token.transpose()?.unwrap_or_default();
            return Ok((self.whom.clone(), token.into_bytes()));
        }
        let path = path.join(DOOR);
        let wrong = |why: String| {
            Failure::Usage(format!(
                "--join {}: {why}; a local run that goes on has {DOOR} in its directory",
                self.whom
            ))
        };
        let about = fs::metadata(&path).map_err(|error| wrong(error.to_string()))?;
        if about.len() > MAX_DOOR_BYTES {
            return Err(wrong(format!("{DOOR} is longer than {MAX_DOOR_BYTES} bytes")));
        }
        let text = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let door: Door = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let token = door.token.into_bytes();
        match door.servers.into_iter().next().filter(|_| token.len() <= MAX_TOKEN_BYTES) {
            Some(server) => Ok((server, token)),
            None => Err(wrong(format!("{DOOR} names no server"))),
        }
    }
}

/// Joins a run and fills slots of it until it is over, or this process is to leave.
pub fn join(joining: &Joining, interrupt: &Interrupt) -> Result<(), Failure> {
    let (address, token) = joining.door()?;
    let terms = request_join_info(&address, &token, ASK_TIMEOUT)?;
    let wrong = |why: String| Failure::Usage(format!("the run at {address}: {why}"));
    let terms: Terms = serde_json::from_slice(&terms).map_err(|error| wrong(error.to_string()))?;
    let job = RawJob::parse(&terms.job, Path::new("the run's job.toml"))?;
    let plan = job.check()?;
    if matches!(plan.cluster.mode, Mode::Single | Mode::Mirrored) || terms.servers.is_empty() {
        return Err(wrong("it has no servers, so nobody can join it".into()));
    }
    let data = load_data(&job, &plan, &mut |text| write_line(text))?;
    let model = build_model(&plan, data.shape(), Room::LEAST)?;
    let mut part = Part {
        job: &job,
        plan: &plan,
        cluster: &cluster(&terms, 0),
        slots: terms.slots,
        home: None,
        token,
        run: &RunDir::for_late_worker(&terms.run, joining.run_dir.as_deref(), &plan.name, |run| {
            RawJob::read(&run.join(files::JOB)).is_ok_and(|there| there.digest() == job.digest())
        })?,
        data: &data,
        from: None,
        origin: terms.origin,
        is_quiet: true,
        came: Instant::now(),
    };
    let interrupted = || interrupt.signal();
    let id = process_id();
    let gives_up = || interrupted().is_some();
    let waiter = &mut Waiter { say: &write_line, gives_up: Some(&gives_up) };
    let nameless = ProcessName { id, name: String::new() };
    let roster = crew::enrol(&part, nameless, model.layout(), waiter)?;
    drop(model);
    let name = roster.name().to_owned();
    let index = name.rsplit_once(':').and_then(|(_, index)| index.parse().ok());
    let index = index.ok_or_else(|| wrong(format!("server 0 calls this process {name:?}")))?;
    let cluster = cluster(&terms, index);
    part.cluster = &cluster;
    let run = RunDir::rejoin(part.run.path(), &name)?;
    part.run = &run;
    let log = Arc::new(TaskLog::create(&run, cluster.task)?);
    log.warn(&format!("has joined {}, with its folder in {}", plan.name, run.path().display()));
    let shared = Shared::new(log, ProcessName { id, name }, &interrupted);
    crew::run(&part, roster, &shared, &gives_up).map(drop)
}

/// The cluster as the newcomer sees it: the servers and itself.
fn cluster(terms: &Terms, index: usize) -> Cluster {
    let task = Task { role: Role::Worker, index };
    let server = |(index, at): (usize, &String)| (Task { role: Role::Ps, index }, at.clone());
    let mut addresses: BTreeMap<_, _> = terms.servers.iter().enumerate().map(server).collect();
    addresses.insert(task, "127.0.0.1:0".into());
    Cluster { task, addresses, remarks: Vec::new() }
}

/// What newcomers are told of the run that this plan is for.
pub(super) fn terms(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    origin: Origin,
    run: &RunDir,
) -> Result<Terms, Failure> {
    Ok(Terms {
        job: job.explain(),
        slots: plan.cluster.slots(cluster.slots()),
        servers: cluster.servers()?,
        origin,
        run: std::path::absolute(run.path()).unwrap_or_else(|_| run.path().to_owned()),
    })
}
