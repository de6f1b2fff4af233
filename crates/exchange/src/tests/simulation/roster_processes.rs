//! Processes that fill several slots and join, leave and die during the run.
//!
//! Such a process has a roster connection to server 0, and for each slot that it fills a
//! [`SimProcess`](super::process::SimProcess) of this simulation, here called its worker.

use super::network::ConnOwner;
use super::process::SimProcessState;
use super::world::{SimEvent, SimWorld};
use crate::tests::harness::{JOB, LAYOUT, SeededRandom};
use crate::{ConnId, ControlFrame, Enrolment, Header, PeerRole, ProcessName, RosterEvent};

#[derive(Clone, Copy, Debug)]
pub(crate) enum RosterChange {
    Join,
    /// One of the processes leaves cleanly, but never the coordinator's.
    Leave(u64),
    /// One of the processes dies; one that the run began with is restarted.
    Die {
        which: u64,
        back_after_ms: u64,
    },
}

impl RosterChange {
    pub(crate) fn draw(random: &mut SeededRandom) -> Self {
        match random.below(10) {
            0..4 => RosterChange::Join,
            4..7 => RosterChange::Leave(random.next()),
            _ => {
                RosterChange::Die { which: random.next(), back_after_ms: random.between(1, 3_000) }
            }
        }
    }
}

pub(crate) struct RosterProcess {
    enrolment: Enrolment,
    pub(crate) conn: Option<ConnId>,
    /// Its present and past workers.
    workers: Vec<usize>,
    pub(crate) is_alive: bool,
    is_leaving: bool,
}

impl SimWorld {
    /// Starts a process: one that the run began with, if it has a home, or one that joins.
    pub(crate) fn spawn_roster_process(&mut self, home: Option<usize>) {
        self.incarnation += 1;
        let name = home.map_or(String::new(), |home| format!("worker:{home}"));
        let enrolment = Enrolment {
            process: ProcessName { id: self.incarnation, name },
            home,
            job: JOB.into(),
            layout_digest: LAYOUT,
            wire: self.plan.wire,
            servers: self.plan.servers,
            was_enrolled: false,
        };
        let (conn, workers) = (None, Vec::new());
        let process = RosterProcess { enrolment, conn, workers, is_alive: true, is_leaving: false };
        self.roster_processes.push(process);
        let delay_ms = self.random.below(300);
        self.after(delay_ms, SimEvent::Enrol(self.roster_processes.len() - 1));
    }

    pub(crate) fn enrol(&mut self, index: usize) {
        let process = &self.roster_processes[index];
        if self.nodes[0].ended || !process.takes_part() || process.conn.is_some() {
            return;
        }
        if self.nodes[0].is_down {
            let delay_ms = self.random.between(1, 100);
            return self.after(delay_ms, SimEvent::Enrol(index));
        }
        let ControlFrame { header, body: bytes } = process.enrolment.hello();
        let conn = self.open(0, ConnOwner::RosterProcess(index));
        self.roster_processes[index].conn = Some(conn);
        self.send_to_server(conn, header, bytes);
    }

    /// A frame of server 0 arrives at a process on the roster.
    pub(crate) fn roster_reads(
        &mut self,
        index: usize,
        conn: ConnId,
        header: &Header,
        bytes: &[u8],
    ) {
        let process = &mut self.roster_processes[index];
        if process.conn != Some(conn) || !process.is_alive {
            return;
        }
        let event = process.enrolment.frame_arrived(header, bytes).expect("an honest server");
        if self.trace {
            println!("{:6} ps:0 -> roster process {index}: {event:?}", self.now_ms);
        }
        match event {
            RosterEvent::Offer { slot, above_incarnation } => {
                self.fill_slot(index, slot, above_incarnation);
            }
            RosterEvent::Yield => {
                let workers = self.workers_of(index);
                let newest = workers.iter().rev().find(|&&at| self.processes[at].slot > 0);
                if let Some(&worker) = newest.filter(|_| workers.len() > 1) {
                    self.processes[worker].must_release = true;
                }
            }
            RosterEvent::Bye | RosterEvent::Abort(_) => process.is_alive = false,
            RosterEvent::Refused(refusal) => panic!("{index} is refused: {}", refusal.text),
            RosterEvent::Enrolled(name) => assert!(!name.is_empty()),
        }
    }

