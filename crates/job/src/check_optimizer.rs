//! Checks of `[train.optimizer]`.

use paceline_model::{
    AdaGrad, Adam, Ftrl, GroupSettings, Momentum, OptimizerSpec, ParamTable, Schedule, Sgd,
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
        let [beta, l1, l2, initial] =
            ["beta", "l1", "l2", "initial"].map(|name| self.number(&at(name)) as f32);
        let spec = match self.text(&at("kind")).as_str() {
            "momentum" => OptimizerSpec::new(Momentum { momentum }, 0.0),
            "adagrad" => OptimizerSpec::new(AdaGrad { epsilon, initial }, 0.0),
            "adam" => OptimizerSpec::new(Adam { beta1, beta2, epsilon }, 0.0),
            "ftrl" => OptimizerSpec::new(Ftrl { beta, l1, l2 }, 0.0),
            _ => Sgd::new(0.0),
        };
        let rate = self.number(&at("rate"));
        let all = GroupSettings {
            rate: self.schedule("train.optimizer.schedule", rate),
            warm_up: self.whole("train.optimizer.schedule.warm_up"),
            decay: self.number(&at("decay")) as f32,
            l1: 0.0,
        };
        let mut weights = self.group("train.optimizer.weights", rate, all);
        let biases = self.group("train.optimizer.biases", rate, all);
        if spec.downcast::<Ftrl>().is_some() {
            self.check_last_rate(&[weights, biases]);
        } else {
            self.penalise(&mut weights, l1, l2);
        }
        let spec = spec.groups(weights, biases);
        let width = if model.factors().is_some() { 2 } else { 1 };
        let unsupported = || ParamTable::supports(&spec, width).err();
        if let Some(message) = model.is_sparse().then(unsupported).flatten() {
            let problem =
                self.job.problem("train.optimizer.kind", format!("cannot be used: {message}"));
            self.problems.push(problem);
        }
        spec
    }

    /// Adds penalties to the weights of an optimizer that has none of its own.
    fn penalise(&mut self, weights: &mut GroupSettings, l1: f32, l2: f32) {
        if l2 != 0.0 && weights.decay != 0.0 {
            let message = "is set, but so is a decay, which is an L2 penalty too; set one of them";
            self.problems.push(self.job.problem("train.optimizer.l2", message));
        }
        (weights.l1, weights.decay) = (l1, weights.decay + l2);
    }

    /// Refuses a final rate of 0 for FTRL, whose parameters are in proportion to the rate.
    fn check_last_rate(&mut self, groups: &[GroupSettings]) {
        let ends_at_0 = |group: &GroupSettings| {
            let (Schedule::Polynomial { end, .. } | Schedule::Cosine { end, .. }) = group.rate
            else {
                return false;
            };
            end == 0.0
        };
        if groups.iter().any(ends_at_0) {
            let message = "is 0, at which all parameters of ftrl are 0; set it above 0";
            self.problems.push(self.job.problem("train.optimizer.schedule.end", message));
        }
    }

    /// The settings of a group; what it does not set is taken from the settings of all tensors.
    fn group(&mut self, at: &str, rate: f64, all: GroupSettings) -> GroupSettings {
        let own_rate = self.optional(&format!("{at}.rate"), Self::number);
        let own_decay = self.optional(&format!("{at}.decay"), Self::number);
        let own_schedule = self.job.entries.contains_key(&format!("{at}.schedule.kind"));
        let schedule = if own_schedule { at } else { "train.optimizer" };
        GroupSettings {
            rate: self.schedule(&format!("{schedule}.schedule"), own_rate.unwrap_or(rate)),
            warm_up: self.whole(&format!("{schedule}.schedule.warm_up")),
            decay: own_decay.map_or(all.decay, |decay| decay as f32),
            l1: 0.0,
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
            "cosine" => Schedule::Cosine {
                rate,
                end: self.number(&key("end")),
                over: self.whole(&key("over")),
            },
            _ => Schedule::Constant { rate },
        }
    }
}
