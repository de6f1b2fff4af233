//! What happens in one simulated run, drawn from its seed before it starts.

use paceline_exchange::{ModeConfig, OnLoss};
use paceline_model::{AdaGrad, Ftrl, Group, Layout, OptimizerSpec, Schedule, Sgd};

use crate::crews::Change;

const FTRL: Ftrl = Ftrl { beta: 1.0, l1: 0.02, l2: 0.5 };

/// A small generator (SplitMix64): the simulation must not change when a library does.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Scrambles a number.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Which chunk of the protocol a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Async,
    SyncAll,
    SyncBackups,
    Bounded,
    /// Any mode, and one worker dies and never comes back.
    Loss,
    /// Any mode, and processes that fill several slots come and go.
    Elastic,
}

/// Something that goes wrong at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Accident {
    /// Some connection breaks, and what is on its way is lost.
    Cut,
    /// The process in a slot dies; another takes over after so long, or none does.
    Kill { slot: usize, back_after_ms: Option<u64> },
    /// As `Kill`, when one server has a push of the slot and another has not; if that does not
    /// happen within so many looks, it does not die.
    KillBetween { slot: usize, back_after_ms: u64, looks: u64 },
    /// Somebody unknown connects to a server and sends rubbish.
    Stranger { server: usize },
    /// Something happens to the processes that fill slots.
    Crew(Change),
    /// A server dies; it is back after so long.
    KillServer { server: usize, back_after_ms: u64 },
}

/// Whether servers die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    Steady,
    Mortal,
}

/// What kind of model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelKind {
    Dense,
    Sparse,
}

/// One simulated run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) is_sparse: bool,
    /// Of a sparse model: how many batches are asked for before the first gradient is pushed.
    pub(crate) depth: usize,
    /// Of a sparse model: how many of 100 parameters a batch touches, and what draws them.
    density: u64,
    key_seed: u64,
    pub(crate) optimizer: OptimizerSpec,
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    pub(crate) evaluators: usize,
    pub(crate) mode: ModeConfig,
    pub(crate) total_params: usize,
    pub(crate) chunk_floats: usize,
    pub(crate) stop_steps: Option<u64>,
    /// The chief asks to stop before it pushes this step.
    pub(crate) chief_stops_at: Option<u64>,
    /// From which step on each slot has no more data.
    pub(crate) leaves_at: Vec<Option<u64>>,
    /// How long each slot computes a step.
    pub(crate) compute_ms: Vec<u64>,
    pub(crate) delay_ms: u64,
    pub(crate) on_loss: OnLoss,
    pub(crate) rejoin_ms: u64,
    pub(crate) accidents: Vec<(u64, Accident)>,
    /// The slot that dies for good.
    pub(crate) dies: Option<usize>,
    /// How many processes the run begins with, if they fill slots as they are told.
    pub(crate) crews: Option<usize>,
    /// How many steps of the chief there are from one checkpoint to the next.
    pub(crate) checkpoint_every: Option<u64>,
}

