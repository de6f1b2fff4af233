//! Mode `mirrored` when workers are lost: the others keep their replicas, whoever comes new gets
//! the state from one of them, and the run ends with the bits of one that was left in peace.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    ENDLESS, Launched, Room, Run, SMALL_DATA, assert_says, free_ports, processes_of, signal_to,
    tf_config, wait_until,
};

const WAIT: &str = "cluster.on_worker_loss=wait";

/// A mirrored run that is making steps.
fn running(room: &Room, settings: &[&str]) -> Launched {
    let mut command = room.cluster("run", "mirrored", &[&[WAIT], settings].concat());
    let mut launched = Launched::start(&mut command, room.path("run"));
    launched.wait_for_steps();
    launched
}

/// Kills a task and waits until it is started again.
fn kill(launched: &Launched, task: &str) {
    let started = |said: &str| said.matches(&format!("{task} is started again")).count();
    let before = started(&launched.said());
    signal_to(launched.task(task), "KILL");
    assert!(wait_until(|| started(&launched.said()) > before), "{}", launched.said());
}

/// The run must end well, and as one of the same settings that was left in peace.
fn check_end(room: &Room, launched: Launched, settings: &[&str]) -> Run {
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{settings:?}: {done:?}");
    let other = room.train_cluster("other", "mirrored", settings);
    let run = room.run_dir("run");
    assert!(run.model() == other.model(), "{settings:?}: the bytes differ");
    for figure in ["global_steps", "stop_reason"] {
        assert_eq!(run.summary()[figure], other.summary()[figure], "{settings:?}: {figure}");
    }
    let tasks = run.summary()["tasks"].as_array().unwrap().len();
    assert_eq!(tasks, other.summary()["tasks"].as_array().unwrap().len(), "all have reported");
    run
}

#[test]
fn mirrored_ends_with_the_same_bits_whichever_worker_is_killed() {
    for (kind, workers, killed) in [
        ("sgd", "2", &["worker:1"][..]),
        ("sgd", "3", &["worker:0"]),
        ("momentum", "3", &["worker:2", "worker:0", "worker:2"]),
    ] {
        let room = Room::new();
        let (kind, workers) =
            (format!("train.optimizer.kind={kind}"), format!("cluster.workers={workers}"));
        let settings = [&*kind, &*workers, "train.stop.steps=4000"];
        let launched = running(&room, &settings);
        killed.iter().for_each(|task| kill(&launched, task));
        check_end(&room, launched, &settings);
    }
}

#[test]
fn mirrored_ends_with_the_same_bits_though_everybody_is_killed_at_once() {
    // With a checkpoint they go on from there, without one they begin again.
    for checkpoints in [false, true] {
        let room = Room::new();
        let mut settings =
            vec!["train.stop.steps=3000", "train.optimizer.kind=momentum", "cluster.workers=3"];
        if checkpoints {
            settings.push("checkpoint.every_steps=100");
        }
        let launched = running(&room, &settings);
        let complete = room.path("run/checkpoints/step-000000000100/manifest.json");
        assert!(wait_until(|| !checkpoints || complete.exists()), "{}", launched.said());
        let tasks = ["worker:0", "worker:1", "worker:2"].map(|task| launched.task(task));
        tasks.into_iter().for_each(|pid| signal_to(pid, "KILL"));
        let run = check_end(&room, launched, &settings);
        if checkpoints {
            room.ok(&["checkpoint", "verify", run.str()]);
            let steps = run.task("worker:1")["steps"].as_u64().unwrap();
            assert!(steps <= 2900, "{steps} steps were made again");
        }
    }
}

#[test]
fn an_epoch_of_mirrored_ends_with_the_same_bits_though_workers_are_killed() {
    // The last step has 20 examples for one worker, 1 for another and none for the third.
    let room = Room::new();
    let settings = ["train.batch=20", "cluster.workers=3", "train.stop.epochs=300"];
    let settings = [&settings[..], &["data.train_examples=607"]].concat();
    let launched = running(&room, &settings);
    kill(&launched, "worker:1");
    kill(&launched, "worker:0");
    let run = check_end(&room, launched, &settings);
    assert_eq!(run.summary()["stop_reason"], "epochs");
}

