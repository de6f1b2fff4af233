//! A depot and its clients over real sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_checkpoint::{CheckpointDir, DeliveredShard, RemoteCheckpoints, ServerNumber};
use paceline_trust::Credentials;
use serde_json::json;

use crate::client::{DepotAddress, DepotClient, receive_reply};
use crate::depot::Depot;
use crate::gatherer::{GatherTime, Gatherer};
use crate::message::DepotRequest;
use crate::state::DepotConfig;

const SECRET: &[u8] = b"secret";

struct TestDepot {
    depot: Option<Depot>,
    run: tempfile::TempDir,
    address: String,
}

impl TestDepot {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let run = tempfile::tempdir().unwrap();
        let mut depot = Self { depot: None, run, address };
        depot.restart(listener);
        depot
    }

    fn restart(&mut self, listener: TcpListener) {
        let config = DepotConfig {
            credentials: Credentials::with_token(SECRET),
            checkpoints: CheckpointDir::new(self.run.path().join("checkpoints")),
            folders: vec![("worker:1".into(), self.run.path().join("worker_1"))],
            shards: 2,
            keep: 2,
            note: Box::new(|_| {}),
        };
        self.depot = Some(Depot::start(listener, config).unwrap());
    }

    fn client(&self) -> DepotClient {
        self.client_with(SECRET)
    }

    fn client_with(&self, secret: &[u8]) -> DepotClient {
        DepotClient::new(self.place(secret), Duration::from_millis(300), |_| false)
    }

    fn place(&self, secret: &[u8]) -> DepotAddress {
        DepotAddress {
            address: self.address.clone(),
            keeper: "worker:0".into(),
            credentials: Credentials::with_token(secret),
        }
    }

    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.run.path().join("worker_1").join(name)).ok()
    }

    /// Sends the files of a folder once, as a task does at its end.
    fn gather(&self, folder: &Path) {
        let client = self.client();
        drop(Gatherer::start(&client, "worker:1", folder.into(), GatherTime::End, |_| {}).unwrap());
    }
}

#[test]
fn files_arrive_while_they_grow_and_all_of_them_at_the_end() {
    let depot = TestDepot::start();
    let task = tempfile::tempdir().unwrap();
    fs::write(task.path().join("log.txt"), "one\n").unwrap();
    fs::write(task.path().join(".hidden"), "x").unwrap();
    let every = GatherTime::Live(Duration::from_millis(5));
    let client = depot.client();
    let folder = task.path().to_owned();
    let gatherer = Gatherer::start(&client, "worker:1", folder, every, |text| panic!("{text}"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while depot.kept("log.txt").as_deref() != Some(b"one\n") {
        assert!(Instant::now() < deadline, "nothing has arrived");
        thread::yield_now();
    }
    let large = vec![7; 3 << 20];
    fs::write(task.path().join("events"), &large).unwrap();
    let mut log = fs::File::options().append(true).open(task.path().join("log.txt")).unwrap();
    log.write_all(b"two\n").unwrap();
    drop(gatherer);
    assert_eq!(depot.kept("log.txt").unwrap(), b"one\ntwo\n");
    assert!(depot.kept("events").unwrap() == large);
    assert_eq!(depot.kept(".hidden"), None);
    let left =
        depot.depot.as_ref().unwrap().wait_for_files(Duration::ZERO, Duration::ZERO, &mut |_| {});
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_continues_after_a_restart_and_one_of_another_disk_is_kept_beside_it() {
    let depot = TestDepot::start();
    let task = tempfile::tempdir().unwrap();
    let write = |text: &str| fs::write(task.path().join("log.txt"), text).unwrap();
    write("first");
    depot.gather(task.path());
    write("first, second");
    depot.gather(task.path());
    assert_eq!(depot.kept("log.txt").unwrap(), b"first, second");
    write("another disk");
    depot.gather(task.path());
    assert_eq!(depot.kept("log.txt").unwrap(), b"another disk");
    assert_eq!(depot.kept("log.txt.1").unwrap(), b"first, second");
}

#[test]
fn a_task_that_shares_the_disk_sends_nothing() {
    let depot = TestDepot::start();
    let folder = depot.run.path().join("worker_1");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("log.txt"), "text").unwrap();
    depot.gather(&folder);
    let names: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|at| at.file_name()).collect();
    assert_eq!(names, ["log.txt"]);
    assert_eq!(depot.kept("log.txt").unwrap(), b"text");
}

#[test]
fn a_peer_without_the_secret_gets_no_answer_and_costs_no_memory() {
    let depot = TestDepot::start();
    let refused = depot.client_with(b"another").manifest(None).unwrap_err().to_string();
    assert!(refused.contains("another secret"), "{refused}");
    let mut stream = TcpStream::connect(&depot.address).unwrap();
    // It is no first message, and behind it a message claims four gigabytes.
    stream.write_all(&[0xff; 64 + 12]).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty(), "nothing is said to a stranger");
    assert!(depot.client().manifest(None).unwrap().is_none());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let depot = TestDepot::start();
    let client = depot.client();
    for name in ["../job.toml", "/etc/passwd", "", ".hidden", "a/b"] {
        let (task, file) = ("worker:1".into(), name.into());
        let append = DepotRequest::Append { task, file, at: 0 };
        assert!(client.ask_plain(&append).is_err(), "{name:?}");
        let target = depot.run.path().join("fetched");
        assert!(client.fetch(1, name, &target).is_err(), "{name:?}");
    }
    let unknown = DepotRequest::List { task: "worker:9".into(), probe: ".x".into() };
    assert!(client.ask_plain(&unknown).is_err());
    let done = DepotRequest::Done { task: "x".repeat(1 << 20) };
    let error = client.ask_plain(&done).unwrap_err();
    assert!(error.to_string().len() < 1_000, "neither kept nor repeated");
    assert_eq!(fs::read_dir(depot.run.path()).unwrap().count(), 0);
}

