//! A checkpoint is of one piece, and a server that was restored from it goes on there.

use paceline_exchange::{
    ChunkMarks, Client, ClientConfig, ConnId, FrameBody, FrameKind, Header, Host, Level,
    ModeConfig, OnLoss, Payload, PeerRole, ProcessName, ResumeState, RosterConfig, Server,
    ServerConfig, ServerPhase, SlotMark, Stats, Store, worker_names,
};
use paceline_model::{Group, Layout, OptimizerState, Sgd};

const PARAMS: usize = 6;
const CHUNKS: usize = 3;

/// Notes every checkpoint: its step, the parameters and the marks.
#[derive(Default)]
struct Shelf {
    taken: Vec<(u64, Vec<f32>, Vec<ChunkMarks>)>,
    refuses: bool,
    closed: Vec<String>,
}

impl Host for Shelf {
    fn send(&mut self, _: ConnId, _: Header, _: FrameBody<'_>) {}
    fn close(&mut self, _: ConnId, reason: &str) {
        self.closed.push(reason.to_owned());
    }
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &Stats) -> Vec<u8> {
        Vec::new()
    }
    fn phase(&mut self, _: ServerPhase) {}
    fn checkpoint(&mut self, step: u64, server: &Server) -> bool {
        if !self.refuses {
            self.taken.push((step, server.store().params().to_vec(), server.marks()));
        }
        !self.refuses
    }
}

/// A server of two workers, with three chunks; restored, if that is told.
fn server(mode: ModeConfig, resume: Option<&ResumeState>, shelf: &mut Shelf) -> Server {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    let config = ServerConfig {
        index: 0,
        servers: 1,
        workers: 2,
        names: worker_names(2),
        mode,
        stop_steps: None,
        on_loss: OnLoss::Fail,
        rejoin_ms: 0,
        stall_ms: 5_000,
        token: Vec::new(),
        job_digest: [1; 32],
        layout_digest: [2; 32],
        total_params: PARAMS,
        chunk_floats: PARAMS / CHUNKS,
        roster: RosterConfig::default(),
    };
    let optimizer = OptimizerState::new(Sgd::new(1.0), &layout, 0..PARAMS);
    let mut server = Server::new(config, Store::dense(vec![0.0; PARAMS], optimizer));
    resume.into_iter().for_each(|resume| server.resume(resume));
    for slot in 0..2 {
        let hello = Client::new(ClientConfig {
            role: PeerRole::Worker,
            slot,
            incarnation: 5,
            job_digest: [1; 32],
            layout_digest: [2; 32],
            token: Vec::new(),
            servers: 1,
            total_params: PARAMS,
            is_sparse: false,
            process: ProcessName::default(),
        })
        .hello(0);
        let conn = ConnId(u64::from(slot));
        server.connection_opened(conn, 0);
        server.frame_arrived(conn, &hello.0, Payload::Bytes(&hello.1), 0, shelf);
    }
    assert!(server.is_started());
    server
}

fn push(server: &mut Server, slot: u64, chunk: u32, sequence: u64, shelf: &mut Shelf) {
    let mut header = Header::new(FrameKind::Push, 8);
    (header.chunk, header.count) = (chunk, 1);
    (header.sequence, header.step) = (sequence, sequence - 1);
    server.frame_arrived(ConnId(slot), &header, Payload::Floats(&mut vec![1.0; 2]), 0, shelf);
}

fn ask(server: &mut Server, slot: u64, step: u64, shelf: &mut Shelf) {
    let header = Client::checkpoint(step);
    server.frame_arrived(ConnId(slot), &header, Payload::Bytes(&[]), 0, shelf);
}

#[test]
fn in_sync_it_is_taken_when_all_chunks_have_made_the_step() {
    let mut shelf = Shelf::default();
    let mut server = server(ModeConfig::Sync { quorum: 2 }, None, &mut shelf);
    ask(&mut server, 0, 2, &mut shelf);
    for sequence in 1..=3 {
        for (slot, chunk) in [(1, 2), (0, 0), (0, 1), (1, 0), (0, 2), (1, 1)] {
            push(&mut server, slot, chunk, sequence, &mut shelf);
        }
    }
    let slots = vec![SlotMark { last_sequence: 2, step: 1 }; 2];
    let marks = vec![ChunkMarks { version: 2, slots }; CHUNKS];
    assert_eq!(shelf.taken, [(2, vec![-2.0; PARAMS], marks)]);
    assert!(shelf.closed.is_empty(), "{:?}", shelf.closed);
}