#[test]
fn workers_of_a_resumed_mirrored_run_come_back_though_its_checkpoint_is_gone() {
    let room = Room::new();
    let settings = ["cluster.workers=3", "train.optimizer.kind=momentum"];
    let kept = ["checkpoint={every_steps=200, keep=1}", WAIT];
    let settings = [&settings[..], &kept].concat();
    room.train_cluster("run", "mirrored", &[&settings[..], &["train.stop.steps=200"]].concat());
    let run = room.path("run");
    let stop = "train.stop.steps=3000";
    let mut command = room.command(&["train", "--resume", run.to_str().unwrap(), "--set", stop]);
    let launched = Launched::start(&mut command, run.clone());
    let first = run.join("checkpoints/step-000000000200");
    assert!(wait_until(|| !first.exists()), "{}", launched.said());
    kill(&launched, "worker:1");
    kill(&launched, "worker:0");
    check_end(&room, launched, &[&settings[..], &[stop]].concat());
}

#[test]
fn a_mirrored_run_ends_when_a_worker_has_died_too_often() {
    let room = Room::new();
    let launched = running(&room, &[ENDLESS, "cluster.workers=3", "cluster.restarts=1"]);
    kill(&launched, "worker:2");
    signal_to(launched.task("worker:2"), "KILL");
    let done = launched.finish();
    assert!(done.code.unwrap() >= 128, "{done:?}");
    let last = done.stderr.lines().last().unwrap();
    assert_eq!(last, "error: the run failed: worker:2 was killed by signal 9");
}

/// A mirrored task that is started by hand.
fn by_hand(room: &Room, config: &str, settings: &[&str]) -> Launched {
    let mut command = room.command(&["train", "--run-dir", room.path("run").to_str().unwrap()]);
    let common = ["cluster.mode=mirrored", WAIT];
    for setting in SMALL_DATA.iter().chain(&common).chain(settings) {
        command.args(["--set", setting]);
    }
    Launched::start(command.env("TF_CONFIG", config), room.path("run"))
}

#[test]
fn a_mirrored_place_that_nobody_takes_is_named() {
    let room = Room::new();
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    let cluster = json!({"worker": at});
    let settings = [ENDLESS, "cluster.rejoin_timeout_s=1"];
    let mut tasks: Vec<_> = (0..3)
        .map(|slot| by_hand(&room, &tf_config(&cluster, "worker", slot), &settings))
        .collect();
    tasks[0].wait_for_steps();
    let begun = Instant::now();
    tasks[1].signal("KILL");
    for (slot, task) in tasks.into_iter().enumerate() {
        let done = task.finish_task();
        if slot == 1 {
            continue;
        }
        assert_eq!(done.code, Some(200), "{done:?}");
        let lost = format!("error: lost worker:1 ({}): it did not come back within 1 s", at[1]);
        assert_says(&done.stderr, &[&lost]);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(processes_of(&room.path("run")).is_empty());
}

/// A way from one task to another that can be cut.
struct Bridge {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Bridge {
    fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let streams = open.clone();
        thread::spawn(move || {
            for left in listener.incoming() {
                let left = left.unwrap();
                // Nobody there yet: the caller tries again.
                let Ok(right) = TcpStream::connect(&target) else { continue };
                for (from, to) in [(&left, &right), (&right, &left)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || carry(from, to));
                }
                streams.lock().unwrap().extend([left, right]);
            }
        });
        Self { port, open }
    }

    /// Cuts what is open. New connections are carried as before.
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = [0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut piece) {
        let written: io::Result<()> = to.write_all(&piece[..len]);
        if written.is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_cut_connection_between_mirrored_workers_costs_nothing() {
    let room = Room::new();
    let at = free_ports::<3>().map(|port| format!("127.0.0.1:{port}"));
    let bridge = Bridge::to(at[1].clone());
    let settings = ["train.stop.steps=3000", "train.optimizer.kind=momentum", "cluster.workers=3"];
    let mut tasks: Vec<_> = (0..3)
        .map(|slot| {
            // The last one calls the second over the bridge.
            let mut seen = at.clone();
            if slot == 2 {
                seen[1] = format!("127.0.0.1:{}", bridge.port);
            }
            by_hand(&room, &tf_config(&json!({"worker": seen}), "worker", slot), &settings)
        })
        .collect();
    tasks[0].wait_for_steps();
    let run = room.run_dir("run");
    bridge.cut();
    let noticed = || run.log("worker:1").contains("its place is kept");
    assert!(wait_until(noticed), "{}", run.log("worker:1"));
    for task in tasks {
        let done = task.finish_task();
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let other = room.train_cluster("other", "mirrored", &settings);
    assert!(run.model() == other.model(), "the bytes differ");
}
