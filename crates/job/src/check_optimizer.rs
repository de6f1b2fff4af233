//! Checks of `[train.optimizer]`.

use paceline_model::{
    AdaGrad, Adam, Ftrl, GroupSettings, Momentum, OptimizerSpec, Schedule, Sgd, Table,
};

use super::check::JobChecker;
use super::plan::ModelKind;

impl JobChecker<'_> {
    pub(super) fn optimizer(&mut self, model: &ModelKind) -> OptimizerSpec {
        let at = |name: &str| format!("train.optimizer.{name}");
        let epsilon = self.number(&at("epsilon")) as f32;
        let momentum = self.number(&at("momentum")) as f32;
        let beta1 = self.number(&at("beta1")) as f32;
        let beta2 = self.number(&at("beta2")) as f32;
        let [beta, l1, l2] = ["beta", "l1", "l2"].map(|name| self.number(&at(name)) as f32);
        let spec = match self.text(&at("kind")).as_str() {
            "momentum" => OptimizerSpec::new(Momentum { momentum }, 0.0),
            "adagrad" => OptimizerSpec::new(AdaGrad { epsilon }, 0.0),
            "adam" => OptimizerSpec::new(Adam { beta1, beta2, epsilon }, 0.0),
            "ftrl" => OptimizerSpec::new(Ftrl { beta, l1, l2 }, 0.0),
            _ => Sgd::new(0.0),
        };
        let rate = self.number(&at("rate"));
        let all = GroupSettings {
            rate: self.schedule("train.optimizer.schedule", rate),
            decay: self.number(&at("decay")) as f32,
        };
        let weights = self.group("train.optimizer.weights", rate, all);
        let biases = self.group("train.optimizer.biases", rate, all);
        let spec = spec.groups(weights, biases);
        if let Some(message) = model.is_sparse().then(|| Table::supports(&spec).err()).flatten() {
            let problem =
                self.job.problem("train.optimizer.kind", format!("cannot be used: {message}"));
            self.problems.push(problem);
        }
        spec
    }

    /// The settings of a group; what it does not set is taken from the settings of all tensors.
    fn group(&mut self, at: &str, rate: f64, all: GroupSettings) -> GroupSettings {
        let own_rate = self.optional(&format!("{at}.rate"), Self::number);
        let own_decay = self.optional(&format!("{at}.decay"), Self::number);
        let own_schedule = self.job.entries.contains_key(&format!("{at}.schedule.kind"));
        let schedule = if own_schedule { at } else { "train.optimizer" };
        GroupSettings {
            rate: self.schedule(&format!("{schedule}.schedule"), own_rate.unwrap_or(rate)),
            decay: own_decay.map_or(all.decay, |decay| decay as f32),
        }
    }

    fn schedule(&mut self, at: &str, rate: f64) -> Schedule {
        let key = |name: &str| format!("{at}.{name}");
        match self.text(&key("kind")).as_str() {
            "exponential" => Schedule::Exponential {
                rate,
                factor: self.number(&key("factor")),
                every: self.whole(&key("every")),
            },
            "staircase" => Schedule::Staircase {
                rate,
                fall: self.number(&key("fall")),
                stairs: self.whole(&key("stairs")) as u32,
                every: self.whole(&key("every")),
            },
            "polynomial" => Schedule::Polynomial {
                rate,
                end: self.number(&key("end")),
                over: self.whole(&key("over")),
                power: self.number(&key("power")),
            },
            _ => Schedule::Constant { rate },
        }
    }
}
