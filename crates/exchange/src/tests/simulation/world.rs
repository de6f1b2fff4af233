//! The simulated cluster: its time, its events and its processes.
//!
//! Messages of one connection keep their order in each direction; the seed decides everything
//! else. A connection that breaks loses the frames on it, and each end learns of it in its own
//! time (`network.rs`).

use std::collections::BTreeMap;

use super::network::SimConn;
use super::node::{ServerNode, node};
use super::plan::{SimAccident, SimPlan};
use super::process::{AnsweredPush, ProcessAction, SimProcess};
use super::roster_processes::RosterProcess;
use super::server_deaths::SimDisk;
use crate::tests::harness::{RecordingHost, SeededRandom, ServerCopy, TestFrame, read_params};
use crate::{ConnId, Header, ModeConfig, Outcome, PeerRole, ProcessName, Server};

/// No run takes longer, unless it hangs.
const END_MS: u64 = 300_000;

pub(crate) enum SimEvent {
    Connect {
        process: usize,
        server: usize,
    },
    Open(ConnId),
    ToServer(ConnId, TestFrame),
    ToClient(ConnId, TestFrame),
    ServerSeesClose(ConnId),
    ClientSeesClose(ConnId),
    Computed {
        process: usize,
        life: u64,
    },
    ServerRestarts(usize),
    Written {
        server: usize,
        life: u64,
        generation: u64,
        step: u64,
        copy: ServerCopy,
    },
    TakeOver(usize),
    Enrol(usize),
    /// A process that died and had this home is restarted.
    Restart(Option<usize>),
    Accident(SimAccident),
    Tick(usize),
}

pub(crate) struct SimWorld {
    pub(crate) plan: SimPlan,
    pub(crate) now_ms: u64,
    pub(crate) random: SeededRandom,
    order: u64,
    events: BTreeMap<(u64, u64), SimEvent>,
    pub(crate) conns: Vec<SimConn>,
    pub(crate) nodes: Vec<ServerNode>,
    pub(crate) processes: Vec<SimProcess>,
    pub(crate) roster_processes: Vec<RosterProcess>,
    pub(crate) newest: Vec<usize>,
    pub(crate) incarnation: u64,
    pub(crate) links: Vec<Vec<Option<ConnId>>>,
    pub(crate) answered: Vec<AnsweredPush>,
    pub(crate) killed_for_good: bool,
    pub(crate) disk: SimDisk,
    pub(crate) trace: bool,
}

impl SimWorld {
    pub(crate) fn new(plan: SimPlan, seed: u64, trace: bool) -> Self {
        let nodes = (0..plan.servers).map(|index| node(&plan, index, None)).collect();
        let mut world = Self {
            now_ms: 0,
            random: SeededRandom::new(seed),
            order: 0,
            events: BTreeMap::new(),
            conns: Vec::new(),
            nodes,
            processes: Vec::new(),
            roster_processes: Vec::new(),
            newest: vec![0; plan.workers],
            incarnation: 0,
            links: Vec::new(),
            answered: Vec::new(),
            killed_for_good: false,
            disk: SimDisk::default(),
            trace,
            plan,
        };
        match world.plan.roster_processes {
            Some(count) => (0..count).for_each(|home| world.spawn_roster_process(Some(home))),
            None => (0..world.plan.workers).for_each(|slot| {
                world.spawn(PeerRole::Worker, slot, ProcessName::default());
            }),
        }
        for slot in 0..world.plan.evaluators {
            world.spawn(PeerRole::Evaluator, slot, ProcessName::default());
        }
        for (at_ms, accident) in world.plan.accidents.clone() {
            world.at(at_ms, SimEvent::Accident(accident));
        }
        for server in 0..world.plan.servers {
            world.at(0, SimEvent::Tick(server));
        }
        world
    }

    /// Plays until all servers and processes have ended.
    pub(crate) fn run(&mut self) {
        while let Some(((at_ms, _), event)) = self.events.pop_first() {
            self.now_ms = at_ms;
            if self.is_over() {
                return;
            }
            assert!(at_ms < END_MS, "the run hangs: {}", self.describe());
            self.handle(event);
        }
        assert!(self.is_over(), "no event is left: {}", self.describe());
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
        let params = self.nodes.iter().flat_map(|node| read_params(&node.server));
        params.map(f32::to_bits).collect()
    }

