//! What an optimizer remembers for a range of the flat parameters.
//!
//! The state covers a range, so that a server holds only what belongs to its shard, and it may be
//! applied to any part of that range, so that a large shard is updated chunk by chunk while the
//! rest is still on its way. The update of a parameter depends on its own value, gradient and
//! state alone: however the range is cut, the bits are the same.

use std::ops::Range;

use super::ftrl::Ftrl;
use super::spec::OptimizerSpec;
use super::update::ParamUpdate;
use crate::layout::{Group, Layout};
use crate::thread_pool::ThreadPool;

/// The least number of parameters worth handing to another thread.
const SHARED_RUN: usize = 32 * 1024;

/// An optimizer with its state for one range of the flat parameters.
///
/// ```
/// use paceline_model::{Group, Layout, Momentum, OptimizerState};
///
/// let mut layout = Layout::new();
/// layout.push("weight", &[3], Group::Weights);
/// let mut state = OptimizerState::new(Momentum::new(0.5, 0.9), &layout, 0..3);
/// let mut params = [1.0, 2.0, 3.0];
/// state.apply(0, 0, &mut params, &[1.0, 0.0, -1.0]);
/// assert_eq!(params, [0.5, 2.0, 3.5]);
/// assert_eq!(state.states().next(), Some(("momentum", &[1.0, 0.0, -1.0][..])));
/// ```
#[derive(Clone, Debug)]
pub struct OptimizerState {
    spec: OptimizerSpec,
    /// Runs of one group, relative to the start of the range, in order and without gaps.
    runs: Vec<GroupRun>,
    /// One vector for each of the optimizer's state names, as long as the range.
    states: Vec<Vec<f32>>,
}

#[derive(Clone, Debug)]
struct GroupRun {
    range: Range<usize>,
    group: Group,
}

impl OptimizerState {
    /// An optimizer with zeroed state for the parameters in `range`.
    ///
    /// # Panics
    /// If `range` does not lie inside the layout.
    pub fn new(spec: OptimizerSpec, layout: &Layout, range: Range<usize>) -> Self {
        assert!(range.end <= layout.len(), "{range:?} is outside the layout");
        let runs = layout.tensors().iter().map(|tensor| {
            let from = tensor.range.start.max(range.start);
            let to = tensor.range.end.min(range.end);
            let within = from.saturating_sub(range.start)..to.saturating_sub(range.start);
            GroupRun { range: within, group: tensor.group }
        });
        let runs = runs.filter(|run| !run.range.is_empty()).collect();
        let names = spec.optimizer().state_names();
        let states = names.iter().map(|_| vec![0.0; range.len()]).collect();
        Self { spec, runs, states }
    }

    /// Fits the state to parameters that were trained before, in the whole range and before the
    /// first update: the parameters of FTRL follow from its state.
    ///
    /// # Panics
    /// If there is not a parameter for each of the range.
    pub fn start_from(&mut self, params: &[f32]) {
        let Some(&ftrl) = self.spec.downcast::<Ftrl>() else { return };
        assert_eq!(params.len(), self.states[0].len(), "parameters of the range");
        for run in &self.runs {
            let ftrl = ftrl.at_rate(self.spec.group(run.group).rate_at(0));
            let z = &mut self.states[0][run.range.clone()];
            z.iter_mut().zip(&params[run.range.clone()]).for_each(|(z, &p)| *z = ftrl.z_of(p, 0.0));
        }
    }

    /// Moves the state out, to be put back later; until then this covers nothing.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let (runs, states) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.states));
        Self { spec: self.spec.clone(), runs, states }
    }

    /// Updates the parameters `offset .. offset + params.len()` of the range.
    ///
    /// `step` is the number of updates made before this one; schedules and Adam's correction
    /// depend on it.
    ///
    /// # Panics
    /// If `params` and `grad` differ in length or reach beyond the range.
    pub fn apply(&mut self, step: u64, offset: usize, params: &mut [f32], grad: &[f32]) {
        self.for_each_run(step, offset, params, grad, |spec, update| {
            spec.optimizer().update(step, update);
        });
    }

    /// As [`OptimizerState::apply`], on several threads.
    pub(crate) fn apply_with(
        &mut self,
        pool: &ThreadPool,
        step: u64,
        offset: usize,
        params: &mut [f32],
        grad: &[f32],
    ) {
        self.for_each_run(step, offset, params, grad, |spec, update| {
            update_on(pool, spec, step, update);
        });
    }

    /// Cuts an update into runs of one group.
    fn for_each_run(
        &mut self,
        step: u64,
        offset: usize,
        params: &mut [f32],
        grad: &[f32],
        apply: impl Fn(&OptimizerSpec, ParamUpdate<'_>),
    ) {
        assert_eq!(params.len(), grad.len());
        let end = offset + params.len();
        assert!(self.runs.last().map_or(0, |last| last.range.end) >= end, "beyond the range");
        for run in &self.runs {
            let (from, to) = (run.range.start.max(offset), run.range.end.min(end));
            if from >= to {
                continue;
            }
            let settings = self.spec.group(run.group);
            let part = from - offset..to - offset;
            let mut states = self.states.iter_mut().map(|state| &mut state[from..to]);
            let update = ParamUpdate {
                params: &mut params[part.clone()],
                grad: &grad[part],
                state: std::array::from_fn(|_| states.next().unwrap_or_default()),
                rate: settings.rate_at(step),
                decay: settings.decay,
                l1: settings.l1,
            };
            apply(&self.spec, update);
        }
    }

    /// Sets the values of one state, by its index among the names, from `offset` in the range on.
    ///
    /// # Panics
    /// If there is no such state, or the values reach beyond the range.
    pub fn write_state(&mut self, state: usize, offset: usize, values: &[f32]) {
        self.states[state][offset..offset + values.len()].copy_from_slice(values);
    }

    /// The values of one state, by its index among the names.
    ///
    /// # Panics
    /// If there is no such state.
    pub fn state_mut(&mut self, state: usize) -> &mut [f32] {
        &mut self.states[state]
    }

    /// The states by name, each as long as the range.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        let names = self.spec.optimizer().state_names().iter().copied();
        names.zip(self.states.iter().map(Vec::as_slice))
    }
}

/// Halves an update until its parts are small, and shares them out over the threads.
fn update_on(pool: &ThreadPool, spec: &OptimizerSpec, step: u64, update: ParamUpdate<'_>) {
    if update.params.len() <= SHARED_RUN || pool.is_single() {
        return spec.optimizer().update(step, update);
    }
    let (left, right) = update.split_in_half();
    pool.join(|| update_on(pool, spec, step, left), || update_on(pool, spec, step, right));
}
