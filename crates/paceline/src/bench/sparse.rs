//! `paceline bench sparse`: steps of sparse logistic regression at the size of a click log.
//!
//! The rows have the shape of Criteo's: 39 features out of 33,762,578, from fields of very
//! different sizes, a few of their values popular and most of them rare. They are held in memory
//! and are more than the caches hold, so that every step reads them, and the parameters, from
//! where they would be in a real run.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use paceline_model::{
    Batch, Compactor, Logistic, Model, Onto, OptimizerSpec, Rows, Rule, Stepper, Table,
};

use crate::hogwild::hogwild;
use crate::table::{aligned, grouped};

const FEATURES: usize = 33_762_578;
const ROWS: usize = 300_000;
const SMALL_FIELDS: usize = 13;
const LARGE_FIELDS: usize = 26;
const FIELDS: usize = SMALL_FIELDS + LARGE_FIELDS;
const TURNS: usize = 15;
/// Short turns, since one in which others want the processor too does not count.
const TURN: Duration = Duration::from_millis(60);
/// How fast values of a field get rare: the r-th is seen in proportion to r^-1.1.
const RARITY: f64 = 1.1;

/// Rows/s of sparse logistic regression for each optimizer at several batches, on one thread and
/// on two, and the time of each part of a step.
pub fn sparse() -> String {
    let clicks = Clicks::new();
    let mut table = vec![
        [
            "optimizer",
            "batch",
            "rows/s",
            "2 threads",
            "ratio",
            "keys",
            "compact",
            "read",
            "gradient",
            "update",
        ]
        .map(String::from)
        .to_vec(),
    ];
    let ftrl = Rule::Ftrl { beta: 1.0, l1: 1e-4, l2: 1e-4 };
    let optimizers = [
        ("sgd", Rule::Sgd, 0.0),
        ("sgd, decay", Rule::Sgd, 1e-6),
        ("adagrad", Rule::AdaGrad { epsilon: 1e-8 }, 0.0),
        ("ftrl", ftrl, 0.0),
    ];
    for (name, rule, decay) in optimizers {
        let mut spec = OptimizerSpec { rule, ..OptimizerSpec::sgd(0.05) };
        spec.weights.decay = decay;
        let layout = Logistic::new(FEATURES).layout().clone();
        let params = Table::new(spec, &layout, 0..layout.len());
        let batches: &[usize] = if decay == 0.0 { &[1, 100, 1_000] } else { &[100] };
        for &batch in batches {
            table.push(measure(name, batch, &params, &clicks));
        }
    }
    let title = format!(
        "logistic regression, {} features, {FIELDS} a row, {} rows in memory; time of each part \
         in us a batch on one thread\n",
        grouped(FEATURES as u64),
        grouped(ROWS as u64)
    );
    title + &aligned(&table)
}

/// One row of the table.
fn measure(name: &str, batch: usize, table: &Table, clicks: &Clicks) -> Vec<String> {
    let model = || Stepper::new(Box::new(Logistic::new(FEATURES)));
    let mut steppers = [model(), model()];
    let (mut one, mut two, mut parts) = (0f64, 0f64, Parts::most());
    let counter = AtomicU64::new(0);
    // The first turn brings the table into memory.
    rate(&mut steppers, &counter, batch, table, clicks, 10 * TURN);
    for _ in 0..TURNS {
        one = one.max(rate(&mut steppers[..1], &counter, batch, table, clicks, TURN));
        two = two.max(rate(&mut steppers, &counter, batch, table, clicks, TURN));
        parts = parts.least(Parts::of(batch, table, clicks));
    }
    let mut row = vec![
        name.into(),
        batch.to_string(),
        grouped(one as u64),
        grouped(two as u64),
        format!("{:.2}", two / one),
        grouped(parts.keys as u64),
    ];
    row.extend(parts.micros.map(|micros| format!("{micros:.1}")));
    row
}

/// Rows a second over all steppers.
fn rate(
    steppers: &mut [Stepper],
    counter: &AtomicU64,
    batch: usize,
    table: &Table,
    clicks: &Clicks,
    turn: Duration,
) -> f64 {
    let from = counter.load(Ordering::Relaxed);
    let start = Instant::now();
    let step = |stepper: &mut Stepper, number: u64| {
        black_box(stepper.step(table, number, clicks.batch(number, batch)));
        !number.is_multiple_of(16) || start.elapsed() < turn
    };
    // The first who finds the time over sets the counter to the limit, so the steps made are
    // counted apart from it.
    let mut workers: Vec<_> = steppers.iter_mut().map(|stepper| (stepper, 0u64)).collect();
    hogwild(&mut workers, counter, u64::MAX, |(stepper, made), number| {
        *made += 1;
        step(stepper, number)
    });
    let seconds = start.elapsed().as_secs_f64();
    let made: u64 = workers.iter().map(|worker| worker.1).sum();
    counter.store(from + made, Ordering::Relaxed);
    made as f64 * batch as f64 / seconds
}