impl Plan {
    pub(crate) fn draw(style: Style, kind: ModelKind, mortal: Servers, seed: u64) -> Self {
        let mut random = Random::new(mix(seed ^ ((style as u64) << 56)));
        let least = if style == Style::SyncBackups { 2 } else { 1 };
        let workers = random.between(least, 5) as usize;
        let mode = draw_mode(style, workers, &mut random);
        let has_backups = matches!(mode, ModeConfig::Sync { quorum } if quorum < workers);
        let servers = if has_backups { 1 } else { random.between(1, 3) as usize };
        let mut plan = Self {
            is_sparse: false,
            depth: 1,
            density: 100,
            key_seed: seed,
            optimizer: Sgd::new(1.0),
            servers,
            workers,
            evaluators: random.below(2) as usize,
            mode,
            total_params: random.between(servers as u64, 18) as usize,
            chunk_floats: random.between(1, 7) as usize,
            stop_steps: None,
            chief_stops_at: None,
            leaves_at: vec![None; workers],
            compute_ms: (0..workers).map(|_| random.between(1, 30)).collect(),
            delay_ms: random.between(1, 20),
            on_loss: if random.chance(50) { OnLoss::Fail } else { OnLoss::Continue },
            rejoin_ms: 20_000,
            accidents: Vec::new(),
            dies: None,
            crews: None,
            checkpoint_every: None,
        };
        if random.chance(1) {
            // More chunks than a client may leave unanswered.
            (plan.total_params, plan.chunk_floats) = (servers * 300, 1);
        }
        match random.chance(70) {
            true => plan.stop_steps = Some(random.between(1, 12)),
            false => plan.chief_stops_at = Some(random.below(10)),
        }
        for slot in 0..workers {
            if slot > 0 && random.chance(15) {
                plan.leaves_at[slot] = Some(random.below(8));
            }
            if random.chance(15) {
                plan.compute_ms[slot] *= 8;
            }
        }
        plan.draw_accidents(&mut random);
        if style == Style::Loss {
            plan.draw_loss(&mut random);
        }
        if style == Style::Elastic {
            plan.draw_crews(&mut random);
        }
        if kind == ModelKind::Sparse {
            plan.draw_sparse(&mut random);
        }
        if servers > 1 && style != Style::Loss && style != Style::Elastic {
            plan.kill_between(&mut random);
        }
        if mortal == Servers::Mortal {
            plan.draw_server_deaths(&mut random);
        }
        plan
    }

    fn draw_sparse(&mut self, random: &mut Random) {
        self.is_sparse = true;
        self.total_params = random.between(self.servers as u64, 30) as usize;
        self.density = [10, 30, 70][random.below(3) as usize];
        if !self.is_sync() {
            self.depth = random.between(1, 2) as usize;
            return;
        }
        let optimizers = [Sgd::new(1.0), AdaGrad::new(1.0), OptimizerSpec::new(FTRL, 1.0)];
        self.optimizer = optimizers[random.below(3) as usize].clone();
        if random.chance(70) {
            self.optimizer.weights.rate =
                Schedule::Exponential { rate: 0.5, factor: 0.5, every: 5 };
        }
        if self.optimizer.optimizer().name() == "sgd" && random.chance(50) {
            self.optimizer.weights.decay = 0.1;
        }
    }

