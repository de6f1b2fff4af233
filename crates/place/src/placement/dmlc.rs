//! DMLC: the variables of ps-lite's trackers. Servers have processes of their own, and the
//! scheduler is where the others meet.

use super::ranked::{MeetingPart, PlacementRule, RankedPlace};
use super::variables::Variables;
use crate::address::with_port;
use crate::error::PlaceError;

const ROLE: &str = "DMLC_ROLE";

/// This process's place in a job of a DMLC tracker, if it is in one.
pub(super) fn read(variables: &Variables) -> Result<Option<RankedPlace>, PlaceError> {
    let Some(role) = variables.text(ROLE) else { return Ok(None) };
    let workers = variables.required("DMLC_NUM_WORKER", ROLE)?;
    let servers = variables.required("DMLC_NUM_SERVER", ROLE)?;
    let size = workers + servers;
    let (rank, part) = match role {
        "scheduler" => (size, MeetingPart::Holds),
        "worker" => (index(variables, "DMLC_WORKER_ID", 0, workers)?, MeetingPart::Joins),
        "server" => {
            let index = index(variables, "DMLC_SERVER_ID", workers, servers)?;
            (workers + index, MeetingPart::Joins)
        }
        _ => {
            return Err(PlaceError::Usage(format!(
                "{ROLE}={role} is not known; it must be worker, server or scheduler"
            )));
        }
    };
    let mut place = RankedPlace { rank, size, ..RankedPlace::new(PlacementRule::Dmlc, 0, size) };
    place.part = part;
    place.servers = Some(servers);
    place.evidence = ["DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER"]
        .map(|name| variables.shown(name))
        .to_vec();
    if let Some(host) = variables.text("DMLC_PS_ROOT_URI") {
        let port = variables.required("DMLC_PS_ROOT_PORT", "DMLC_PS_ROOT_URI")?;
        place.meeting = Some(with_port(host, port));
    }
    Ok(Some(place))
}

/// The index of this task among those of its role. Trackers count all tasks in `DMLC_TASK_ID`, the
/// workers first.
fn index(
    variables: &Variables,
    own: &str,
    before: usize,
    count: usize,
) -> Result<usize, PlaceError> {
    let counted = || -> Result<Option<usize>, PlaceError> {
        Ok(variables.number("DMLC_TASK_ID")?.and_then(|id| id.checked_sub(before)))
    };
    let index = match variables.number(own)? {
        Some(index) => Some(index),
        None => counted()?,
    };
    index.filter(|&index| index < count).ok_or_else(|| {
        PlaceError::Usage(format!(
            "{} does not say which of the {count} tasks of its role this is; set {own} to a number \
             from 0 to {}",
            variables.shown(ROLE),
            count.saturating_sub(1)
        ))
    })
}
