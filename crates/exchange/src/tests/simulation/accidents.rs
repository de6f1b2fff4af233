//! What goes wrong: broken connections, dying processes, strangers.

use super::network::ConnOwner;
use super::plan::SimAccident;
use super::process::SimProcessState;
use super::world::{SimEvent, SimWorld};
use crate::{ControlFrame, FrameKind, Header};

impl SimWorld {
    pub(crate) fn accident(&mut self, accident: SimAccident) {
        match accident {
            SimAccident::Cut => {
                let of_roster = self.roster_processes.iter().filter_map(|process| process.conn);
                let open: Vec<_> =
                    self.links.iter().flatten().flatten().copied().chain(of_roster).collect();
                if open.is_empty() {
                    return;
                }
                let conn = open[self.random.index(open.len())];
                self.conns[conn.0 as usize].cut = true;
                let (one, other) = (self.random.below(500), self.random.below(500));
                self.after(one, SimEvent::ServerSeesClose(conn));
                self.after(other, SimEvent::ClientSeesClose(conn));
            }
            SimAccident::Kill { slot, back_after_ms } => self.kill(slot, back_after_ms),
            SimAccident::KillBetween { slot, back_after_ms, attempts } => {
                let accepted = |server: usize| self.nodes[server].server.accepted(0, slot);
                if (1..self.plan.servers).any(|server| accepted(server) != accepted(0)) {
                    self.kill(slot, Some(back_after_ms));
                } else if attempts > 0 {
                    let again =
                        SimAccident::KillBetween { slot, back_after_ms, attempts: attempts - 1 };
                    self.after(2, SimEvent::Accident(again));
                }
            }
            SimAccident::Stranger { server } => self.stranger(server),
            SimAccident::ChangeRoster(change) => self.change_roster(change),
            SimAccident::KillServer { server, back_after_ms } => {
                self.kill_server(server, back_after_ms);
            }
        }
    }

    fn kill(&mut self, slot: usize, back_after_ms: Option<u64>) {
        let process = self.newest[slot];
        let victim = &mut self.processes[process];
        // A coordinator that dies while it ends the run leaves some servers ended and others not,
        // which the launcher handles. Before the start, losing a worker has no effect.
        let is_started = self.nodes.iter().all(|node| node.server.is_started());
        if !victim.is_alive() || victim.state == SimProcessState::Finishing || !is_started {
            return;
        }
        if self.trace {
            println!("{:6} worker:{slot} dies, restarts after {back_after_ms:?}", self.now_ms);
        }
        self.remove(process);
        match back_after_ms {
            Some(delay_ms) => self.after(delay_ms, SimEvent::TakeOver(slot)),
            None => self.killed_for_good = true,
        }
    }

    /// A process is dead. Each server learns of it in its own time.
    pub(crate) fn remove(&mut self, process: usize) {
        self.processes[process].state = SimProcessState::Exited { well: true };
        for conn in std::mem::take(&mut self.links[process]).into_iter().flatten() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(3_000);
            self.after(delay_ms, SimEvent::ServerSeesClose(conn));
        }
        self.links[process] = vec![None; self.plan.servers];
    }

    /// A stranger connects and sends frames that are not allowed.
    fn stranger(&mut self, server: usize) {
        if self.nodes[server].ended || self.nodes[server].is_down {
            return;
        }
        let conn = self.open(server, ConnOwner::Stranger);
        let Some(model) = self.processes.first() else { return };
        let ControlFrame { header, body: mut hello } = model.client.hello(server);
        if self.random.chance(50) {
            let at = self.random.index(hello.len());
            // A task of the run may state any slot, incarnation, generation and process. A flipped
            // bit there would not be a breach.
            let is_identity = at == 6 || (8..20).contains(&at);
            let is_free = is_identity || at >= 92;
            let at = if is_free { 4 } else { at };
            hello[at] ^= 1 << self.random.below(8);
            self.send_to_server(conn, header, hello);
        }
        for _ in 0..3 {
            let mut bytes = [0; 40];
            bytes[0] = FrameKind::ALL[self.random.index(FrameKind::ALL.len())] as u8;
            let Ok(mut header) = Header::decode(&bytes) else { continue };
            header.chunk = self.random.below(3) as u32;
            header.sequence = self.random.below(3);
            header.len =
                self.random.below(20) as u32 * u32::from(header.kind.max_payload_bytes() > 0);
            header.len *= 4;
            let payload = vec![self.random.next() as u8; header.len as usize];
            self.send_to_server(conn, header, payload);
        }
    }
}
