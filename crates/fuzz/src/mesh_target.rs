//! The protocol between the workers of a run without servers.

use paceline_exchange::{
    ControlFrame, PeerTarget, Replica, ReplicaConfig, WholeGradient, WireFormat,
};
use paceline_model::{Group, Layout, Sgd};

use crate::frame_stream::{FrameStream, put_frame};

/// Parameters of the model.
const PARAMS: usize = 90;
/// Steps that a seed records.
const STEPS: usize = 3;

/// One of the workers of a run that a number selects.
fn replica(slot: usize, kind: u8) -> Replica {
    let mut layout = Layout::new();
    layout.push("weight", &[PARAMS], Group::Weights);
    let config = ReplicaConfig {
        chunk_floats: 20,
        owner_floats: 10,
        check_every: 2,
        recovers: kind & 1 != 0,
        wire: if kind & 2 != 0 { WireFormat::Bf16 } else { WireFormat::F32 },
        ..ReplicaConfig::new(slot, 2)
    };
    Replica::new(config, vec![0.5; PARAMS], Sgd::new(0.1), &layout)
}

/// A worker, and how far it has come.
struct MeshWorker {
    replica: Replica,
    steps: usize,
    is_in_step: bool,
}

impl MeshWorker {
    fn new(slot: usize, kind: u8) -> Self {
        Self { replica: replica(slot, kind), steps: 0, is_in_step: false }
    }

    fn peer(&self) -> usize {
        1 - self.replica.slot()
    }

    /// Makes what progress is possible, and appends the frames for the other worker.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<(), ()> {
        let (gradient, peer) = ([0.25; PARAMS], self.peer());
        let memory = &mut WholeGradient(&gradient);
        loop {
            let replica = &mut self.replica;
            let is_ready = !replica.is_behind() && !replica.is_over() && self.steps < STEPS;
            if !self.is_in_step && is_ready {
                replica.begin_step(Some(10));
                self.is_in_step = true;
            }
            while replica.reduce_chunk(memory) {}
            while let Some(frame) = replica.next_frame(peer, memory) {
                put_frame(out, &frame.header, replica.payload(&frame.source, memory));
            }
            if !self.is_in_step || !replica.is_complete() {
                return Ok(());
            }
            replica.finish_step().map_err(drop)?;
            (self.steps, self.is_in_step) = (self.steps + 1, false);
        }
    }

    /// Reads the frames of the peer, up to one whose turn has not come; returns the rest. An error
    /// ends the connection.
    fn receive<'a>(&mut self, bytes: &'a [u8], sent: &mut Vec<u8>) -> Result<&'a [u8], ()> {
        let (gradient, peer) = ([0.25; PARAMS], self.peer());
        let mut stream = FrameStream(bytes);
        loop {
            let (rest, Some(frame)) = (stream.0, stream.next()) else { return Ok(&[]) };
            let memory = &mut WholeGradient(&gradient);
            let replica = &mut self.replica;
            match replica.read_target(peer, &frame.header).map_err(drop)? {
                PeerTarget::Later => return Ok(rest),
                PeerTarget::Bytes(len) => {
                    let bytes = frame.payload.get(..len).ok_or(())?;
                    replica.frame_arrived(peer, &frame.header, bytes, memory).map_err(drop)?;
                }
                target => {
                    let place = replica.target_bytes(peer, &target, memory);
                    assert_eq!(place.len(), frame.payload.len(), "room for exactly the payload");
                    place.copy_from_slice(frame.payload);
                    replica.frame_arrived(peer, &frame.header, &[], memory).map_err(drop)?;
                }
            }
            self.advance(sent)?;
        }
    }
}

/// Worker 0 under the frames of worker 1: first its `Hello`, then those of steps.
pub(crate) fn mesh(bytes: &[u8]) {
    play(bytes);
}

/// The steps that worker 0 makes.
fn play(bytes: &[u8]) -> usize {
    let Some((kind, bytes)) = bytes.split_first() else { return 0 };
    let mut worker = MeshWorker::new(0, *kind);
    let mut stream = FrameStream(bytes);
    let Some(hello) = stream.next() else { return 0 };
    let replica = &mut worker.replica;
    let is_accepted = replica.accept_hello(&hello.header, hello.payload).is_ok();
    if !is_accepted || !replica.is_started() || replica.plan_catch_up().is_err() {
        return 0;
    }
    if worker.advance(&mut Vec::new()).is_ok() {
        let _ = worker.receive(stream.0, &mut Vec::new());
    }
    worker.steps
}

/// What worker 1 sends while both train.
fn record(kind: u8) -> Vec<u8> {
    let mut workers = [MeshWorker::new(0, kind), MeshWorker::new(1, kind)];
    let mut out = vec![kind];
    let ControlFrame { header, body } = workers[1].replica.hello(0);
    put_frame(&mut out, &header, &body);
    workers[0].replica.accept_hello(&header, &body).expect("a worker of the run");
    let welcome = workers[0].replica.welcome();
    let answered = workers[1].replica.hello_answered(0, &welcome.header, &welcome.body);
    answered.expect("a welcome");
    for worker in &mut workers {
        worker.replica.plan_catch_up().expect("both begin");
    }
    // What each has received and not read.
    let mut inboxes = [Vec::new(), Vec::new()];
    for _ in 0..50 {
        for slot in 0..2 {
            let (inbox, mut sent) = (std::mem::take(&mut inboxes[slot]), Vec::new());
            workers[slot].advance(&mut sent).expect("a sound step");
            let rest = workers[slot].receive(&inbox, &mut sent).expect("sound frames");
            inboxes[slot] = rest.to_vec();
            if slot == 1 {
                out.extend(&sent);
            }
            inboxes[1 - slot].extend(sent);
        }
    }
    out
}

pub(crate) fn mesh_seeds() -> Vec<Vec<u8>> {
    (0..4).map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_whole_runs() {
        assert_eq!(mesh_seeds().iter().map(|seed| play(seed)).collect::<Vec<_>>(), [STEPS; 4]);
    }
}