    pub(crate) fn at(&mut self, at_ms: u64, event: SimEvent) {
        self.order += 1;
        self.events.insert((at_ms, self.order), event);
    }

    pub(crate) fn after(&mut self, delay_ms: u64, event: SimEvent) {
        self.at(self.now_ms + delay_ms, event);
    }

    pub(crate) fn spawn(&mut self, role: PeerRole, slot: usize, name: ProcessName) -> usize {
        self.incarnation += 1;
        let process = self.processes.len();
        self.processes.push(SimProcess::new(&self.plan, role, slot, self.incarnation, name));
        self.links.push(vec![None; self.plan.servers]);
        if role == PeerRole::Worker {
            self.newest[slot] = process;
        }
        for server in 0..self.plan.servers {
            let delay_ms = self.random.below(300);
            self.after(delay_ms, SimEvent::Connect { process, server });
        }
        process
    }

    fn handle(&mut self, event: SimEvent) {
        match event {
            SimEvent::Connect { process, server } => self.connect(process, server),
            SimEvent::Open(conn) => self.server_sees_open(conn),
            SimEvent::ToServer(conn, frame) => self.server_reads(conn, frame.header, frame.payload),
            SimEvent::ToClient(conn, frame) => self.client_reads(conn, frame.header, frame.payload),
            SimEvent::ServerSeesClose(conn) => {
                let server = self.conns[conn.0 as usize].server;
                self.serve(server, |server, now_ms, host| {
                    server.connection_closed(conn, "connection reset", now_ms, host);
                });
            }
            SimEvent::ClientSeesClose(conn) => self.client_sees_close(conn),
            SimEvent::Computed { process, life } => {
                let who = &self.processes[process];
                if who.is_alive() && who.life == life {
                    let actions = self.processes[process].computed(&self.plan);
                    self.perform(process, actions);
                }
            }
            SimEvent::TakeOver(slot) => {
                let is_over = self.nodes.iter().any(|node| node.server.outcome().is_some());
                if !is_over && !self.processes[self.newest[slot]].is_alive() {
                    self.spawn(PeerRole::Worker, slot, ProcessName::default());
                }
            }
            SimEvent::Enrol(index) => self.enrol(index),
            SimEvent::Restart(home) => self.restart_roster_process(home),
            SimEvent::Accident(accident) => self.accident(accident),
            SimEvent::ServerRestarts(server) => self.restart_server(server),
            SimEvent::Written { server, life, generation, step, copy } => {
                if self.nodes[server].life == life {
                    self.disk.written(self.plan.servers, server, generation, step, copy);
                }
            }
            SimEvent::Tick(server) => {
                self.serve(server, |server, now_ms, host| server.tick(now_ms, host));
                if !self.nodes[server].ended {
                    self.after(250, SimEvent::Tick(server));
                }
            }
        }
    }

    /// Calls a server, and then does what it has told its host to do.
    pub(crate) fn serve(
        &mut self,
        server: usize,
        call: impl FnOnce(&mut Server, u64, &mut RecordingHost),
    ) {
        if self.nodes[server].ended || self.nodes[server].is_down {
            return;
        }
        let node = &mut self.nodes[server];
        let last_checkpoint = node.last_checkpoint;
        let mut host = RecordingHost { last_checkpoint, ..RecordingHost::default() };
        call(&mut node.server, self.now_ms, &mut host);
        node.last_checkpoint = host.last_checkpoint;
        if self.trace {
            for note in host.notes {
                println!("{:6} ps:{server}: {note}", self.now_ms);
            }
        }
        for (conn, header, bytes) in host.sent {
            let at_ms = self.arrival(ConnId(conn), false);
            self.at(at_ms, SimEvent::ToClient(ConnId(conn), TestFrame { header, payload: bytes }));
        }
        for (conn, _) in host.closed {
            self.close_at_client(ConnId(conn));
        }
        for (step, copy) in host.checkpoints {
            let delay_ms = self.random.below(200);
            let ServerNode { life, generation, .. } = self.nodes[server];
            let generation = generation.number;
            self.after(delay_ms, SimEvent::Written { server, life, generation, step, copy });
        }
        self.check_always(server);
        self.end_server_if_over(server);
    }

