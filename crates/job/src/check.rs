//! From the raw form to the plan: each key is checked once, and every problem is reported.

use std::time::Duration;

use paceline_depot::GatherTime;
use paceline_engine::{
    BestSettings, CheckpointSettings, EvaluateSettings, FactorChoice, Mode, OnDivergence,
    OnWorkerLoss, Stop, TestMetric, WireFormat,
};
use paceline_observe::trace::TraceWindow;
use paceline_observe::{BatchSize, ModeKind};
use paceline_record::SampleSpacing;

use super::mean_gradients::{batches_of, for_mean_gradients};
use super::plan::{ClusterPlan, DataPlan, ModelKind, Plan, TlsPlan};
use super::problem::{Problem, Problems, remove_duplicates};
use super::raw::RawJob;

/// The longest timeout. It is longer than any useful one, and added to a time it cannot overflow.
const MAX_SECONDS: f64 = 1e9;
/// How often tasks send what is new in their files.
const GATHER_EVERY: Duration = Duration::from_secs(1);

impl RawJob {
    /// Checks every key, and that the run uses every key that is set. Returns the plan, or all
    /// problems.
    pub fn check(&self) -> Result<Plan, Problems> {
        let plan = self.check_with(|resolved| {
            let unused = resolved.unused().into_iter().map(|(_, problem)| problem);
            unused.chain(resolved.contradicted()).collect()
        })?;
        if let Some(problem) = self.resolve().idle_factors(&plan) {
            return Err(problem.into());
        }
        if let Some(planes) = plan.data.kind.planes() {
            self.check_factors(&plan, planes, plan.data.kind.classes())?;
        }
        Ok(plan)
    }

    /// Checks a job whose finished model is tested. What the job file set for training may have
    /// become unused, but what the command line sets must be used.
    pub fn check_for_test(&self) -> Result<Plan, Problems> {
        self.check_with(RawJob::unused_by_test)
    }

    /// Checks every key, but not whether the run uses it.
    pub(super) fn check_values(&self) -> Result<Plan, Problems> {
        self.check_with(|_| Vec::new())
    }

    fn check_with(&self, unused: impl Fn(&RawJob) -> Vec<Problem>) -> Result<Plan, Problems> {
        let resolved = self.resolve();
        let mut checker = JobChecker { job: &resolved, problems: resolved.problems.clone() };
        let plan = checker.plan();
        checker.problems.extend(unused(&resolved));
        if let Some(sweep) = &self.sweep {
            let message = "sweep asks for many runs: use `paceline sweep`".to_owned();
            checker.problems.push(Problem { origin: sweep.origin.clone(), message });
        }
        let mut problems = checker.problems;
        if problems.is_empty() {
            problems.extend(resolved.check_known_network(&plan).err());
        }
        remove_duplicates(&mut problems);
        if problems.is_empty() { Ok(plan) } else { Err(Problems::in_order(problems)) }
    }

    /// A problem of a key's value that shows only later, such as a batch larger than the data.
    pub fn problem(&self, key: &str, message: impl std::fmt::Display) -> Problem {
        Problem { origin: self.origin(key), message: format!("{key} {message}") }
    }
}

/// Reads typed values from a resolved job and collects problems.
///
/// After a problem it continues with a placeholder value, so that all problems are found at once;
/// the plan is then discarded.
pub(super) struct JobChecker<'a> {
    pub(super) job: &'a RawJob,
    pub(super) problems: Vec<Problem>,
}

