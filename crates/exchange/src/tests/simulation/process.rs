//! A worker or an evaluator as a process: what the network crate and the training loop do.

use super::batches::SparseBatches;
use super::plan::SimPlan;
use crate::tests::harness::worker_config;
use crate::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimProcessState {
    Joining,
    Pulling,
    /// It pulls, and no gradient will follow.
    Reading,
    Computing,
    Pushing,
    Leaving,
    Releasing,
    /// It has left and waits for the end of the run.
    AwaitingEnd,
    Collecting,
    /// The coordinator pulls the last parameters.
    Refreshing,
    Finishing,
    Exited {
        well: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AnsweredPush {
    pub(crate) slot: usize,
    pub(crate) step: u64,
    pub(crate) dropped: bool,
    pub(crate) generation: u64,
}

/// What a process asks the simulation to do.
pub(crate) enum ProcessAction {
    Send {
        server: usize,
        header: Header,
        bytes: Vec<u8>,
    },
    /// Call `computed` after the time that a step takes.
    Compute,
    Answered(AnsweredPush),
    Reconnect {
        server: usize,
    },
}

pub(crate) struct SimProcess {
    pub(crate) slot: usize,
    pub(crate) role: PeerRole,
    pub(crate) state: SimProcessState,
    pub(crate) client: Client,
    /// All parameters; for a sparse model, the requested values.
    pub(crate) params: Vec<f32>,
    pub(crate) gradient: Vec<f32>,
    /// The gradient as it travels, if it travels as changes.
    pub(crate) changes: GradientChanges,
    /// The gradient is final from this parameter on.
    final_from: usize,
    pub(crate) step: u64,
    pub(crate) batches: SparseBatches,
    /// The servers that have acknowledged the current goodbye.
    pub(crate) done: Vec<bool>,
    has_requested_stop: bool,
    /// Whether it gives back its slot before the next step.
    pub(crate) must_release: bool,
    pub(crate) is_on_roster: bool,
    /// The checkpoint that it requested last, if it is the coordinator.
    requested_checkpoint: Option<u64>,
    is_refreshing: bool,
    /// How often the run has been rewound.
    pub(crate) life: u64,
    pub(crate) aborted: Option<String>,
    /// What the simulation is asked to do next.
    pub(crate) actions: Vec<ProcessAction>,
}

impl SimProcess {
    pub(crate) fn new(
        plan: &SimPlan,
        role: PeerRole,
        slot: usize,
        incarnation: u64,
        process: ProcessName,
    ) -> Self {
        let is_on_roster = process.id != 0;
        let config = ClientConfig {
            role,
            incarnation,
            servers: plan.servers,
            is_sparse: plan.is_sparse,
            width: plan.width,
            wire: plan.wire,
            process,
            ..worker_config(slot, plan.total_params)
        };
        Self {
            slot,
            role,
            state: SimProcessState::Joining,
            client: Client::new(config),
            params: vec![f32::NAN; plan.total_params],
            gradient: vec![f32::NAN; plan.total_params],
            changes: GradientChanges::new(plan.total_params),
            final_from: 0,
            step: 0,
            batches: SparseBatches::default(),
            done: vec![false; plan.servers],
            has_requested_stop: false,
            must_release: false,
            is_on_roster,
            requested_checkpoint: None,
            is_refreshing: false,
            life: 0,
            aborted: None,
            actions: Vec::new(),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, SimProcessState::Exited { .. })
    }

    /// A frame arrived whose parameters, if it has any, have been read.
    pub(crate) fn frame_arrived(
        &mut self,
        plan: &SimPlan,
        server: usize,
        header: &Header,
        bytes: &[u8],
    ) -> Vec<ProcessAction> {
        let event = self.client.frame_arrived(server, header, bytes).expect("an honest server");
        match event {
            ClientEvent::Welcome => self.repeat_frames(server),
            ClientEvent::Started | ClientEvent::Progress | ClientEvent::Notice(_) => {}
            ClientEvent::Complete if self.state == SimProcessState::Refreshing => {
                self.enter_state(SimProcessState::Finishing);
            }
            ClientEvent::Complete if plan.is_sparse => self.completed_sparse(plan),
            ClientEvent::Complete => self.completed(plan),
            ClientEvent::Reports(reports) => {
                assert!(reports.iter().any(|report| report.slot == Some(0)));
                assert_eq!(reports.last().expect("its own").slot, None);
                self.count(server);
            }
            ClientEvent::Bye => self.count(server),
            ClientEvent::RunOver if self.state == SimProcessState::Finishing => self.count(server),
            ClientEvent::RunOver => self.state = SimProcessState::Exited { well: true },
            ClientEvent::ServerBehind => self.actions.push(ProcessAction::Reconnect { server }),
            ClientEvent::Rewound => return self.rewound(),
            ClientEvent::Abort(why) => self.abort(why),
            ClientEvent::Refused(refusal) if refusal.code == RefuseCode::SlotTaken => {
                match self.state {
                    SimProcessState::Releasing => self.count(server),
                    _ => self.state = SimProcessState::Exited { well: true },
                }
            }
            // The server has not yet noticed that the slot is free.
            ClientEvent::Refused(refusal) if refusal.text.contains("fills slot") => {
                self.actions.push(ProcessAction::Reconnect { server });
            }
            ClientEvent::Refused(refusal) => self.abort(refusal.text),
        }
        if self.state == SimProcessState::Joining
            && self.client.is_welcome()
            && self.client.is_started()
        {
            if self.client.already_left() {
                self.enter_state(SimProcessState::Leaving);
            } else if plan.is_sparse {
                self.begin_sparse(plan);
            } else {
                self.state = SimProcessState::Pulling;
                self.client.begin_pull();
            }
        }
        if self.state == SimProcessState::Refreshing
            && self.client.is_complete()
            && !self.is_refreshing
        {
            self.is_refreshing = true;
            self.refresh(plan);
        }
        self.send_chunks(plan);
        std::mem::take(&mut self.actions)
    }

    fn refresh(&mut self, plan: &SimPlan) {
        if plan.is_sparse {
            self.begin_read(plan);
            self.state = SimProcessState::Refreshing;
        } else {
            self.client.begin_pull();
        }
    }

    pub(crate) fn abort(&mut self, why: String) {
        self.aborted = Some(why);
        self.state = SimProcessState::Exited { well: false };
    }

    /// The run has gone back: the process connects to all servers again.
    fn rewound(&mut self) -> Vec<ProcessAction> {
        self.state = SimProcessState::Joining;
        self.life += 1;
        self.done.fill(false);
        (self.has_requested_stop, self.is_refreshing, self.requested_checkpoint) =
            (false, false, None);
        self.batches = SparseBatches::default();
        self.changes.clear();
        (0..self.done.len()).map(|server| ProcessAction::Reconnect { server }).collect()
    }

    pub(crate) fn answered(&self) -> ProcessAction {
        ProcessAction::Answered(AnsweredPush {
            slot: self.slot,
            step: self.step,
            dropped: self.client.was_dropped(),
            generation: self.client.generation().number,
        })
    }

    fn completed(&mut self, plan: &SimPlan) {
        if self.role == PeerRole::Evaluator {
            // It evaluates the parameters and pulls again, as long as there are servers.
            self.actions.push(ProcessAction::Compute);
            self.state = SimProcessState::Computing;
            return;
        }
        if self.state == SimProcessState::Pushing {
            self.actions.push(self.answered());
            self.step = if plan.is_sync() { self.client.global_step() } else { self.step + 1 };
        } else {
            self.step = self.client.resume_step().expect("all servers have welcomed it");
        }
        let is_out_of_data = plan.leaves_at[self.slot].is_some_and(|at| self.step >= at);
        if self.client.is_stopping() || is_out_of_data {
            self.enter_state(SimProcessState::Leaving);
        } else if self.releases_now() {
            self.enter_state(SimProcessState::Releasing);
        } else {
            self.state = SimProcessState::Computing;
            self.actions.push(ProcessAction::Compute);
        }
    }

    /// Whether it gives back its slot now.
    pub(crate) fn releases_now(&self) -> bool {
        self.must_release && self.slot > 0 && !self.client.has_unfinished_push()
    }

    /// Whether it needs no connection to a server any more.
    pub(crate) fn is_done_with(&self, server: usize) -> bool {
        self.state == SimProcessState::Releasing && self.done[server]
    }

    pub(crate) fn computed(&mut self, plan: &SimPlan) -> Vec<ProcessAction> {
        if plan.is_sparse {
            self.computed_sparse(plan);
            self.send_chunks(plan);
            return std::mem::take(&mut self.actions);
        }
        if self.state == SimProcessState::Pushing {
            return self.piece_computed(plan);
        }
        assert_eq!(self.state, SimProcessState::Computing);
        if self.role == PeerRole::Evaluator {
            self.state = SimProcessState::Pulling;
            self.client.begin_pull();
        } else {
            self.gradient = plan.gradients(self.slot, self.step, &plan.all_keys(), &self.params);
            self.checkpoint_if_due(plan);
            self.stop_if_due(plan);
            self.state = SimProcessState::Pushing;
            let examples = plan.examples(self.slot, self.step);
            if plan.pieces[self.slot] > 0 {
                self.client.begin_push_in_pieces(self.step, examples);
                self.final_from = plan.total_params;
                self.actions.push(ProcessAction::Compute);
            } else {
                self.client.begin_push(self.step, examples);
            }
        }
        self.send_chunks(plan);
        std::mem::take(&mut self.actions)
    }

    /// The next piece of the gradient is final, as in a backward pass.
    fn piece_computed(&mut self, plan: &SimPlan) -> Vec<ProcessAction> {
        let len = plan.total_params.div_ceil(plan.pieces[self.slot]);
        self.final_from = self.final_from.saturating_sub(len);
        self.client.set_final(self.final_from);
        if self.final_from > 0 {
            self.actions.push(ProcessAction::Compute);
        }
        self.send_chunks(plan);
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn stop_if_due(&mut self, plan: &SimPlan) {
        if self.slot == 0 && plan.coordinator_stops_at.is_some_and(|at| self.step >= at) {
            self.has_requested_stop = true;
            self.send_stop();
        }
    }

    /// The coordinator requests checkpoints; in `sync` before the push that completes the step.
    pub(crate) fn checkpoint_if_due(&mut self, plan: &SimPlan) {
        let Some(every) = plan.checkpoint_every.filter(|_| self.slot == 0) else { return };
        let (step, counted) = if plan.is_sync() {
            (self.step + 1, self.step + 1)
        } else {
            (self.client.global_step(), self.step)
        };
        if counted.is_multiple_of(every) {
            self.requested_checkpoint = Some(step);
            (0..self.done.len()).for_each(|server| self.send_checkpoint(server));
        }
    }

    fn send_checkpoint(&mut self, server: usize) {
        if let Some(step) = self.requested_checkpoint {
            let (header, bytes) = (Client::checkpoint(step), Vec::new());
            self.actions.push(ProcessAction::Send { server, header, bytes });
        }
    }

    fn send_stop(&mut self) {
        let ControlFrame { header, body: bytes } = Client::stop("the coordinator has seen enough");
        self.actions.push(ProcessAction::Send { server: 0, header, bytes });
    }

    /// Repeats on a new connection what was sent and not acknowledged.
    fn repeat_frames(&mut self, server: usize) {
        if self.has_requested_stop && server == 0 {
            self.send_stop();
        }
        self.send_checkpoint(server);
        if !self.done[server] {
            self.send_goodbye(server);
        }
    }

    fn send_chunks(&mut self, plan: &SimPlan) {
        if !self.is_alive() {
            return;
        }
        for server in 0..self.done.len() {
            while let Some(frame) = self.client.next_frame(server) {
                let OutgoingFrame { header, gradient, is_new } = frame;
                if plan.wire == WireFormat::Bf16 && is_new {
                    self.changes.update(gradient.clone(), &self.gradient[gradient.clone()]);
                }
                let numbers = match plan.wire {
                    WireFormat::F32 => as_bytes(&self.gradient[gradient]),
                    WireFormat::Bf16 => self.changes.bytes(gradient),
                };
                let bytes = [numbers, self.client.keys(server)].concat();
                assert_eq!(bytes.len(), header.len as usize);
                if header.kind == FrameKind::PushKeys {
                    assert_eq!(header.version, self.batches.pushed_versions[server]);
                }
                self.actions.push(ProcessAction::Send { server, header, bytes });
            }
        }
    }
}
