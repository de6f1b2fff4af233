//! A simulated run, drawn from its seed before it starts.

use std::ops::Range;

use crate::{ModeConfig, OnLoss, WireFormat};
use paceline_model::{
    AdaGrad, EntryPolicy, Ftrl, Group, Layout, OptimizerSpec, ParamTable, Schedule, Sgd, Table,
};

use super::roster_processes::RosterChange;
use crate::tests::harness::{EntryModel, SeededRandom, mix};

const FTRL: Ftrl = Ftrl { beta: 1.0, l1: 0.02, l2: 0.5 };

/// The aspect of the protocol that a run tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStyle {
    Async,
    SyncAll,
    SyncBackups,
    Bounded,
    /// Any mode; one worker dies and never returns.
    Loss,
    /// Any mode; processes that fill several slots join, leave and die.
    Elastic,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SimAccident {
    /// A connection breaks, and the frames on it are lost.
    Cut,
    /// The process in a slot dies; another one takes over after a while, or none does.
    Kill {
        slot: usize,
        back_after_ms: Option<u64>,
    },
    /// As `Kill`, but only when one server has a push of the slot and another lacks it. Gives up
    /// after this many attempts.
    KillBetween {
        slot: usize,
        back_after_ms: u64,
        attempts: u64,
    },
    /// A stranger connects to a server and sends garbage.
    Stranger {
        server: usize,
    },
    ChangeRoster(RosterChange),
    KillServer {
        server: usize,
        back_after_ms: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerFate {
    Steady,
    Mortal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Dense,
    /// A dense model whose numbers travel as bf16.
    Rounded,
    Sparse,
}

#[derive(Clone, Debug)]
pub(crate) struct SimPlan {
    pub(crate) is_sparse: bool,
    pub(crate) wire: WireFormat,
    /// For a sparse model: batches requested before the first gradient is pushed.
    pub(crate) depth: usize,
    /// For a sparse model: percentage of the parameters that a batch touches, and their seed.
    density: u64,
    /// For a sparse model: the parameters of each key.
    pub(crate) width: usize,
    key_seed: u64,
    pub(crate) optimizer: OptimizerSpec,
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    pub(crate) evaluators: usize,
    pub(crate) mode: ModeConfig,
    pub(crate) total_params: usize,
    pub(crate) chunk_floats: usize,
    pub(crate) stop_steps: Option<u64>,
    /// The coordinator asks to stop before it pushes this step.
    pub(crate) coordinator_stops_at: Option<u64>,
    /// The step at which each slot runs out of data.
    pub(crate) leaves_at: Vec<Option<u64>>,
    /// The longest time that each slot computes a step.
    pub(crate) compute_ms: Vec<u64>,
    pub(crate) delay_ms: u64,
    pub(crate) on_loss: OnLoss,
    pub(crate) rejoin_ms: u64,
    pub(crate) accidents: Vec<(u64, SimAccident)>,
    /// The slot whose worker dies and never returns.
    pub(crate) dies: Option<usize>,
    /// Processes that the run begins with, if they fill slots by the roster.
    pub(crate) roster_processes: Option<usize>,
    pub(crate) checkpoint_every: Option<u64>,
    /// Pieces in which a slot's gradient becomes final, the last one first; with 0, it is whole
    /// from the start.
    pub(crate) pieces: Vec<usize>,
}

impl SimPlan {
    pub(crate) fn draw(style: RunStyle, kind: StoreKind, mortal: ServerFate, seed: u64) -> Self {
        let mut random = SeededRandom::new(mix(seed ^ ((style as u64) << 56)));
        let least = if style == RunStyle::SyncBackups { 2 } else { 1 };
        let workers = random.between(least, 5) as usize;
        let mode = draw_mode(style, workers, &mut random);
        let has_backups = matches!(mode, ModeConfig::Sync { quorum } if quorum < workers);
        let servers = if has_backups { 1 } else { random.between(1, 3) as usize };
        let mut plan = Self {
            is_sparse: false,
            wire: if kind == StoreKind::Rounded { WireFormat::Bf16 } else { WireFormat::F32 },
            depth: 1,
            density: 100,
            width: 1,
            key_seed: seed,
            optimizer: Sgd::new(1.0),
            servers,
            workers,
            evaluators: random.below(2) as usize,
            mode,
            total_params: random.between(servers as u64, 18) as usize,
            chunk_floats: random.between(1, 7) as usize,
            stop_steps: None,
            coordinator_stops_at: None,
            leaves_at: vec![None; workers],
            compute_ms: (0..workers).map(|_| random.between(1, 30)).collect(),
            delay_ms: random.between(1, 20),
            on_loss: if random.chance(50) { OnLoss::Fail } else { OnLoss::Continue },
            rejoin_ms: 20_000,
            accidents: Vec::new(),
            dies: None,
            roster_processes: None,
            checkpoint_every: None,
            pieces: vec![0; workers],
        };
        plan.draw_pace(&mut random);
        plan.draw_accidents(&mut random);
        if style == RunStyle::Loss {
            plan.draw_loss(&mut random);
        }
        if style == RunStyle::Elastic {
            plan.draw_roster(&mut random);
        }
        if kind == StoreKind::Sparse {
            plan.draw_sparse(&mut random);
        }
        if servers > 1 && style != RunStyle::Loss && style != RunStyle::Elastic {
            plan.kill_between(&mut random);
        }
        if mortal == ServerFate::Mortal {
            plan.draw_server_deaths(&mut random);
        }
        if kind != StoreKind::Sparse && !has_backups {
            plan.draw_pieces(&mut random);
        }
        plan
    }

    /// With backups chunk 0 goes first, so the whole gradient must be final.
    fn draw_pieces(&mut self, random: &mut SeededRandom) {
        let is_layered = random.chance(50);
        for pieces in &mut self.pieces {
            // Sometimes one of several workers sends its gradient whole.
            if is_layered && random.chance(80) {
                *pieces = random.between(1, 6) as usize;
            }
        }
    }

    /// Draws when the run and each slot end, and how fast slots are.
    fn draw_pace(&mut self, random: &mut SeededRandom) {
        if random.chance(1) {
            // More chunks than the window of a client.
            (self.total_params, self.chunk_floats) = (self.servers * 300, 1);
        }
        if random.chance(70) {
            self.stop_steps = Some(random.between(1, 12));
        } else {
            self.coordinator_stops_at = Some(random.below(10));
        }
        for slot in 0..self.workers {
            if slot > 0 && random.chance(15) {
                self.leaves_at[slot] = Some(random.below(8));
            }
            if random.chance(15) {
                self.compute_ms[slot] *= 8;
            }
        }
    }

    fn draw_sparse(&mut self, random: &mut SeededRandom) {
        self.is_sparse = true;
        self.total_params = random.between(self.servers as u64, 30) as usize;
        self.density = [10, 30, 70][random.index(3)];
        self.width = [1, 1, 2, 5][random.index(4)];
        if !self.is_sync() {
            self.depth = random.between(1, 2) as usize;
            return;
        }
        let optimizers = [Sgd::new(1.0), AdaGrad::new(1.0), OptimizerSpec::new(FTRL, 1.0)];
        self.optimizer = optimizers[random.index(3)].clone();
        if random.chance(70) {
            self.optimizer.weights.rate =
                Schedule::Exponential { rate: 0.5, factor: 0.5, every: 5 };
        }
        if self.optimizer.optimizer().name() == "sgd" && random.chance(50) {
            self.optimizer.weights.decay = 0.1;
        }
    }

    /// The last key has a bias, with its own rate and no decay.
    pub(crate) fn layout(&self) -> Layout {
        let mut layout = Layout::of_width(self.width);
        layout.push("weight", &[self.total_params - 1, self.width], Group::Weights);
        layout.push("bias", &[1], Group::Biases);
        layout
    }

    /// The parameters of some keys; of a dense model, every parameter is a key.
    pub(crate) fn table(&self, keys: Range<usize>) -> ParamTable {
        let (optimizer, layout) = (self.optimizer.clone(), self.layout());
        if self.width == 1 {
            return Table::new(optimizer, &layout, keys).into();
        }
        let model = EntryModel { layout, features: self.total_params - 1 };
        ParamTable::allocate_with(optimizer, &model, keys, 0, self.policy()).unwrap()
    }

    /// Which keys have an entry: all that a batch touches, or those that several do, and lately.
    /// Where every push must leave its trace, it is all of them.
    fn policy(&self) -> EntryPolicy {
        if self.mode != (ModeConfig::Sync { quorum: self.workers }) {
            return EntryPolicy::default();
        }
        EntryPolicy {
            min_count: 1 + (self.key_seed % 3) as u32,
            evict_after: self.key_seed.is_multiple_of(2).then_some(1 + self.key_seed / 6 % 4),
            max_entries: None,
        }
    }

    /// All keys, as a batch of a dense model touches.
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

    fn draw_accidents(&mut self, random: &mut SeededRandom) {
        let rate = [0, 3, 12][random.index(3)];
        for _ in 0..rate {
            let at_ms = random.below(1_500);
            let accident = match random.below(10) {
                0..5 => SimAccident::Cut,
                5..8 => SimAccident::Kill {
                    slot: random.index(self.workers),
                    back_after_ms: Some(random.between(1, 2_000)),
                },
                _ => SimAccident::Stranger { server: random.index(self.servers) },
            };
            self.accidents.push((at_ms, accident));
        }
    }

    fn draw_loss(&mut self, random: &mut SeededRandom) {
        let slot = random.index(self.workers);
        self.rejoin_ms = [0, 3_000][random.index(2)];
        if self.rejoin_ms == 0 {
            self.accidents.retain(|(_, accident)| matches!(accident, SimAccident::Stranger { .. }));
        }
        // A worker that dies twice in a row could exceed the time to return.
        let mut has_died = vec![false; self.workers];
        self.accidents.retain(|(_, accident)| match accident {
            SimAccident::Kill { slot, .. } => !std::mem::replace(&mut has_died[*slot], true),
            _ => true,
        });
        self.accidents.push((random.below(800), SimAccident::Kill { slot, back_after_ms: None }));
        self.dies = Some(slot);
    }

    fn draw_roster(&mut self, random: &mut SeededRandom) {
        self.roster_processes = Some(random.between(1, self.workers as u64 + 1) as usize);
        // A longer run, in which the roster has time to change.
        let later = |step: &mut u64| *step *= 5;
        self.stop_steps.iter_mut().chain(&mut self.coordinator_stops_at).for_each(later);
        self.leaves_at.iter_mut().flatten().for_each(later);
        let changes = [0, 3, 8][random.index(3)];
        self.accidents.retain(|(_, accident)| !matches!(accident, SimAccident::Kill { .. }));
        for _ in 0..changes {
            self.accidents
                .push((random.below(3_000), SimAccident::ChangeRoster(RosterChange::draw(random))));
        }
    }

    /// Kills servers; sometimes several at once, or one several times.
    fn draw_server_deaths(&mut self, random: &mut SeededRandom) {
        self.checkpoint_every = random.chance(80).then(|| random.between(1, 4));
        for _ in 0..random.between(1, 3) {
            let server = random.index(self.servers);
            let back_after_ms = random.between(1, 1_500);
            let accident = SimAccident::KillServer { server, back_after_ms };
            self.accidents.push((random.below(1_500), accident));
        }
    }

    /// Moves some deaths to the worst moment: between two servers.
    fn kill_between(&mut self, random: &mut SeededRandom) {
        for (_, accident) in &mut self.accidents {
            if let SimAccident::Kill { slot, back_after_ms: Some(back_after_ms) } = *accident
                && random.chance(60)
            {
                *accident = SimAccident::KillBetween { slot, back_after_ms, attempts: 60 };
            }
        }
    }

    /// Whether the final bits depend on the plan alone, whatever the accidents.
    pub(crate) fn has_exact_bits(&self) -> bool {
        self.mode == ModeConfig::Sync { quorum: self.workers } && self.dies.is_none()
    }

    pub(crate) fn without_accidents(&self) -> Self {
        Self { accidents: Vec::new(), ..self.clone() }
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.mode, ModeConfig::Sync { .. })
    }

    /// The gradient of some keys with these values. In `sync` it depends on parameters of other
    /// chunks and servers, so that a gradient of the wrong parameters shows, and draws a parameter
    /// to zero, so that a run with backups, whose coordinator may miss hundreds of steps, does not
    /// diverge. In the other modes it consists of integers, so that sums are exact in any order.
    pub(crate) fn gradients(
        &self,
        slot: usize,
        step: u64,
        keys: &[u32],
        values: &[f32],
    ) -> Vec<f32> {
        let numbers = keys.iter().flat_map(|key| (0..self.width).map(move |number| (key, number)));
        let element = |(index, (key, number)): (usize, (&u32, usize))| {
            let place = (number as u64) << 12 | u64::from(*key);
            let noise = mix((slot as u64) << 48 ^ step << 24 ^ place) % 1024;
            if !self.is_sync() {
                return noise as f32;
            }
            let other = values[(index * 7 + 3) % values.len()];
            noise as f32 / 512.0 - 1.0 + 0.4 * values[index] + 0.3 * other
        };
        numbers.enumerate().map(element).collect()
    }

    pub(crate) fn examples(&self, slot: usize, step: u64) -> u32 {
        1 + (mix(slot as u64 ^ step << 8) % 9) as u32
    }
}

fn draw_mode(style: RunStyle, workers: usize, random: &mut SeededRandom) -> ModeConfig {
    match style {
        RunStyle::Async => ModeConfig::Async,
        RunStyle::SyncAll => ModeConfig::Sync { quorum: workers },
        RunStyle::SyncBackups => {
            ModeConfig::Sync { quorum: random.between(1, workers as u64 - 1) as usize }
        }
        RunStyle::Bounded => ModeConfig::Bounded { staleness: random.below(4) },
        RunStyle::Loss | RunStyle::Elastic if workers == 1 => ModeConfig::Async,
        RunStyle::Loss | RunStyle::Elastic => {
            let styles =
                [RunStyle::Async, RunStyle::SyncAll, RunStyle::SyncBackups, RunStyle::Bounded];
            draw_mode(styles[random.index(4)], workers, random)
        }
    }
}