#[test]
fn servers_that_claim_through_the_depot_enter_one_generation_and_a_lost_one_begins_the_next() {
    let depot = TestDepot::start();
    let server = |index| ServerNumber { index, count: 2 };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let claim = |index: usize| {
        let remote: Arc<dyn RemoteCheckpoints> = Arc::new(depot.client());
        let dir = CheckpointDir::new(PathBuf::from(dirs[index].path())).with_remote(remote);
        let start = dir.claim(server(index), None, &mut |_| {}).unwrap();
        assert!(start.checkpoint.is_none());
        assert_eq!(dir.generation(), start.generation.number);
        start.generation.number
    };
    assert_eq!([claim(0), claim(1), claim(1)], [1, 1, 2]);
}

#[test]
fn a_request_waits_for_a_depot_that_comes_back() {
    let mut depot = TestDepot::start();
    let client = DepotClient::new(depot.place(SECRET), Duration::from_secs(20), |_| false);
    assert!(client.manifest(None).unwrap().is_none());
    depot.depot = None;
    let asked = thread::spawn(move || client.manifest(None).unwrap().is_none());
    let listener = loop {
        if let Ok(listener) = TcpListener::bind(&depot.address) {
            break listener;
        }
        thread::yield_now();
    };
    depot.restart(listener);
    assert!(asked.join().unwrap());
}

#[test]
fn strangers_keep_no_task_out() {
    let depot = TestDepot::start();
    let _idle: Vec<_> = (0..600).map(|_| TcpStream::connect(&depot.address).unwrap()).collect();
    let client = DepotClient::new(depot.place(SECRET), Duration::from_secs(20), |_| false);
    let begun = Instant::now();
    assert!(client.manifest(None).unwrap().is_none());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn a_shard_is_delivered_by_the_task_that_has_it_and_no_other() {
    let config = |names: &[&str]| DepotConfig {
        credentials: Credentials::with_token(SECRET),
        checkpoints: CheckpointDir::new("none"),
        folders: names.iter().map(|&name| (name.into(), PathBuf::new())).collect(),
        shards: 2,
        keep: 2,
        note: Box::new(|_| {}),
    };
    let with_servers = config(&["worker:1", "ps:0", "ps:1"]);
    assert_eq!([0, 1].map(|shard| with_servers.holder_of(shard)), ["ps:0", "ps:1"]);
    // The coordinator, of slot 0, keeps its own.
    let mirrored = config(&["worker:0", "worker:1", "evaluator:0"]);
    let holders = [1, 2, 3].map(|shard| mirrored.holder_of(shard));
    assert_eq!(holders, ["worker:0", "worker:1", "ps:3"], "an evaluator has no shard");
}

/// A shard of this number of shards, as a task may say that it has it, of a file with 8 zeros.
fn said_shard(step: u64, shard_count: usize) -> DeliveredShard {
    let bytes = [0_u8; 8];
    serde_json::from_value(json!({
        "index": 0, "name": "ps-0",
        "piece": {
            "info": {
                "format": 1, "paceline": "1", "step": step, "mode": "async", "seed": 1, "slots": 1,
                "batch": 1, "common_step": false, "origin": {"step": 0, "position": 0},
                "job_digest": "", "layout_digest": "", "optimizer_slots": [], "tensors": [],
                "shard_count": shard_count
            },
            "shard": {
                "file": "ps-0.safetensors", "bytes": bytes.len(), "from": 0, "to": 1, "parts": [],
                "crc32c": format!("{:08x}", crc32c::crc32c(&bytes))
            }
        }
    }))
    .unwrap()
}

#[test]
fn a_shard_that_is_not_of_the_runs_checkpoints_replaces_none_of_them() {
    let depot = TestDepot::start();
    let client = depot.client();
    client.claim(ServerNumber { index: 0, count: 2 }).unwrap();
    let checkpoints = CheckpointDir::new(depot.run.path().join("checkpoints"));
    for step in [10, 20] {
        fs::create_dir_all(checkpoints.place(step)).unwrap();
        fs::write(checkpoints.place(step).join("manifest.json"), "{}").unwrap();
    }
    let file = depot.run.path().join("file");
    fs::write(&file, [0_u8; 8]).unwrap();
    // Alone it would be complete, or it would pass for one of any generation.
    for shard_count in [1, 2] {
        let delivered = client.deliver(&said_shard(1 << 40, shard_count), &file);
        assert!(delivered.is_err(), "a checkpoint of {shard_count} shards");
        assert!(!checkpoints.is_complete(1 << 40));
    }
    assert!([10, 20].into_iter().all(|step| checkpoints.is_complete(step)));
}

#[test]
fn a_server_that_the_run_does_not_have_claims_no_generation() {
    let depot = TestDepot::start();
    for (index, count) in [(0, 1), (2, 2), (0, usize::MAX)] {
        let claimed = depot.client().claim(ServerNumber { index, count });
        let why = claimed.unwrap_err().to_string();
        assert!(why.contains("the run has no server"), "{why}");
    }
    let checkpoints = CheckpointDir::new(depot.run.path().join("checkpoints"));
    assert_eq!(checkpoints.generation(), 0);
}

#[test]
fn a_file_that_begins_anew_again_and_again_does_not_fill_the_folder() {
    let depot = TestDepot::start();
    let folder = depot.run.path().join("worker_1");
    fs::create_dir(&folder).unwrap();
    for number in 0..1_000 {
        fs::write(folder.join(format!("log.txt.{number}")), "x").unwrap();
    }
    fs::rename(folder.join("log.txt.0"), folder.join("log.txt")).unwrap();
    let task = tempfile::tempdir().unwrap();
    fs::write(task.path().join("log.txt"), "another").unwrap();
    depot.gather(task.path());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1_000);
    assert_eq!(depot.kept("log.txt").unwrap(), b"x");
}

