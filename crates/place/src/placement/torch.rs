//! `torchrun`, and the variables that Kubeflow gives to a container of a PyTorch job.

use super::ranked::{PlacementRule, RankedPlace, RunId};
use super::variables::Variables;
use crate::address::with_port;
use crate::error::PlaceError;

/// The port of `torchrun`'s meeting point if none is set.
const DEFAULT_PORT: usize = 29_400;

/// This process's place among the processes of `torchrun`, or among the containers of a job that
/// expects `torchrun`, if it has one.
pub(super) fn read(variables: &Variables, parent: u32) -> Result<Option<RankedPlace>, PlaceError> {
    let is_inside = ["TORCHELASTIC_RUN_ID", "LOCAL_RANK"].iter().any(|name| variables.has(name));
    if variables.has("PET_NNODES") && !is_inside {
        return read_container(variables).map(Some);
    }
    let Some(seen) = variables.first(&["RANK", "WORLD_SIZE"]) else { return Ok(None) };
    // RANK alone is a common name. It means a place only beside another of these variables.
    if seen == "RANK" && variables.first(&["WORLD_SIZE", "MASTER_ADDR"]).is_none() {
        return Ok(None);
    }
    let rank = variables.required("RANK", seen)?;
    let size = variables.required("WORLD_SIZE", seen)?;
    let mut place = RankedPlace::new(PlacementRule::Torch, rank, size);
    place.evidence = vec![variables.shown("RANK"), variables.shown("WORLD_SIZE")];
    place.is_nested = variables.has("TORCHELASTIC_RUN_ID");
    let restarts = variables.number("TORCHELASTIC_RESTART_COUNT")?.unwrap_or(0);
    let is_one_host = variables.number("LOCAL_WORLD_SIZE")? == Some(size);
    let named = variables.text("TORCHELASTIC_RUN_ID").filter(|id| *id != "none");
    place.run_id = match (named, variables.text("SLURM_JOB_ID")) {
        (Some(id), _) => Some(RunId { restarts, ..RunId::new("torchrun", id) }),
        (None, Some(job)) => Some(RunId { id: format!("slurm-{job}"), restarts }),
        // All processes of one host have the same parent, which stays over restarts.
        (None, None) if is_one_host => {
            Some(RunId { restarts, ..RunId::new("torchrun", &parent.to_string()) })
        }
        (None, None) => None,
    };
    place.session = format!("torch {} restart {restarts}", named.unwrap_or_default());
    // Torchrun's own store may be at MASTER_PORT. Then Paceline uses the next port.
    let is_taken = variables.text("TORCHELASTIC_USE_AGENT_STORE") == Some("True");
    place.meeting = address(variables, "MASTER_ADDR", "MASTER_PORT", usize::from(is_taken))?;
    Ok(Some(place))
}

/// The place of a container that was started without `torchrun`: one process in each container.
fn read_container(variables: &Variables) -> Result<RankedPlace, PlaceError> {
    let nodes = variables.text("PET_NNODES").unwrap_or_default();
    let (least, most) = nodes.split_once(':').unwrap_or((nodes, nodes));
    if least != most {
        return Err(PlaceError::Usage(format!(
            "{} is a range, but a run needs a number of tasks to start; set the same least and \
             most",
            variables.shown("PET_NNODES")
        )));
    }
    let size = least.parse().map_err(|_| {
        PlaceError::Usage(format!("{} is not a number", variables.shown("PET_NNODES")))
    })?;
    let rank_name = variables.first(&["PET_NODE_RANK", "RANK"]).unwrap_or("PET_NODE_RANK");
    let rank = variables.required(rank_name, "PET_NNODES")?;
    if let (Some(node), Some(rank)) =
        (variables.number("PET_NODE_RANK")?, variables.number("RANK")?)
        && node != rank
        && variables.number("WORLD_SIZE")? == Some(size)
    {
        return Err(PlaceError::Usage(format!(
            "{} and {} disagree; unset one of them",
            variables.shown("PET_NODE_RANK"),
            variables.shown("RANK")
        )));
    }
    let mut place = RankedPlace::new(PlacementRule::Kubeflow, rank, size);
    place.evidence = vec![variables.shown(rank_name), variables.shown("PET_NNODES")];
    if let Some(local) = variables.text("PET_NPROC_PER_NODE").filter(|local| *local != "1") {
        place.remarks.push(format!(
            "PET_NPROC_PER_NODE={local} is for torchrun: one process of Paceline uses all cores"
        ));
    }
    let restarts = 0;
    let named = variables.text("PET_RDZV_ID").filter(|id| *id != "none");
    place.run_id = named.map(|id| RunId { restarts, ..RunId::new("kubeflow", id) });
    place.session = format!("kubeflow {}", named.unwrap_or_default());
    place.meeting = match address(variables, "PET_MASTER_ADDR", "PET_MASTER_PORT", 0)? {
        Some(address) => Some(address),
        None => address(variables, "MASTER_ADDR", "MASTER_PORT", 0)?,
    };
    Ok(place)
}

/// The address in a pair of variables, if the host is set.
fn address(
    variables: &Variables,
    host: &str,
    port: &str,
    offset: usize,
) -> Result<Option<String>, PlaceError> {
    let Some(host) = variables.text(host) else { return Ok(None) };
    let number = variables.number(port)?.unwrap_or(DEFAULT_PORT) + offset;
    if number > usize::from(u16::MAX) {
        return Err(PlaceError::Usage(format!("{} is not a port", variables.shown(port))));
    }
    Ok(Some(with_port(host, number)))
}
