//! What docs/failures.md promises: every row names a test, and the tests that stand nowhere else.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use paceline_exchange::{FrameKind, HEADER_BYTES, Header, Refusal, RefuseCode};

use crate::support::{
    ENDLESS, Launched, PACELINE, Room, SMALL_DATA, assert_says, cluster_of, free_ports, signal_to,
    tf_config, wait_until, workspace,
};

/// A task of a cluster, started by hand, perhaps under a limit of the shell's.
fn task(room: &Room, port: u16, name: &str, limit: &str, settings: &[&str]) -> Launched {
    let (role, index) = name.split_once(':').unwrap();
    let run = room.path("run");
    let line = format!("{limit} exec {PACELINE} train --run-dir {} \"$@\"", run.display());
    let mut command: Command = room.program("sh");
    command.args(["-c", &line, "sh"]);
    for setting in SMALL_DATA.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    let index: usize = index.parse().unwrap();
    command.env("TF_CONFIG", tf_config(&cluster_of(2, &[port]), role, index));
    Launched::start(&mut command, run)
}

#[test]
fn a_task_that_has_no_memory_dies_and_the_others_name_it() {
    // 400 MB of parameters, which do not fit into 350; all else that a task needs does.
    let large = ["model.kind=logistic", "model.dense=true", "data.features=100000000"];
    for poor in ["ps:0", "worker:1"] {
        let room = Room::new();
        let [port] = free_ports();
        let settings = [&large[..], &[ENDLESS, "cluster.start_timeout_s=3"]].concat();
        let mut tasks: Vec<_> = ["ps:0", "worker:0", "worker:1"]
            .into_iter()
            .filter(|name| *name != poor)
            .map(|name| task(&room, port, name, "", &settings))
            .collect();
        let limited = task(&room, port, poor, "ulimit -v 350000;", &settings);
        let done = limited.finish_task();
        assert!(done.code.is_none() || done.code >= Some(1), "{poor}: {done:?}");
        assert_says(&done.stderr, &["memory"]);
        let chief = tasks.remove(tasks.len() - 1 - usize::from(poor == "ps:0"));
        let done = chief.finish_task();
        assert!(done.code.unwrap() >= 128, "{poor}: worth a retry: {done:?}");
        let named = if poor == "ps:0" { "ps:0" } else { "waits for other workers" };
        assert_says(&done.stderr, &["the run did not start", named]);
        tasks.into_iter().for_each(|task| drop(task.finish_task()));
    }
}

#[test]
fn a_worker_whose_disk_is_full_ends_the_run_and_names_the_file() {
    for poor in ["worker:1", "worker:0"] {
        let room = Room::new();
        let [port] = free_ports();
        let settings = [ENDLESS, "observe.every=1"];
        let limit = "trap '' XFSZ; ulimit -f 16;";
        let tasks = ["ps:0", "worker:0", "worker:1"];
        let tasks = tasks.map(|name| {
            let limit = if name == poor { limit } else { "" };
            (name, task(&room, port, name, limit, &settings))
        });
        for (name, task) in tasks {
            let done = task.finish_task();
            match name == poor {
                true => assert_eq!(done.code, Some(1), "{done:?}"),
                false => assert!(done.code.unwrap() >= 128, "{name}: {done:?}"),
            }
            let file = format!("worker_{}", &poor[7..]);
            let said = if name == poor { ["cannot write", &file] } else { ["error: ", poor] };
            assert!(name == "worker:1" || said.iter().all(|s| done.stderr.contains(s)), "{done:?}");
        }
    }
}

#[test]
fn a_server_of_another_version_is_named_by_the_workers() {
    let room = Room::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; HEADER_BYTES];
            let _ = stream.read_exact(&mut head);
            let text = "protocol version 4, not 99".to_owned();
            let refusal = Refusal { code: RefuseCode::WrongVersion, text }.encode();
            let header = Header::new(FrameKind::Refuse, refusal.len());
            let _ = stream.write_all(&[&header.encode()[..], &refusal].concat());
            // Until the other has read it.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    let worker = task(&room, port, "worker:0", "", &[ENDLESS, "cluster.start_timeout_s=2"]);
    let done = worker.finish_task();
    assert!(done.code.unwrap() >= 128, "{done:?}");
    assert_says(&done.stderr, &["ps:0", "wrong version (protocol version 4, not 99)"]);
}

#[test]
fn a_stopped_launcher_holds_up_nobody() {
    let room = Room::new();
    let mut command = room.cluster("run", "async", &[ENDLESS]);
    let mut launched = Launched::start(&mut command, room.path("run"));
    launched.wait_for_steps();
    signal_to(launched.pid(), "STOP");
    let run = room.run_dir("run");
    let before = run.event_bytes("worker:1");
    assert!(wait_until(|| run.event_bytes("worker:1") > before), "steps are made");
    signal_to(launched.pid(), "CONT");
    launched.signal("INT");
    assert_eq!(launched.finish().code, Some(130));
}

#[test]
fn every_row_of_the_table_names_a_test_that_there_is() {
    let text = fs::read_to_string(workspace().join("docs/failures.md")).unwrap();
    let mut is_row = false;
    let mut count = 0;
    for row in text.lines() {
        is_row = row.starts_with('|') && (is_row || row == "| what | what happens | tests |");
        if !is_row || !row.starts_with("| ") || row.ends_with("| tests |") {
            continue;
        }
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        let named = cells.last().unwrap().split('`').skip(1).step_by(2);
        let mut any = false;
        for name in named {
            any = true;
            let (module, test) = name.split_once("::").unwrap_or_else(|| panic!("{row}"));
            let path = workspace().join("tests").join(module).with_extension("rs");
            let source = fs::read_to_string(&path).unwrap_or_else(|_| panic!("{row}: {path:?}"));
            let line = format!("#[test]\nfn {test}()");
            assert!(source.contains(&line), "{name} is no test, but stands in: {row}");
        }
        assert!(any, "no test is named in: {row}");
        count += 1;
    }
    assert!(count > 20, "only {count} rows were found");
}
