//! What goes wrong in the world: broken connections, dying processes, strangers.

use paceline_exchange::{FrameKind, Header};

use crate::plan::Accident;
use crate::process::{State, TOKEN};
use crate::world::{Event, World};

impl World {
    pub(crate) fn accident(&mut self, accident: Accident) {
        match accident {
            Accident::Cut => {
                let of_crews = self.crews.iter().filter_map(|crew| crew.conn);
                let open: Vec<_> =
                    self.links.iter().flatten().flatten().copied().chain(of_crews).collect();
                if open.is_empty() {
                    return;
                }
                let conn = open[self.random.below(open.len() as u64) as usize];
                self.conns[conn.0 as usize].cut = true;
                let (one, other) = (self.random.below(500), self.random.below(500));
                self.after(one, Event::ServerSeesClose(conn));
                self.after(other, Event::ClientSeesClose(conn));
            }
            Accident::Kill { slot, back_after_ms } => self.kill(slot, back_after_ms),
            Accident::KillBetween { slot, back_after_ms, looks } => {
                let high = |server: usize| self.nodes[server].server.accepted(0, slot);
                if (1..self.plan.servers).any(|server| high(server) != high(0)) {
                    self.kill(slot, Some(back_after_ms));
                } else if looks > 0 {
                    let again = Accident::KillBetween { slot, back_after_ms, looks: looks - 1 };
                    self.after(2, Event::Accident(again));
                }
            }
            Accident::Stranger { server } => self.stranger(server),
            Accident::Crew(change) => self.change(change),
            Accident::KillServer { server, back_after_ms } => {
                self.kill_server(server, back_after_ms);
            }
        }
    }

    fn kill(&mut self, slot: usize, back_after_ms: Option<u64>) {
        let process = self.newest[slot];
        let victim = &mut self.processes[process];
        // A chief that dies while it ends the run leaves servers that have ended and others that
        // have not; that is for the launcher to see. And before the start nobody is lost.
        let is_started = self.nodes.iter().all(|node| node.server.is_started());
        if !victim.is_alive() || victim.state == State::Finishing || !is_started {
            return;
        }
        if self.trace {
            println!("{:6} worker:{slot} dies, back after {back_after_ms:?}", self.now_ms);
        }
        self.bury(process);
        match back_after_ms {
            Some(delay_ms) => self.after(delay_ms, Event::TakeOver(slot)),
            None => self.killed_for_good = true,
        }
    }

    /// A process is dead, and servers learn of it by and by.
    pub(crate) fn bury(&mut self, process: usize) {
        self.processes[process].state = State::Exited { well: true };
        for conn in std::mem::take(&mut self.links[process]).into_iter().flatten() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(3_000);
            self.after(delay_ms, Event::ServerSeesClose(conn));
        }
        self.links[process] = vec![None; self.plan.servers];
    }

    /// Somebody connects and sends frames that have no place.
    fn stranger(&mut self, server: usize) {
        if self.nodes[server].ended || self.nodes[server].is_down {
            return;
        }
        let conn = self.open(server, None);
        let Some(model) = self.processes.first() else { return };
        let (header, mut hello) = model.client.hello(server);
        if self.random.chance(50) {
            let at = self.random.below(hello.len() as u64) as usize;
            // The slot, the incarnation, the generation and the process are what a task of the run
            // is believed; and a newcomer needs the token only.
            let is_free =
                (6..19).contains(&at) || (91..107).contains(&at) || at >= 109 + TOKEN.len();
            let at = if is_free { 4 } else { at };
            hello[at] ^= 1 << self.random.below(8);
            self.send_to_server(conn, header, hello);
        }
        for _ in 0..3 {
            let mut bytes = [0; 40];
            bytes[0] =
                FrameKind::ALL[self.random.below(FrameKind::ALL.len() as u64) as usize] as u8;
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
