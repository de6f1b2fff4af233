//! Placement in environments as the launchers make them.

use super::*;

fn variables(text: &str) -> Variables {
    text.split_whitespace().filter_map(|variable| variable.split_once('=')).collect()
}

fn find(text: &str) -> Result<Placement, PlaceError> {
    Placement::find(&PlaceFlags::default(), &variables(text), 77)
}

fn ranked(text: &str) -> RankedPlace {
    match find(text).unwrap() {
        Placement::Ranked(place) => *place,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn assert_refused(text: &str, parts: &[&str]) {
    let why = find(text).unwrap_err().to_string();
    parts.iter().for_each(|part| assert!(why.contains(part), "{part:?} is not in: {why}"));
}

/// What `srun -N3 -n4` sets.
const SRUN: &str = "SLURM_JOB_ID=4711 SLURM_STEP_ID=2 SLURM_PROCID=2 SLURM_NTASKS=4 \
    SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=n[1-3] SLURM_STEP_TASKS_PER_NODE=2,1(x2) \
    SLURMD_NODENAME=n2 SLURM_RESTART_COUNT=1";
/// What `torchrun --nnodes 2 --nproc-per-node 2` sets on the second host.
const TORCHRUN: &str = "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 \
    MASTER_ADDR=10.0.0.1 MASTER_PORT=29400 TORCHELASTIC_RUN_ID=job/5 \
    TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_USE_AGENT_STORE=True";

#[test]
fn an_environment_without_a_launcher_is_a_local_run() {
    for text in ["", "RANK=2", "TF_CONFIG= SLURM_JOB_ID=5", "SLURM_NTASKS=1 SLURM_PROCID=0"] {
        assert_eq!(find(text).unwrap(), Placement::Local, "{text}");
    }
}

#[test]
fn one_task_of_any_launcher_is_a_local_run() {
    for text in [
        "RANK=0 WORLD_SIZE=1 MASTER_ADDR=a",
        "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1",
        "PMI_RANK=0 PMI_SIZE=1",
        "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1",
        "JOB_COMPLETION_INDEX=0 PACELINE_SIZE=1",
        "PET_NNODES=1 PET_NODE_RANK=0",
    ] {
        assert_eq!(find(text).unwrap(), Placement::Local, "{text}");
    }
}

#[test]
fn slurm_says_rank_size_hosts_and_the_job() {
    let place = ranked(SRUN);
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Slurm, 2, 4));
    assert_eq!(place.hosts.unwrap(), ["n1", "n1", "n2", "n3"]);
    assert_eq!(place.run_id, Some(RunId { id: "slurm-4711".into(), restarts: 1 }));
    assert_eq!(place.meeting.unwrap(), "n1:24711");
    assert_eq!(place.session, "slurm 4711.2 restart 1");
    assert_eq!(place.evidence, ["SLURM_PROCID=2", "SLURM_STEP_NUM_TASKS=4"]);
}

#[test]
fn slurm_may_give_tasks_to_hosts_in_turn() {
    let in_turn = SRUN.replace("NODENAME=n2", "NODENAME=n3") + " SLURM_DISTRIBUTION=cyclic";
    assert_eq!(ranked(&in_turn).hosts.unwrap(), ["n1", "n2", "n3", "n1"]);
    // Other distributions are not known here: hosts are found by meeting.
    assert_eq!(ranked(&format!("{SRUN} SLURM_DISTRIBUTION=arbitrary")).hosts, None);
    assert_eq!(ranked(&SRUN.replace("NODENAME=n2", "NODENAME=n3")).hosts, None);
}

#[test]
fn a_batch_script_is_not_a_task_of_its_job() {
    assert_refused("SLURM_JOB_ID=5 SLURM_NTASKS=3 SLURM_PROCID=0", &["SLURM_NTASKS=3", "srun"]);
}

