//! A process of a sparse model: it asks for the keys of its batches, in step or one ahead.
//!
//! In step, a push asks for the keys of the next batch. One ahead, two batches are asked for at
//! the start, and while the gradient of one travels, that of the next is computed already.

use std::collections::VecDeque;

use paceline_exchange::{PeerRole, PullPurpose};

use crate::plan::{Plan, mix};
use crate::process::{Process, State, Wish};

/// A batch whose values are here.
struct Batch {
    step: u64,
    keys: Vec<u32>,
    values: Vec<f32>,
    /// Which version each server's values are of.
    versions: Vec<u64>,
}

/// What a process of a sparse model is in the middle of.
#[derive(Default)]
pub(crate) struct Batches {
    /// The keys that the present operation asks for, and the step whose batch they are of.
    pub(crate) asked: Vec<u32>,
    asked_step: u64,
    /// Which version the last values of each server were of.
    pub(crate) versions: Vec<u64>,
    /// Which versions the gradient that is being pushed was computed from.
    pub(crate) pushed_versions: Vec<u64>,
    /// The batches whose values are here, the oldest first.
    here: VecDeque<Batch>,
    is_computing: bool,
    /// A gradient that waits for the last push to be answered, its step and its versions.
    fresh: Option<(u64, Vec<f32>, Vec<u64>)>,
    /// How often it has pulled to look only.
    looks: u64,
}

impl Process {
    /// Pulls the first batch, or what an evaluator looks at.
    pub(crate) fn begin_sparse(&mut self, plan: &Plan) {
        self.state = State::Pulling;
        match self.role {
            PeerRole::Worker => {
                let step = self.client.resume_step().expect("all have welcomed");
                self.ask(plan, step);
                self.client.begin_pull_keys(&self.batches.asked, PullPurpose::Begin);
            }
            _ => self.look(plan),
        }
    }

    pub(crate) fn look(&mut self, plan: &Plan) {
        self.state = State::Looking;
        self.batches.looks += 1;
        let seed = mix(self.batches.looks ^ 0xe7a1);
        self.batches.asked = (0..plan.total_params as u32)
            .filter(|key| mix(seed ^ u64::from(*key)).is_multiple_of(2))
            .collect();
        self.params = vec![f32::NAN; self.batches.asked.len()];
        self.client.begin_pull_keys(&self.batches.asked, PullPurpose::ReadOnly);
    }

    /// Makes the keys of a step those that the next operation asks for. Beyond the data there
    /// are none.
    fn ask(&mut self, plan: &Plan, step: u64) {
        let has_data = plan.leaves_at[self.slot].is_none_or(|at| step < at);
        let batches = &mut self.batches;
        batches.asked_step = step;
        batches.asked = if has_data { plan.keys(self.slot, step) } else { Vec::new() };
        self.params = vec![f32::NAN; batches.asked.len()];
    }

    /// A push or a pull has been answered in full.
    pub(crate) fn completed_sparse(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        if self.role == PeerRole::Evaluator {
            self.state = State::Computing;
            wishes.push(Wish::Compute);
            return;
        }
        match self.state {
            State::Pushing => {
                wishes.push(self.answered());
                let step = self.step;
                self.step = if plan.is_sync() { self.client.global_step() } else { step + 1 };
                self.has_arrived();
            }
            State::Pulling => {
                self.has_arrived();
                self.step = self.batches.here[0].step;
            }
            _ => {}
        }
        let is_out_of_data = plan.leaves_at[self.slot].is_some_and(|at| self.step >= at);
        if self.client.is_stopping() || is_out_of_data {
            self.enter(State::Leaving, wishes);
        } else if self.is_called_back() {
            self.enter(State::Releasing, wishes);
        } else {
            self.go_on(plan, wishes);
        }
    }

    /// The values that were asked for belong to a batch now.
    fn has_arrived(&mut self) {
        let batches = &mut self.batches;
        let (step, keys) = (batches.asked_step, batches.asked.clone());
        let (values, versions) = (self.params.clone(), batches.versions.clone());
        batches.here.push_back(Batch { step, keys, values, versions });
    }

    /// Nothing is on its way: asks for what is missing, and computes what can be computed.
    fn go_on(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        let has_pushed = self.state == State::Pushing;
        // Others have made steps that this slot was too late for.
        let is_behind = plan.is_sync() && self.batches.here.iter().all(|b| b.step != self.step);
        if has_pushed && is_behind {
            self.batches.here.clear();
            self.client.resume_at(self.step);
            self.begin_sparse(plan);
        } else if has_pushed && self.slot == 0 && self.step.is_multiple_of(3) {
            self.look(plan);
        } else if self.state == State::Pulling && plan.depth > self.batches.here.len() {
            self.ask(plan, self.step + 1);
            self.client.begin_pull_keys(&self.batches.asked, PullPurpose::Ahead);
        } else {
            self.state = State::Computing;
            self.push_fresh(plan, wishes);
        }
        self.compute_next(wishes);
    }

    /// Computes the oldest batch whose values are here, if nothing else is computed.
    fn compute_next(&mut self, wishes: &mut Vec<Wish>) {
        let batches = &mut self.batches;
        let is_free = !batches.is_computing && batches.fresh.is_none();
        if is_free && self.state != State::Pulling && !batches.here.is_empty() {
            batches.is_computing = true;
            wishes.push(Wish::Compute);
        }
    }

    /// A gradient is computed, or an evaluator has looked for long enough.
    pub(crate) fn computed_sparse(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        if self.role == PeerRole::Evaluator {
            return self.look(plan);
        }
        self.batches.is_computing = false;
        use State::{Collecting, Finishing, Leaving, Lingering, Refreshing, Releasing};
        let is_out = matches!(self.state, Leaving | Releasing | Lingering);
        if is_out || matches!(self.state, Collecting | Refreshing | Finishing) {
            return;
        }
        let batch = self.batches.here.pop_front().expect("what was computed");
        let gradient = plan.gradients(self.slot, batch.step, &batch.keys, &batch.values);
        self.batches.fresh = Some((batch.step, gradient, batch.versions));
        if self.state == State::Computing {
            self.push_fresh(plan, wishes);
        }
        self.compute_next(wishes);
    }

    /// Pushes the gradient that waits, if there is one, and asks for the next batch.
    fn push_fresh(&mut self, plan: &Plan, wishes: &mut Vec<Wish>) {
        let Some((step, gradient, versions)) = self.batches.fresh.take() else { return };
        assert_eq!(step, self.step);
        (self.gradient, self.batches.pushed_versions) = (gradient, versions);
        self.checkpoint_if_due(plan, wishes);
        self.stop_if_due(plan, wishes);
        self.state = State::Pushing;
        self.ask(plan, step + plan.depth as u64);
        let examples = plan.examples(self.slot, step);
        self.client.begin_push_keys(step, examples, &self.batches.asked);
    }
}
