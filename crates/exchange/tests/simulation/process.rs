//! A worker or an evaluator as a process: what the network crate and the training loop do.

use paceline_exchange::{
    Client, ClientConfig, ClientEvent, FrameKind, Header, OutgoingFrame, PeerRole, ProcessName,
    RefuseCode, as_bytes,
};

use crate::batches::Batches;
use crate::plan::Plan;

pub(crate) const JOB: [u8; 32] = [7; 32];
pub(crate) const LAYOUT: [u8; 32] = [9; 32];
pub(crate) const TOKEN: &[u8] = b"open sesame";

/// What a process is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Joining,
    Pulling,
    /// It pulls without a gradient to follow.
    Looking,
    Computing,
    Pushing,
    Leaving,
    Releasing,
    /// It has left, and waits to hear that the run is over.
    Lingering,
    Collecting,
    /// The chief pulls the last parameters.
    Refreshing,
    Finishing,
    Exited {
        well: bool,
    },
}

/// A push that was answered in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) slot: usize,
    pub(crate) step: u64,
    pub(crate) dropped: bool,
    /// The generation that it was pushed in.
    pub(crate) generation: u64,
}

/// What a process wants of the world.
pub(crate) enum Wish {
    Send {
        server: usize,
        header: Header,
        bytes: Vec<u8>,
    },
    /// Call `computed` after the time a step takes.
    Compute,
    /// A push was answered in full.
    Answered(Answered),
    /// A connection is of no more use, and a new one is to be made.
    Reconnect {
        server: usize,
    },
}

/// One process.
pub(crate) struct Process {
    pub(crate) slot: usize,
    pub(crate) role: PeerRole,
    pub(crate) state: State,
    pub(crate) client: Client,
    /// All parameters; of a sparse model, the values that are asked for.
    pub(crate) params: Vec<f32>,
    /// What is being pushed.
    pub(crate) gradient: Vec<f32>,
    pub(crate) step: u64,
    /// Of a sparse model: what else there is to know.
    pub(crate) batches: Batches,
    /// Which servers have said that the present goodbye is counted.
    done: Vec<bool>,
    wants_stop: bool,
    /// The slot is to be given back between two steps.
    pub(crate) called_back: bool,
    is_in_crew: bool,
    /// The checkpoint that it has asked for last, if it is the chief.
    asked_checkpoint: Option<u64>,
    is_refreshing: bool,
    /// How often it has begun anew.
    pub(crate) life: u64,
    pub(crate) aborted: Option<String>,
}

impl Process {
    pub(crate) fn new(
        plan: &Plan,
        role: PeerRole,
        slot: usize,
        incarnation: u64,
        process: ProcessName,
    ) -> Self {
        let is_in_crew = process.id != 0;
        let config = ClientConfig {
            role,
            slot: slot as u32,
            incarnation,
            job_digest: JOB,
            layout_digest: LAYOUT,
            token: TOKEN.to_vec(),
            servers: plan.servers,
            total_params: plan.total_params,
            is_sparse: plan.is_sparse,
            process,
        };
        Self {
            slot,
            role,
            state: State::Joining,
            client: Client::new(config),
            params: vec![f32::NAN; plan.total_params],
            gradient: vec![f32::NAN; plan.total_params],
            step: 0,
            batches: Batches::default(),
            done: vec![false; plan.servers],
            wants_stop: false,
            called_back: false,
            is_in_crew,
            asked_checkpoint: None,
            is_refreshing: false,
            life: 0,
            aborted: None,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Exited { .. })
    }

