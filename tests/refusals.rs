//! Tasks of `TF_CONFIG` that do not belong together: each side names the other and what differs.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    ENDLESS, ManualRun, ProcessOutput, RunningProcess, assert_says, cluster_of, free_ports,
    tf_config,
};

/// Waits for a task that must be refused at once: long before the limit of the start, a minute.
#[track_caller]
fn refused_at_once(started: Instant, task: RunningProcess, says: &[&str]) -> ProcessOutput {
    let output = task.finish_task();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_says(&output.stderr, says);
    output
}

#[test]
fn a_worker_with_another_job_than_a_server_ends_at_once_and_both_name_the_key() {
    let [first, second] = free_ports();
    let run = ManualRun::new(cluster_of(2, &[first, second]), &["cluster.mode=sync", ENDLESS]);
    let _servers = [run.start("ps", 0), run.start_with("ps", 1, &["train.optimizer.rate=0.5"])];
    run.wait_for_log("ps:0", "waiting for worker:0, worker:1 (");
    let started = Instant::now();
    let other = run.start_with("worker", 1, &["train.batch=61"]);
    let key = "train.batch is 60 at ps:0 and 61 at worker:1";
    refused_at_once(started, other, &[&format!("ps:0 at 127.0.0.1:{first}"), key]);
    run.wait_for_log("ps:0", "refused worker:1 at 127.0.0.1:");
    run.wait_for_log("ps:0", &format!(": {key}) ("));
    run.wait_for_log("ps:0", "waiting for worker:0, worker:1 (refused at 127.0.0.1:");
    // The second server's job is not that of the first and of this worker.
    run.wait_for_log("ps:1", "waiting for worker:0, worker:1 (");
    let started = Instant::now();
    let key = "train.optimizer.rate is 0.5 at ps:1 and 0.15 at worker:0";
    let address = format!("ps:1 at 127.0.0.1:{second}");
    refused_at_once(started, run.start("worker", 0), &[&address, key]);
}

#[test]
fn a_worker_with_another_job_than_the_coordinator_of_a_mirrored_run_ends_at_once() {
    let at = free_ports::<2>().map(|port| format!("127.0.0.1:{port}"));
    let run = ManualRun::new(json!({"worker": at}), &["cluster.mode=mirrored", ENDLESS]);
    let mut first = run.start("worker", 0);
    first.wait_for("worker:1 at ");
    let started = Instant::now();
    let other = run.start_with("worker", 1, &["train.stop={steps=5}"]);
    let key = "train.stop.test_loss is 0.000000001 at worker:0 and not set at worker:1";
    refused_at_once(started, other, &[&format!("worker:0 at {}", at[0]), key]);
    run.wait_for_log("worker:0", "refused worker:1 at 127.0.0.1:");
    first.wait_for(&format!("worker:1 at {}, wrong job ({key})", at[1]));
}

#[test]
fn a_mirrored_worker_ends_at_once_if_servers_are_listed_and_both_name_the_mode() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(3, &[port]), &["cluster.mode=sync", ENDLESS]);
    let mirrored = |worker| run.start_with("worker", worker, &["cluster.mode=mirrored"]);
    // Nothing answers there yet.
    let started = Instant::now();
    refused_at_once(started, mirrored(2), &["cluster.mode = \"mirrored\"", "lists ps:0"]);
    let _server = run.start("ps", 0);
    run.wait_for_log("ps:0", "waiting for worker:0, worker:1, worker:2 (");
    for worker in 0..2 {
        let started = Instant::now();
        let key = format!("cluster.mode is \"sync\" at ps:0 and \"mirrored\" at worker:{worker}");
        let address = format!("ps:0 at 127.0.0.1:{port}");
        refused_at_once(started, mirrored(worker), &[&address, &key]);
        run.wait_for_log("ps:0", &format!("refused worker:{worker} at 127.0.0.1:"));
        run.wait_for_log("ps:0", &key);
    }
}

#[test]
fn tasks_whose_lists_of_workers_differ_refuse_each_other() {
    let [port] = free_ports();
    let run = ManualRun::new(cluster_of(2, &[port]), &["cluster.mode=async", ENDLESS]);
    let _server = run.start("ps", 0);
    run.wait_for_log("ps:0", "waiting for worker:0, worker:1 (");
    let longer = tf_config(&cluster_of(3, &[port]), "worker", 1);
    let started = Instant::now();
    let task = RunningProcess::start(&mut run.command(&longer), run.run().path);
    let key = "the number of workers is 2 at ps:0 and 3 at worker:1";
    refused_at_once(started, task, &[key]);
}