#[test]
fn torchrun_says_rank_size_the_meeting_and_its_restarts() {
    let place = ranked(TORCHRUN);
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Torch, 3, 4));
    assert_eq!(place.run_id, Some(RunId { id: "torchrun-job-5".into(), restarts: 2 }));
    // Torchrun's own store has the port.
    assert_eq!(place.meeting.unwrap(), "10.0.0.1:29401");
    let ipv6 = TORCHRUN.replace("10.0.0.1", "fd00::1").replace("=True", "=False");
    assert_eq!(ranked(&ipv6).meeting.unwrap(), "[fd00::1]:29400");
}

#[test]
fn processes_of_one_torchrun_without_an_id_share_their_parent() {
    let text = "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none";
    assert_eq!(ranked(text).run_id.unwrap().id, "torchrun-77");
    assert_eq!(ranked(&text.replace("LOCAL_WORLD_SIZE=2", "LOCAL_WORLD_SIZE=1")).run_id, None);
}

#[test]
fn a_container_of_kubeflow_is_one_task() {
    let text = "PET_NNODES=3 PET_NODE_RANK=2 PET_NPROC_PER_NODE=4 PET_MASTER_PORT=29400 \
        PET_MASTER_ADDR=train-node-0-0.train RANK=2 WORLD_SIZE=12";
    let place = ranked(text);
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Kubeflow, 2, 3));
    assert_eq!(place.meeting.unwrap(), "train-node-0-0.train:29400");
    assert!(place.remarks[0].contains("PET_NPROC_PER_NODE=4"), "{:?}", place.remarks);
    assert_refused(&text.replace("NNODES=3", "NNODES=1:3"), &["PET_NNODES=1:3", "range"]);
    let master = "PET_NNODES=2 PET_NODE_RANK=1 RANK=0 WORLD_SIZE=2";
    assert_refused(master, &["PET_NODE_RANK=1", "RANK=0"]);
}

#[test]
fn mpi_says_rank_and_size() {
    let text = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_SIZE=3 \
        PMIX_NAMESPACE=123@1";
    let place = ranked(text);
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::OpenMpi, 1, 3));
    assert_eq!(place.run_id.unwrap().id, "mpi-123-1");
    let place = ranked("PMI_RANK=2 PMI_SIZE=3 MPI_LOCALNRANKS=3");
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Mpich, 2, 3));
    assert_eq!(place.run_id.unwrap().id, "mpi-77");
}

#[test]
fn an_indexed_job_needs_the_number_of_pods_and_the_address_of_the_first() {
    let text = "JOB_COMPLETION_INDEX=1 PACELINE_SIZE=2 PACELINE_MEET=train-0.nodes:29400";
    let place = ranked(text);
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Kubernetes, 1, 2));
    assert_eq!(place.hosts.unwrap(), ["train-0.nodes", "train-1.nodes"]);
    assert_eq!(place.run_id.unwrap().id, "kubernetes-train");
    assert_refused("JOB_COMPLETION_INDEX=0", &["JOB_COMPLETION_INDEX=0", "PACELINE_SIZE"]);
    assert_refused("JOB_COMPLETION_INDEX=0 PACELINE_SIZE=2", &["PACELINE_MEET"]);
}

#[test]
fn servers_of_dmlc_are_the_last_ranks_and_the_scheduler_holds_the_meeting() {
    let job = "DMLC_NUM_WORKER=3 DMLC_NUM_SERVER=2 DMLC_PS_ROOT_URI=10.0.0.9 \
        DMLC_PS_ROOT_PORT=9000";
    for (role, rank, part) in [
        ("DMLC_ROLE=worker DMLC_TASK_ID=2", 2, MeetingPart::Joins),
        ("DMLC_ROLE=worker DMLC_WORKER_ID=0", 0, MeetingPart::Joins),
        ("DMLC_ROLE=server DMLC_TASK_ID=4", 4, MeetingPart::Joins),
        ("DMLC_ROLE=server DMLC_SERVER_ID=0", 3, MeetingPart::Joins),
        ("DMLC_ROLE=scheduler", 5, MeetingPart::Holds),
    ] {
        let place = ranked(&format!("{role} {job}"));
        assert_eq!((place.rank, place.size, place.part), (rank, 5, part), "{role}");
        assert_eq!((place.servers, place.meeting.as_deref()), (Some(2), Some("10.0.0.9:9000")));
    }
    assert_refused(&format!("DMLC_ROLE=worker {job}"), &["DMLC_WORKER_ID", "0 to 2"]);
    assert_refused(&format!("DMLC_ROLE=boss {job}"), &["DMLC_ROLE=boss"]);
}