#[test]
fn in_async_it_is_taken_at_once_with_what_is_in_each_chunk() {
    let mut shelf = Shelf::default();
    let mut server = server(ModeConfig::Async, None, &mut shelf);
    push(&mut server, 1, 0, 1, &mut shelf);
    push(&mut server, 0, 0, 1, &mut shelf);
    push(&mut server, 1, 1, 1, &mut shelf);
    ask(&mut server, 0, 2, &mut shelf);
    let chunk = |version, zero, one| ChunkMarks {
        version,
        slots: [zero, one].map(|last_sequence| SlotMark { last_sequence, step: 0 }).to_vec(),
    };
    let marks = vec![chunk(2, 1, 1), chunk(1, 0, 1), chunk(0, 0, 0)];
    assert_eq!(shelf.taken, [(2, vec![-2.0, -2.0, -1.0, -1.0, 0.0, 0.0], marks.clone())]);

    // Who has the push already does not apply it again; who has not, does.
    let resume = ResumeState { first_step: 0, chunks: marks, stop_at: None };
    let mut server = self::server(ModeConfig::Async, Some(&resume), &mut shelf);
    for chunk in 0..CHUNKS as u32 {
        push(&mut server, 1, chunk, 1, &mut shelf);
    }
    let applied = [0.0, 0.0, 0.0, 0.0, -1.0, -1.0];
    assert_eq!(server.store().params(), applied);
    assert!(shelf.closed.is_empty(), "{:?}", shelf.closed);
}

#[test]
fn a_step_is_taken_once_more_only_if_it_is_the_last_and_all_have_left() {
    let mut shelf = Shelf::default();
    let mut server = server(ModeConfig::Async, None, &mut shelf);
    push(&mut server, 0, 0, 1, &mut shelf);
    ask(&mut server, 0, 1, &mut shelf);
    push(&mut server, 0, 1, 1, &mut shelf);
    // The chief's connection was lost, and it asks again.
    ask(&mut server, 0, 1, &mut shelf);
    push(&mut server, 0, 2, 1, &mut shelf);
    for slot in 0..2 {
        let (header, report) = Client::leave(Vec::new());
        server.frame_arrived(ConnId(slot), &header, Payload::Bytes(&report), 0, &mut shelf);
    }
    ask(&mut server, 0, 1, &mut shelf);
    let versions = |taken: &(u64, _, Vec<ChunkMarks>)| {
        (taken.0, taken.2.iter().map(|chunk| chunk.version).collect::<Vec<_>>())
    };
    let taken: Vec<_> = shelf.taken.iter().map(versions).collect();
    assert_eq!(taken, [(1, vec![1, 0, 0]), (1, vec![1, 1, 1])]);
    assert_eq!(shelf.taken[1].1, [-1.0; PARAMS]);
}

#[test]
fn in_sync_a_step_that_the_others_have_passed_is_not_taken_for_it() {
    let mut shelf = Shelf::default();
    let mut server = server(ModeConfig::Sync { quorum: 1 }, None, &mut shelf);
    ask(&mut server, 0, 1, &mut shelf);
    for sequence in 1..=2 {
        for chunk in 0..CHUNKS as u32 {
            push(&mut server, 1, chunk, sequence, &mut shelf);
        }
    }
    assert_eq!(server.global_step(), 2);
    // The chief's connection was lost, and it asks again.
    ask(&mut server, 0, 1, &mut shelf);
    let taken: Vec<_> = shelf.taken.iter().map(|taken| (taken.0, taken.2[0].version)).collect();
    assert_eq!(taken, [(1, 1)]);
}

#[test]
fn only_the_chief_is_listened_to_and_what_is_taken_is_not_taken_again() {
    let mut shelf = Shelf { refuses: true, ..Shelf::default() };
    let mut server = server(ModeConfig::Async, None, &mut shelf);
    ask(&mut server, 0, 5, &mut shelf);
    shelf.refuses = false;
    for step in [5, 5, 4, 6] {
        ask(&mut server, 0, step, &mut shelf);
    }
    assert_eq!(shelf.taken.iter().map(|taken| taken.0).collect::<Vec<_>>(), [5, 6]);
    ask(&mut server, 1, 7, &mut shelf);
    assert_eq!((shelf.taken.len(), shelf.closed.len()), (2, 1));
}