/// The time of each part of a step in microseconds, and the keys of a batch.
struct Parts {
    keys: f64,
    micros: [f64; 4],
}

impl Parts {
    fn most() -> Self {
        Self { keys: 0.0, micros: [f64::INFINITY; 4] }
    }

    fn least(self, other: Self) -> Self {
        let micros = std::array::from_fn(|i| self.micros[i].min(other.micros[i]));
        Self { keys: other.keys, micros }
    }

    /// One turn, the clock looked at between parts.
    fn of(batch: usize, table: &Table, clicks: &Clicks) -> Self {
        let mut model = Logistic::new(FEATURES);
        let mut compactor = Compactor::new();
        let starts: Vec<u32> = (0..=batch).map(|row| (row * FIELDS) as u32).collect();
        let (mut params, mut grad) = (Vec::new(), Vec::new());
        let (mut keys, mut spent, mut steps) = (0, [Duration::ZERO; 4], 0u64);
        let begun = Instant::now();
        while begun.elapsed() < TURN {
            let raw = clicks.batch(steps, batch);
            let at = [raw.rows().starts[0], raw.rows().starts[batch]].map(|start| start as usize);
            let t0 = Instant::now();
            let keys_now = &raw.rows().places[at[0]..at[1]];
            compactor.meet(keys_now, FEATURES as u32, |key| table.prefetch(key));
            params.resize(compactor.keys().len(), 0.0);
            grad.resize(compactor.keys().len(), 0.0);
            let t1 = Instant::now();
            table.read(compactor.keys(), &mut params);
            let t2 = Instant::now();
            let rows = Rows { starts: &starts, places: compactor.places(), values: &[] };
            let block = Batch::sparse(rows, raw.labels);
            black_box(model.gradient(&params, block, 1.0 / batch as f32, Onto::Zero, &mut grad));
            let t3 = Instant::now();
            table.update(steps, compactor.keys(), &grad);
            let t4 = Instant::now();
            for (spent, span) in spent.iter_mut().zip([t1 - t0, t2 - t1, t3 - t2, t4 - t3]) {
                *spent += span;
            }
            keys += compactor.keys().len();
            steps += 1;
        }
        let micros = spent.map(|spent| spent.as_secs_f64() * 1e6 / steps as f64);
        Self { keys: keys as f64 / steps as f64, micros }
    }
}

/// Rows like those of a click log.
struct Clicks {
    starts: Vec<u32>,
    features: Vec<u32>,
    labels: Vec<u32>,
}

impl Clicks {
    fn new() -> Self {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mixed(state)
        };
        let mut features = Vec::with_capacity(ROWS * FIELDS);
        for _ in 0..ROWS {
            for field in 0..FIELDS {
                let chance = (next() >> 11) as f64 / (1u64 << 53) as f64;
                let rank = rank(chance, field_size(field));
                features.push((mixed((field as u64) << 32 | rank) % FEATURES as u64) as u32);
            }
        }
        Self {
            starts: (0..=ROWS).map(|row| (row * FIELDS) as u32).collect(),
            features,
            labels: (0..ROWS).map(|_| u32::from(next() % 4 == 0)).collect(),
        }
    }

    /// The batch of a step, from the beginning again when the rows are through.
    fn batch(&self, step: u64, batch: usize) -> Batch<'_> {
        let from = (step as usize % (ROWS / batch)) * batch;
        let starts = &self.starts[from..=from + batch];
        let rows = Rows { starts, places: &self.features, values: &[] };
        Batch::sparse(rows, &self.labels[from..from + batch])
    }
}

/// How many values a field has: 50, or from 10 to 10 million in equal ratios.
fn field_size(field: usize) -> f64 {
    match field.checked_sub(SMALL_FIELDS) {
        None => 50.0,
        Some(large) => 10f64.powf(1.0 + 6.0 * large as f64 / (LARGE_FIELDS - 1) as f64),
    }
}

/// The rank of a value out of so many, by a power law's inverse distribution.
fn rank(chance: f64, values: f64) -> u64 {
    let power = 1.0 - RARITY;
    (1.0 - chance * (1.0 - values.powf(power))).powf(1.0 / power) as u64
}

/// The finaliser of SplitMix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
