//! One task of a run: finds its place, does its part, and ends by itself.

use std::time::Instant;

use super::calling::token;
use super::part::Part;
use super::{Cluster, Leash, Role, evaluator, server};
use crate::Failure;
use crate::checkpoint::{Origin, Resumption, Shape};
use crate::interrupt::Interrupt;
use crate::job::{Mode, OnWorkerLoss, Plan, RawJob};
use crate::source::load_data;
use crate::train::{Finished, Options, check_unfinished};
use paceline_record::RunDir;
use paceline_record::names::files;

/// Runs this process's task of the cluster. The chief that was not launched has a result.
pub fn run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    options: &Options,
    interrupt: &Interrupt,
    leash: Option<&Leash>,
) -> Result<Option<Finished>, Failure> {
    // The launcher has chosen the checkpoint and made the run ready; without one, the chief does.
    let waits = plan.cluster.on_worker_loss == OnWorkerLoss::Wait;
    let checkpoint = match options.checkpoint() {
        // Who takes a lost worker's place may find newer ones in the stead of that one.
        Err(_) if waits && options.checkpoint.is_some() => {
            Options { checkpoint: None, ..options.clone() }.checkpoint()?
        }
        found => found?,
    };
    let is_led = options.checkpoint.is_some() || cluster.slot() != Some(0);
    let lead = match is_led {
        true => None,
        false => checkpoint.as_ref().map(|from| options.open_run(&plan.name, Some(from))),
    };
    let lead = lead.transpose()?;
    lead.as_ref().map_or(Ok(()), |run| run.write("job.toml", job.explain().as_bytes()))?;
    let run = join_run(job, plan, cluster, options)?;
    let slots = plan.cluster.slots(cluster.slots());
    let shape = Shape::of(plan, slots);
    let from = checkpoint.map(|checkpoint| Resumption::new(checkpoint, shape));
    let from = from.as_ref();
    // Who was launched is told by the launcher when the run is to end.
    let interrupted = || match leash {
        Some(leash) => leash.signal(),
        None => interrupt.signal(),
    };
    match cluster.task.role {
        Role::Ps => server::run(job, plan, cluster, &run, (shape, from), leash).map(|()| None),
        Role::Evaluator => evaluator::run(job, plan, cluster, &run, &interrupted).map(|()| None),
        Role::Chief | Role::Worker => {
            let data = load_data(job, plan, &mut |_| {})?;
            if let Some(from) = from.filter(|_| options.checkpoint.is_none()) {
                check_unfinished(plan, from, data.train_len())?;
            }
            let part = Part {
                job,
                plan,
                cluster,
                slots,
                home: cluster.slot(),
                token: token(plan)?,
                run: &run,
                data: &data,
                from,
                origin: from.map_or(Origin::default(), Resumption::origin),
                is_quiet: options.quiet || cluster.slot() != Some(0),
                came: Instant::now(),
            };
            let finished = match plan.cluster.mode {
                Mode::Mirrored => part.train_mirrored(&interrupted)?,
                _ => part.train_on_servers(&interrupted, &|| leaves(interrupt, leash))?,
            };
            Ok(finished.filter(|_| leash.is_none()))
        }
    }
}

/// Whether this process was asked to leave the run. One that was launched asks its launcher first:
/// a signal that goes to all of them is for the run, and not for each.
fn leaves(interrupt: &Interrupt, leash: Option<&Leash>) -> bool {
    match leash {
        None => interrupt.signal().is_some(),
        Some(leash) => {
            if interrupt.signal().is_some() {
                leash.ask_to_leave();
            }
            leash.may_leave()
        }
    }
}

/// The run directory of this task, with a new folder of the task's own in it. Tasks of one run
/// may share the directory, or have one on each machine.
fn join_run(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    options: &Options,
) -> Result<RunDir, Failure> {
    let task = cluster.task.to_string();
    let run = match (&options.resume, &options.run_dir) {
        (Some(dir), _) => RunDir::rejoin(dir, &task)?,
        // Who takes a lost task's place finds its folder there.
        (None, Some(dir)) if may_come_back(plan, cluster) => RunDir::rejoin(dir, &task)?,
        (None, Some(dir)) => RunDir::join(dir, &task)?,
        (None, None) => RunDir::create(None, &plan.name)?.with_task(&task)?,
    };
    if cluster.slot() == Some(0) {
        run.write_new(files::JOB, job.explain().as_bytes())?;
    }
    Ok(run)
}

/// Whether a process of this task may take the place of one that was lost.
fn may_come_back(plan: &Plan, cluster: &Cluster) -> bool {
    match cluster.task.role {
        Role::Ps => plan.cluster.waits_for_servers,
        _ => plan.cluster.on_worker_loss == OnWorkerLoss::Wait,
    }
}
