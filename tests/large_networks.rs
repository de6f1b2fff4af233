//! Networks that are exchanged layer by layer while they are computed, when a worker dies in the
//! middle of a step: the run ends with the bits of an undisturbed one.

use serde_json::{Value, json};

use crate::support::proxy::Proxy;
use crate::support::{ManualRun, RunningProcess, Sandbox, free_ports, tf_config, wait_until};

/// 695,090 parameters: more than eight chunks, so that layers travel one by one.
const LARGE: [&str; 6] = [
    "model.kind=network",
    "model.layers=[{kind=\"conv\", channels=4, size=3}, {kind=\"relu\"}, {kind=\"flatten\"}, \
     {kind=\"dense\", size=256}, {kind=\"relu\"}, {kind=\"dense\", size=\"classes\"}]",
    "train.batch=16",
    "train.optimizer={kind=\"momentum\", rate=0.01}",
    "cluster.workers=2",
    "cluster.on_worker_loss=wait",
];
/// The bytes of a step's factors: of the last layer, then of the dense layer before it.
const FACTORS: [usize; 2] = [(256 + 10) * 16 * 4, (2704 + 256) * 16 * 4];

/// A run by hand in this mode whose worker 1 dies when `bytes` have arrived of what it sends to the
/// server, or to worker 0, and comes back.
fn lose_worker_after(bytes: usize, mode: &str, cluster: Value, steps: &str) {
    let mode = format!("cluster.mode={mode}");
    let settings = [&LARGE[..], &[&mode, steps]].concat();
    let manual_run = ManualRun::new(cluster.clone(), &settings);
    // Worker 1 connects to the task that comes first through the proxy.
    let role = if cluster["ps"].is_array() { "ps" } else { "worker" };
    let target = cluster[role][0].as_str().unwrap().to_owned();
    let proxy = Proxy::losing_after(bytes, target);
    let mut proxied = cluster.clone();
    proxied[role][0] = format!("127.0.0.1:{}", proxy.port).into();
    let config = tf_config(&proxied, "worker", 1);
    let start = || RunningProcess::start(&mut manual_run.command(&config), manual_run.run().path);
    let mut tasks = vec![manual_run.start("worker", 0)];
    if role == "ps" {
        tasks.push(manual_run.start("ps", 0));
    }
    let lost = start();
    assert!(wait_until(|| proxy.has_lost()), "{}: {}", lost.stderr(), tasks[0].stderr());
    lost.signal("KILL");
    drop(lost.finish_task());
    tasks.push(start());
    manual_run.all_end_well(tasks);
    let plain = mode.trim_start_matches("cluster.mode=");
    let undisturbed = [&LARGE[..5], &[steps]].concat();
    let undisturbed = manual_run.sandbox.train_cluster("undisturbed", plain, &undisturbed);
    assert!(manual_run.run().model() == undisturbed.model(), "{plain}, {bytes}: the bytes differ");
}

#[test]
fn a_worker_that_dies_between_the_factors_of_two_layers_does_not_change_the_bits() {
    let step = FACTORS[0] + FACTORS[1];
    // After the last layer of the first step; inside the next layer; some steps later.
    for bytes in [FACTORS[0] + 1_000, step - 50_000, 5 * step + FACTORS[0] + 2_000] {
        let at = free_ports::<2>().map(|port| format!("127.0.0.1:{port}"));
        lose_worker_after(bytes, "mirrored", json!({"worker": at}), "train.stop={steps=20}");
    }
}

#[test]
fn a_worker_that_dies_between_two_layers_over_a_server_does_not_change_the_bits() {
    let step = 695_090 * 4;
    for bytes in [300_000, 3 * step + 1_000_000] {
        let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
        let cluster = json!({"worker": at[..2], "ps": at[2..]});
        lose_worker_after(bytes, "sync", cluster, "train.stop={steps=20}");
    }
}

#[test]
fn workers_that_are_killed_in_the_middle_of_overlapping_steps_do_not_change_the_bits() {
    for (mode, more) in [("mirrored", "cluster.factors=never"), ("sync", "cluster.servers=2")] {
        let sandbox = Sandbox::new();
        let settings = [&LARGE[..], &[more, "train.stop={steps=60}"]].concat();
        let launched = sandbox.launch_slow(mode, 8, &settings);
        for task in ["worker:1", "worker:0"] {
            launched.kill_and_wait_for_restart(task);
        }
        let output = launched.finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let undisturbed = [&LARGE[..5], &[more, "train.stop={steps=60}"]].concat();
        let undisturbed = sandbox.train_cluster("undisturbed", mode, &undisturbed);
        assert!(sandbox.run_folder("run").model() == undisturbed.model(), "{mode}: bytes differ");
    }
}
