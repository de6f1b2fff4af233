//! A depot and its clients over real sockets.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use paceline_checkpoint::{CheckpointDir, RemoteCheckpoints, ServerNumber};
use paceline_trust::Credentials;

use crate::client::{DepotAddress, DepotClient};
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
    let left = depot.depot.as_ref().unwrap().wait_for_files(Duration::ZERO, &mut |_| {});
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
        note: Box::new(|_| {}),
    };
    let with_servers = config(&["worker:1", "ps:0", "ps:1"]);
    assert_eq!([0, 1].map(|shard| with_servers.holder_of(shard)), ["ps:0", "ps:1"]);
    // The coordinator, of slot 0, keeps its own.
    let mirrored = config(&["worker:0", "worker:1", "evaluator:0"]);
    let holders = [1, 2, 3].map(|shard| mirrored.holder_of(shard));
    assert_eq!(holders, ["worker:0", "worker:1", "ps:3"], "an evaluator has no shard");
}
