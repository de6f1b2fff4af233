//! The handshake: which clients a server accepts, and where a worker resumes.
//!
//! That the client knows the run's secret is proved before its `Hello` is read, below this crate.
//! The server believes nothing else before it has compared what both ends must agree on. A
//! process that fills a slot again with the same incarnation has merely reconnected. One with a
//! higher incarnation takes over the slot: the server closes its predecessor's connection, so
//! that from then on nothing of the predecessor can arrive.

use super::connections::ConnectedPeer;
use super::host::{Host, Level};
use super::roster::MAX_PROCESSES;
use super::state::Server;
use super::violation::{Checked, Violation};
use crate::incarnation::is_plausible_incarnation;
use crate::members::MemberState;
use crate::{
    ConnId, Flags, FrameBody, FrameKind, Header, Hello, MessageError, PeerRole, Refusal,
    RefuseCode, RunIdentity, Store, Welcome,
};

/// Evaluators that may be connected at a time.
const MAX_EVALUATORS: usize = 64;

/// Where a worker resumes.
#[derive(Clone, Copy, Default)]
struct NextPush {
    sequence: u64,
    /// The step of the plan whose batch it is.
    step: u64,
}

impl Server {
    /// Answers a `Hello` with `Welcome`, and with `Start` if the run has started; or refuses it.
    pub(super) fn hello(&mut self, conn: ConnId, bytes: &[u8], host: &mut impl Host) -> Checked {
        match Hello::decode(bytes) {
            Ok(hello) => match self.check_hello(&hello) {
                Ok(()) => self.admit(conn, &hello, host),
                Err(refusal) => self.refuse(conn, Some(&hello), &refusal, host),
            },
            Err(error @ MessageError::Version(_)) => {
                let refusal = Refusal::new(RefuseCode::WrongVersion, error.to_string());
                self.refuse(conn, None, &refusal, host);
            }
            Err(error) => return Err(Violation(error.to_string())),
        }
        Ok(())
    }

    /// Refuses a client, and remembers why if the start waits for it.
    fn refuse(
        &mut self,
        conn: ConnId,
        hello: Option<&Hello>,
        refusal: &Refusal,
        host: &mut impl Host,
    ) {
        let address = host.address(conn);
        let at = address.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        let sender = hello.map(|hello| hello.sender(&self.config.names));
        let sender = sender.unwrap_or_else(|| "a connection".into());
        host.note(Level::Warning, &format!("refused {sender}{at}: {}", refusal.text));
        let slot = hello.map_or(usize::MAX, |hello| hello.slot as usize);
        let is_worker =
            hello.is_some_and(|hello| matches!(hello.role, PeerRole::Worker | PeerRole::Process));
        if is_worker && slot < self.members.len() && refusal.is_permanent() {
            self.members[slot].refusal = Some(format!("refused{at}: {}", refusal.text));
        }
        self.send_control(conn, FrameKind::Refuse, &refusal.encode(), host);
        host.close(conn, "refused");
        self.connections.remove(conn);
    }

    /// Lets in a client whose `Hello` has passed all checks.
    fn admit(&mut self, conn: ConnId, hello: &Hello, host: &mut impl Host) {
        // The generation of a process on the roster only says whether it has been there before.
        let has_generation = hello.role != PeerRole::Process;
        if has_generation && hello.generation.is_newer_than(self.generation) {
            if host.knows_generation(hello.generation) {
                return self.rewind(hello.generation, host);
            }
            return self.turn_away(conn, hello, host);
        }
        match hello.role {
            PeerRole::Evaluator => self.admit_evaluator(conn, host),
            PeerRole::Newcomer => {
                self.send_control(conn, FrameKind::JoinInfo, &self.config.roster.join_info, host);
                host.close(conn, "sent the join information");
                self.connections.remove(conn);
            }
            PeerRole::Process => self.enrol(conn, hello, host),
            PeerRole::Worker | PeerRole::Replica => self.admit_worker(conn, hello, host),
        }
    }

    /// Closes the connection of a client that knows of a generation which the run has not had. An
    /// honest one may be ahead of what this server can read; it connects again.
    fn turn_away(&mut self, conn: ConnId, hello: &Hello, host: &mut impl Host) {
        let (sender, number) = (hello.sender(&self.config.names), hello.generation.number);
        let at = host.address(conn).map(|at| format!(" at {at}")).unwrap_or_default();
        host.note(
            Level::Warning,
            &format!("refused {sender}{at}: the run's record has no generation {number}"),
        );
        host.close(conn, "an unknown generation");
        self.connections.remove(conn);
    }