#[test]
fn flags_come_before_the_environment() {
    let flags = PlaceFlags { local: true, ..PlaceFlags::default() };
    assert_eq!(Placement::find(&flags, &variables(SRUN), 1).unwrap(), Placement::Local);
    let flags = PlaceFlags {
        rank: Some(1),
        size: Some(2),
        meet: Some("a:1".into()),
        ..PlaceFlags::default()
    };
    let Placement::Ranked(place) = Placement::find(&flags, &variables(SRUN), 1).unwrap() else {
        panic!("the flags state a place");
    };
    assert_eq!((place.rule, place.rank, place.size), (PlacementRule::Flags, 1, 2));
    let flags = PlaceFlags { rank: Some(1), ..PlaceFlags::default() };
    assert!(Placement::find(&flags, &Variables::default(), 1).is_err());
}

#[test]
fn the_inner_launcher_decides_where_launchers_are_nested() {
    let inside = format!("{SRUN} {TORCHRUN}");
    let place = ranked(&inside);
    assert_eq!((place.rule, place.rank), (PlacementRule::Torch, 3));
    assert!(place.remarks[0].contains("Slurm (SLURM_PROCID=2"), "{:?}", place.remarks);
    // The daemons of mpirun are tasks of Slurm, and their ranks are not.
    let inside = format!("{SRUN} OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8");
    assert_eq!(ranked(&inside).rank, 5);
    // A batch script may run mpirun.
    let script = "SLURM_JOB_ID=5 SLURM_NTASKS=3 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3";
    assert_eq!(ranked(script).run_id.unwrap().id, "slurm-5");
}

#[test]
fn launchers_that_agree_complete_each_other() {
    let place = ranked(&format!("{SRUN} PMI_RANK=2 PMI_SIZE=4 PMI_JOBID=4711.2"));
    assert_eq!((place.rule, place.rank), (PlacementRule::Mpich, 2));
    assert_eq!(place.hosts.unwrap().len(), 4);
}

#[test]
fn launchers_that_disagree_are_an_error_that_names_both() {
    assert_refused(
        &format!("{SRUN} RANK=1 WORLD_SIZE=4 MASTER_ADDR=n1"),
        &["RANK=1", "WORLD_SIZE=4", "SLURM_PROCID=2", "disagree"],
    );
    assert_refused(
        "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMI_RANK=1 PMI_SIZE=5",
        &["OMPI_COMM_WORLD_SIZE=4", "PMI_SIZE=5"],
    );
    let three = r#"{"cluster":{"worker":["a:1","b:1","c:1"]},"task":{"type":"worker","index":0}}"#;
    let listed = format!("TF_CONFIG={three}");
    assert!(matches!(find(&listed).unwrap(), Placement::Listed(_)));
    assert_refused(&format!("{listed} {SRUN}"), &["lists 3 tasks", "SLURM_STEP_NUM_TASKS=4"]);
    let agreed = format!("{listed} {}", SRUN.replace("NUM_TASKS=4", "NUM_TASKS=3"));
    assert!(matches!(find(&agreed).unwrap(), Placement::Listed(_)));
}

#[test]
fn several_processes_never_start_a_run_each() {
    let one = TORCHRUN.replace("RANK=3 WORLD_SIZE=4", "RANK=0 WORLD_SIZE=1");
    assert_refused(&format!("{SRUN} {one}"), &["WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=4"]);
    for text in [
        "OMPI_COMM_WORLD_SIZE=3",
        "PMI_SIZE=3",
        "WORLD_SIZE=3 MASTER_ADDR=a",
        "SLURM_STEP_NUM_TASKS=3",
        "PET_NNODES=2",
        "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=3",
        "OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=3",
        "PMI_RANK=1 PMI_SIZE=100000",
    ] {
        assert!(find(text).is_err(), "{text}");
    }
}
