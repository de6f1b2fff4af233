//! What goes wrong in a run of several tasks: tasks that are killed or stopped, launchers that
//! die, strangers at the door. Nobody hangs, nobody is left behind, and the reason is told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use paceline_exchange::{
    FrameKind, Generation, Header, Hello, PROTOCOL_VERSION, PeerRole, ProcessName,
};
use serde_json::Value;

use crate::support::{
    ENDLESS, Launched, Room, SHARED, SMALL_DATA, assert_says, cluster_of, environment, free_ports,
    processes_of, python_json, signal_to, tf_config, wait_until, within,
};

/// A run of 3 workers and 2 servers that is making steps.
fn running(room: &Room, mode: &str, settings: &[&str]) -> Launched {
    let settings = [&["cluster.workers=3", "cluster.servers=2"], settings].concat();
    let mut launched = Launched::start(&mut room.cluster("run", mode, &settings), room.path("run"));
    launched.wait_for_steps();
    launched
}

#[test]
fn a_worker_that_is_killed_ends_the_run_which_names_it() {
    for mode in SHARED {
        let room = Room::new();
        let launched = running(&room, mode, &[ENDLESS]);
        signal_to(launched.task("worker:1"), "KILL");
        let begun = Instant::now();
        let done = launched.finish();
        assert!(begun.elapsed() < Duration::from_secs(15), "{mode}: {:?}", begun.elapsed());
        assert!(done.code.unwrap() >= 128, "{mode}: worth a retry: {done:?}");
        // The servers say that they lost it, and the last word is who is to blame.
        assert_says(&done.stderr, &["error: worker:1 was lost"]);
        let last = done.stderr.lines().last().unwrap();
        assert_eq!(last, "error: the run failed: worker:1 was killed by signal 9", "{mode}");
        assert!(!room.path("run/summary.json").exists(), "{mode}: there is no result");
    }
}

#[test]
fn a_chief_that_is_killed_ends_the_run_even_if_it_could_go_on_without_others() {
    let room = Room::new();
    let launched = running(&room, "async", &[ENDLESS, "cluster.on_worker_loss=continue"]);
    signal_to(launched.task("worker:0"), "KILL");
    let done = launched.finish();
    assert!(done.code.unwrap() >= 128, "{done:?}");
    assert_says(&done.stderr, &["error: ", "worker:0"]);
}

#[test]
fn a_run_goes_on_without_a_killed_worker_if_it_may() {
    for mode in SHARED {
        let room = Room::new();
        let more = ["cluster.on_worker_loss=continue", "train.stop={seconds=0.7}"];
        let launched = running(&room, mode, &more);
        signal_to(launched.task("worker:1"), "KILL");
        let done = launched.finish();
        assert_eq!(done.code, Some(0), "{mode}: {done:?}");
        assert_says(&done.stderr, &["worker:1 was lost", "the run goes on without it"]);
        let summary = room.run_dir("run").summary();
        assert_eq!(summary["stop_reason"], "seconds", "{mode}");
        let tasks = summary["tasks"].as_array().unwrap();
        let names: Vec<_> = tasks.iter().map(|task| task["task"].as_str().unwrap()).collect();
        assert_eq!(names, ["worker:0", "worker:2", "ps:0", "ps:1"], "{mode}");
        let seconds = summary["seconds"].as_f64().unwrap();
        assert!(seconds < 5.0, "{mode}: nobody was waited for: {seconds} s");
    }
}

#[test]
fn a_server_that_is_killed_ends_the_run_which_names_it() {
    for mode in SHARED {
        for server in ["ps:0", "ps:1"] {
            let room = Room::new();
            let launched = running(&room, mode, &[ENDLESS, "cluster.on_worker_loss=continue"]);
            signal_to(launched.task(server), "KILL");
            let begun = Instant::now();
            let done = launched.finish();
            assert!(begun.elapsed() < Duration::from_secs(15), "{mode}: {:?}", begun.elapsed());
            assert!(done.code.unwrap() >= 128, "{mode}: {done:?}");
            let last = done.stderr.lines().last().unwrap();
            assert_eq!(last, format!("error: the run failed: {server} was killed by signal 9"));
        }
    }
}

