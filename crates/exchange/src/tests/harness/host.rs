//! A host that records what a server does.

use super::ServerCopy;
use crate::{
    ConnId, FrameBody, FrameKind, Generation, Header, Host, Level, Server, ServerPhase, Stats,
    Store,
};

/// Everything that a server has done.
#[derive(Default)]
pub(crate) struct RecordingHost {
    /// By the number of the connection.
    pub(crate) sent: Vec<(u64, Header, Vec<u8>)>,
    pub(crate) closed: Vec<(u64, String)>,
    pub(crate) notes: Vec<String>,
    pub(crate) checkpoints: Vec<(u64, ServerCopy)>,
    pub(crate) last_checkpoint: Option<u64>,
    pub(crate) refuses_checkpoints: bool,
    /// Whether the run's record has no generation but the current one.
    pub(crate) lacks_generations: bool,
}

impl RecordingHost {
    /// The texts of all frames of a kind, with the numbers of their connections.
    pub(crate) fn texts(&self, kind: FrameKind) -> Vec<(u64, String)> {
        let of_kind = self.sent.iter().filter(|(_, header, _)| header.kind == kind);
        of_kind.map(|(to, _, bytes)| (*to, String::from_utf8_lossy(bytes).into_owned())).collect()
    }
}

impl Host for RecordingHost {
    fn send(&mut self, to: ConnId, header: Header, body: FrameBody<'_>) {
        let header = Header::decode(&header.encode()).expect("a sound header");
        let mut bytes = Vec::new();
        body.append_to(&mut bytes);
        assert_eq!(header.len as usize, bytes.len());
        self.sent.push((to.0, header, bytes));
    }
    fn close(&mut self, conn: ConnId, reason: &str) {
        self.closed.push((conn.0, reason.to_owned()));
    }
    fn note(&mut self, _level: Level, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn report(&mut self, _stats: &Stats, _store: &Store) -> Vec<u8> {
        // Longer than a frame, so that the list of reports has several pieces.
        vec![1; 100_000]
    }
    fn checkpoint(&mut self, step: u64, server: &Server) {
        if !self.refuses_checkpoints {
            self.checkpoints.push((step, ServerCopy::of(server)));
            self.last_checkpoint = Some(step);
        }
    }
    fn last_checkpoint(&self) -> Option<u64> {
        self.last_checkpoint
    }
    fn knows_generation(&mut self, _generation: Generation) -> bool {
        !self.lacks_generations
    }
    fn phase(&mut self, _phase: ServerPhase) {}
}
