//! Who is let in, and where a worker goes on that takes a slot over.
//!
//! Nobody is believed before the token and everything that both ends must agree on has been
//! compared. A process that fills a slot again with the same incarnation has merely
//! reconnected; a higher one takes the slot over, and its predecessor's connection is closed, so
//! that from then on nothing of the predecessor can arrive.

use super::connections::Peer;
use super::roster::MAX_PROCESSES;
use super::{Server, Violation};
use crate::members::Standing;
use crate::{
    ConnId, Flags, FrameBody, FrameKind, Header, Hello, Host, Level, MessageError, PeerRole,
    Refusal, RefuseCode, Store, Welcome,
};

/// The most evaluators that are let in at a time.
const MAX_EVALUATORS: usize = 64;

impl Server {
    /// Answers a `Hello` with `Welcome`, and with `Start` if the run has started; or refuses it.
    pub(super) fn hello(
        &mut self,
        conn: ConnId,
        bytes: &[u8],
        now_ms: u64,
        host: &mut impl Host,
    ) -> Result<(), Violation> {
        let checked = match Hello::decode(bytes) {
            Ok(hello) => self.check_hello(&hello).map(|()| hello),
            Err(error @ MessageError::Version(_)) => {
                Err((RefuseCode::WrongVersion, error.to_string()))
            }
            Err(error) => return Err(Violation(error.to_string())),
        };
        // A process on the roster tells only whether it has been here.
        let tells = |hello: &Hello| hello.role != PeerRole::Process;
        match checked {
            Ok(hello) if tells(&hello) && hello.generation.is_newer_than(self.generation) => {
                self.go_back(hello.generation, host);
            }
            Ok(hello) => match hello.role {
                PeerRole::Evaluator => self.admit_evaluator(conn, host),
                PeerRole::Newcomer => {
                    self.say(conn, FrameKind::JoinInfo, &self.config.roster.join_info, host);
                    host.close(conn, "sent the join information");
                    self.connections.remove(conn);
                }
                PeerRole::Process => self.enrol(conn, &hello, now_ms, host),
                PeerRole::Worker | PeerRole::Peer => self.admit_worker(conn, &hello, now_ms, host),
            },
            Err((code, text)) => {
                host.note(Level::Warning, &format!("refused a connection: {text}"));
                self.say(conn, FrameKind::Refuse, &Refusal { code, text }.encode(), host);
                host.close(conn, "refused");
                self.connections.remove(conn);
            }
        }
        Ok(())
    }

    /// Everything that both ends must agree on.
    fn check_hello(&self, hello: &Hello) -> Result<(), (RefuseCode, String)> {
        let config = &self.config;
        let refuse = |code, text: String| Err((code, text));
        if hello.role == PeerRole::Newcomer {
            hello.knows(&config.token)?;
            return match config.roster.join_info.is_empty() {
                true => refuse(RefuseCode::NotNow, "nobody may join this run".into()),
                false => Ok(()),
            };
        }
        hello.agrees(&config.token, &config.job_digest, &config.layout_digest)?;
        if (hello.server as usize, hello.servers as usize) != (config.index, config.servers) {
            let (index, servers) = (config.index, config.servers);
            let text = format!(
                "it means ps:{} of {}, this is ps:{index} of {servers}",
                hello.server, hello.servers
            );
            return refuse(RefuseCode::WrongServer, text);
        }
        match hello.role {
            PeerRole::Worker => self.check_slot(hello),
            PeerRole::Evaluator if self.connections.evaluators() >= MAX_EVALUATORS => {
                refuse(RefuseCode::NotNow, "there are too many evaluators".into())
            }
            PeerRole::Evaluator => Ok(()),
            PeerRole::Process => self.check_process(hello),
            PeerRole::Peer | PeerRole::Newcomer => {
                refuse(RefuseCode::WrongServer, "it means a worker, this is a server".into())
            }
        }
    }

    fn check_process(&self, hello: &Hello) -> Result<(), (RefuseCode, String)> {
        let (home, processes) = (hello.slot as usize, self.config.processes());
        let refuse = |code, text: String| Err((code, text));
        if self.config.index != 0 {
            return refuse(RefuseCode::WrongServer, "the roster is server 0's".into());
        }
        if hello.slot != Hello::NO_SLOT && home >= processes {
            let text = format!("there is no place {home}, the run began with {processes} workers");
            return refuse(RefuseCode::BadSlot, text);
        }
        if hello.slot != Hello::NO_SLOT && self.roster.is_superseded(home, hello.process.id) {
            let text = format!("a newer process has taken the place of {}", hello.process.name);
            return refuse(RefuseCode::SlotTaken, text);
        }
        if hello.process.id == 0 || self.roster.len() >= MAX_PROCESSES {
            return refuse(RefuseCode::NotNow, "there are too many processes".into());
        }
        Ok(())
    }

