//! Turns gradients into updates, where the parameters live.
//!
//! An optimizer is built for a range of the flat parameters, so that a server can hold one
//! for just its shard, and it may be applied to any part of that range, so that a large shard
//! can be updated piece by piece while the rest is still on its way. Each element's update
//! depends on nothing but its own parameter, gradient and slots: however the range is cut,
//! the bits are the same.

use std::ops::Range;

use crate::crew::Crew;
use crate::ftrl::Ftrl;
use crate::kernels::each;
use crate::{Group, Layout, Schedule};

/// The formula by which a gradient becomes an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `p -= rate * g`
    Sgd,
    /// `v = momentum * v + g; p -= rate * v`, as PyTorch and TensorFlow define it.
    Momentum {
        /// How much of the last velocity is kept.
        momentum: f32,
    },
    /// `s += g * g; p -= rate * g / (sqrt(s) + epsilon)`
    AdaGrad {
        /// Keeps the quotient finite.
        epsilon: f32,
    },
    /// Adam with bias correction.
    Adam {
        /// Decay of the mean of gradients.
        beta1: f32,
        /// Decay of the mean of squared gradients.
        beta2: f32,
        /// Keeps the quotient finite.
        epsilon: f32,
    },
    /// FTRL-proximal, which leaves parameters at exactly zero that earn too little; see `ftrl.rs`.
    /// Its parameters start from zero, whatever the model says.
    Ftrl {
        /// Holds the rate back where few gradients have been seen.
        beta: f32,
        /// What a parameter must earn not to be zero.
        l1: f32,
        /// Pulls parameters towards zero.
        l2: f32,
    },
}

impl Rule {
    /// Its name in job files.
    pub fn name(&self) -> &'static str {
        match self {
            Rule::Sgd => "sgd",
            Rule::Momentum { .. } => "momentum",
            Rule::AdaGrad { .. } => "adagrad",
            Rule::Adam { .. } => "adam",
            Rule::Ftrl { .. } => "ftrl",
        }
    }

    /// The names of the slots this rule keeps for each parameter, as written to checkpoints.
    pub fn slot_names(&self) -> &'static [&'static str] {
        match self {
            Rule::Sgd => &[],
            Rule::Momentum { .. } => &["momentum"],
            Rule::AdaGrad { .. } => &["sum"],
            Rule::Adam { .. } => &["mean", "square"],
            Rule::Ftrl { .. } => &["z", "n"],
        }
    }
}

/// What may differ between groups of tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupRule {
    /// The learning rate over the global steps.
    pub rate: Schedule,
    /// Weight decay: `g += decay * p` before the rule is applied.
    pub decay: f32,
}

/// Everything that defines an optimizer but its state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimizerSpec {
    /// The formula.
    pub rule: Rule,
    /// Settings of [`Group::Weights`].
    pub weights: GroupRule,
    /// Settings of [`Group::Biases`].
    pub biases: GroupRule,
}

impl OptimizerSpec {
    /// Plain SGD with one constant rate for everything.
    pub fn sgd(rate: f64) -> Self {
        let group = GroupRule { rate: Schedule::Constant { rate }, decay: 0.0 };
        Self { rule: Rule::Sgd, weights: group, biases: group }
    }

    /// The settings of a group.
    pub fn group(&self, group: Group) -> &GroupRule {
        match group {
            Group::Weights => &self.weights,
            Group::Biases => &self.biases,
        }
    }
}

/// An optimizer with its slots for one range of the flat parameters.
#[derive(Clone, Debug)]
pub struct Optimizer {
    spec: OptimizerSpec,
    /// Runs of one group, relative to the start of the range, in order and without gaps.
    spans: Vec<(Range<usize>, Group)>,
    /// One vector for each of the rule's slots, as long as the range.
    slots: Vec<Vec<f32>>,
}

