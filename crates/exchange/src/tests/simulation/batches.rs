//! A process of a sparse model: it requests the keys of its batches, in step or one ahead.
//!
//! In step, a push requests the keys of the next batch. One ahead, the process requests two batches
//! at the start, and while the gradient of one travels it computes that of the next.

use std::collections::VecDeque;

use super::plan::SimPlan;
use super::process::{ProcessAction, SimProcess, SimProcessState};
use crate::tests::harness::mix;
use crate::{PeerRole, PullPurpose};

struct SparseBatch {
    step: u64,
    keys: Vec<u32>,
    values: Vec<f32>,
    versions: Vec<u64>,
}

/// The batches that a process of a sparse model works on.
#[derive(Default)]
pub(crate) struct SparseBatches {
    /// The keys that the current operation requests, and the step of their batch.
    pub(crate) requested: Vec<u32>,
    requested_step: u64,
    /// The version of the last values of each server.
    pub(crate) versions: Vec<u64>,
    /// The versions that the gradient being pushed was computed from.
    pub(crate) pushed_versions: Vec<u64>,
    /// The batches whose values have arrived, the oldest first.
    arrived: VecDeque<SparseBatch>,
    is_computing: bool,
    /// A gradient that waits for the last push to be answered, with its step and versions.
    computed_gradient: Option<(u64, Vec<f32>, Vec<u64>)>,
    reads: u64,
}

impl SimProcess {
    /// Pulls the first batch, or what an evaluator reads.
    pub(crate) fn begin_sparse(&mut self, plan: &SimPlan) {
        self.state = SimProcessState::Pulling;
        match self.role {
            PeerRole::Worker => {
                let step = self.client.resume_step().expect("all servers have welcomed it");
                self.request(plan, step);
                self.client.begin_pull_keys(&self.batches.requested, PullPurpose::Begin);
            }
            _ => self.begin_read(plan),
        }
    }

    pub(crate) fn begin_read(&mut self, plan: &SimPlan) {
        self.state = SimProcessState::Reading;
        self.batches.reads += 1;
        let seed = mix(self.batches.reads ^ 0xe7a1);
        self.batches.requested = (0..plan.total_params as u32)
            .filter(|key| mix(seed ^ u64::from(*key)).is_multiple_of(2))
            .collect();
        self.params = vec![f32::NAN; self.batches.requested.len() * plan.width];
        self.client.begin_pull_keys(&self.batches.requested, PullPurpose::ReadOnly);
    }

    /// Makes the next operation request the keys of a step. Beyond the data there are none.
    fn request(&mut self, plan: &SimPlan, step: u64) {
        let has_data = plan.leaves_at[self.slot].is_none_or(|at| step < at);
        let batches = &mut self.batches;
        batches.requested_step = step;
        batches.requested = if has_data { plan.keys(self.slot, step) } else { Vec::new() };
        self.params = vec![f32::NAN; batches.requested.len() * plan.width];
    }

    pub(crate) fn completed_sparse(&mut self, plan: &SimPlan) {
        if self.role == PeerRole::Evaluator {
            self.state = SimProcessState::Computing;
            self.actions.push(ProcessAction::Compute);
            return;
        }
        match self.state {
            SimProcessState::Pushing => {
                self.actions.push(self.answered());
                let step = self.step;
                self.step = if plan.is_sync() { self.client.global_step() } else { step + 1 };
                self.values_arrived();
            }
            SimProcessState::Pulling => {
                self.values_arrived();
                self.step = self.batches.arrived[0].step;
            }
            _ => {}
        }
        let is_out_of_data = plan.leaves_at[self.slot].is_some_and(|at| self.step >= at);
        if self.client.is_stopping() || is_out_of_data {
            self.enter_state(SimProcessState::Leaving);
        } else if self.releases_now() {
            self.enter_state(SimProcessState::Releasing);
        } else {
            self.advance(plan);
        }
    }

    fn values_arrived(&mut self) {
        let batches = &mut self.batches;
        let (step, keys) = (batches.requested_step, batches.requested.clone());
        let (values, versions) = (self.params.clone(), batches.versions.clone());
        batches.arrived.push_back(SparseBatch { step, keys, values, versions });
    }

    /// No operation is in progress: requests what is missing, and computes what it can.
    fn advance(&mut self, plan: &SimPlan) {
        let has_pushed = self.state == SimProcessState::Pushing;
        // Other workers have made steps that this slot was too late for.
        let is_behind = plan.is_sync() && self.batches.arrived.iter().all(|b| b.step != self.step);
        if has_pushed && is_behind {
            self.batches.arrived.clear();
            self.client.resume_at(self.step);
            self.begin_sparse(plan);
        } else if has_pushed && self.slot == 0 && self.step.is_multiple_of(3) {
            self.begin_read(plan);
        } else if self.state == SimProcessState::Pulling && plan.depth > self.batches.arrived.len()
        {
            self.request(plan, self.step + 1);
            self.client.begin_pull_keys(&self.batches.requested, PullPurpose::Ahead);
        } else {
            self.state = SimProcessState::Computing;
            self.push_computed(plan);
        }
        self.compute_next();
    }

    /// Computes the oldest batch whose values have arrived, unless it is already computing.
    fn compute_next(&mut self) {
        let batches = &mut self.batches;
        let is_free = !batches.is_computing && batches.computed_gradient.is_none();
        if is_free && self.state != SimProcessState::Pulling && !batches.arrived.is_empty() {
            batches.is_computing = true;
            self.actions.push(ProcessAction::Compute);
        }
    }

    /// A gradient has been computed, or an evaluator has finished an evaluation.
    pub(crate) fn computed_sparse(&mut self, plan: &SimPlan) {
        if self.role == PeerRole::Evaluator {
            return self.begin_read(plan);
        }
        self.batches.is_computing = false;
        use SimProcessState::{AwaitingEnd, Collecting, Finishing, Leaving, Refreshing, Releasing};
        let is_out = matches!(self.state, Leaving | Releasing | AwaitingEnd);
        if is_out || matches!(self.state, Collecting | Refreshing | Finishing) {
            return;
        }
        let batch = self.batches.arrived.pop_front().expect("what was computed");
        let gradient = plan.gradients(self.slot, batch.step, &batch.keys, &batch.values);
        self.batches.computed_gradient = Some((batch.step, gradient, batch.versions));
        if self.state == SimProcessState::Computing {
            self.push_computed(plan);
        }
        self.compute_next();
    }

    fn push_computed(&mut self, plan: &SimPlan) {
        let Some((step, gradient, versions)) = self.batches.computed_gradient.take() else {
            return;
        };
        assert_eq!(step, self.step);
        (self.gradient, self.batches.pushed_versions) = (gradient, versions);
        self.checkpoint_if_due(plan);
        self.stop_if_due(plan);
        self.state = SimProcessState::Pushing;
        self.request(plan, step + plan.depth as u64);
        let examples = plan.examples(self.slot, step);
        self.client.begin_push_keys(step, examples, &self.batches.requested);
    }
}