impl JobChecker<'_> {
    fn plan(&mut self) -> Plan {
        let (name, seed) = (self.text("name"), self.whole("seed"));
        let model = self.model();
        let mut plan = Plan {
            name,
            seed,
            model: model.clone(),
            data: DataPlan {
                kind: self.data(),
                shuffle: self.flag("data.shuffle"),
                shuffle_buffer: self.whole("data.shuffle_buffer") as usize,
                on_bad: self.on_bad(),
                test_share: self.test_share(),
                validation: self.validation(),
                negatives: self.optional("data.negatives", Self::number),
            },
            batch: self.whole("train.batch") as usize,
            threads: self.threads(&model),
            stop: Stop {
                epochs: self.optional("train.stop.epochs", Self::whole),
                steps: self.optional("train.stop.steps", Self::whole),
                seconds: self.optional("train.stop.seconds", Self::number),
                test_loss: self.optional("train.stop.test_loss", Self::number),
                patience: self.optional("train.stop.patience", Self::whole),
            },
            best: self.best(&model),
            evaluate: EvaluateSettings {
                every: self.test_interval(),
                examples: self
                    .optional("train.evaluate.examples", Self::whole)
                    .map(|examples| examples as usize),
            },
            on_divergence: match self.text("train.on_divergence").as_str() {
                "continue" => OnDivergence::Continue,
                _ => OnDivergence::Stop,
            },
            optimizer: self.optimizer(&model),
            start: self.optional("train.start", Self::path),
            class_weights: self.weights("train.class_weights"),
            cluster: self.cluster(&model),
            checkpoint: self.checkpoint(),
            checkpoint_to: self.optional("checkpoint.to", Self::text),
            observe_every: self.optional("observe.every", Self::whole),
            observe_gather: match self.text("observe.gather").as_str() {
                "end" => GatherTime::End,
                "off" => GatherTime::Never,
                _ => GatherTime::Live(GATHER_EVERY),
            },
            observe_histograms: self.optional("observe.histograms", Self::whole),
            observe_sample: match self.optional("observe.sample_ms", Self::whole) {
                None => Some(SampleSpacing::DEFAULT),
                Some(0) => None,
                Some(ms) => Some(SampleSpacing::exactly(Duration::from_millis(ms))),
            },
            observe_http: self.optional("observe.http", Self::text),
            observe_trace: self.trace(),
        };
        if let Some(global) = self.optional("train.global_batch", Self::whole) {
            plan.batch = self.share_of_batch(global as usize, &plan.cluster);
        }
        plan.optimizer = for_mean_gradients(&plan, self.job.placed);
        plan
    }

    /// The steps between tests; `None` if the run spaces its tests itself.
    fn test_interval(&mut self) -> Option<u64> {
        let key = "train.evaluate.every";
        if self.job.word(key) != "auto" {
            return Some(self.whole(key));
        }
        let mut by_test = ["train.stop.test_loss", "train.stop.patience"].into_iter();
        if let Some(stop) = by_test.find(|key| self.job.entries.contains_key(*key)) {
            let message = format!(
                "is \"auto\", which depends on how fast the machine is, but {stop} is set: the run \
                 would not stop at the same step again; set a number of steps"
            );
            self.problems.push(self.job.problem(key, message));
        }
        None
    }

    /// Which test is the best one.
    fn best(&mut self, model: &ModelKind) -> BestSettings {
        let metric = match self.text("train.metric").as_str() {
            "accuracy" => TestMetric::Accuracy,
            "auc" => TestMetric::Auc,
            _ => TestMetric::Loss,
        };
        if metric == TestMetric::Auc && !model.has_one_score() {
            let message = format!(
                "is \"auc\", which logistic regression and factorization machines have, but {} \
                 does not; use loss or accuracy",
                model.name()
            );
            self.problems.push(self.job.problem("train.metric", message));
        }
        let min_gain = self.number("train.stop.min_gain");
        BestSettings { metric, min_gain, keep: self.flag("train.keep_best") }
    }

    fn trace(&mut self) -> Option<TraceWindow> {
        let from = self.optional("observe.trace.from", Self::whole);
        let steps = self.optional("observe.trace.steps", Self::whole);
        let window = TraceWindow { from: from.unwrap_or(100), steps: steps.unwrap_or(10) };
        (from.is_some() || steps.is_some()).then_some(window)
    }

    /// The share of a slot in a global batch.
    fn share_of_batch(&mut self, global: usize, cluster: &ClusterPlan) -> usize {
        let batches = batches_of(cluster, BatchSize::Global(global));
        let slots = batches.slots();
        if !global.is_multiple_of(slots) {
            let message =
                format!("is {global}, which does not divide evenly among {slots} workers");
            self.problems.push(self.job.problem("train.global_batch", message));
        }
        batches.per_slot()
    }

    /// Threads per worker. Threads of a sparse model share the parameters, which only mode `single`
    /// allows.
    fn threads(&mut self, model: &ModelKind) -> Option<usize> {
        let threads = self.optional("train.threads", Self::whole)? as usize;
        let mode = self.job.word("cluster.mode");
        if threads > 1 && model.is_sparse() && mode != "single" {
            let message = format!("is {threads}, but cluster.mode is {mode:?}; use single");
            self.problems.push(self.job.problem("train.threads", message));
        }
        if threads > 1 && *model == (ModelKind::Logistic { dense: true }) {
            let message = format!("is {threads}, but model.dense is true, which uses one thread");
            self.problems.push(self.job.problem("train.threads", message));
        }
        Some(threads)
    }

    fn cluster(&mut self, model: &ModelKind) -> ClusterPlan {
        let workers = self.whole("cluster.workers") as usize;
        let slots = self.slots();
        let servers = self.whole("cluster.servers") as usize;
        let quorum = self.optional("cluster.quorum", Self::whole).map(|quorum| quorum as usize);
        let staleness = self.whole("cluster.staleness");
        let mode = match ModeKind::parse(&self.text("cluster.mode")) {
            Some(ModeKind::Async) => Mode::Async,
            Some(ModeKind::Sync) => Mode::Sync { quorum },
            Some(ModeKind::Bounded) => Mode::Bounded { staleness },
            Some(ModeKind::Mirrored) => Mode::Mirrored,
            Some(ModeKind::Single) | None => Mode::Single,
        };
        if let Mode::Sync { quorum: Some(quorum) } = mode {
            self.check_quorum(quorum, slots.unwrap_or(workers), servers);
        }
        if mode == Mode::Mirrored {
            self.check_mirrored();
        }
        let on_worker_loss = match self.text("cluster.on_worker_loss").as_str() {
            "continue" if mode != Mode::Mirrored => OnWorkerLoss::Continue,
            "wait" => OnWorkerLoss::Wait,
            _ => OnWorkerLoss::Fail,
        };
        let waits_for_servers = self.waits_for_servers(on_worker_loss);
        let waits = on_worker_loss == OnWorkerLoss::Wait || waits_for_servers;
        let restarts = self.whole("cluster.restarts") as usize;
        let seconds = Duration::from_secs_f64;
        let rejoin = seconds(self.number("cluster.rejoin_timeout_s").min(MAX_SECONDS));
        ClusterPlan {
            mode,
            wire: self.wire(model),
            workers: if mode == Mode::Single { 1 } else { workers },
            slots,
            servers: match mode {
                Mode::Single | Mode::Mirrored => 0,
                _ => servers,
            },
            dedicated_servers: self.text("cluster.layout") == "dedicated",
            on_worker_loss,
            waits_for_servers,
            restarts: if waits { restarts } else { 0 },
            rejoin_timeout: if waits { rejoin } else { Duration::ZERO },
            start_timeout: seconds(self.number("cluster.start_timeout_s").min(MAX_SECONDS)),
            stall_timeout: seconds(self.number("cluster.stall_timeout_s").min(MAX_SECONDS)),
            files_port: self.optional("cluster.files_port", Self::whole).map(|port| port as u16),
            token_file: self.optional("cluster.token_file", Self::path),
            tls: self.tls(),
            memory: self.optional("cluster.memory", Self::memory),
            factors: match self.text("cluster.factors").as_str() {
                "always" => FactorChoice::Always,
                "never" => FactorChoice::Never,
                _ => FactorChoice::Auto,
            },
            emulate: self.emulate(mode, servers),
        }
    }

    /// How connections are encrypted. All three files are needed, or none.
    fn tls(&mut self) -> Option<TlsPlan> {
        if self.optional("cluster.tls.from", Self::text).as_deref() == Some("run") {
            return Some(TlsPlan::Run);
        }
        let names = ["cluster.tls.ca", "cluster.tls.cert", "cluster.tls.key"];
        match names.map(|name| self.optional(name, Self::path)) {
            [Some(ca), Some(cert), Some(key)] => Some(TlsPlan::Files { ca, cert, key }),
            files => {
                let given = names.iter().zip(&files).find(|(_, file)| file.is_some());
                let missing = names.iter().zip(&files).find(|(_, file)| file.is_none());
                if let (Some((given, _)), Some((missing, _))) = (given, missing) {
                    let message = format!("needs {missing} as well: set ca, cert and key");
                    self.problems.push(self.job.problem(given, message));
                }
                None
            }
        }
    }

    /// How numbers travel. What a sparse model sends is mostly keys, and few of its parameters are
    /// sent twice in a row, so that changes would not be smaller than gradients.
    fn wire(&mut self, model: &ModelKind) -> WireFormat {
        if self.text("cluster.wire") != "bf16" {
            return WireFormat::F32;
        }
        if model.is_sparse() {
            let is_linear = matches!(model, ModelKind::Logistic { .. });
            let or_dense = if is_linear { ", or set model.dense = true" } else { "" };
            let message = format!(
                "is \"bf16\", which is for dense models: a sparse model sends only what a batch \
                 touches; leave cluster.wire out{or_dense}"
            );
            self.problems.push(self.job.problem("cluster.wire", message));
        }
        WireFormat::Bf16
    }

    /// The number of slots, if the job sets it and its mode has slots.
    fn slots(&mut self) -> Option<usize> {
        let slots = self.optional("cluster.slots", Self::whole)? as usize;
        let mode = ModeKind::parse(&self.job.word("cluster.mode"));
        mode.is_some_and(ModeKind::has_servers).then_some(slots)
    }

    /// Whether the run waits for a lost server.
    fn waits_for_servers(&mut self, on_worker_loss: OnWorkerLoss) -> bool {
        let continues = on_worker_loss == OnWorkerLoss::Continue;
        let asked = self.optional("cluster.on_server_loss", Self::text);
        if continues && asked.as_deref() == Some("wait") {
            let message = "is \"wait\", but a server that returns waits for all workers, and \
                           with cluster.on_worker_loss = \"continue\" some may be gone; use \
                           \"wait\" there too, or \"fail\" here";
            self.problems.push(self.job.problem("cluster.on_server_loss", message));
        }
        self.job.waits_for_servers()
    }

    /// Refuses settings that need parameter servers.
    fn check_mirrored(&mut self) {
        if self.text("cluster.on_worker_loss") == "continue" {
            let message = "is \"continue\", but cluster.mode = \"mirrored\" needs every worker; \
                           use wait, or mode async, sync or bounded";
            self.problems.push(self.job.problem("cluster.on_worker_loss", message));
        }
    }

    fn checkpoint(&mut self) -> Option<CheckpointSettings> {
        let every_steps = self.optional("checkpoint.every_steps", Self::whole);
        let every_seconds = self.optional("checkpoint.every_seconds", Self::number);
        let keep = self.whole("checkpoint.keep") as usize;
        let is_wanted = every_steps.is_some() || every_seconds.is_some();
        is_wanted.then_some(CheckpointSettings { every_steps, every_seconds, keep })
    }

    fn check_quorum(&mut self, quorum: usize, workers: usize, servers: usize) {
        let mut complain = |message: String| {
            self.problems.push(self.job.problem("cluster.quorum", message));
        };
        if quorum > workers {
            let key =
                if self.job.entries.contains_key("cluster.slots") { "slots" } else { "workers" };
            complain(format!("is {quorum}, but cluster.{key} is {workers}"));
        } else if quorum < workers && servers > 1 {
            // Two servers could use gradients of different workers in one step.
            complain(format!(
                "leaves {} backups, which needs cluster.servers = 1, not {servers}",
                workers - quorum
            ));
        }
    }
}