    /// A frame arrived whose parameters, if it has any, have been read.
    pub(crate) fn arrived(
        &mut self,
        plan: &Plan,
        server: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let event = self.client.frame_arrived(server, header, bytes).expect("an honest server");
        match event {
            ClientEvent::Welcome => self.greet_again(server, &mut wishes),
            ClientEvent::Started | ClientEvent::Progress | ClientEvent::Notice(_) => {}
            ClientEvent::Complete if self.state == State::Refreshing => {
                self.enter(State::Finishing, &mut wishes);
            }
            ClientEvent::Complete if plan.is_sparse => self.completed_sparse(plan, &mut wishes),
            ClientEvent::Complete => self.completed(plan, &mut wishes),
            ClientEvent::Reports(reports) => {
                assert!(reports.iter().any(|report| report.slot == Some(0)));
                assert_eq!(reports.last().expect("its own").slot, None);
                self.count(server, &mut wishes);
            }
            ClientEvent::Bye => self.count(server, &mut wishes),
            ClientEvent::RunOver if self.state == State::Finishing => {
                self.count(server, &mut wishes)
            }
            ClientEvent::RunOver => self.state = State::Exited { well: true },
            ClientEvent::ServerBehind => wishes.push(Wish::Reconnect { server }),
            ClientEvent::Rewound => return self.rewound(),
            ClientEvent::Abort(why) => self.abort(why),
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                match self.state {
                    State::Releasing => self.count(server, &mut wishes),
                    _ => self.state = State::Exited { well: true },
                }
            }
            ClientEvent::Refused(refusal) => self.abort(refusal.text),
        }
        if self.state == State::Joining && self.client.is_welcome() && self.client.is_started() {
            if self.client.already_left() {
                self.enter(State::Leaving, &mut wishes);
            } else if plan.is_sparse {
                self.begin_sparse(plan);
            } else {
                self.state = State::Pulling;
                self.client.begin_pull();
            }
        }
        if self.state == State::Refreshing && self.client.is_complete() && !self.is_refreshing {
            self.is_refreshing = true;
            self.refresh(plan);
        }
        self.send_chunks(&mut wishes);
        wishes
    }

    fn refresh(&mut self, plan: &Plan) {
        if plan.is_sparse {
            self.look(plan);
            self.state = State::Refreshing;
        } else {
            self.client.begin_pull();
        }
    }

    fn abort(&mut self, why: String) {
        self.aborted = Some(why);
        self.state = State::Exited { well: false };
    }

    /// The run has gone back, and this process with it: it finds everybody anew.
    fn rewound(&mut self) -> Vec<Wish> {
        self.state = State::Joining;
        self.life += 1;
        self.done.fill(false);
        (self.wants_stop, self.is_refreshing, self.asked_checkpoint) = (false, false, None);
        self.batches = Batches::default();
        (0..self.done.len()).map(|server| Wish::Reconnect { server }).collect()
    }

    /// What became of the push that was answered just now.
    pub(crate) fn answered(&self) -> Wish {
        Wish::Answered(Answered {
            slot: self.slot,
            step: self.step,
            dropped: self.client.was_dropped(),
            generation: self.client.generation().number,
        })
    }

    /// A push or a pull has been answered in full.
    fn completed(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        if self.role == PeerRole::Evaluator {
            // It looks at the parameters and pulls again, for as long as there are servers.
            wishes.push(Wish::Compute);
            self.state = State::Computing;
            return;
        }
        if self.state == State::Pushing {
            wishes.push(self.answered());
            self.step = if plan.is_sync() { self.client.global_step() } else { self.step + 1 };
        } else {
            self.step = self.client.resume_step().expect("all have welcomed");
        }
        let is_out_of_data = plan.leaves_at[self.slot].is_some_and(|at| self.step >= at);
        if self.client.is_stopping() || is_out_of_data {
            self.enter(State::Leaving, wishes);
        } else if self.is_called_back() {
            self.enter(State::Releasing, wishes);
        } else {
            self.state = State::Computing;
            wishes.push(Wish::Compute);
        }
    }

    /// Whether the slot is to be given back now.
    pub(crate) fn is_called_back(&self) -> bool {
        self.called_back && self.slot > 0 && !self.client.has_unfinished_push()
    }

    /// Whether nothing more is to be heard of a server.
    pub(crate) fn is_done_with(&self, server: usize) -> bool {
        self.state == State::Releasing && self.done[server]
    }

    /// The gradient is computed.
    pub(crate) fn computed(&mut self, plan: &Plan) -> Vec<Wish> {
        let mut wishes = Vec::new();
        if plan.is_sparse {
            self.computed_sparse(plan, &mut wishes);
            self.send_chunks(&mut wishes);
            return wishes;
        }
        assert_eq!(self.state, State::Computing);
        if self.role == PeerRole::Evaluator {
            self.state = State::Pulling;
            self.client.begin_pull();
        } else {
            self.gradient = plan.gradients(self.slot, self.step, &plan.all_keys(), &self.params);
            self.checkpoint_if_due(plan, &mut wishes);
            self.stop_if_due(plan, &mut wishes);
            self.state = State::Pushing;
            self.client.begin_push(self.step, plan.examples(self.slot, self.step));
        }
        self.send_chunks(&mut wishes);
        wishes
    }

    /// The chief asks to stop before it pushes the step at which it means to.
    pub(crate) fn stop_if_due(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        if self.slot == 0 && plan.chief_stops_at.is_some_and(|at| self.step >= at) {
            self.wants_stop = true;
            self.say_stop(wishes);
        }
    }

    /// The chief asks for checkpoints; in `sync` before the push that makes the step.
    pub(crate) fn checkpoint_if_due(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        let Some(every) = plan.checkpoint_every.filter(|_| self.slot == 0) else { return };
        let step = match plan.is_sync() {
            true => self.step + 1,
            false => self.client.global_step(),
        };
        let counted = if plan.is_sync() { step } else { self.step };
        if counted.is_multiple_of(every) {
            self.asked_checkpoint = Some(step);
            (0..self.done.len()).for_each(|server| self.say_checkpoint(server, wishes));
        }
    }

    fn say_checkpoint(&self, server: usize, wishes: &mut Vec<Wish>) {
        if let Some(step) = self.asked_checkpoint {
            wishes.push(Wish::Send { server, header: Client::checkpoint(step), bytes: Vec::new() });
        }
    }

    fn say_stop(&self, wishes: &mut Vec<Wish>) {
        let (header, bytes) = Client::stop("the chief has seen enough");
        wishes.push(Wish::Send { server: 0, header, bytes });
    }

    /// What was said and not counted is said again on a new connection.
    fn greet_again(&mut self, server: usize, wishes: &mut Vec<Wish>) {
        if self.wants_stop && server == 0 {
            self.say_stop(wishes);
        }
        self.say_checkpoint(server, wishes);
        if !self.done[server] {
            self.say_goodbye(server, wishes);
        }
    }

    pub(crate) fn enter(&mut self, state: State, wishes: &mut Vec<Wish>) {
        self.state = state;
        self.done.fill(false);
        for server in 0..self.done.len() {
            self.say_goodbye(server, wishes);
        }
    }

    fn say_goodbye(&self, server: usize, wishes: &mut Vec<Wish>) {
        let goes = matches!(self.state, State::Leaving | State::Releasing);
        if goes && server == 0 && self.done[1..].contains(&false) {
            return;
        }
        let (header, bytes) = match self.state {
            State::Leaving | State::Lingering => {
                Client::leave(format!("report of {}", self.slot).into_bytes())
            }
            State::Releasing => Client::release(format!("report of {}", self.slot).into_bytes()),
            State::Collecting => (Client::collect(), Vec::new()),
            State::Finishing => (Client::finish(), Vec::new()),
            _ => return,
        };
        wishes.push(Wish::Send { server, header, bytes });
    }

    /// A server has counted the present goodbye.
    fn count(&mut self, server: usize, wishes: &mut Vec<Wish>) {
        self.done[server] = true;
        if !self.done[0] && server > 0 && !self.done[1..].contains(&false) {
            // Server 0 hears it last: what it knows holds everywhere.
            self.say_goodbye(0, wishes);
        }
        if self.done.contains(&false) {
            return;
        }
        match self.state {
            State::Leaving if self.slot == 0 => self.enter(State::Collecting, wishes),
            State::Collecting => self.state = State::Refreshing,
            State::Leaving => self.state = State::Lingering,
            State::Releasing | State::Finishing => self.state = State::Exited { well: true },
            _ => {}
        }
    }

    /// A server cannot be reached any more because it has ended.
    pub(crate) fn server_ended(&mut self, server: usize) {
        use State::{Finishing, Leaving, Lingering};
        let is_out = matches!(self.state, Leaving | Lingering) || self.is_in_crew;
        // Of a crew, another has the slot, and was quicker: its process hears that the run is over.
        if is_out && self.slot > 0 || self.role == PeerRole::Evaluator {
            self.state = State::Exited { well: true };
        } else if matches!(self.state, Leaving | Finishing) {
            self.count(server, &mut Vec::new());
        } else {
            self.abort(format!("ps:{server} has ended"));
        }
    }

    fn send_chunks(&mut self, wishes: &mut Vec<Wish>) {
        if !self.is_alive() {
            return;
        }
        for server in 0..self.done.len() {
            while let Some(OutgoingFrame { header, gradient }) = self.client.next_frame(server) {
                let bytes = [as_bytes(&self.gradient[gradient]), self.client.keys(server)].concat();
                assert_eq!(bytes.len(), header.len as usize);
                if header.kind == FrameKind::PushKeys {
                    assert_eq!(header.version, self.batches.pushed_versions[server]);
                }
                wishes.push(Wish::Send { server, header, bytes });
            }
        }
    }
}
