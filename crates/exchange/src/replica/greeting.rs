//! How two workers find out that they belong to the same run.
//!
//! Of two workers the one with the higher slot connects and says `Hello`; the other compares, and
//! answers with `Welcome` or `Refuse`. A process that takes the place of a lost worker at another
//! address connects to all others. A worker begins as soon as it is connected to all others.
//! There is no other start, since a peer that is not ready merely reads later. Both also state how
//! far their replicas are (`regroup.rs`).

use super::peer::{COORDINATOR, ReplicaPosition};
use super::state::Replica;
use crate::incarnation::is_plausible_incarnation;
use crate::{
    ControlFrame, Flags, FrameKind, Generation, Header, Hello, MessageError, PeerRole,
    ProtocolError, Refusal, RefuseCode, RunIdentity, Welcome,
};

/// Why a `Hello` is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetError {
    /// It is not a `Hello` of this protocol, and gets no answer.
    Stranger(ProtocolError),
    /// The worker is refused.
    Refused {
        /// The answer to send.
        refusal: Refusal,
        /// The slot that the worker fills in its run, if there is such a slot.
        slot: Option<usize>,
    },
}

impl Replica {
    /// The first frame to a peer that this worker has connected to.
    pub fn hello(&self, peer: usize) -> ControlFrame {
        let config = &self.config;
        let bytes = Hello {
            wire: config.wire,
            slot: config.slot as u32,
            incarnation: config.incarnation,
            job: config.job.clone(),
            layout_digest: config.layout_digest,
            server: peer as u32,
            servers: self.peers.len() as u32,
            ..Hello::new(PeerRole::Replica)
        }
        .encode();
        let mut frame = ControlFrame::new(FrameKind::Hello, bytes);
        (frame.header.step, frame.header.flags) = (self.global_step, self.position_flags());
        frame
    }

    /// Handles the `Hello` of a new connection, and returns the slot of the peer. A peer that is
    /// already connected is replaced.
    pub fn accept_hello(&mut self, header: &Header, bytes: &[u8]) -> Result<usize, GreetError> {
        if header.kind != FrameKind::Hello {
            return Err(GreetError::Stranger(ProtocolError::Unexpected(header.kind)));
        }
        let hello = match Hello::decode(bytes) {
            Ok(hello) => hello,
            Err(error @ MessageError::Version(_)) => {
                let refusal = Refusal::new(RefuseCode::WrongVersion, error.to_string());
                return Err(GreetError::Refused { refusal, slot: None });
            }
            Err(error) => return Err(GreetError::Stranger(error.into())),
        };
        let slot = hello.slot as usize;
        let position = ReplicaPosition::decode(header, header.step);
        if let Err(refusal) = self.check_hello(&hello).and_then(|()| self.check_position(position))
        {
            let slot = Some(slot).filter(|slot| *slot < self.peers.len());
            return Err(GreetError::Refused { refusal, slot });
        }
        self.connection_lost(slot);
        let peer = &mut self.peers[slot];
        peer.incarnation = Some(hello.incarnation);
        (peer.is_connected, peer.position) = (true, position);
        peer.is_fresh = header.flags.contains(Flags::RESUME);
        // A coordinator that has made the last step helps late peers without waiting for others.
        if self.config.slot == COORDINATOR && self.is_over && !self.is_gathering {
            self.plan_transfer(slot);
        }
        Ok(slot)
    }

    /// Unless the run recovers from losses, all workers must be where the run begins. Otherwise no
    /// worker can be ahead of one that takes part in the run by more than the current step; only a
    /// process that has just begun does not know how far the run is.
    fn check_position(&self, theirs: Option<ReplicaPosition>) -> Result<(), Refusal> {
        let there = theirs.map_or(0, |position| position.step);
        let here = self.global_step;
        let takes_part = here > self.begun_at && !self.is_incomplete;
        if self.config.recovers && takes_part && there > here + 1 {
            let text = format!("it says that it has made {there} steps, but the run {here}");
            return Err(Refusal::new(RefuseCode::NotNow, text));
        }
        if self.config.recovers || theirs == self.position() {
            return Ok(());
        }
        let text = format!("it begins with step {there}, but this worker with step {here}");
        Err(Refusal::new(RefuseCode::NotNow, text))
    }

    /// Checks everything that both ends must agree on.
    fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        let config = &self.config;
        RunIdentity {
            name: self.name(config.slot),
            names: &config.names,
            wire: config.wire,
            job: &config.job,
            layout_digest: &config.layout_digest,
        }
        .check(hello)?;
        let (here, workers) = (config.slot, self.peers.len());
        let (server, servers) = (hello.server as usize, hello.servers as usize);
        if hello.role != PeerRole::Replica || (server, servers) != (here, workers) {
            let what = if hello.role == PeerRole::Replica { "slot" } else { "server" };
            let text = format!(
                "it expects {what} {server} of {servers}, but this is slot {here} of {workers} in \
                 a run without servers"
            );
            return Err(Refusal::new(RefuseCode::WrongServer, text));
        }
        let slot = hello.slot as usize;
        // Of two workers the one with the higher slot connects, unless the other one takes the
        // place of a lost worker at another address.
        let may_connect = slot > here || slot < here && config.recovers;
        if !may_connect || slot >= workers {
            let text = format!("slot {slot} does not connect to slot {here} of {workers}");
            return Err(Refusal::new(RefuseCode::BadSlot, text));
        }
        if self.peers[slot].incarnation.is_some_and(|known| hello.incarnation < known) {
            let text = format!("a newer process has taken over {}", self.name(slot));
            return Err(Refusal::new(RefuseCode::SlotTaken, text));
        }
        let known = self.peers.iter().filter_map(|peer| peer.incarnation).max();
        let latest = known.unwrap_or(0).max(config.incarnation);
        if !is_plausible_incarnation(hello.incarnation, latest) {
            let text = "its incarnation is far in the future; set the clocks of all machines";
            return Err(Refusal::new(RefuseCode::NotNow, text));
        }
        Ok(())
    }

    /// The answer to a peer whose `Hello` was accepted.
    pub fn welcome(&self) -> ControlFrame {
        let mut frame = ControlFrame::new(FrameKind::Welcome, self.own_welcome().encode());
        frame.header.flags = self.position_flags();
        frame
    }

    fn own_welcome(&self) -> Welcome {
        Welcome {
            shard_start: 0,
            shard_len: self.total as u64,
            chunk_floats: self.config.chunk_floats as u32,
            resume_sequence: 0,
            resume_step: self.global_step,
            generation: Generation::default(),
        }
    }

    /// Handles the answer to this worker's `Hello`. Returns the refusal if it is one.
    pub fn hello_answered(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<Option<Refusal>, ProtocolError> {
        match header.kind {
            FrameKind::Welcome => {}
            FrameKind::Refuse => return Ok(Some(Refusal::decode(bytes)?)),
            kind => return Err(ProtocolError::Unexpected(kind)),
        }
        let welcome = Welcome::decode(bytes)?;
        let mut expected = self.own_welcome();
        if self.config.recovers {
            expected.resume_step = welcome.resume_step;
        }
        if welcome != expected {
            let Welcome { shard_start: start, shard_len: len, chunk_floats, .. } = welcome;
            return Err(ProtocolError::Shard { start, len, chunk_floats });
        }
        self.connection_lost(peer);
        let position = ReplicaPosition::decode(header, welcome.resume_step);
        let is_fresh = header.flags.contains(Flags::RESUME);
        let peer = &mut self.peers[peer];
        (peer.is_connected, peer.position, peer.is_fresh) = (true, position, is_fresh);
        Ok(None)
    }
}