#[test]
fn a_task_that_dies_before_the_start_ends_the_run() {
    let room = Room::new();
    let settings = ["cluster.workers=3", "data.train_examples=60000", ENDLESS];
    let launched = Launched::start(&mut room.cluster("run", "sync", &settings), room.path("run"));
    // Making the digits takes a while, so the worker is caught before it has connected.
    let worker = || {
        processes_of(&room.path("run")).into_iter().find(|&pid| {
            environment(pid, "TF_CONFIG").is_some_and(|config| config.contains(r#""index":2"#))
        })
    };
    let mut found = None;
    assert!(wait_until(|| {
        found = worker();
        found.is_some()
    }));
    signal_to(found.unwrap(), "KILL");
    let begun = Instant::now();
    let done = launched.finish();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(done.code.unwrap() >= 128, "{done:?}");
    assert_says(&done.stderr, &["error: ", "worker:2"]);
}

#[test]
fn when_the_launcher_is_killed_its_tasks_go_too() {
    for mode in SHARED {
        let room = Room::new();
        let launched = running(&room, mode, &[ENDLESS]);
        assert_eq!(processes_of(&room.path("run")).len(), 6, "five tasks and their launcher");
        launched.signal("KILL");
        within(Duration::from_secs(5), "all tasks are gone", || {
            processes_of(&room.path("run")).is_empty()
        });
        assert_eq!(launched.finish().code, None, "killed");
    }
}

#[test]
fn when_the_launcher_is_killed_before_the_start_its_tasks_go_too() {
    let room = Room::new();
    let settings = ["cluster.workers=3", "data.train_examples=60000", ENDLESS];
    let launched = Launched::start(&mut room.cluster("run", "sync", &settings), room.path("run"));
    let run = room.path("run");
    assert!(wait_until(|| processes_of(&run).len() == 5));
    launched.signal("KILL");
    within(Duration::from_secs(5), "all tasks are gone", || processes_of(&run).is_empty());
}

/// The run must have been interrupted in good order.
#[track_caller]
fn check_interrupted(room: &Room, mode: &str, code: Option<i32>, expected: i32) {
    assert_eq!(code, Some(expected), "{mode}");
    let run = room.run_dir("run");
    let summary = run.summary();
    assert_eq!(summary["stop_reason"], "interrupted", "{mode}");
    assert_eq!(summary["tasks"].as_array().unwrap().len(), 5, "{mode}");
    assert!(summary["global_steps"].as_u64().unwrap() > 0);
    let model = run.file("model.safetensors");
    assert!(python_json("python/read_model.py", &[model.as_os_str()])["weight"].is_object());
    let again = room.ok(&["evaluate", "run", "--json"]).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["test_loss"], summary["test_loss"], "{mode}");
}

#[test]
fn a_signal_to_the_launcher_ends_the_run_in_good_order() {
    for (mode, name, code) in [
        ("async", "INT", 130),
        ("sync", "INT", 130),
        ("bounded", "INT", 130),
        ("sync", "TERM", 143),
    ] {
        let room = Room::new();
        let launched = running(&room, mode, &[ENDLESS]);
        launched.signal(name);
        let done = launched.finish();
        assert_says(&done.stderr, &["error: interrupted by signal"]);
        assert_says(&done.stdout, &["stopped by   interrupted"]);
        check_interrupted(&room, mode, done.code, code);
    }
}

#[test]
fn a_signal_that_reaches_all_tasks_at_once_ends_the_run_in_good_order() {
    // As a terminal sends Ctrl-C, and a service manager asks to end.
    for (mode, name, code) in [
        ("async", "INT", 130),
        ("sync", "INT", 130),
        ("bounded", "INT", 130),
        ("sync", "TERM", 143),
    ] {
        let room = Room::new();
        let settings = ["cluster.workers=3", "cluster.servers=2", ENDLESS];
        let mut command = room.cluster("run", mode, &settings);
        // A process group of its own, as a shell gives to a command.
        let mut launched = Launched::start(command.process_group(0), room.path("run"));
        launched.wait_for_steps();
        let kill = format!("kill -{name} -{}", launched.pid());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let done = launched.finish();
        check_interrupted(&room, mode, done.code, code);
    }
}

#[test]
fn a_second_ctrl_c_ends_a_run_that_cannot_end_by_itself() {
    let room = Room::new();
    let mut launched = running(&room, "sync", &[ENDLESS]);
    let stopped = launched.task("worker:1");
    signal_to(stopped, "STOP");
    launched.signal("INT");
    // The step in the making waits for the worker that was stopped, and says so.
    launched.wait_for("waits for worker:1");
    launched.signal("INT");
    within(Duration::from_secs(5), "the launcher is gone", || launched.has_ended());
    signal_to(stopped, "CONT");
    within(Duration::from_secs(5), "all tasks are gone", || {
        processes_of(&room.path("run")).is_empty()
    });
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn async_goes_on_while_a_worker_is_stopped_for_five_seconds() {
    let room = Room::new();
    let mut launched = running(&room, "async", &["train.stop={seconds=7}"]);
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let begun = Instant::now();
    launched.wait_for_more_steps();
    launched.wait_for_more_steps();
    within(Duration::from_secs(5), "5 s", || begun.elapsed() > Duration::from_secs(5));
    signal_to(worker, "CONT");
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.stderr.contains("waits for"), "nobody waits: {done:?}");
    let run = room.run_dir("run");
    let steps = |task| run.task(task)["steps"].as_u64().unwrap();
    assert!(steps("worker:0") > steps("worker:1"), "who was stopped has made fewer steps");
}

/// Nobody makes steps while a worker is stopped, for so long; the chief says for whom it waits,
/// and the run ends well once it is let go.
fn check_waits(mode: &str, settings: &[&str], stopped: Duration) {
    let room = Room::new();
    let stop = format!("train.stop={{seconds={}}}", stopped.as_secs_f64() + 0.5);
    let mut launched = running(&room, mode, &[settings, &[&stop]].concat());
    let run = room.run_dir("run");
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let begun = Instant::now();
    launched.wait_for("\nworker:0: step ");
    assert_says(&run.log("worker:0"), &[" waits for worker:1 ("]);
    let still = (run.event_bytes("worker:0"), launched.last_step());
    within(2 * stopped, "the time to be stopped", || begun.elapsed() > stopped);
    let then = (run.event_bytes("worker:0"), launched.last_step());
    assert_eq!(then, still, "{mode}: steps were made without worker:1");
    signal_to(worker, "CONT");
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{mode}: {done:?}");
    assert_eq!(run.summary()["stop_reason"], "seconds");
    // Whichever server it was stopped before; the other may have had all it needed.
    assert_says(&(run.log("ps:0") + &run.log("ps:1")), &["waits for worker:1"]);
}

#[test]
fn sync_waits_for_a_stopped_worker_and_says_so() {
    check_waits("sync", &[], Duration::from_secs(2));
}

#[test]
fn bounded_waits_for_a_stopped_worker_and_says_so() {
    check_waits("bounded", &["cluster.staleness=1"], Duration::from_secs(2));
}

#[test]
fn five_seconds_of_standstill_are_no_reason_to_fail() {
    check_waits("sync", &[], Duration::from_secs(5));
}

#[test]
fn a_standstill_beyond_the_limit_ends_the_run_and_names_who_was_waited_for() {
    let room = Room::new();
    let launched = running(&room, "sync", &[ENDLESS, "cluster.stall_timeout_s=2"]);
    let worker = launched.task("worker:1");
    signal_to(worker, "STOP");
    let begun = Instant::now();
    let done = launched.finish();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(done.code.unwrap() >= 128, "{done:?}");
    assert_says(&done.stderr, &["error: step ", "waits for worker:1"]);
}

#[test]
fn a_stopped_backup_holds_up_nobody() {
    let room = Room::new();
    let settings = ["cluster.workers=3", "cluster.quorum=2", "train.stop={seconds=3}"];
    let mut launched =
        Launched::start(&mut room.cluster("run", "sync", &settings), room.path("run"));
    launched.wait_for_steps();
    let worker = launched.task("worker:2");
    signal_to(worker, "STOP");
    launched.wait_for_more_steps();
    signal_to(worker, "CONT");
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// The address of a server of a run, and the secret of the run.
fn door(launched: &Launched) -> (String, String) {
    let server = launched.task("ps:0");
    let config: Value = serde_json::from_str(&environment(server, "TF_CONFIG").unwrap()).unwrap();
    let address = config["cluster"]["ps"][0].as_str().unwrap().to_owned();
    (address, environment(server, "PACELINE_TOKEN").unwrap())
}

/// A frame with this payload.
fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    [&Header::new(kind, payload.len()).encode()[..], payload].concat()
}

fn hello(token: &str) -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        role: PeerRole::Worker,
        slot: 0,
        incarnation: u64::MAX,
        job_digest: [7; 32],
        layout_digest: [7; 32],
        server: 0,
        servers: 2,
        generation: Generation::default(),
        token: token.as_bytes().to_vec(),
        process: ProcessName::default(),
    }
}

