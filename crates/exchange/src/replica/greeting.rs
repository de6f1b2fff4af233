//! How two workers find out that they belong to the same run.
//!
//! Of a pair the one with the higher slot connects and says `Hello`; the other compares, and
//! answers with `Welcome` or `Refuse`. Both begin as soon as they know everybody: there is no
//! other start, since a peer that is not ready yet merely reads later. Both also say how far their
//! replicas are (`regroup.rs`).

use super::regroup::Position;
use super::{CHIEF, Replica};
use crate::{
    FrameKind, Generation, Header, Hello, MessageError, PROTOCOL_VERSION, PeerRole, ProcessName,
    ProtocolError, Refusal, RefuseCode, Welcome,
};

impl Replica {
    /// The first frame to a peer that this worker has connected to.
    pub fn hello(&self, peer: usize) -> (Header, Vec<u8>) {
        let config = &self.config;
        let bytes = Hello {
            version: PROTOCOL_VERSION,
            role: PeerRole::Peer,
            slot: config.slot as u32,
            incarnation: config.incarnation,
            job_digest: config.job_digest,
            layout_digest: config.layout_digest,
            server: peer as u32,
            servers: self.peers.len() as u32,
            generation: Generation::default(),
            token: config.token.clone(),
            process: ProcessName::default(),
        }
        .encode();
        let header = Header::new(FrameKind::Hello, bytes.len());
        (Header { step: self.global_step, flags: self.position_flags(), ..header }, bytes)
    }

    /// Hears a `Hello` from a connection: which peer it is, or why it is not let in, with the
    /// slot that it claims to have if that can be known. A peer that is here already is replaced.
    pub fn accept_hello(&mut self, header: &Header, bytes: &[u8]) -> Result<usize, GreetError> {
        if header.kind != FrameKind::Hello {
            return Err(GreetError::Stranger(ProtocolError::Unexpected(header.kind)));
        }
        let refuse = |code, text: String, slot| {
            Err(GreetError::Refused { refusal: Refusal { code, text }, slot })
        };
        let hello = match Hello::decode(bytes) {
            Ok(hello) => hello,
            Err(error @ MessageError::Version(_)) => {
                return refuse(RefuseCode::WrongVersion, error.to_string(), None);
            }
            Err(error) => return Err(GreetError::Stranger(error.into())),
        };
        let slot = hello.slot as usize;
        let position = Position::told(header, header.step);
        match self.check(&hello).and_then(|()| self.check_position(position)) {
            Ok(()) => {}
            // Who does not know the token is not believed to be anybody.
            Err((RefuseCode::WrongToken, text)) => {
                return refuse(RefuseCode::WrongToken, text, None);
            }
            Err((code, text)) => {
                return refuse(code, text, (slot < self.peers.len()).then_some(slot));
            }
        }
        self.connection_lost(slot);
        let peer = &mut self.peers[slot];
        peer.incarnation = Some(hello.incarnation);
        (peer.is_here, peer.position) = (true, position);
        // A chief that has made the last step waits for nobody else to help those that come.
        if self.config.slot == CHIEF && self.is_over && !self.is_gathering {
            self.owe(slot);
        }
        Ok(slot)
    }

    /// Where losses are not recovered from, all must be where the run begins.
    fn check_position(&self, theirs: Option<Position>) -> Result<(), (RefuseCode, String)> {
        if self.config.recovers || theirs == self.position() {
            return Ok(());
        }
        let there = theirs.map_or(0, |position| position.step);
        let text = format!("it begins with step {there}, this worker with {}", self.global_step);
        Err((RefuseCode::NotNow, text))
    }

    /// Everything that both ends must agree on.
    fn check(&self, hello: &Hello) -> Result<(), (RefuseCode, String)> {
        let config = &self.config;
        let refuse = |code, text: String| Err((code, text));
        hello.agrees(&config.token, &config.job_digest, &config.layout_digest)?;
        let (here, workers) = (config.slot, self.peers.len());
        let meant = (hello.server as usize, hello.servers as usize);
        if hello.role != PeerRole::Peer || meant != (here, workers) {
            let text = format!(
                "it means {} {} of {}, this is slot {here} of {workers}, without servers",
                if hello.role == PeerRole::Peer { "slot" } else { "server" },
                meant.0,
                meant.1
            );
            return refuse(RefuseCode::WrongServer, text);
        }
        let slot = hello.slot as usize;
        if slot <= here || slot >= workers {
            let text = format!("slot {slot} has no business with slot {here} of {workers}");
            return refuse(RefuseCode::BadSlot, text);
        }
        if self.peers[slot].incarnation.is_some_and(|known| hello.incarnation < known) {
            let text = format!("a newer process has taken {} over", self.name(slot));
            return refuse(RefuseCode::SlotTaken, text);
        }
        Ok(())
    }

    /// The answer to a peer that is let in.
    pub fn welcome(&self) -> (Header, Vec<u8>) {
        let bytes = self.my_welcome().encode();
        let header = Header::new(FrameKind::Welcome, bytes.len());
        (Header { flags: self.position_flags(), ..header }, bytes)
    }

    fn my_welcome(&self) -> Welcome {
        Welcome {
            shard_start: 0,
            shard_len: self.params.len() as u64,
            chunk_floats: self.config.chunk_floats as u32,
            resume_sequence: 0,
            resume_step: self.global_step,
            generation: Generation::default(),
        }
    }

    /// Hears the answer to our `Hello`: whether we are let in.
    pub fn hello_answered(
        &mut self,
        peer: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Result<Option<Refusal>, ProtocolError> {
        match header.kind {
            FrameKind::Welcome => {
                let welcome = Welcome::decode(bytes)?;
                let position = Position::told(header, welcome.resume_step);
                let resume_step = match self.config.recovers {
                    true => welcome.resume_step,
                    false => self.global_step,
                };
                if welcome != (Welcome { resume_step, ..self.my_welcome() }) {
                    let Welcome { shard_start: start, shard_len: len, chunk_floats, .. } = welcome;
                    return Err(ProtocolError::Shard { start, len, chunk_floats });
                }
                self.connection_lost(peer);
                (self.peers[peer].is_here, self.peers[peer].position) = (true, position);
                Ok(None)
            }
            FrameKind::Refuse => Ok(Some(Refusal::decode(bytes)?)),
            kind => Err(ProtocolError::Unexpected(kind)),
        }
    }
}

/// Why a connection is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetError {
    /// It does not speak as a peer does, and gets no answer.
    Stranger(ProtocolError),
    /// It is to be told why.
    Refused {
        /// Why.
        refusal: Refusal,
        /// The slot that it fills in its run, if it knows the token.
        slot: Option<usize>,
    },
}