    fn check_slot(&self, hello: &Hello) -> Result<(), (RefuseCode, String)> {
        let slot = hello.slot as usize;
        if slot >= self.config.workers {
            let workers = self.config.workers;
            let text = format!("there is no slot {slot}, only {workers} workers");
            return Err((RefuseCode::BadSlot, text));
        }
        let member = &self.members[slot];
        if member.incarnation.is_some_and(|known| hello.incarnation < known) {
            let text = format!("a newer process has taken {} over", member.name);
            return Err((RefuseCode::SlotTaken, text));
        }
        if member.standing == Standing::Gone {
            let text = format!("the run went on without {}", member.name);
            return Err((RefuseCode::NotNow, text));
        }
        Ok(())
    }

    fn admit_evaluator(&mut self, conn: ConnId, host: &mut impl Host) {
        self.connections.set(conn, Peer::Evaluator);
        self.welcome(conn, None, host);
        if self.started {
            self.say(conn, FrameKind::Start, &[], host);
        }
    }

    fn admit_worker(&mut self, conn: ConnId, hello: &Hello, now_ms: u64, host: &mut impl Host) {
        let slot = hello.slot as usize;
        let is_same = self.members[slot].incarnation == Some(hello.incarnation);
        if is_same && self.members[slot].conn.is_some_and(|newer| conn < newer) {
            // The process has called again since, and that call was heard first.
            host.close(conn, "replaced by a newer connection");
            self.connections.remove(conn);
            return;
        }
        if let Some(old) = self.members[slot].conn.take() {
            host.close(old, "replaced by a newer connection");
            self.connections.remove(old);
        }
        let member = &mut self.members[slot];
        let takes_over = member.incarnation.is_some_and(|known| known < hello.incarnation);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            if takes_over {
                chunk.slots[slot].pending_keys.forget();
            }
        }
        self.connections.set(conn, Peer::Worker(slot));
        let holder = &hello.process.name;
        if takes_over && self.started {
            let who = match *holder == member.holder {
                true => "a new process",
                false => holder,
            };
            host.note(Level::Info, &format!("{who} takes {} over", member.name));
        }
        if !holder.is_empty() {
            member.name = match *holder == self.config.names[slot] {
                true => holder.clone(),
                false => format!("slot {slot} ({holder})"),
            };
            member.holder.clone_from(holder);
        }
        member.process = hello.process.id;
        (member.vacant_since_ms, member.offer, member.superseded_by) = (None, None, None);
        member.incarnation = Some(hello.incarnation);
        member.conn = Some(conn);
        member.away = None;
        member.heard_ms = now_ms;
        if member.standing == Standing::Absent {
            member.standing = Standing::In;
        }
        self.welcome(conn, Some(slot), host);
        self.start(conn, host);
        self.allot(now_ms, host);
    }

    /// Tells everybody that the run starts; or only a newcomer, if it has started before.
    fn start(&mut self, newcomer: ConnId, host: &mut impl Host) {
        if self.started {
            self.say(newcomer, FrameKind::Start, &[], host);
        } else if self.members.all_here() {
            self.started = true;
            host.note(Level::Info, "all workers are here");
            for conn in self.connections.clients() {
                self.say(conn, FrameKind::Start, &[], host);
            }
        }
    }

    fn welcome(&self, conn: ConnId, slot: Option<usize>, host: &mut impl Host) {
        let (resume_sequence, resume_step) = slot.map_or((0, 0), |slot| self.resume_point(slot));
        let shard = self.config.shard();
        let welcome = Welcome {
            shard_start: shard.start as u64,
            shard_len: shard.len() as u64,
            chunk_floats: match self.store {
                Store::Dense(_) => self.config.chunk_floats as u32,
                Store::Sparse(_) => 0,
            },
            resume_sequence,
            resume_step,
            generation: self.generation,
        };
        let bytes = welcome.encode();
        let mut header = Header::new(FrameKind::Welcome, bytes.len());
        if slot.is_some_and(|slot| self.members[slot].standing == Standing::Left) {
            header.flags = Flags::LEFT;
        }
        let has_it = |slot: usize| {
            self.chunks.iter().any(|chunk| chunk.slots[slot].last_sequence >= resume_sequence)
        };
        if slot.is_some_and(has_it) {
            header.flags = header.flags | Flags::PARTIAL;
        }
        host.send(conn, header, FrameBody::Bytes(&bytes));
    }

    /// The sequence and the step of the push that a slot makes next.
    ///
    /// That is the first push that not every chunk has. If some chunk has it, its step is known;
    /// else it is the step after the last one, and in `sync` none that has been made already.
    fn resume_point(&self, slot: usize) -> (u64, u64) {
        let slots = || self.chunks.iter().map(|chunk| &chunk.slots[slot]);
        let next = slots().map(|state| state.last_sequence).min().unwrap_or(0) + 1;
        if let Some(state) = slots().find(|state| state.last_sequence >= next) {
            return (next, state.step);
        }
        let first = self.first_step;
        let after_last =
            slots().map(|state| if state.last_sequence > 0 { state.step + 1 } else { first });
        let after_last = after_last.max().unwrap_or(first);
        match self.is_sync() {
            true => (next, after_last.max(self.chunks[0].version)),
            false => (next, after_last),
        }
    }
}