/// Says this to a server, which must hang up without delay.
fn say(address: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // Hanging up on what was not read yet shows as a reset.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

/// Ends a run that strangers have been at, which must be as well as if they had not.
fn end_unharmed(room: &Room, launched: Launched) {
    let run = room.run_dir("run");
    let before = launched.last_step();
    launched.signal("INT");
    let done = launched.finish();
    assert!(run.summary()["global_steps"].as_u64().unwrap() > before, "steps were made");
    check_interrupted(room, "after strangers", done.code, 130);
    for server in ["ps:0", "ps:1"] {
        // (That one is slow may well be said: on a busy machine it is true.)
        let log = run.log(server);
        let harmed = |line: &&str| line.contains("connection to worker:");
        assert_eq!(log.lines().find(harmed), None, "a worker was lost: {log}");
    }
}

#[test]
fn strangers_are_shown_out_with_a_reason_and_harm_nobody() {
    let room = Room::new();
    let launched = running(&room, "sync", &[ENDLESS]);
    let (address, token) = door(&launched);
    let run = room.run_dir("run");
    let mut huge = Header::new(FrameKind::Hello, 0).encode();
    huge[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let other_version = Hello { version: 99, ..hello(&token) };
    let no_magic = [&b"NOPE"[..], &hello(&token).encode()[4..]].concat();
    let cut_short = &hello(&token).encode()[..50];
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n-----------".to_vec(), "kind of frame 71"),
        (vec![0xff; 100_000], "unknown kind of frame 255"),
        (huge.to_vec(), "Hello with a payload of 4294967295 bytes"),
        (frame(FrameKind::Pull, &[]), "a frame before Hello"),
        (frame(FrameKind::Push, &[0; 64]), "a frame before Hello"),
        (frame(FrameKind::Hello, &[]), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &no_magic), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, cut_short), "closed the connection of a stranger"),
        (frame(FrameKind::Hello, &other_version.encode()), "refused a connection: "),
        (frame(FrameKind::Hello, &hello("wrong").encode()), "the token is not this run's"),
        (frame(FrameKind::Hello, &hello("").encode()), "the token is not this run's"),
        (frame(FrameKind::Hello, &hello(&token).encode()), "it works for another job"),
    ] {
        let before = run.log("ps:0").len();
        say(&address, &bytes);
        within(Duration::from_secs(5), reason, || run.log("ps:0")[before..].contains(reason));
    }
    end_unharmed(&room, launched);
}