    /// The last parameter is a bias, and has its own rate and no decay.
    pub(crate) fn layout(&self) -> Layout {
        let mut layout = Layout::new();
        layout.push("weight", &[self.total_params - 1], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        layout
    }

    /// All keys, which are what a batch of a dense model touches.
    pub(crate) fn all_keys(&self) -> Vec<u32> {
        (0..self.total_params as u32).collect()
    }

    /// The keys that a batch touches; there may be none.
    pub(crate) fn keys(&self, slot: usize, step: u64) -> Vec<u32> {
        if !self.is_sparse {
            return self.all_keys();
        }
        let seed = mix(self.key_seed ^ (slot as u64) << 48 ^ step << 24);
        let mut keys = self.all_keys();
        keys.retain(|key| mix(seed ^ u64::from(*key)) % 100 < self.density);
        keys
    }

    fn draw_accidents(&mut self, random: &mut Random) {
        let rate = [0, 3, 12][random.below(3) as usize];
        for _ in 0..rate {
            let at_ms = random.below(1_500);
            let accident = match random.below(10) {
                0..5 => Accident::Cut,
                5..8 => Accident::Kill {
                    slot: random.below(self.workers as u64) as usize,
                    back_after_ms: Some(random.between(1, 2_000)),
                },
                _ => Accident::Stranger { server: random.below(self.servers as u64) as usize },
            };
            self.accidents.push((at_ms, accident));
        }
    }

    fn draw_loss(&mut self, random: &mut Random) {
        let slot = random.below(self.workers as u64) as usize;
        self.rejoin_ms = [0, 3_000][random.below(2) as usize];
        if self.rejoin_ms == 0 {
            self.accidents.retain(|(_, accident)| matches!(accident, Accident::Stranger { .. }));
        }
        // Who dies twice in a row may be away for longer than one may be.
        let mut has_died = vec![false; self.workers];
        self.accidents.retain(|(_, accident)| match accident {
            Accident::Kill { slot, .. } => !std::mem::replace(&mut has_died[*slot], true),
            _ => true,
        });
        self.accidents.push((random.below(800), Accident::Kill { slot, back_after_ms: None }));
        self.dies = Some(slot);
    }

    fn draw_crews(&mut self, random: &mut Random) {
        self.crews = Some(random.between(1, self.workers as u64 + 1) as usize);
        // Long enough for something to happen.
        let later = |step: &mut u64| *step *= 5;
        self.stop_steps.iter_mut().chain(&mut self.chief_stops_at).for_each(later);
        self.leaves_at.iter_mut().flatten().for_each(later);
        let changes = [0, 3, 8][random.below(3) as usize];
        self.accidents.retain(|(_, accident)| !matches!(accident, Accident::Kill { .. }));
        for _ in 0..changes {
            self.accidents.push((random.below(3_000), Accident::Crew(Change::draw(random))));
        }
    }

    /// Lets servers die, now and then several of them at once or one over and over.
    fn draw_server_deaths(&mut self, random: &mut Random) {
        self.checkpoint_every = random.chance(80).then(|| random.between(1, 4));
        for _ in 0..random.between(1, 3) {
            let server = random.below(self.servers as u64) as usize;
            let back_after_ms = random.between(1, 1_500);
            let accident = Accident::KillServer { server, back_after_ms };
            self.accidents.push((random.below(1_500), accident));
        }
    }

    /// Lets some die where it hurts most.
    fn kill_between(&mut self, random: &mut Random) {
        for (_, accident) in &mut self.accidents {
            if let Accident::Kill { slot, back_after_ms: Some(back_after_ms) } = *accident
                && random.chance(60)
            {
                *accident = Accident::KillBetween { slot, back_after_ms, looks: 60 };
            }
        }
    }

    /// Whether the final bits follow from the plan alone, whatever the accidents.
    pub(crate) fn has_exact_bits(&self) -> bool {
        self.mode == ModeConfig::Sync { quorum: self.workers } && self.dies.is_none()
    }

    pub(crate) fn without_accidents(&self) -> Self {
        Self { accidents: Vec::new(), ..self.clone() }
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.mode, ModeConfig::Sync { .. })
    }

    /// The gradient of some keys whose values are these. In `sync` it depends on parameters of
    /// other chunks and servers, so that a gradient of the wrong parameters shows; elsewhere it is
    /// made of integers, so that sums are exact in whatever order.
    pub(crate) fn gradients(
        &self,
        slot: usize,
        step: u64,
        keys: &[u32],
        values: &[f32],
    ) -> Vec<f32> {
        let element = |(index, key): (usize, &u32)| {
            let noise = mix((slot as u64) << 48 ^ step << 24 ^ u64::from(*key)) % 1024;
            if !self.is_sync() {
                return noise as f32;
            }
            noise as f32 / 512.0 - 1.0 + 0.3 * values[(index * 7 + 3) % values.len()]
        };
        keys.iter().enumerate().map(element).collect()
    }

    /// How many examples a slot's batch has.
    pub(crate) fn examples(&self, slot: usize, step: u64) -> u32 {
        1 + (mix(slot as u64 ^ step << 8) % 9) as u32
    }
}

fn draw_mode(style: Style, workers: usize, random: &mut Random) -> ModeConfig {
    match style {
        Style::Async => ModeConfig::Async,
        Style::SyncAll => ModeConfig::Sync { quorum: workers },
        Style::SyncBackups => {
            ModeConfig::Sync { quorum: random.between(1, workers as u64 - 1) as usize }
        }
        Style::Bounded => ModeConfig::Bounded { staleness: random.below(4) },
        Style::Loss | Style::Elastic if workers == 1 => ModeConfig::Async,
        Style::Loss | Style::Elastic => {
            let styles = [Style::Async, Style::SyncAll, Style::SyncBackups, Style::Bounded];
            draw_mode(styles[random.below(4) as usize], workers, random)
        }
    }
}
