//! What a server does: hold a shard of the parameters until the run is over.

use std::ops::Range;
use std::sync::Arc;

use paceline_exchange::{
    CrewConfig, ModeConfig, OnLoss, PART_FLOATS, Resume, Server, ServerConfig, Store, shard_ranges,
};
use paceline_model::{Model, Optimizer, Table};
use paceline_net::{Ended, serve};
use paceline_observe::Pace;
use paceline_record::{ServerEventLog, ServerLogConfig};

use super::calling::{layout_digest, token};
use super::follow::Follow;
use super::join::terms;
use super::listen::listen;
use super::remote::overlaps;
use super::server_watch::Watch;
use super::{Cluster, Leash, Role};
use crate::Failure;
use crate::build::{Room, build_model};
use crate::checkpoint::{Keeper, Origin, Resumption, Shape, Shelf, Terms};
use crate::job::{Mode, OnWorkerLoss, Plan, RawJob};
use crate::metrics::Metrics;
use crate::source::data_shape;
use paceline_record::RunDir;
use paceline_record::TaskLog;

/// Serves a shard until the chief says that the run is over.
pub(super) fn run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    run: &RunDir,
    (shape, from): (Shape, Option<&Resumption>),
    leash: Option<&Leash>,
) -> Result<(), Failure> {
    if plan.cluster.mode == Mode::Mirrored {
        return Err(Failure::Usage(format!(
            "cluster.mode = \"mirrored\" has no servers, but TF_CONFIG makes this task {}",
            cluster.task
        )));
    }
    let task = cluster.task.to_string();
    let address = &cluster.addresses[&cluster.task];
    let token = token(plan)?;
    let listener = listen(address, !token.is_empty())?;
    let model = build_model(plan, data_shape(job, plan)?, Room::LEAST)?;
    let layout = model.layout();
    let servers = cluster.count(Role::Ps);
    let shard = shard_ranges(layout.len(), servers)[cluster.task.index].clone();
    let origin = from.map_or(Origin::default(), Resumption::origin);
    let (slots, processes) = (shape.slots, cluster.slots());
    let name = |slot: usize| match slot < processes {
        true => cluster.slot_name(slot),
        false => format!("slot {slot}"),
    };
    let config = ServerConfig {
        index: cluster.task.index,
        servers,
        workers: slots,
        names: (0..slots).map(name).collect(),
        mode: mode(plan, slots),
        stop_steps: plan.stop.steps,
        on_loss: match plan.cluster.on_worker_loss {
            // For as long as its place is kept nobody is lost.
            OnWorkerLoss::Fail | OnWorkerLoss::Wait => OnLoss::Fail,
            OnWorkerLoss::Continue => OnLoss::Continue,
        },
        rejoin_ms: match plan.cluster.on_worker_loss {
            OnWorkerLoss::Wait => plan.cluster.rejoin_timeout.as_millis() as u64,
            OnWorkerLoss::Fail | OnWorkerLoss::Continue => 0,
        },
        stall_ms: plan.cluster.stall_timeout.as_millis() as u64,
        token,
        job_digest: job.digest(),
        layout_digest: layout_digest(layout),
        shard: shard.clone(),
        total_params: layout.len(),
        part_floats: PART_FLOATS,
        crew: CrewConfig { processes, terms: terms(job, plan, cluster, origin, run)?.encode() },
    };
    config.check().map_err(|error| Failure::Usage(format!("cluster: {error}")))?;
    let dir = run.task(&task);
    let workers = config.names.clone();
    let about = ServerLogConfig {
        task: task.clone(),
        sample: plan.observe_sample,
        workers: workers.clone(),
    };
    let events = ServerEventLog::create(&dir, about)?;
    let log = Arc::new(TaskLog::create(run, cluster.task)?);
    let shelf = Shelf::of(run.path());
    let known = from.map(Resumption::checkpoint);
    let index = (cluster.task.index, servers);
    let (mut generation, mut base) = shelf.claim(index, known, &mut |text| log.warn(text))?;
    let name = task.replace(':', "-");
    let terms = Terms::new(run, (job, plan), layout, (shape, origin), index, &name);
    let keeper = terms.map(|terms| start_keeper(terms, log.clone())).transpose()?;
    let mut watch = Watch::new(task, log, events, plan, keeper);
    watch.leash = leash.cloned();
    let number = (watch.task.as_str(), cluster.number());
    watch.metrics = Metrics::start(plan, number, workers.clone(), &dir)?;
    if let Some(metrics) = &watch.metrics {
        watch.log.info(&format!("tells of itself at http://{}/metrics", metrics.address()));
    }
    watch.follow = Follow::new(plan, shard.len(), workers.clone());
    if cluster.task.index == 0 {
        watch.pace = Pace::new(slots);
        watch.workers = workers;
    }
    // Each round is one generation: a server that hears of a newer one goes back and begins again.
    loop {
        let base_here = base.map(|checkpoint| Resumption::new(checkpoint, shape));
        let store = match &base_here {
            None => build_store(plan, &*model, shard.clone()),
            Some(base) => base.store(plan, &*model, shard.clone())?,
        };
        let mut machine = Server::new(config.clone(), store);
        let begun_at = from.map_or(0, Resumption::step);
        if let Some(base) = &base_here {
            let mut resume = base.resume(&shard, machine.parts(), slots);
            // Where an earlier session stopped is not where this one does.
            resume.stop_at = base.stop_at().filter(|_| base.step() > begun_at);
            watch.carried = if from.is_none() { pushes(&resume) } else { 0 };
            machine.go_on(&resume);
        }
        machine.enter(generation);
        watch.enter(generation);
        let served = serve(&listener, &mut machine, &mut watch);
        if let Ok(Ended::GoBack(to)) = served {
            (generation, base) = (to, shelf.follow(index, to)?);
            continue;
        }
        let written = watch.write_staleness(machine.stats());
        if watch.is_unneeded(&machine) {
            return Ok(());
        }
        served.map_err(|error| Failure::Lost(error.to_string()))?;
        return written.map_err(Failure::recording);
    }
}