#[test]
fn half_a_frame_and_silence_cost_a_run_nothing() {
    let room = Room::new();
    let launched = running(&room, "sync", &["train.stop={seconds=1}"]);
    let (address, token) = door(&launched);
    let whole = frame(FrameKind::Hello, &hello(&token).encode());
    let _open = [0, 1, 39, 40, 60].map(|len| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(&whole[..len]).unwrap();
        stream
    });
    let done = launched.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn hundreds_of_connections_that_come_and_go_do_not_stop_a_run() {
    let room = Room::new();
    let mut launched = running(&room, "async", &[ENDLESS]);
    let (address, _) = door(&launched);
    for turn in 0..500 {
        let mut stream = TcpStream::connect(&address).unwrap();
        match turn % 3 {
            0 => drop(stream),
            1 => stream.shutdown(Shutdown::Write).unwrap(),
            _ => stream.write_all(b"x").unwrap(),
        }
    }
    // And as many at the same time.
    let open: Vec<_> = (0..500).map(|_| TcpStream::connect(&address).unwrap()).collect();
    launched.wait_for_more_steps();
    drop(open);
    end_unharmed(&room, launched);
}

#[test]
fn somebody_who_says_nothing_is_shown_out_after_a_while() {
    let [port] = free_ports();
    let room = Room::new();
    let run = room.run_dir("run");
    let mut command = room.command(&["train", "--run-dir", run.str()]);
    command.args(SMALL_DATA.iter().flat_map(|setting| ["--set", setting]));
    command.env("TF_CONFIG", tf_config(&cluster_of(1, &[port]), "ps", 0));
    let server = Launched::start(&mut command, room.path("run"));
    let mut silent = None;
    assert!(wait_until(|| {
        silent = TcpStream::connect(("127.0.0.1", port)).ok();
        silent.is_some()
    }));
    let mut silent = silent.unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    assert_eq!(silent.read(&mut [0; 100]).unwrap(), 0, "the server hangs up");
    assert_says(&run.log("ps:0"), &["a stranger: no Hello in time"]);
    drop(server);
}
