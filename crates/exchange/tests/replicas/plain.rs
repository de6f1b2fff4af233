//! What runs are made of, and the same run as a plain loop.

use paceline_exchange::{Replica, ReplicaConfig, worker_names};
use paceline_model::{Group, Layout, Momentum, OptimizerSpec, OptimizerState};

/// What a run is to be.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) workers: usize,
    pub(crate) total: usize,
    pub(crate) chunk_floats: usize,
    /// Steps that each slot has examples for.
    pub(crate) steps: Vec<u64>,
    pub(crate) stop_steps: Option<u64>,
    /// After which step the chief asks to stop.
    pub(crate) stop_asked: Option<u64>,
    /// Frames that a connection holds.
    pub(crate) room: usize,
    /// Who dies, and after how many moves.
    pub(crate) death: Option<(usize, usize)>,
    /// Whether the run goes on without whoever dies, until it comes back.
    pub(crate) recovers: bool,
}

pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

pub(crate) fn terms(seed: u64) -> Terms {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..5 {
        random.next();
    }
    let workers = 1 + random.below(5);
    let steps = 1 + random.below(6) as u64;
    Terms {
        workers,
        total: 1 + random.below(40),
        chunk_floats: 1 + random.below(12),
        // Of the last step only the first slots have a batch.
        steps: {
            let last = 1 + random.below(workers);
            (0..workers).map(|slot| steps - u64::from(slot >= last)).collect()
        },
        stop_steps: (random.below(3) == 0).then(|| 1 + random.below(5) as u64),
        stop_asked: (random.below(3) == 0).then(|| 1 + random.below(5) as u64),
        room: 1 + random.below(3),
        death: None,
        recovers: false,
    }
}

pub(crate) fn spec() -> OptimizerSpec {
    Momentum::new(0.1, 0.9).decay(0.01)
}

pub(crate) fn layout(total: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[total], Group::Weights);
    layout
}

pub(crate) fn initial(total: usize) -> Vec<f32> {
    (0..total).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// A gradient that depends on all parameters, so that a wrong one is never forgotten.
pub(crate) fn gradient(params: &[f32], slot: usize, step: u64) -> Vec<f32> {
    let sum: f32 = params.iter().sum();
    let at = |i: usize| ((i + slot) as f32 * 0.71 + step as f32 + sum * 0.01).cos();
    params.iter().enumerate().map(|(i, value)| at(i) + 0.1 * value).collect()
}

pub(crate) fn examples(slot: usize, step: u64) -> u32 {
    1 + ((slot as u64 * 7 + step * 3) % 5) as u32
}

/// The same run in a plain loop: parameters and steps.
pub(crate) fn plain(terms: &Terms) -> (Vec<f32>, u64) {
    let mut params = initial(terms.total);
    let mut optimizer = OptimizerState::new(spec(), &layout(terms.total), 0..terms.total);
    let mut step = 0;
    loop {
        let slots: Vec<_> = (0..terms.workers).filter(|&slot| step < terms.steps[slot]).collect();
        if slots.is_empty() {
            return (params, step);
        }
        let total: u64 = slots.iter().map(|&slot| u64::from(examples(slot, step))).sum();
        let mut mean = vec![0.0f32; terms.total];
        for (nth, &slot) in slots.iter().enumerate() {
            let weight = (f64::from(examples(slot, step)) / total as f64) as f32;
            for (mean, value) in mean.iter_mut().zip(gradient(&params, slot, step)) {
                *mean = if nth == 0 { weight * value } else { *mean + weight * value };
            }
        }
        optimizer.apply(step, 0, &mut params, &mean);
        step += 1;
        // A chief that asks after this step has one more made, if there is somebody to tell.
        let asked = terms.stop_asked.map(|asked| asked + u64::from(terms.workers > 1));
        if [terms.stop_steps, asked].into_iter().flatten().any(|last| step >= last) {
            return (params, step);
        }
    }
}

pub(crate) fn config(terms: &Terms, slot: usize) -> ReplicaConfig {
    ReplicaConfig {
        slot,
        names: worker_names(terms.workers),
        incarnation: 1,
        token: b"secret".to_vec(),
        job_digest: [1; 32],
        layout_digest: [2; 32],
        stop_steps: terms.stop_steps,
        check_every: 2,
        chunk_floats: terms.chunk_floats,
        recovers: terms.recovers,
    }
}

pub(crate) fn replica(terms: &Terms, slot: usize) -> Replica {
    Replica::new(config(terms, slot), initial(terms.total), spec(), &layout(terms.total))
}