    /// Checks everything that both ends must agree on.
    fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        let config = &self.config;
        let refuse = |code, text: &str| Err(Refusal::new(code, text));
        if hello.role == PeerRole::Newcomer {
            let is_closed = config.roster.join_info.is_empty();
            return if is_closed {
                refuse(RefuseCode::NotNow, "no process may join this run")
            } else {
                Ok(())
            };
        }
        RunIdentity {
            name: &format!("ps:{}", config.index),
            names: &config.names,
            wire: config.wire,
            job: &config.job,
            layout_digest: &config.layout_digest,
        }
        .check(hello)?;
        if (hello.server as usize, hello.servers as usize) != (config.index, config.servers) {
            let (index, servers) = (config.index, config.servers);
            let text = format!(
                "it expects ps:{} of {}, but this is ps:{index} of {servers}",
                hello.server, hello.servers
            );
            return refuse(RefuseCode::WrongServer, &text);
        }
        match hello.role {
            PeerRole::Worker => self.check_slot(hello),
            PeerRole::Evaluator if self.connections.evaluators() >= MAX_EVALUATORS => {
                refuse(RefuseCode::NotNow, "there are too many evaluators")
            }
            PeerRole::Evaluator => Ok(()),
            PeerRole::Process => self.check_process(hello),
            PeerRole::Replica | PeerRole::Newcomer => {
                refuse(RefuseCode::WrongServer, "it expects a worker, but this is a server")
            }
        }
    }

    fn check_process(&self, hello: &Hello) -> Result<(), Refusal> {
        let (home, processes) = (hello.slot as usize, self.config.processes());
        let refuse = |code, text: &str| Err(Refusal::new(code, text));
        if self.config.index != 0 {
            return refuse(RefuseCode::WrongServer, "only server 0 has a roster");
        }
        if hello.slot != Hello::NO_SLOT && home >= processes {
            let text = format!("there is no place {home}; the run began with {processes} workers");
            return refuse(RefuseCode::BadSlot, &text);
        }
        let name = &hello.process.name;
        if let Some(own) = self.config.names.get(home).filter(|own| *own != name) {
            let text = format!("place {home} is that of {own}, not of {}", named(name));
            return refuse(RefuseCode::BadSlot, &text);
        }
        if hello.slot != Hello::NO_SLOT && self.roster.is_superseded(home, hello.process.id) {
            let text = format!("a newer process has taken the place of {}", hello.process.name);
            return refuse(RefuseCode::SlotTaken, &text);
        }
        // Every place has one name, so the processes that have places are not too many.
        let most = MAX_PROCESSES.saturating_sub(processes);
        let is_surplus = hello.slot == Hello::NO_SLOT && self.roster.others(hello) >= most;
        if hello.process.id == 0 || is_surplus {
            return refuse(RefuseCode::NotNow, "there are too many processes");
        }
        Ok(())
    }

    fn check_slot(&self, hello: &Hello) -> Result<(), Refusal> {
        let slot = hello.slot as usize;
        if slot >= self.config.workers {
            let workers = self.config.workers;
            let text = format!("there is no slot {slot}; the run has {workers} workers");
            return Err(Refusal::new(RefuseCode::BadSlot, text));
        }
        let member = &self.members[slot];
        if member.incarnation.is_some_and(|known| hello.incarnation < known) {
            let text = format!("a newer process has taken over {}", member.name);
            return Err(Refusal::new(RefuseCode::SlotTaken, text));
        }
        if let Some(refusal) = self.foreign_claim(hello) {
            return Err(refusal);
        }
        if !self.is_plausible(hello.incarnation) {
            let text = "its incarnation is far in the future; set the clocks of all machines";
            return Err(Refusal::new(RefuseCode::NotNow, text));
        }
        if member.state == MemberState::Lost {
            let text = format!("the run continued without {}", member.name);
            return Err(Refusal::new(RefuseCode::NotNow, text));
        }
        Ok(())
    }

    /// Whether an incarnation can be that of a process that started before now. A higher one would
    /// keep every later process out of the slot.
    fn is_plausible(&self, incarnation: u64) -> bool {
        let known = (0..self.members.len()).filter_map(|slot| self.members[slot].incarnation).max();
        let now = self.config.started_us.saturating_add(self.now_ms.saturating_mul(1_000));
        is_plausible_incarnation(incarnation, now.max(known.unwrap_or(0)))
    }

    /// Why a process may not fill a slot that belongs to another task, if it may not. Slot 0 is for
    /// the coordinator's task alone. In any other slot, only a process of the same task or of the
    /// slot's own task may replace one that is connected; a process without a name is of neither.
    /// The server notices a dead process by its connection. Until then, the process to which the
    /// slot was offered is refused and tries again.
    fn foreign_claim(&self, hello: &Hello) -> Option<Refusal> {
        let (slot, name) = (hello.slot as usize, &hello.process.name);
        let member = &self.members[slot];
        if *name == member.process_name {
            return None;
        }
        let home = &self.config.names[slot % self.config.processes()];
        if slot == 0 && name != home {
            let text =
                format!("slot 0 is that of {home}, the coordinator, and not of {}", named(name));
            return Some(Refusal::new(RefuseCode::BadSlot, text));
        }
        let is_filled = self.started && member.conn.is_some();
        let is_other = is_filled && !member.process_name.is_empty() && name != home;
        is_other.then(|| {
            let text =
                format!("{} fills slot {slot}, and not {}", member.process_name, named(name));
            Refusal::new(RefuseCode::NotNow, text)
        })
    }

    fn admit_evaluator(&mut self, conn: ConnId, host: &mut impl Host) {
        self.connections.set(conn, ConnectedPeer::Evaluator);
        self.welcome(conn, None, host);
        if self.started {
            self.send_control(conn, FrameKind::Start, &[], host);
        }
    }

    fn admit_worker(&mut self, conn: ConnId, hello: &Hello, host: &mut impl Host) {
        let slot = hello.slot as usize;
        let is_same = self.members[slot].incarnation == Some(hello.incarnation);
        if is_same && self.members[slot].conn.is_some_and(|newer| conn < newer) {
            // The process has connected again since, and that `Hello` arrived first.
            host.close(conn, "replaced by a newer connection");
            self.connections.remove(conn);
            return;
        }
        if let Some(old) = self.members[slot].conn.take() {
            host.close(old, "replaced by a newer connection");
            self.connections.remove(old);
        }
        let known = self.members[slot].incarnation;
        let takes_over = known.is_some_and(|known| known < hello.incarnation);
        for chunk in &mut self.chunks {
            chunk.slots[slot].awaiting_reply = None;
            if takes_over {
                chunk.slots[slot].pending_keys.clear();
            }
        }
        if takes_over {
            self.discard_partial_push(slot);
        }
        self.connections.set(conn, ConnectedPeer::Worker(slot));
        if takes_over && self.started {
            let member = &self.members[slot];
            let is_same_task = hello.process.name == member.process_name;
            let who = if is_same_task { "a new process" } else { &hello.process.name };
            host.note(Level::Info, &format!("{who} takes over {}", member.name));
        }
        self.fill_slot(slot, conn, hello);
        self.welcome(conn, Some(slot), host);
        self.start(conn, host);
        self.assign_slots(self.now_ms, host);
    }

    /// Records the process that fills a slot from now on.
    fn fill_slot(&mut self, slot: usize, conn: ConnId, hello: &Hello) {
        let member = &mut self.members[slot];
        let process_name = &hello.process.name;
        if !process_name.is_empty() {
            let is_home = *process_name == self.config.names[slot];
            member.name = if is_home {
                process_name.clone()
            } else {
                format!("slot {slot} ({process_name})")
            };
            member.process_name.clone_from(process_name);
        }
        member.process = hello.process.id;
        (member.vacant_since_ms, member.offer, member.superseded_by) = (None, None, None);
        member.incarnation = Some(hello.incarnation);
        member.conn = Some(conn);
        (member.absence, member.refusal) = (None, None);
        member.heard_ms = self.now_ms;
        if member.state == MemberState::Absent {
            member.state = MemberState::Active;
        }
    }

    /// Sends `Start`: to all clients when the last worker has connected, or only to this one if
    /// the run has started before.
    fn start(&mut self, conn: ConnId, host: &mut impl Host) {
        if self.started {
            self.send_control(conn, FrameKind::Start, &[], host);
        } else if self.members.all_connected() {
            self.started = true;
            host.note(Level::Info, "all workers are connected");
            for conn in self.connections.clients() {
                self.send_control(conn, FrameKind::Start, &[], host);
            }
        }
    }

    fn welcome(&self, conn: ConnId, slot: Option<usize>, host: &mut impl Host) {
        let resume = slot.map(|slot| self.next_push(slot)).unwrap_or_default();
        let shard = self.config.shard();
        let welcome = Welcome {
            shard_start: shard.start as u64,
            shard_len: shard.len() as u64,
            chunk_floats: match self.store {
                Store::Dense(_) => self.config.chunk_floats as u32,
                Store::Sparse(_) => 0,
            },
            resume_sequence: resume.sequence,
            resume_step: resume.step,
            generation: self.generation,
        };
        let bytes = welcome.encode();
        let mut header = Header::new(FrameKind::Welcome, bytes.len());
        if slot.is_some_and(|slot| self.members[slot].state == MemberState::Left) {
            header.flags = Flags::LEFT;
        }
        let has_it = |slot: usize| {
            self.chunks.iter().any(|chunk| chunk.slots[slot].last_sequence >= resume.sequence)
        };
        if slot.is_some_and(has_it) {
            header.flags = header.flags | Flags::PARTIAL;
        }
        host.send(conn, header, FrameBody::Bytes(&bytes));
    }

    /// The next push of a slot.
    ///
    /// That is the first push that not every chunk has. If some chunk has it, its step is known;
    /// otherwise it is the step after the last one, and in `sync` none that is already complete.
    fn next_push(&self, slot: usize) -> NextPush {
        let states = || self.chunks.iter().map(|chunk| &chunk.slots[slot]);
        let next = states().map(|state| state.last_sequence).min().unwrap_or(0) + 1;
        if let Some(state) = states().find(|state| state.last_sequence >= next) {
            return NextPush { sequence: next, step: state.step };
        }
        let first = self.first_step;
        let after_last =
            states().map(|state| if state.last_sequence > 0 { state.step + 1 } else { first });
        let after_last = after_last.max().unwrap_or(first);
        let completed = if self.is_sync() { self.chunks[0].version } else { 0 };
        NextPush { sequence: next, step: after_last.max(completed) }
    }
}

/// The name of a process, for people.
fn named(name: &str) -> &str {
    if name.is_empty() { "a process without a name" } else { name }
}
