//! Requests to the depot by a task that knows the run's secret.

use std::cell::RefCell;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use paceline_checkpoint::{CheckpointDir, RemoteCheckpoints, ServerNumber};
use paceline_depot::{Depot, DepotAddress, DepotClient, DepotConfig, GatherTime, Gatherer};
use paceline_exchange::Generation;
use paceline_trust::Service;

use crate::checkpoint_target::write_checkpoint;
use crate::foreign_threads::check_threads;
use crate::peer_pool::{PeerPool, PeerReply, answer_peers, credentials, finish};
use crate::scratch::scratch_dir;

/// The tasks that send files. Their number limits the connections.
const TASKS: usize = 200;
/// The files that inputs make are removed this often.
const CLEAN_EVERY: u64 = 500;
/// The longest answer, in bytes.
const MOST_BYTES: usize = 64 << 20;

struct OpenDepot {
    _depot: Depot,
    run: PathBuf,
    peers: PeerPool,
    inputs: u64,
}

thread_local! {
    static DEPOT: RefCell<Option<OpenDepot>> = const { RefCell::new(None) };
}

impl OpenDepot {
    fn start() -> Self {
        let run = scratch_dir().join("depot");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let folder = |index: usize| (format!("worker:{index}"), run.join(format!("w{index}")));
        let config = DepotConfig {
            credentials: credentials(),
            checkpoints: CheckpointDir::new(run.join("checkpoints")),
            folders: (1..=TASKS).map(folder).collect(),
            shards: 1,
            keep: 2,
            note: Box::new(|_| {}),
        };
        let depot = Depot::start(listener, config).expect("a depot");
        let mut open =
            Self { _depot: depot, run, peers: PeerPool::new(address, Service::Files), inputs: 0 };
        open.clean();
        open
    }

    /// Puts the run's directory back to one checkpoint and one file.
    fn clean(&mut self) {
        let _ = fs::remove_dir_all(&self.run);
        write_checkpoint(&CheckpointDir::new(self.run.join("checkpoints")));
        fs::create_dir_all(self.run.join("w1")).expect("a directory in memory");
        fs::write(self.run.join("w1/log.txt"), "a line\n").expect("a file in memory");
    }
}

/// A message, behind its length of two bytes, and the body that follows it.
pub(crate) fn depot(bytes: &[u8]) {
    DEPOT.with_borrow_mut(|open| {
        let open = open.get_or_insert_with(OpenDepot::start);
        open.inputs += 1;
        if open.inputs.is_multiple_of(CLEAN_EVERY) {
            open.clean();
        }
        let Some((len, rest)) = bytes.split_first_chunk() else { return };
        let len = usize::from(u16::from_le_bytes(*len));
        let (message, body) = rest.split_at(len.min(rest.len()));
        let mut peer = open.peers.take().expect("the depot accepts a task of the run");
        if peer.send(&[message]).is_ok() && !body.is_empty() {
            let _ = peer.send(&[body]);
        }
        finish(peer, MOST_BYTES);
        check_threads();
    });
}

/// What the tasks of a run send: their clients talk to a listener that records it.
pub(crate) fn depot_seeds() -> Vec<Vec<u8>> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address");
    let talks: [fn(SocketAddr); 6] = [
        |at| drop(client(at).claim(ServerNumber { index: 0, count: 1 })),
        |at| {
            let to = Generation { number: 1, base: Some(5) };
            let _ = client(at).follow(ServerNumber { index: 0, count: 1 }, to);
        },
        |at| drop(client(at).manifest(None)),
        |at| drop(client(at).fetch(5, "ps-0.safetensors", &scratch_dir().join("fetched"))),
        |at| {
            let dir = CheckpointDir::new(scratch_dir().join("sender"));
            write_checkpoint(&dir.with_remote(Arc::new(client(at))));
        },
        gather,
    ];
    let mut seeds = Vec::new();
    for talk in talks {
        let recorder = thread::scope(|scope| {
            let recorder = scope.spawn(|| record(&listener));
            talk(address);
            // Ends the recorder: a connection without a word.
            drop(TcpStream::connect(address));
            recorder.join()
        });
        seeds.extend(recorder.unwrap_or_default());
    }
    seeds
}

fn client(address: SocketAddr) -> DepotClient {
    let place = DepotAddress {
        address: address.to_string(),
        keeper: "worker:0".into(),
        credentials: credentials(),
    };
    DepotClient::new(place, Duration::ZERO, |_| true)
}

/// Sends a file of a task's folder.
fn gather(address: SocketAddr) {
    let folder = scratch_dir().join("sent");
    fs::create_dir_all(&folder).expect("a directory in memory");
    fs::write(folder.join("log.txt"), "a line\nanother\n").expect("a file in memory");
    let note = |_: &str| {};
    drop(Gatherer::start(&client(address), "worker:1", folder, GatherTime::End, note));
}

/// Records connections: each message, with its body behind it.
fn record(listener: &TcpListener) -> Vec<Vec<u8>> {
    let (mut seeds, mut body_left) = (Vec::<Vec<u8>>::new(), 0_u64);
    let answer = |message: &[u8]| {
        if let (Some(seed), 1..) = (seeds.last_mut(), body_left) {
            seed.extend(message);
            body_left = body_left.saturating_sub(message.len() as u64);
        } else {
            body_left = message.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            seeds.push([&(message.len() as u16).to_le_bytes(), message].concat());
        }
        let is_list = message.windows(4).any(|word| word == b"List");
        match (body_left, is_list) {
            (1.., _) => PeerReply::Wait,
            (0, true) => reply(r#"{"Files":{"is_shared":false,"files":[]}}"#),
            (0, false) => reply(r#""Done""#),
        }
    };
    answer_peers(listener, Service::Files, usize::MAX, answer);
    seeds
}

/// A reply without a body.
fn reply(text: &str) -> PeerReply {
    PeerReply::Send([&[0; 8], text.as_bytes()].concat())
}