impl Optimizer {
    /// An optimizer with zeroed slots for the parameters in `range`.
    ///
    /// # Panics
    /// If `range` does not lie inside the layout.
    pub fn new(spec: OptimizerSpec, layout: &Layout, range: Range<usize>) -> Self {
        assert!(range.end <= layout.len(), "{range:?} is outside the layout");
        let spans = layout
            .tensors()
            .iter()
            .map(|tensor| {
                let from = tensor.range.start.max(range.start);
                let to = tensor.range.end.min(range.end);
                (from.saturating_sub(range.start)..to.saturating_sub(range.start), tensor.group)
            })
            .filter(|(span, _)| !span.is_empty())
            .collect();
        let slots = spec.rule.slot_names().iter().map(|_| vec![0.0; range.len()]).collect();
        Self { spec, spans, slots }
    }

    /// Updates the parameters `offset .. offset + params.len()` of the range.
    ///
    /// `step` is the number of updates made before this one; schedules and Adam's correction
    /// depend on it.
    ///
    /// # Panics
    /// If `params` and `grad` differ in length or reach beyond the range.
    pub fn apply(&mut self, step: u64, offset: usize, params: &mut [f32], grad: &[f32]) {
        self.each_piece(step, offset, params, grad, |piece, rule, step| piece.update(rule, step));
    }

    /// The same, shared out over a crew's threads.
    pub(crate) fn apply_on(
        &mut self,
        crew: &Crew,
        step: u64,
        (offset, params): (usize, &mut [f32]),
        grad: &[f32],
    ) {
        let share = |piece: Piece<'_>, rule, step| piece.update_on(crew, rule, step);
        self.each_piece(step, offset, params, grad, share);
    }

    /// Cuts an update into runs of one group.
    fn each_piece(
        &mut self,
        step: u64,
        offset: usize,
        params: &mut [f32],
        grad: &[f32],
        update: impl Fn(Piece<'_>, Rule, u64),
    ) {
        assert_eq!(params.len(), grad.len());
        let end = offset + params.len();
        assert!(self.spans.last().map_or(0, |last| last.0.end) >= end, "beyond the range");
        for (span, group) in &self.spans {
            let (from, to) = (span.start.max(offset), span.end.min(end));
            if from >= to {
                continue;
            }
            let rule = self.spec.group(*group);
            let part = from - offset..to - offset;
            let mut slots = self.slots.iter_mut().map(|slot| &mut slot[from..to]);
            let piece = Piece {
                params: &mut params[part.clone()],
                grad: &grad[part],
                slots: std::array::from_fn(|_| slots.next().unwrap_or_default()),
                rate: rule.rate.at(step),
                decay: rule.decay,
            };
            update(piece, self.spec.rule, step);
        }
    }

    /// Sets the values of a slot, by its index among the names, from `offset` in the range on.
    ///
    /// # Panics
    /// If there is no such slot, or the values reach beyond the range.
    pub fn write_slot(&mut self, slot: usize, offset: usize, values: &[f32]) {
        self.slots[slot][offset..offset + values.len()].copy_from_slice(values);
    }

    /// A slot, by its index among the names, to be written to.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn slot_mut(&mut self, slot: usize) -> &mut [f32] {
        &mut self.slots[slot]
    }

    /// The slots by name, each as long as the range.
    pub fn slots(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        self.spec.rule.slot_names().iter().copied().zip(self.slots.iter().map(Vec::as_slice))
    }
}

/// So many parameters are worth handing to another thread.
const SHARED_PIECE: usize = 32 * 1024;

/// A run of parameters that share their settings, in the middle of an update.
struct Piece<'a> {
    params: &'a mut [f32],
    grad: &'a [f32],
    /// As many as the rule has; the rest are empty.
    slots: [&'a mut [f32]; 2],
    rate: f32,
    decay: f32,
}

