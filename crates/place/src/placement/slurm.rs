//! Slurm: a task that `srun` started. The batch script itself is not one of the job's tasks.

use super::host_list::{expand_counts, expand_hosts};
use super::ranked::{PlacementRule, RankedPlace, RunId};
use super::variables::Variables;
use crate::error::PlaceError;

/// Where tasks meet on rank 0's host if they have a secret but no common directory: this port plus
/// the job's number, so that two jobs on one host seldom choose the same.
const FIRST_PORT: usize = 20_000;
const PORTS: usize = 10_000;

/// This process's place in a Slurm step, if it is in one.
pub(super) fn read(variables: &Variables) -> Result<Option<RankedPlace>, PlaceError> {
    let is_step = variables.has("SLURM_STEP_ID") || variables.has("SLURM_STEP_NUM_TASKS");
    if !is_step {
        return check_script(variables);
    }
    // Older versions set only the job's number of tasks.
    let Some(size_name) = variables.first(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]) else {
        return Ok(None);
    };
    let size = variables.required(size_name, "SLURM_STEP_ID")?;
    let rank = variables.required("SLURM_PROCID", size_name)?;
    let mut place = RankedPlace::new(PlacementRule::Slurm, rank, size);
    place.evidence = vec![variables.shown("SLURM_PROCID"), variables.shown(size_name)];
    let step = variables.text("SLURM_STEP_ID").unwrap_or("0");
    place.run_id = run_id(variables)?;
    if let (Some(job), Some(run)) = (variables.text("SLURM_JOB_ID"), &place.run_id) {
        place.session = format!("slurm {job}.{step} restart {}", run.restarts);
    }
    place.host = variables.text("SLURMD_NODENAME").map(String::from);
    find_hosts(variables, &mut place)?;
    let job = variables.text("SLURM_JOB_ID").and_then(|job| job.parse::<usize>().ok());
    if let (Some(hosts), Some(job)) = (&place.hosts, job) {
        place.meeting = Some(format!("{}:{}", hosts[0], FIRST_PORT + job % PORTS));
    }
    Ok(Some(place))
}

/// Slurm's identifier of the job that this process belongs to, if it belongs to one.
pub(super) fn run_id(variables: &Variables) -> Result<Option<RunId>, PlaceError> {
    let Some(job) = variables.text("SLURM_JOB_ID") else { return Ok(None) };
    let restarts = variables.number("SLURM_RESTART_COUNT")?.unwrap_or(0);
    Ok(Some(RunId { id: format!("slurm-{job}"), restarts }))
}

/// A batch script of a job with several tasks must start them; it is not one of them.
fn check_script(variables: &Variables) -> Result<Option<RankedPlace>, PlaceError> {
    let Some(size @ 2..) = variables.number("SLURM_NTASKS")? else { return Ok(None) };
    Err(PlaceError::Usage(format!(
        "{} says that this Slurm job has {size} tasks, but `srun` did not start this process, so \
         it is none of them; write `srun paceline train …`, or add --local for a run on this host \
         alone",
        variables.shown("SLURM_NTASKS")
    )))
}

/// Finds the host of every rank from the step's list of hosts and the number of tasks on each.
fn find_hosts(variables: &Variables, place: &mut RankedPlace) -> Result<(), PlaceError> {
    let lists = [
        ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"),
        ("SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"),
    ];
    let is_set = |(hosts, counts): &&(&str, &str)| variables.has(hosts) && variables.has(counts);
    let Some((hosts_name, counts_name)) = lists.iter().find(is_set) else { return Ok(()) };
    let damaged = |name: &str, why: String| {
        PlaceError::Usage(format!("{} cannot be read: {why}", variables.shown(name)))
    };
    let hosts = expand_hosts(variables.text(hosts_name).unwrap_or_default())
        .map_err(|why| damaged(hosts_name, why))?;
    let counts = expand_counts(variables.text(counts_name).unwrap_or_default())
        .map_err(|why| damaged(counts_name, why))?;
    if hosts.len() != counts.len() || counts.iter().sum::<usize>() != place.size {
        place.remarks.push(format!(
            "{} and {} do not describe {} tasks: hosts are found by meeting",
            variables.shown(hosts_name),
            variables.shown(counts_name),
            place.size
        ));
        return Ok(());
    }
    let distribution = variables.text("SLURM_DISTRIBUTION").unwrap_or("block");
    let by_rank = match distribution.split([':', ',']).next() {
        Some("block") => in_blocks(&hosts, &counts),
        Some("cyclic") => in_turns(&hosts, &counts),
        _ => return Ok(()),
    };
    match &place.host {
        Some(own) if by_rank.get(place.rank) != Some(own) => {
            let remark = "the tasks are not distributed as SLURM_DISTRIBUTION says: hosts are \
                          found by meeting";
            place.remarks.push(remark.into());
        }
        _ => place.hosts = Some(by_rank),
    }
    Ok(())
}

/// Fills one host after the other.
fn in_blocks(hosts: &[String], counts: &[usize]) -> Vec<String> {
    let of_host = |(host, &count): (&String, &usize)| std::iter::repeat_n(host.clone(), count);
    hosts.iter().zip(counts).flat_map(of_host).collect()
}

/// Gives each host a task in turn, as long as it has room.
fn in_turns(hosts: &[String], counts: &[usize]) -> Vec<String> {
    let rounds = counts.iter().copied().max().unwrap_or(0);
    let in_round = |round: usize| {
        let has_room = move |(_, count): &(&String, &usize)| round < **count;
        hosts.iter().zip(counts).filter(has_room).map(|(host, _)| host.clone())
    };
    (0..rounds).flat_map(in_round).collect()
}
