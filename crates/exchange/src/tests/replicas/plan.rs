//! What replica runs are drawn from, and the same run as a plain loop.

use paceline_model::kernels::bf16_encode_change;
use paceline_model::{FactorSizes, Layout, Momentum, OptimizerSpec, OptimizerState};

use super::keyed::TablePlan;
use crate::tests::harness::{JOB, LAYOUT, SeededRandom, flat_layout, mix};
use crate::{Replica, ReplicaConfig, StepPiece, WireFormat, shard_ranges};

#[derive(Clone, Debug)]
pub(crate) struct ReplicaPlan {
    pub(crate) workers: usize,
    pub(crate) total: usize,
    pub(crate) chunk_floats: usize,
    pub(crate) owner_floats: usize,
    /// Steps for which each slot has examples.
    pub(crate) steps: Vec<u64>,
    pub(crate) stop_steps: Option<u64>,
    /// The step after which the coordinator asks to stop.
    pub(crate) stop_after: Option<u64>,
    pub(crate) room: usize,
    /// Whether the run survives deaths, after which a new process fills the slot.
    pub(crate) recovers: bool,
    /// The pieces in which steps are made; none if they are made at once.
    pub(crate) pieces: Vec<StepPiece>,
    pub(crate) wire: WireFormat,
    /// The table, if the model is sparse.
    pub(crate) table: Option<TablePlan>,
}