impl Piece<'_> {
    /// Shares the update out, half by half.
    fn update_on(self, crew: &Crew, rule: Rule, step: u64) {
        if self.params.len() <= SHARED_PIECE || crew.is_one() {
            return self.update(rule, step);
        }
        let (left, right) = self.split_in_two();
        crew.join(|| left.update_on(crew, rule, step), || right.update_on(crew, rule, step));
    }

    fn split_in_two(self) -> (Self, Self) {
        let middle = self.params.len() / 2;
        let Self { params, grad, slots, rate, decay } = self;
        let (params, more_params) = params.split_at_mut(middle);
        let (grad, more_grad) = grad.split_at(middle);
        let [first, second] = slots.map(|slot| {
            let middle = middle.min(slot.len());
            slot.split_at_mut(middle)
        });
        let (slots, more_slots) = ([first.0, second.0], [first.1, second.1]);
        (
            Self { params, grad, slots, rate, decay },
            Self { params: more_params, grad: more_grad, slots: more_slots, rate, decay },
        )
    }

    fn update(self, rule: Rule, step: u64) {
        let Self { params, grad, slots: [first, second], rate, decay } = self;
        let pairs = params.iter_mut().zip(grad);
        // Multiplications and additions stay apart (no fused multiply-add), so that every kind
        // of processor gives the same bits.
        match rule {
            Rule::Sgd => each(
                #[inline(always)]
                || pairs.for_each(|(p, g)| *p -= rate * (g + decay * *p)),
            ),
            Rule::Momentum { momentum } => each(
                #[inline(always)]
                || {
                    for ((p, g), v) in pairs.zip(first) {
                        *v = momentum * *v + (g + decay * *p);
                        *p -= rate * *v;
                    }
                },
            ),
            Rule::AdaGrad { epsilon } => each(
                #[inline(always)]
                || {
                    for ((p, g), sum) in pairs.zip(first) {
                        let g = g + decay * *p;
                        *sum += g * g;
                        *p -= rate * g / (sum.sqrt() + epsilon);
                    }
                },
            ),
            Rule::Adam { beta1, beta2, epsilon } => {
                // In f64, because `1 - beta2^t` loses most of its digits in f32 at the start.
                let count = (step + 1) as f64;
                let mean_scale = (1.0 / (1.0 - f64::from(beta1).powf(count))) as f32;
                let square_scale = (1.0 / (1.0 - f64::from(beta2).powf(count))) as f32;
                each(
                    #[inline(always)]
                    || {
                        for (((p, g), mean), square) in pairs.zip(first).zip(second) {
                            let g = g + decay * *p;
                            *mean = beta1 * *mean + (1.0 - beta1) * g;
                            *square = beta2 * *square + (1.0 - beta2) * (g * g);
                            let root = (*square * square_scale).sqrt() + epsilon;
                            *p -= rate * (*mean * mean_scale) / root;
                        }
                    },
                );
            }
            Rule::Ftrl { beta, l1, l2 } => {
                let ftrl = Ftrl { rate, beta, l1, l2 };
                each(
                    #[inline(always)]
                    || {
                        for (((p, g), z), n) in pairs.zip(first).zip(second) {
                            (*z, *n) = ftrl.gather(*p, *z, *n, g + decay * *p);
                            *p = ftrl.weight(*z, *n);
                        }
                    },
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Rule; 5] = [
        Rule::Sgd,
        Rule::Momentum { momentum: 0.9 },
        Rule::AdaGrad { epsilon: 1e-8 },
        Rule::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
        Rule::Ftrl { beta: 1.0, l1: 0.1, l2: 0.5 },
    ];

    fn layout() -> Layout {
        let mut layout = Layout::new();
        layout.push("weight", &[4, 7], Group::Weights);
        layout.push("bias", &[4], Group::Biases);
        layout
    }

    fn spec(rule: Rule) -> OptimizerSpec {
        let mut spec = OptimizerSpec { rule, ..OptimizerSpec::sgd(0.1) };
        spec.weights.decay = 0.01;
        spec.biases.rate = Schedule::Constant { rate: 0.2 };
        spec
    }

    fn values(len: usize, salt: u32) -> Vec<f32> {
        (0..len as u32).map(|i| ((i * 37 + salt * 101) % 64) as f32 / 32.0 - 1.0).collect()
    }

    /// One parameter followed by hand in f64 through three steps of each rule.
    #[test]
    fn each_rule_follows_its_formula() {
        for rule in RULES {
            let mut layout = Layout::new();
            layout.push("weight", &[1], Group::Weights);
            let mut optimizer = Optimizer::new(spec(rule), &layout, 0..1);
            let mut params = [0.5f32];
            let (mut p, mut a, mut b) = (0.5f64, 0.0f64, 0.0f64);
            for (step, raw) in [0.3f64, -0.2, 0.7].into_iter().enumerate() {
                optimizer.apply(step as u64, 0, &mut params, &[raw as f32]);
                let g = raw + 0.01 * p;
                match rule {
                    Rule::Sgd => p -= 0.1 * g,
                    Rule::Momentum { .. } => {
                        a = 0.9 * a + g;
                        p -= 0.1 * a;
                    }
                    Rule::AdaGrad { .. } => {
                        a += g * g;
                        p -= 0.1 * g / (a.sqrt() + 1e-8);
                    }
                    Rule::Adam { .. } => {
                        let count = step as i32 + 1;
                        a = 0.9 * a + 0.1 * g;
                        b = 0.999 * b + 0.001 * g * g;
                        let (mean, square) =
                            (a / (1.0 - 0.9f64.powi(count)), b / (1.0 - 0.999f64.powi(count)));
                        p -= 0.1 * mean / (square.sqrt() + 1e-8);
                    }
                    Rule::Ftrl { .. } => {
                        let sigma = ((b + g * g).sqrt() - b.sqrt()) / 0.1;
                        a += g - sigma * p;
                        b += g * g;
                        let over = (a.abs() - 0.1).max(0.0) * a.signum();
                        p = -over / ((1.0 + b.sqrt()) / 0.1 + 0.5);
                    }
                }
                assert!((f64::from(params[0]) - p).abs() < 1e-5, "{rule:?}: {params:?}, not {p}");
            }
        }
    }

    #[test]
    fn groups_have_their_own_rate_and_decay() {
        let mut optimizer = Optimizer::new(spec(Rule::Sgd), &layout(), 0..32);
        let mut params = vec![1.0; 32];
        optimizer.apply(0, 0, &mut params, &[1.0; 32]);
        assert_eq!(params[..28], [1.0 - 0.1 * 1.01; 28]);
        assert_eq!(params[28..], [1.0 - 0.2; 4]);
    }

    #[test]
    fn a_crew_gives_the_same_bits_as_one_thread() {
        let mut layout = Layout::new();
        layout.push("weight", &[3, 50_001], Group::Weights);
        layout.push("bias", &[3], Group::Biases);
        let (len, crew) = (layout.len(), Crew::new(3).expect("threads"));
        for rule in RULES {
            let mut alone = (values(len, 0), Optimizer::new(spec(rule), &layout, 0..len));
            let mut shared = alone.clone();
            for step in 0..3 {
                let grad = values(len - 7, step as u32 + 1);
                alone.1.apply(step, 7, &mut alone.0[7..], &grad);
                let params = &mut shared.0[7..];
                crew.enter(|| shared.1.apply_on(&crew, step, (7, params), &grad));
            }
            assert_eq!(alone.0, shared.0, "{rule:?}");
        }
    }

    #[test]
    fn shards_and_pieces_give_the_same_bits_as_the_whole() {
        let layout = layout();
        for rule in RULES {
            let grads = [values(32, 1), values(32, 2), values(32, 3)];
            let mut whole = values(32, 0);
            let mut optimizer = Optimizer::new(spec(rule), &layout, 0..32);
            for (step, grad) in grads.iter().enumerate() {
                optimizer.apply(step as u64, 0, &mut whole, grad);
            }
            for cut in [0, 1, 13, 28, 31] {
                let mut params = values(32, 0);
                let mut low = Optimizer::new(spec(rule), &layout, 0..cut);
                let mut high = Optimizer::new(spec(rule), &layout, cut..32);
                for (step, grad) in grads.iter().enumerate() {
                    let (left, right) = params.split_at_mut(cut);
                    low.apply(step as u64, 0, left, &grad[..cut]);
                    let middle = right.len() / 2;
                    let (near, far) = right.split_at_mut(middle);
                    high.apply(step as u64, middle, far, &grad[cut + middle..]);
                    high.apply(step as u64, 0, near, &grad[cut..cut + middle]);
                }
                assert_eq!(params, whole, "{rule:?} cut at {cut}");
            }
        }
    }
}
