//! The part of `paceline explain` that shows the tasks, and which rule placed them.

use paceline_engine::Mode;
use paceline_place::{Cluster, Placement, RankedPlace};

use crate::Failure;
use crate::placed::role_settings;
use paceline_job::{ClusterPlan, Plan};
use paceline_terminal::{columns, counted};

/// The tasks of a run, with remarks on how they were found.
pub(super) fn tasks(plan: &Plan, placement: &Placement) -> Result<String, Failure> {
    match placement {
        Placement::Local => Ok(local_tasks(plan)),
        Placement::Listed(cluster) => Ok(listed_tasks(plan, cluster)),
        Placement::Ranked(place) => ranked_tasks(plan, place),
    }
}

/// The slots that a worker fills at the start.
fn slots_of(home: usize, plan: &Plan, workers: usize) -> String {
    let slots = (home..plan.cluster.slots(workers)).step_by(workers.max(1));
    let slots: Vec<_> = slots.map(|slot| slot.to_string()).collect();
    if slots.is_empty() { "spare".into() } else { slots.join(", ") }
}

/// The tasks that `paceline train` starts on this machine.
fn local_tasks(plan: &Plan) -> String {
    let ClusterPlan { workers, servers, .. } = plan.cluster;
    match plan.cluster.mode {
        Mode::Single => "\n# tasks: this process alone\n".into(),
        Mode::Mirrored => format!(
            "\n# tasks: {}, which `paceline train` starts here (TF_CONFIG is not set)\n",
            counted(workers as u64, "worker")
        ),
        _ => format!(
            "\n# tasks: {} and {}, which `paceline train` starts here (TF_CONFIG is not \
                 set){}\n",
            counted(workers as u64, "worker"),
            counted(servers as u64, "server"),
            match plan.cluster.slots {
                Some(slots) => {
                    format!("; workers fill {}", counted(slots as u64, "slot"))
                }
                None => String::new(),
            }
        ),
    }
}

/// The tasks that `TF_CONFIG` lists, with remarks on how it was understood.
fn listed_tasks(plan: &Plan, cluster: &Cluster) -> String {
    let mut rows = vec![["# task", "slot", "address", ""].map(String::from).to_vec()];
    for (task, address) in &cluster.addresses {
        let at = Cluster { task: *task, ..cluster.clone() };
        let slot = at.slot().map_or("-".into(), |home| slots_of(home, plan, cluster.slots()));
        let here = if *task == cluster.task { "this process" } else { "" };
        rows.push(vec![format!("# {task}"), slot, address.clone(), here.into()]);
    }
    let mut text = format!("\n# tasks, from TF_CONFIG\n{}", columns(&rows));
    let servers = (plan.cluster.mode != Mode::Mirrored).then_some(plan.cluster.servers);
    let differences = cluster.differences(plan.cluster.workers, servers);
    for remark in cluster.remarks.iter().chain(&differences) {
        text.push_str(&format!("# {remark}\n"));
    }
    text
}

/// The tasks of processes that a launcher starts. Their ports are free ones, which they exchange
/// when they start.
fn ranked_tasks(plan: &Plan, place: &RankedPlace) -> Result<String, Failure> {
    let roles = role_settings(plan, place);
    let mut rows = vec![["# task", "rank", "host", "address", ""].map(String::from).to_vec()];
    for expected in roles.expect(place.size, place.hosts.as_deref())? {
        let rank = expected.rank.map_or("first on its host".into(), |rank| rank.to_string());
        let host = expected.host.unwrap_or_else(|| "?".into());
        let address = format!("{host}:?");
        let here = if expected.rank == Some(place.rank) { "this process" } else { "" };
        rows.push(vec![format!("# {}", expected.task), rank, host, address, here.into()]);
    }
    let mut text = format!("\n# tasks, from {}\n{}", place.describe(), columns(&rows));
    let meeting = match &place.meeting {
        Some(address) => format!("at {address} if they have a secret, or "),
        None => String::new(),
    };
    text.push_str(&format!(
        "# the tasks meet rank 0 {meeting}by a file in the run directory; there they exchange what \
         is not known yet (?)\n"
    ));
    if let Some(run) = &place.run_id {
        text.push_str(&format!("# run: {}, started again {} times\n", run.id, run.restarts));
    }
    place.remarks.iter().for_each(|remark| text.push_str(&format!("# {remark}\n")));
    Ok(text)
}