    fn workers_of(&self, index: usize) -> Vec<usize> {
        let workers = self.roster_processes[index].workers.iter().copied();
        workers.filter(|&worker| self.processes[worker].is_alive()).collect()
    }

    fn fill_slot(&mut self, index: usize, slot: usize, above_incarnation: u64) {
        let fills = |&worker: &usize| self.processes[worker].slot == slot;
        if self.workers_of(index).iter().any(fills) {
            return;
        }
        self.incarnation = self.incarnation.max(above_incarnation);
        let name = self.roster_processes[index].enrolment.process.clone();
        let worker = self.spawn(PeerRole::Worker, slot, name);
        self.roster_processes[index].workers.push(worker);
    }

    pub(crate) fn roster_sees_close(&mut self, index: usize, conn: ConnId) {
        if self.roster_processes[index].conn == Some(conn) {
            self.roster_processes[index].conn = None;
            let delay_ms = self.random.between(1, 100);
            self.after(delay_ms, SimEvent::Enrol(index));
        }
    }

    pub(crate) fn change_roster(&mut self, change: RosterChange) {
        let is_started = self.nodes.iter().all(|node| node.server.is_started());
        if !is_started || self.nodes.iter().any(|node| node.server.outcome().is_some()) {
            return;
        }
        if self.trace {
            println!("{:6} {change:?}", self.now_ms);
        }
        let takes_part = |&index: &usize| self.roster_processes[index].takes_part();
        let present: Vec<_> = (0..self.roster_processes.len()).filter(takes_part).collect();
        let pick = |which: u64, from: &[usize]| (which % from.len().max(1) as u64) as usize;
        match change {
            RosterChange::Join => self.spawn_roster_process(None),
            RosterChange::Leave(which) => {
                let is_other = |&at: &usize| self.roster_processes[at].enrolment.home != Some(0);
                let others: Vec<_> = present.into_iter().filter(is_other).collect();
                if let Some(&index) = others.get(pick(which, &others)) {
                    self.leave_roster(index);
                }
            }
            RosterChange::Die { which, back_after_ms } => {
                if let Some(&index) = present.get(pick(which, &present)) {
                    self.kill_roster_process(index, back_after_ms);
                }
            }
        }
    }

    fn leave_roster(&mut self, index: usize) {
        self.roster_processes[index].is_leaving = true;
        if let Some(conn) = self.roster_processes[index].conn.take() {
            let at_ms = self.arrival(conn, true);
            self.at(at_ms, SimEvent::ServerSeesClose(conn));
        }
        for worker in self.workers_of(index) {
            self.processes[worker].must_release = true;
        }
    }

    fn kill_roster_process(&mut self, index: usize, back_after_ms: u64) {
        let workers = self.workers_of(index);
        // See `SimWorld::kill`.
        if workers.iter().any(|&at| self.processes[at].state == SimProcessState::Finishing) {
            return;
        }
        workers.into_iter().for_each(|worker| self.remove(worker));
        let process = &mut self.roster_processes[index];
        process.is_alive = false;
        let home = process.enrolment.home;
        if let Some(conn) = process.conn.take() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(3_000);
            self.after(delay_ms, SimEvent::ServerSeesClose(conn));
        }
        if home.is_some() {
            self.after(back_after_ms, SimEvent::Restart(home));
        }
    }

    pub(crate) fn restart_roster_process(&mut self, home: Option<usize>) {
        let is_over = self.nodes.iter().any(|node| node.server.outcome().is_some());
        let is_its = |process: &RosterProcess| process.is_alive && process.enrolment.home == home;
        if !is_over && !self.roster_processes.iter().any(is_its) {
            self.spawn_roster_process(home);
        }
    }
}

impl RosterProcess {
    fn takes_part(&self) -> bool {
        self.is_alive && !self.is_leaving
    }
}
