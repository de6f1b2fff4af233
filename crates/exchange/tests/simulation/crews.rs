//! Processes that fill several slots, and come and go while the run goes on.
//!
//! A crew is what the program calls a worker process: it has a connection to server 0 beside those
//! of its slots, and a [`Process`](crate::process::Process) of this simulation for each slot that
//! it fills. Crews are joined by others, leave in good order, and die with all their slots.

use paceline_exchange::{ConnId, Enrolment, Header, PeerRole, ProcessName, RosterEvent};

use crate::plan::Random;
use crate::process::{JOB, LAYOUT, State, TOKEN};
use crate::world::{Event, World};

/// Something that happens to the crews of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Another one joins.
    Join,
    /// The so-many-th of those that are there, but not the chief's, leaves in good order.
    Quit(u64),
    /// The so-many-th of those that are there dies; one that the run began with is started again.
    Die { which: u64, back_after_ms: u64 },
}

impl Change {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(10) {
            0..4 => Change::Join,
            4..7 => Change::Quit(random.next()),
            _ => Change::Die { which: random.next(), back_after_ms: random.between(1, 3_000) },
        }
    }
}

/// One crew.
pub(crate) struct Crew {
    enrolment: Enrolment,
    pub(crate) conn: Option<ConnId>,
    /// The processes that fill its slots, or did.
    seats: Vec<usize>,
    pub(crate) is_alive: bool,
    is_leaving: bool,
}

impl World {
    /// Starts a crew, in a place of the run or without one.
    pub(crate) fn spawn_crew(&mut self, home: Option<usize>) {
        self.incarnation += 1;
        let name = home.map_or(String::new(), |home| format!("worker:{home}"));
        let enrolment = Enrolment {
            process: ProcessName { id: self.incarnation, name },
            home,
            job_digest: JOB,
            layout_digest: LAYOUT,
            token: TOKEN.to_vec(),
            servers: self.plan.servers,
            was_enrolled: false,
        };
        let (seats, conn) = (Vec::new(), None);
        self.crews.push(Crew { enrolment, conn, seats, is_alive: true, is_leaving: false });
        let delay_ms = self.random.below(300);
        self.after(delay_ms, Event::Enrol(self.crews.len() - 1));
    }

    pub(crate) fn enrol(&mut self, crew: usize) {
        let who = &self.crews[crew];
        if self.nodes[0].ended || !who.is_alive || who.is_leaving || who.conn.is_some() {
            return;
        }
        if self.nodes[0].is_down {
            let delay_ms = self.random.between(1, 100);
            return self.after(delay_ms, Event::Enrol(crew));
        }
        let (header, bytes) = who.enrolment.hello();
        let conn = self.open(0, None);
        self.conns[conn.0 as usize].crew = Some(crew);
        self.crews[crew].conn = Some(conn);
        self.send_to_server(conn, header, bytes);
    }

    /// Server 0 calls a crew.
    pub(crate) fn call(&mut self, crew: usize, conn: ConnId, header: &Header, bytes: &[u8]) {
        let who = &mut self.crews[crew];
        if who.conn != Some(conn) || !who.is_alive {
            return;
        }
        let call = who.enrolment.frame_arrived(header, bytes).expect("an honest server");
        if self.trace {
            println!("{:6} ps:0 -> crew {crew}: {call:?}", self.now_ms);
        }
        match call {
            RosterEvent::Offer { slot, above_incarnation } => {
                self.offered(crew, slot, above_incarnation)
            }
            RosterEvent::Yield => {
                let seats = self.seats_of(crew);
                let newest = seats.iter().rev().find(|&&seat| self.processes[seat].slot > 0);
                if let Some(&seat) = newest.filter(|_| seats.len() > 1) {
                    self.processes[seat].called_back = true;
                }
            }
            RosterEvent::Bye | RosterEvent::Abort(_) => who.is_alive = false,
            RosterEvent::Refused(refusal) => panic!("crew {crew} is refused: {}", refusal.text),
            RosterEvent::Enrolled(name) => assert!(!name.is_empty()),
        }
    }