    /// Rewinds or ends a server that has reached its outcome.
    fn end_server_if_over(&mut self, server: usize) {
        if let Some(&Outcome::Rewind(to)) = self.nodes[server].server.outcome() {
            return self.rewind_server(server, to);
        }
        let node = &mut self.nodes[server];
        let version = node.server.global_step();
        if self.plan.is_sparse && !node.history.contains_key(&version) {
            node.history.insert(version, read_params(&node.server));
        }
        if node.server.outcome().is_some() {
            node.ended = true;
            let is_its = |conn: &usize| self.conns[*conn].server == server;
            for conn in (0..self.conns.len()).filter(is_its).collect::<Vec<_>>() {
                self.close_at_client(ConnId(conn as u64));
            }
        }
    }

    /// Checks what must hold at every moment.
    fn check_always(&self, server: usize) {
        let (plan, server) = (&self.plan, &self.nodes[server].server);
        let chunks = server.chunk_count();
        let buffers = server.buffers();
        if plan.is_sparse {
            let lists = server.key_lists();
            assert!(lists.in_use + lists.spare <= 3 * plan.workers + 2, "lists: {lists:?}");
        } else {
            // Every pending gradient of a dense model has an empty list. To look for the lists in
            // all chunks would take most of the simulation's time.
            let spare = server.spare_key_lists();
            assert!(buffers.in_use + spare <= plan.workers * chunks, "{spare} lists, {buffers:?}");
        }
        assert!(buffers.in_use + buffers.spare <= plan.workers * chunks + 1, "{buffers:?}");
        let ModeConfig::Bounded { staleness } = plan.mode else { return };
        for chunk in 0..chunks {
            // A worker that resumed from a checkpoint without more data is about to leave again.
            let has_data = |slot: usize| {
                plan.leaves_at[slot].is_none_or(|at| server.accepted(chunk, slot) < at)
            };
            let live = (0..plan.workers).filter(|&slot| server.is_live(slot) && has_data(slot));
            let clocks = live.map(|slot| server.accepted(chunk, slot));
            let (slowest, fastest) = clocks.fold((u64::MAX, 0), |(slowest, fastest), clock| {
                (clock.min(slowest), clock.max(fastest))
            });
            let slowest = slowest.min(fastest);
            assert!(fastest - slowest <= staleness + 1, "{fastest} and {slowest}");
        }
    }

    pub(crate) fn perform(&mut self, process: usize, actions: Vec<ProcessAction>) {
        for action in actions {
            match action {
                ProcessAction::Send { server, header, bytes } => {
                    // What cannot be sent now is sent again after the server's welcome.
                    let is_welcome = self.processes[process].client.is_welcome_at(server);
                    if let Some(conn) = self.links[process][server].filter(|_| is_welcome) {
                        let header = Header::decode(&header.encode()).expect("sound headers");
                        self.send_to_server(conn, header, bytes);
                    }
                }
                ProcessAction::Compute => {
                    let who = &self.processes[process];
                    let is_worker = who.role == PeerRole::Worker;
                    let slow_ms = if is_worker { self.plan.compute_ms[who.slot] } else { 100 };
                    let delay_ms = self.random.between(1, slow_ms);
                    let life = self.processes[process].life;
                    self.after(delay_ms, SimEvent::Computed { process, life });
                }
                ProcessAction::Answered(answered) => self.answered.push(answered),
                ProcessAction::Reconnect { server } => self.reconnect(process, server),
            }
        }
        self.disconnect_if_exited(process);
    }

    /// The reasons for which servers have failed.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match node.server.outcome() {
            Some(Outcome::Failed(why)) => Some(why.as_str()),
            _ => None,
        })
    }
}