#[test]
fn a_task_that_opens_many_connections_keeps_no_other_out() {
    let depot = TestDepot::start();
    // The run has two tasks, and each may have three connections.
    let clients: Vec<_> = (0..20).map(|_| depot.client()).collect();
    for client in clients.iter().chain(&clients[..1]) {
        assert!(client.manifest(None).unwrap().is_none());
    }
}

#[test]
fn a_message_that_no_task_of_the_run_needs_is_not_received() {
    let depot = TestDepot::start();
    let long = DepotRequest::Done { task: "x".repeat(2 << 20) };
    let error = depot.client().ask_plain(&long).unwrap_err().to_string();
    assert!(!error.contains("the run has no task"), "{error}");
    assert!(depot.client().manifest(None).unwrap().is_none());
}

#[test]
fn the_files_of_a_task_do_not_fill_the_disk() {
    let depot = TestDepot::start();
    let folder = depot.run.path().join("worker_1");
    fs::create_dir(&folder).unwrap();
    for name in ["events", "trace"] {
        // It has no blocks.
        fs::File::create(folder.join(name)).unwrap().set_len((2 << 30) - 2).unwrap();
    }
    let append = |file: &str, bytes: &[u8]| {
        let (task, file) = ("worker:1".into(), file.into());
        let request = DepotRequest::Append { task, file, at: 0 };
        depot.client().ask(&request, bytes.len() as u64, |channel| {
            channel.send_body(&mut &bytes[..], bytes.len() as u64)?;
            receive_reply(channel).map(|_| ())
        })
    };
    append("log.txt", b"four").unwrap();
    let refused = append("more.txt", b"5").unwrap_err().to_string();
    assert!(refused.contains("too large"), "{refused}");
    assert_eq!(depot.kept("more.txt"), None);
}

#[test]
fn a_task_that_never_ends_its_requests_does_not_hold_up_the_end() {
    let depot = TestDepot::start();
    let is_over = AtomicBool::new(false);
    let left = thread::scope(|scope| {
        scope.spawn(|| {
            let client = depot.client();
            while !is_over.load(Ordering::Relaxed) {
                let list = DepotRequest::List { task: "worker:1".into(), probe: ".x".into() };
                client.ask_plain(&list).unwrap();
            }
        });
        let (limit, most) = (Duration::from_secs(60), Duration::from_millis(300));
        let left = depot.depot.as_ref().unwrap().wait_for_files(limit, most, &mut |_| {});
        is_over.store(true, Ordering::Relaxed);
        left
    });
    assert_eq!(left, ["worker:1"]);
}