    /// The processes of a crew that fill a slot now.
    fn seats_of(&self, crew: usize) -> Vec<usize> {
        let seats = self.crews[crew].seats.iter().copied();
        seats.filter(|&seat| self.processes[seat].is_alive()).collect()
    }

    fn offered(&mut self, crew: usize, slot: usize, above_incarnation: u64) {
        let fills = |&seat: &usize| self.processes[seat].slot == slot;
        if self.seats_of(crew).iter().any(fills) {
            return;
        }
        self.incarnation = self.incarnation.max(above_incarnation);
        let seat = self.spawn(PeerRole::Worker, slot, self.crews[crew].enrolment.process.clone());
        self.crews[crew].seats.push(seat);
    }

    /// A crew lost its connection to server 0.
    pub(crate) fn crew_sees_close(&mut self, crew: usize, conn: ConnId) {
        if self.crews[crew].conn == Some(conn) {
            self.crews[crew].conn = None;
            let delay_ms = self.random.between(1, 100);
            self.after(delay_ms, Event::Enrol(crew));
        }
    }

    pub(crate) fn change(&mut self, change: Change) {
        let is_started = self.nodes.iter().all(|node| node.server.is_started());
        if !is_started || self.nodes.iter().any(|node| node.server.outcome().is_some()) {
            return;
        }
        if self.trace {
            println!("{:6} {change:?}", self.now_ms);
        }
        let there: Vec<_> = (0..self.crews.len()).filter(|&at| self.is_there(at)).collect();
        let pick = |which: u64, from: &[usize]| (which % from.len().max(1) as u64) as usize;
        match change {
            Change::Join => self.spawn_crew(None),
            Change::Quit(which) => {
                let is_chief = |at: usize| self.crews[at].enrolment.home == Some(0);
                let others: Vec<_> = there.into_iter().filter(|&at| !is_chief(at)).collect();
                if let Some(&crew) = others.get(pick(which, &others)) {
                    self.quit(crew);
                }
            }
            Change::Die { which, back_after_ms } => {
                if let Some(&crew) = there.get(pick(which, &there)) {
                    self.die(crew, back_after_ms);
                }
            }
        }
    }

    /// Whether a crew takes part, or waits to.
    fn is_there(&self, crew: usize) -> bool {
        self.crews[crew].is_alive && !self.crews[crew].is_leaving
    }

    /// Hangs up, and gives all slots back.
    fn quit(&mut self, crew: usize) {
        self.crews[crew].is_leaving = true;
        if let Some(conn) = self.crews[crew].conn.take() {
            let at_ms = self.arrival(conn, true);
            self.at(at_ms, Event::ServerSeesClose(conn));
        }
        for seat in self.seats_of(crew) {
            self.processes[seat].called_back = true;
        }
    }

    fn die(&mut self, crew: usize, back_after_ms: u64) {
        let seats = self.seats_of(crew);
        // See `World::kill`.
        if seats.iter().any(|&seat| self.processes[seat].state == State::Finishing) {
            return;
        }
        for seat in seats {
            self.bury(seat);
        }
        let who = &mut self.crews[crew];
        who.is_alive = false;
        let home = who.enrolment.home;
        if let Some(conn) = who.conn.take() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(3_000);
            self.after(delay_ms, Event::ServerSeesClose(conn));
        }
        if home.is_some() {
            self.after(back_after_ms, Event::Return(home));
        }
    }

    /// A crew that has died is started again, unless the run is over.
    pub(crate) fn come_back(&mut self, home: Option<usize>) {
        let is_over = self.nodes.iter().any(|node| node.server.outcome().is_some());
        let is_back = self.crews.iter().any(|crew| crew.is_alive && crew.enrolment.home == home);
        if !is_over && !is_back {
            self.spawn_crew(home);
        }
    }
}
