//! The world between the machines: time, connections, and what goes wrong with them.
//!
//! Messages of one connection keep their order in each direction; all else is up to the seed.
//! A connection that is cut loses what is on its way, and each end learns of it in its own time.

use std::collections::BTreeMap;

use paceline_exchange::{
    ConnId, FrameKind, Header, ModeConfig, Outcome, Payload, PeerRole, ProcessName, ReadTarget,
    Server, as_bytes_mut,
};

use crate::crews::Crew;
use crate::lives::{Copy, Shelf};
use crate::node::{Node, Outbox, node};
use crate::plan::{Accident, Plan, Random};
use crate::process::{Answered, Process, Wish};

/// No run of a plan takes longer, unless something hangs.
const END_MS: u64 = 300_000;

pub(crate) enum Event {
    Connect {
        process: usize,
        server: usize,
    },
    Open(ConnId),
    ToServer(ConnId, Header, Vec<u8>),
    ToClient(ConnId, Header, Vec<u8>),
    ServerSeesClose(ConnId),
    ClientSeesClose(ConnId),
    Computed {
        process: usize,
        life: u64,
    },
    ServerBack(usize),
    Written {
        server: usize,
        life: u64,
        generation: u64,
        step: u64,
        copy: Copy,
    },
    TakeOver(usize),
    /// A crew calls server 0.
    Enrol(usize),
    /// A crew that died is started again.
    Return(Option<usize>),
    Accident(Accident),
    Tick(usize),
}

pub(crate) struct Conn {
    pub(crate) server: usize,
    /// None for a stranger's.
    process: Option<usize>,
    /// Whose it is beside those of slots.
    pub(crate) crew: Option<usize>,
    pub(crate) cut: bool,
    /// When the last message arrives, each way.
    to_server_ms: u64,
    to_client_ms: u64,
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now_ms: u64,
    pub(crate) random: Random,
    order: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) processes: Vec<Process>,
    pub(crate) crews: Vec<Crew>,
    /// The newest process of each slot.
    pub(crate) newest: Vec<usize>,
    pub(crate) incarnation: u64,
    /// Each process's connection to each server.
    pub(crate) links: Vec<Vec<Option<ConnId>>>,
    pub(crate) answered: Vec<Answered>,
    pub(crate) killed_for_good: bool,
    pub(crate) shelf: Shelf,
    pub(crate) trace: bool,
}

impl World {
    pub(crate) fn new(plan: Plan, seed: u64, trace: bool) -> Self {
        let nodes = (0..plan.servers).map(|index| node(&plan, index, None)).collect();
        let mut world = Self {
            now_ms: 0,
            random: Random::new(seed),
            order: 0,
            events: BTreeMap::new(),
            conns: Vec::new(),
            nodes,
            processes: Vec::new(),
            crews: Vec::new(),
            newest: vec![0; plan.workers],
            incarnation: 0,
            links: Vec::new(),
            answered: Vec::new(),
            killed_for_good: false,
            shelf: Shelf::default(),
            trace,
            plan,
        };
        match world.plan.crews {
            Some(crews) => (0..crews).for_each(|home| world.spawn_crew(Some(home))),
            None => (0..world.plan.workers).for_each(|slot| {
                world.spawn(PeerRole::Worker, slot, ProcessName::default());
            }),
        }
        for slot in 0..world.plan.evaluators {
            world.spawn(PeerRole::Evaluator, slot, ProcessName::default());
        }
        for (at_ms, accident) in world.plan.accidents.clone() {
            world.at(at_ms, Event::Accident(accident));
        }
        for server in 0..world.plan.servers {
            world.at(0, Event::Tick(server));
        }
        world
    }

