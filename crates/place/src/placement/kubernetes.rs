//! Kubernetes: an indexed job whose pods find each other through a headless service.
//!
//! Kubernetes gives only the pod's index. The manifest gives the rest, in two variables: the number
//! of pods, and the address of pod 0, such as `train-0.train:29400`.

use super::ranked::{PlacementRule, RankedPlace, RunId};
use super::variables::Variables;
use crate::error::PlaceError;

/// The number of tasks, where the launcher does not give it.
pub const SIZE_VARIABLE: &str = "PACELINE_SIZE";
/// The address where tasks meet rank 0, where the launcher does not give it.
pub const MEET_VARIABLE: &str = "PACELINE_MEET";
const INDEX: &str = "JOB_COMPLETION_INDEX";

/// This process's place in an indexed job, if it is in one.
pub(super) fn read(variables: &Variables) -> Result<Option<RankedPlace>, PlaceError> {
    let Some(rank) = variables.number(INDEX)? else { return Ok(None) };
    let Some(size) = variables.number(SIZE_VARIABLE)? else {
        return Err(PlaceError::Usage(format!(
            "{} makes this a pod of an indexed job, but Kubernetes does not say how many there \
             are; set {SIZE_VARIABLE} to the number of pods and {MEET_VARIABLE} to the address of \
             pod 0, or {SIZE_VARIABLE}=1 for a run in this pod alone",
            variables.shown(INDEX)
        )));
    };
    let mut place = RankedPlace::new(PlacementRule::Kubernetes, rank, size);
    place.evidence = vec![variables.shown(INDEX), variables.shown(SIZE_VARIABLE)];
    place.meeting = variables.text(MEET_VARIABLE).map(String::from);
    if size > 1 && place.meeting.is_none() {
        return Err(PlaceError::Usage(format!(
            "{} makes this one of {size} pods, but {MEET_VARIABLE} does not say where they meet; \
             set it to the address of pod 0, such as train-0.train:29400",
            variables.shown(SIZE_VARIABLE)
        )));
    }
    if let Some((host, _)) = place.meeting.as_deref().and_then(|at| at.rsplit_once(':')) {
        let (pod, service) = host.split_once('.').unwrap_or((host, ""));
        if let (Some(job), false) = (pod.strip_suffix("-0"), service.is_empty()) {
            place.hosts = Some((0..size).map(|pod| format!("{job}-{pod}.{service}")).collect());
            place.run_id = Some(RunId::new("kubernetes", job));
            place.session = format!("kubernetes {host}");
        }
    }
    place.host = variables.text("HOSTNAME").map(String::from);
    Ok(Some(place))
}