/// How many pushes of all slots are in what a server begins with.
fn pushes(resume: &Resume) -> u64 {
    let first = resume.parts.first().map_or(&[][..], |part| &part.slots);
    first.iter().map(|mark| mark.high).sum()
}

/// Who takes the shard's checkpoints; what becomes of them stands in the log.
pub(super) fn start_keeper(terms: Terms, log: Arc<TaskLog>) -> Result<Keeper, Failure> {
    let tell = move |written: Result<&str, &str>| match written {
        Ok(text) => log.info(text),
        Err(text) => log.warn(text),
    };
    Keeper::start(terms, Box::new(tell)).map_err(|source| Failure::Files {
        what: "cannot start the thread that writes checkpoints".into(),
        source,
    })
}

/// A shard of the model's parameters at their start.
fn build_store(plan: &Plan, model: &dyn Model, shard: Range<usize>) -> Store {
    let layout = model.layout();
    if plan.model.is_sparse() {
        return Store::sparse(Table::new(plan.optimizer, layout, shard));
    }
    let mut params = vec![0.0; layout.len()];
    model.initialise(plan.seed, &mut params);
    // A copy, so that what belongs to other servers is given back to the system.
    let params = params[shard.clone()].to_vec();
    Store::dense(params, Optimizer::new(plan.optimizer, layout, shard))
}

fn mode(plan: &Plan, workers: usize) -> ModeConfig {
    match plan.cluster.mode {
        Mode::Sync { quorum } => ModeConfig::Sync { quorum: quorum.unwrap_or(workers) },
        Mode::Bounded { staleness } => {
            // A worker that pulls ahead is a step further than its last answer tells.
            let ahead = u64::from(plan.model.is_sparse() && overlaps(plan.cluster.mode));
            ModeConfig::Bounded { staleness: staleness - ahead }
        }
        Mode::Single | Mode::Async | Mode::Mirrored => ModeConfig::Async,
    }
}