    /// Plays until everybody has ended.
    pub(crate) fn run(&mut self) {
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            self.now_ms = at_ms;
            if self.is_over() {
                return;
            }
            assert!(at_ms < END_MS, "the run hangs: {}", self.describe());
            self.happen(event);
        }
        assert!(self.is_over(), "nothing is left to happen: {}", self.describe());
    }

    fn is_over(&self) -> bool {
        self.nodes.iter().all(|node| node.ended)
            && self.processes.iter().all(|process| !process.is_alive())
    }

    fn describe(&self) -> String {
        let states: Vec<_> = self.processes.iter().map(|p| (p.role, p.slot, p.state)).collect();
        let ends: Vec<_> = self.nodes.iter().map(|node| node.server.outcome()).collect();
        format!("{states:?} {ends:?}")
    }

    pub(crate) fn params(&self) -> Vec<u32> {
        let params = self.nodes.iter().flat_map(Node::params);
        params.map(f32::to_bits).collect()
    }

    pub(crate) fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.events.insert((at_ms, self.order), event);
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: Event) {
        self.at(self.now_ms + delay_ms, event);
    }

    pub(crate) fn spawn(&mut self, role: PeerRole, slot: usize, name: ProcessName) -> usize {
        self.incarnation += 1;
        let process = self.processes.len();
        self.processes.push(Process::new(&self.plan, role, slot, self.incarnation, name));
        self.links.push(vec![None; self.plan.servers]);
        if role == PeerRole::Worker {
            self.newest[slot] = process;
        }
        for server in 0..self.plan.servers {
            let delay_ms = self.random.below(300);
            self.after(delay_ms, Event::Connect { process, server });
        }
        process
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connect { process, server } => self.connect(process, server),
            Event::Open(conn) => {
                let Conn { server, cut, .. } = self.conns[conn.0 as usize];
                let node = &mut self.nodes[server];
                if !node.ended && !node.is_down && !cut {
                    node.server.connection_opened(conn, self.now_ms);
                }
            }
            Event::ToServer(conn, header, bytes) => self.server_reads(conn, header, bytes),
            Event::ToClient(conn, header, bytes) => self.client_reads(conn, header, bytes),
            Event::ServerSeesClose(conn) => {
                let server = self.conns[conn.0 as usize].server;
                self.serve(server, |server, now_ms, host| {
                    server.connection_closed(conn, "connection reset", now_ms, host);
                });
            }
            Event::ClientSeesClose(conn) => self.client_sees_close(conn),
            Event::Computed { process, life } => {
                let who = &self.processes[process];
                if who.is_alive() && who.life == life {
                    let wishes = self.processes[process].computed(&self.plan);
                    self.grant(process, wishes);
                }
            }
            Event::TakeOver(slot) => {
                if !self.is_decided(slot) {
                    self.spawn(PeerRole::Worker, slot, ProcessName::default());
                }
            }
            Event::Enrol(crew) => self.enrol(crew),
            Event::Return(home) => self.come_back(home),
            Event::Accident(accident) => self.accident(accident),
            Event::ServerBack(server) => self.server_back(server),
            Event::Written { server, life, generation, step, copy } => {
                if self.nodes[server].life == life {
                    self.shelf.written(self.plan.servers, server, generation, step, copy);
                }
            }
            Event::Tick(server) => {
                self.serve(server, |server, now_ms, host| server.tick(now_ms, host));
                if !self.nodes[server].ended {
                    self.after(250, Event::Tick(server));
                }
            }
        }
    }

    /// Whether the run has ended for a slot, so that nobody would start its process again.
    fn is_decided(&self, slot: usize) -> bool {
        let is_over = |node: &Node| node.server.outcome().is_some();
        self.nodes.iter().any(is_over) || self.processes[self.newest[slot]].is_alive()
    }

    fn connect(&mut self, process: usize, server: usize) {
        if !self.processes[process].is_alive() {
            return;
        }
        if self.nodes[server].ended {
            self.processes[process].server_ended(server);
            return self.bury_if_exited(process);
        }
        if self.nodes[server].is_down {
            let delay_ms = self.random.between(1, 100);
            return self.after(delay_ms, Event::Connect { process, server });
        }
        if self.links[process][server].is_some() {
            return;
        }
        let conn = self.open(server, Some(process));
        self.links[process][server] = Some(conn);
        let (header, bytes) = self.processes[process].client.hello(server);
        self.send_to_server(conn, header, bytes);
    }

    pub(crate) fn open(&mut self, server: usize, process: Option<usize>) -> ConnId {
        let conn = ConnId(self.conns.len() as u64);
        let (to_server_ms, to_client_ms) = (self.now_ms, self.now_ms);
        let crew = None;
        self.conns.push(Conn { server, process, crew, cut: false, to_server_ms, to_client_ms });
        let at_ms = self.arrival(conn, true);
        self.at(at_ms, Event::Open(conn));
        conn
    }

    /// When the next message of a connection arrives: after the last one.
    pub(crate) fn arrival(&mut self, conn: ConnId, to_server: bool) -> u64 {
        let at_ms = self.now_ms + self.random.below(self.plan.delay_ms + 1);
        let conn = &mut self.conns[conn.0 as usize];
        let last = if to_server { &mut conn.to_server_ms } else { &mut conn.to_client_ms };
        *last = at_ms.max(*last);
        *last
    }

    pub(crate) fn send_to_server(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        let at_ms = self.arrival(conn, true);
        self.at(at_ms, Event::ToServer(conn, header, bytes));
    }

    /// Lets a server do something, and then sends what it wants to send.
    fn serve(&mut self, server: usize, call: impl FnOnce(&mut Server, u64, &mut Outbox)) {
        if self.nodes[server].ended || self.nodes[server].is_down {
            return;
        }
        let mut outbox = Outbox::default();
        call(&mut self.nodes[server].server, self.now_ms, &mut outbox);
        if self.trace {
            for note in outbox.notes {
                println!("{:6} ps:{server}: {note}", self.now_ms);
            }
        }
        for (conn, header, bytes) in outbox.sent {
            let at_ms = self.arrival(conn, false);
            self.at(at_ms, Event::ToClient(conn, header, bytes));
        }
        for conn in outbox.closed {
            let at_ms = self.arrival(conn, false);
            self.at(at_ms, Event::ClientSeesClose(conn));
        }
        for (step, copy) in outbox.taken {
            let delay_ms = self.random.below(200);
            let Node { life, generation, .. } = self.nodes[server];
            let generation = generation.number;
            self.after(delay_ms, Event::Written { server, life, generation, step, copy });
        }
        self.check_always(server);
        if let Some(&Outcome::Rewind(to)) = self.nodes[server].server.outcome() {
            return self.go_back(server, to);
        }
        let node = &mut self.nodes[server];
        let version = node.server.global_step();
        if self.plan.is_sparse && !node.history.contains_key(&version) {
            let params = node.params();
            node.history.insert(version, params);
        }
        if self.nodes[server].server.outcome().is_some() {
            self.nodes[server].ended = true;
            let ours = |conn: &usize| self.conns[*conn].server == server;
            for conn in (0..self.conns.len()).filter(ours).collect::<Vec<_>>() {
                let conn = ConnId(conn as u64);
                let at_ms = self.arrival(conn, false);
                self.at(at_ms, Event::ClientSeesClose(conn));
            }
        }
    }

    /// What must hold at every moment.
    fn check_always(&self, server: usize) {
        let (plan, server) = (&self.plan, &self.nodes[server].server);
        let chunks = match plan.is_sparse {
            true => 1,
            false => server.store().len().div_ceil(plan.chunk_floats),
        };
        let (kept, spare) = server.key_lists();
        let most = if plan.is_sparse { 3 * plan.workers + 2 } else { plan.workers * chunks };
        assert!(kept + spare <= most, "{kept} lists kept, {spare} spare");
        let (held, spare) = server.buffers();
        assert!(held + spare <= plan.workers * chunks + 1, "{held} held, {spare} spare");
        if let ModeConfig::Bounded { staleness } = plan.mode {
            for chunk in 0..chunks {
                // Who is back from a checkpoint and has no more data is about to leave again.
                let has_data = |slot: usize| {
                    plan.leaves_at[slot].is_none_or(|at| server.accepted(chunk, slot) < at)
                };
                let live =
                    || (0..plan.workers).filter(|&slot| server.is_live(slot) && has_data(slot));
                let fastest = live().map(|slot| server.accepted(chunk, slot)).max().unwrap_or(0);
                let slowest = live().map(|slot| server.accepted(chunk, slot)).min().unwrap_or(0);
                assert!(fastest - slowest <= staleness + 1, "{fastest} and {slowest}");
            }
        }
    }

    fn server_reads(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        if self.conns[conn.0 as usize].cut {
            return;
        }
        if self.trace {
            let who = self.conns[conn.0 as usize].process.map(|p| self.processes[p].slot);
            println!("{:6} {conn:?} of {who:?} -> {header:?}", self.now_ms);
        }
        let server = self.conns[conn.0 as usize].server;
        let mut buffer = std::mem::take(&mut self.nodes[server].buffer);
        self.serve(server, |server, now_ms, host| {
            let payload = match header.kind {
                FrameKind::Push | FrameKind::PushKeys => {
                    buffer.resize(bytes.len().div_ceil(4), 0.0);
                    as_bytes_mut(&mut buffer)[..bytes.len()].copy_from_slice(&bytes);
                    Payload::Floats(&mut buffer)
                }
                _ => Payload::Bytes(&bytes),
            };
            server.frame_arrived(conn, &header, payload, now_ms, host);
        });
        self.nodes[server].buffer = buffer;
    }

    fn client_reads(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        let Conn { server, process, crew, cut, .. } = self.conns[conn.0 as usize];
        if let Some(crew) = crew.filter(|_| !cut) {
            return self.call(crew, conn, &header, &bytes);
        }
        let Some(process) = process.filter(|_| !cut) else { return };
        if self.links[process][server] != Some(conn) || !self.processes[process].is_alive() {
            return;
        }
        let receiver = &mut self.processes[process];
        if self.trace {
            println!("{:6} ps:{server} -> {conn:?} of {}: {header:?}", self.now_ms, receiver.slot);
        }
        let wishes = match receiver.client.read_target(server, &header).expect("an honest server") {
            ReadTarget::Floats(range) => {
                as_bytes_mut(&mut receiver.params[range.clone()]).copy_from_slice(&bytes);
                if self.plan.is_sparse {
                    self.nodes[server].check_values(header.version, receiver, range);
                    receiver.batches.versions.resize(self.plan.servers, 0);
                    receiver.batches.versions[server] = header.version;
                }
                receiver.arrived(&self.plan, server, &header, &[])
            }
            ReadTarget::Bytes(len) => {
                assert_eq!(len, bytes.len());
                receiver.arrived(&self.plan, server, &header, &bytes)
            }
        };
        self.grant(process, wishes);
    }

    fn client_sees_close(&mut self, conn: ConnId) {
        let Conn { server, process, crew, .. } = self.conns[conn.0 as usize];
        self.conns[conn.0 as usize].cut = true;
        if let Some(crew) = crew {
            return self.crew_sees_close(crew, conn);
        }
        let Some(process) = process else { return };
        if self.links[process][server] != Some(conn) || !self.processes[process].is_alive() {
            return;
        }
        self.links[process][server] = None;
        self.processes[process].client.connection_lost(server);
        if self.processes[process].is_done_with(server) {
            return;
        }
        let delay_ms = self.random.between(1, 100);
        self.after(delay_ms, Event::Connect { process, server });
    }

    fn grant(&mut self, process: usize, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Send { server, header, bytes } => {
                    // What cannot be sent now is said again when the server has welcomed us.
                    let is_welcome = self.processes[process].client.is_welcome_at(server);
                    if let Some(conn) = self.links[process][server].filter(|_| is_welcome) {
                        let header = Header::decode(&header.encode()).expect("sound headers");
                        self.send_to_server(conn, header, bytes);
                    }
                }
                Wish::Compute => {
                    let who = &self.processes[process];
                    let slow_ms = match who.role {
                        PeerRole::Worker => self.plan.compute_ms[who.slot],
                        _ => 100,
                    };
                    let delay_ms = self.random.between(1, slow_ms);
                    let life = self.processes[process].life;
                    self.after(delay_ms, Event::Computed { process, life });
                }
                Wish::Answered(answered) => self.answered.push(answered),
                Wish::Reconnect { server } => self.reconnect(process, server),
            }
        }
        self.bury_if_exited(process);
    }

    /// Closes the connections of a process that has ended by itself.
    fn bury_if_exited(&mut self, process: usize) {
        if self.processes[process].is_alive() {
            return;
        }
        for conn in std::mem::take(&mut self.links[process]).into_iter().flatten() {
            let at_ms = self.arrival(conn, true);
            self.at(at_ms, Event::ServerSeesClose(conn));
        }
        self.links[process] = vec![None; self.plan.servers];
    }

    /// Whether some server failed and named this worker. Others may name the workers that went
    /// because of that.
    pub(crate) fn is_blamed(&self, slot: usize) -> bool {
        self.nodes.iter().any(|node| match node.server.outcome() {
            Some(Outcome::Failed(why)) => why.contains(&format!("worker:{slot}")),
            _ => false,
        })
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.nodes.iter().find_map(|node| match node.server.outcome() {
            Some(Outcome::Failed(why)) => Some(why.as_str()),
            _ => None,
        })
    }
}