impl ReplicaPlan {
    pub(crate) fn draw(seed: u64, recovers: bool) -> Self {
        let mut random = SeededRandom::new(mix(seed));
        let workers = 1 + random.index(5);
        let steps = random.between(1, 6);
        let (total, chunk_floats) = (1 + random.index(40), 1 + random.index(12));
        // Only the first slots have a batch for the last step.
        let last = 1 + random.index(workers);
        Self {
            workers,
            total,
            chunk_floats,
            owner_floats: 1 + (mix(!seed) % 24) as usize,
            steps: (0..workers).map(|slot| steps - u64::from(slot >= last)).collect(),
            stop_steps: (random.below(3) == 0).then(|| random.between(1, 5)),
            stop_after: (random.below(3) == 0).then(|| random.between(1, 5)),
            room: 1 + random.index(3),
            recovers,
            pieces: if random.index(3) == 0 { Vec::new() } else { pieces(&mut random, total) },
            wire: WireFormat::F32,
            table: None,
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        flat_layout(self.total)
    }

    pub(crate) fn initial(&self) -> Vec<f32> {
        (0..self.total).map(|i| (i as f32 * 0.37).sin()).collect()
    }

    pub(crate) fn config(&self, slot: usize) -> ReplicaConfig {
        ReplicaConfig {
            job: JOB.into(),
            layout_digest: LAYOUT,
            stop_steps: self.stop_steps,
            check_every: 2,
            chunk_floats: self.chunk_floats,
            owner_floats: self.owner_floats,
            recovers: self.recovers,
            pieces: self.pieces.clone(),
            wire: self.wire,
            batch: MOST_EXAMPLES as usize,
            ..ReplicaConfig::new(slot, self.workers)
        }
    }

    pub(crate) fn replica(&self, config: ReplicaConfig) -> Replica {
        if let Some(table) = &self.table {
            return Replica::of_table(config, table.empty(), 0);
        }
        Replica::new(config, self.initial(), optimizer(), &self.layout())
    }

    /// The gradient of all pieces, whichever way it travels.
    fn gradient(&self, params: &[f32], slot: usize, step: u64) -> Vec<f32> {
        let mut all = gradient(params, slot, step);
        for StepPiece { range, factors: sizes } in &self.pieces {
            if let Some(sizes) = sizes {
                let floats = sizes.floats(examples(slot, step) as usize);
                let factors = factors(params, slot, step, floats);
                all[range.clone()].copy_from_slice(&factor_gradient(&factors, range.len()));
            }
        }
        all
    }

    /// What travels as changes, if anything does: the gradient of each slot, then the mean.
    fn known_values(&self) -> Vec<KnownValues> {
        let whole = [StepPiece { range: 0..self.total, factors: None }];
        let pieces = if self.pieces.is_empty() { &whole[..] } else { &self.pieces };
        let sent = pieces.iter().filter(|piece| piece.factors.is_none());
        let sent: Vec<usize> = sent.flat_map(|piece| piece.range.clone()).collect();
        let shards = shard_ranges(sent.len(), self.workers);
        let values = |slot: usize| {
            let own = shards.get(slot).map_or(&[][..], |shard| &sent[shard.clone()]);
            let travels = |at: &usize| self.wire == WireFormat::Bf16 && !own.contains(at);
            let places = sent.iter().copied().filter(travels).collect();
            KnownValues { places, values: vec![0.0; self.total] }
        };
        (0..=self.workers).map(values).collect()
    }

    /// The same run in a plain loop: its parameters and its number of steps.
    pub(crate) fn plain_loop(&self) -> (Vec<f32>, u64) {
        let mut params = self.initial();
        let mut state = OptimizerState::new(optimizer(), &self.layout(), 0..self.total);
        let mut known = self.known_values();
        let mut step = 0;
        loop {
            let slots: Vec<_> = (0..self.workers).filter(|&slot| step < self.steps[slot]).collect();
            if slots.is_empty() {
                return (params, step);
            }
            let total: u64 = slots.iter().map(|&slot| u64::from(examples(slot, step))).sum();
            let mut mean = vec![0.0f32; self.total];
            for (nth, &slot) in slots.iter().enumerate() {
                let weight = (f64::from(examples(slot, step)) / total as f64) as f32;
                let mut gradient = self.gradient(&params, slot, step);
                known[slot].send(&mut gradient);
                for (mean, value) in mean.iter_mut().zip(gradient) {
                    *mean = if nth == 0 { weight * value } else { *mean + weight * value };
                }
            }
            known[self.workers].send(&mut mean);
            state.apply(step, 0, &mut params, &mean);
            step += 1;
            if self.stops_at(step) {
                return (params, step);
            }
        }
    }

    /// Whether the run stops after this many steps. The other workers hear of a stop with the next
    /// step, which is made; a single worker stops at once.
    pub(crate) fn stops_at(&self, step: u64) -> bool {
        let stop_after = self.stop_after.map(|after| after + u64::from(self.workers > 1));
        [self.stop_steps, stop_after].into_iter().flatten().any(|last| step >= last)
    }
}

/// Numbers of which some travel as changes.
struct KnownValues {
    places: Vec<usize>,
    values: Vec<f32>,
}

impl KnownValues {
    /// Replaces those that travel by what arrives.
    fn send(&mut self, values: &mut [f32]) {
        for &at in &self.places {
            bf16_encode_change(&values[at..=at], &mut self.values[at..=at], &mut [0]);
            values[at] = self.values[at];
        }
    }
}

pub(crate) fn optimizer() -> OptimizerSpec {
    Momentum::new(0.1, 0.9).decay(0.01)
}

/// A gradient that depends on all parameters, so that a wrong one has a lasting effect.
pub(crate) fn gradient(params: &[f32], slot: usize, step: u64) -> Vec<f32> {
    let sum: f32 = params.iter().sum();
    let at = |i: usize| ((i + slot) as f32 * 0.71 + step as f32 + sum * 0.01).cos();
    params.iter().enumerate().map(|(i, value)| at(i) + 0.1 * value).collect()
}

/// Cuts the parameters into up to four pieces, some of which travel as factors.
fn pieces(random: &mut SeededRandom, total: usize) -> Vec<StepPiece> {
    let mut cuts: Vec<_> = (0..random.index(4)).map(|_| random.index(total + 1)).collect();
    cuts.extend([0, total]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut piece = |cut: &[usize]| {
        let sizes = FactorSizes { inputs: 1 + random.index(6), outputs: 1 + random.index(4) };
        StepPiece { range: cut[0]..cut[1], factors: (random.index(2) == 0).then_some(sizes) }
    };
    cuts.windows(2).map(&mut piece).collect()
}

/// Stands for the factors of a worker's gradient.
pub(crate) fn factors(params: &[f32], slot: usize, step: u64, floats: usize) -> Vec<f32> {
    let sum: f32 = params.iter().sum();
    (0..floats).map(|i| ((i * 3 + slot) as f32 * 0.37 - step as f32 + sum * 0.02).sin()).collect()
}

/// Stands for the gradient that belongs to factors.
pub(crate) fn factor_gradient(factors: &[f32], len: usize) -> Vec<f32> {
    let product = |i: usize| factors[i % factors.len()] * factors[(i * 7 + 1) % factors.len()];
    (0..len).map(product).collect()
}

/// The most examples of a worker in a step.
pub(crate) const MOST_EXAMPLES: u32 = 5;

pub(crate) fn examples(slot: usize, step: u64) -> u32 {
    1 + ((slot as u64 * 7 + step * 3) % 5) as u32
}
