//! Why the layers of a job do not form a network for its data, with their lines.

use paceline_engine::FactorChoice;
use paceline_model::{Architecture, LayerKind, NetworkError};
use toml::de::DeValue;

use super::layer_path::LAYERS;
use super::network_plan::NetworkPlan;
use super::plan::{DataKind, ModelKind, Plan};
use super::problem::{Problem, Problems, SettingOrigin};
use super::raw::RawJob;

/// The classes of data whose number of classes is not known yet.
const SOME_CLASSES: usize = 2;

impl RawJob {
    /// Checks that the layers of a plan's network fit each other, for examples of these channels,
    /// rows and columns, and the number of classes if it is known. Nothing is allocated.
    ///
    /// # Errors
    /// The first layer that does not fit, with its line.
    pub fn check_network(
        &self,
        plan: &Plan,
        planes: [usize; 3],
        classes: Option<usize>,
    ) -> Result<Option<Architecture>, Problem> {
        let ModelKind::Network(network) = &plan.model else { return Ok(None) };
        let architecture = network
            .architecture(planes, classes.unwrap_or(SOME_CLASSES))
            .map_err(|error| self.resolve().network_problem(network, &error))?;
        match classes {
            Some(classes) if classes != architecture.classes() => {
                Err(self.resolve().wrong_classes(network, &architecture, classes))
            }
            _ => Ok(Some(architecture)),
        }
    }

    /// As [`RawJob::check_network`], as far as the kind of data determines the shape of examples.
    pub(super) fn check_known_network(&self, plan: &Plan) -> Result<(), Problem> {
        match plan.data.kind.planes() {
            Some(planes) => self.check_network(plan, planes, plan.data.kind.classes()).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Checks that all factors can travel if the job wants that, for examples of these channels,
    /// rows and columns. A batch that is computed in several blocks has no factors.
    ///
    /// # Errors
    /// The key that asks for them, with the largest batch that has them.
    pub fn check_factors(
        &self,
        plan: &Plan,
        planes: [usize; 3],
        classes: Option<usize>,
    ) -> Result<(), Problem> {
        let (ModelKind::Network(network), FactorChoice::Always) =
            (&plan.model, plan.cluster.factors)
        else {
            return Ok(());
        };
        let architecture = network.architecture(planes, classes.unwrap_or(SOME_CLASSES));
        let most = architecture.map_or(plan.batch, |its| network.most_examples(&its));
        if plan.batch <= most {
            return Ok(());
        }
        let message = format!(
            "is \"always\", but a batch of {} is computed in blocks of {most}, and only a batch \
             of one block has factors; use a batch of at most {most} for each worker, or leave \
             cluster.factors out",
            plan.batch
        );
        Err(self.resolve().problem("cluster.factors", message))
    }

    /// Why `cluster.factors` would have no effect, if the job sets it for a network without dense
    /// layers.
    pub(super) fn idle_factors(&self, plan: &Plan) -> Option<Problem> {
        let path = "cluster.factors";
        let value = &self.entries.get(path).filter(|entry| entry.is_set())?.value;
        let ModelKind::Network(network) = &plan.model else { return None };
        let mut layers = network.layers().iter();
        if layers.any(|planned| matches!(planned.layer.kind, LayerKind::Dense { .. })) {
            return None;
        }
        let message = format!(
            "is {value}, but the network has no dense layer, and only the gradient of a dense \
             layer has factors; leave {path} out"
        );
        Some(self.problem(path, message))
    }

    /// The origin of a layer: that of its kind, or of any of its keys.
    pub(super) fn origin_of_layer(&self, layer: usize) -> SettingOrigin {
        let own = format!("{LAYERS}.{layer}.");
        let kind = self.entries.get(&format!("{own}kind"));
        let any = || {
            let mut entries = self.entries.iter();
            entries.find(|(path, entry)| path.starts_with(&own) && entry.is_set())
        };
        let entry = kind.or_else(|| any().map(|(_, entry)| entry));
        entry.map_or(SettingOrigin::Default, |entry| entry.origin.clone())
    }

    /// A problem of a layer that shows only later, such as too little memory for it.
    pub fn layer_problem(
        &self,
        network: &NetworkPlan,
        layer: usize,
        message: impl std::fmt::Display,
    ) -> Problem {
        if network.is_built_in() {
            let message = format!("= {:?}: layer {layer} {message}", network.name);
            return self.resolve().problem("model.kind", message);
        }
        let message = format!("{LAYERS}.{layer} {message}");
        Problem { origin: self.origin_of_layer(layer), message }
    }

    /// A problem of a network. A built-in one has no lines.
    fn network_problem(&self, network: &NetworkPlan, error: &NetworkError) -> Problem {
        if network.is_built_in() {
            let origin = self.origin("model.kind");
            let mut message = format!("model.kind = {:?}: {error}", network.name);
            let mut used = self.used_keys().into_iter();
            if let Some(size) = used.find(|used| used.path == "data.size") {
                message.push_str(&format!("; or set a data.size above {}", size.entry.value));
            }
            return Problem { origin, message };
        }
        let last = network.layers().len().saturating_sub(1);
        let (origin, message) = match error {
            NetworkError::Layer { index, .. } => {
                // The key is the layer.
                let message = error.to_string().replacen("layer ", &format!("{LAYERS}."), 1);
                (self.origin_of_layer(*index), message)
            }
            NetworkError::DuplicateName { name, first, index } => {
                return self.duplicate_name(name, *first, *index);
            }
            NetworkError::NoScores(shape) => {
                let message = format!(
                    "{LAYERS}.{last} ends the network with {shape}, not with a flat row of \
                     scores; add a flatten layer and a dense layer with size = \"classes\""
                );
                (self.origin_of_layer(last), message)
            }
            NetworkError::Empty => {
                let message = format!(
                    "{LAYERS} has no layer with parameters to train; add a dense layer with size \
                     = \"classes\""
                );
                (self.origin_of_layer(0), message)
            }
            other => (self.origin_of_layer(0), format!("{LAYERS}: {other}")),
        };
        Problem { origin, message }
    }

    fn duplicate_name(&self, name: &str, first: usize, index: usize) -> Problem {
        let [first_key, second_key] = [first, index].map(|layer| format!("{LAYERS}.{layer}.name"));
        if self.entries.contains_key(&second_key) {
            let message = format!("is {name:?}, as is the name of {LAYERS}.{first}; use another");
            return self.problem(&second_key, message);
        }
        let message =
            format!("is {name:?}, which {LAYERS}.{index} is called by default; use another");
        self.problem(&first_key, message)
    }

    fn wrong_classes(
        &self,
        network: &NetworkPlan,
        architecture: &Architecture,
        classes: usize,
    ) -> Problem {
        let found = architecture.classes();
        let last = network.layers().len() - 1;
        if let LayerKind::Dense { .. } = architecture.layers()[last].kind {
            let message = format!(
                "is {found}, but the data has {classes} classes, and the last layer has an output \
                 for each; use {classes} or \"classes\""
            );
            return self.problem(&format!("{LAYERS}.{last}.size"), message);
        }
        let message = format!(
            "{LAYERS}.{last} ends the network with {found} values, but the data has {classes} \
             classes; add a dense layer with size = \"classes\""
        );
        Problem { origin: self.origin_of_layer(last), message }
    }

    /// The job with a built-in network replaced by its layers, which can then be changed.
    ///
    /// # Errors
    /// If the job is not valid, or its model is not a network.
    pub fn with_layers(&self) -> Result<Self, Problems> {
        let plan = self.check()?;
        let mut job = self.resolve();
        let ModelKind::Network(network) = &plan.model else {
            let message = format!(
                "is {:?}, which has no layers; name a network, such as lenet",
                plan.model.name()
            );
            return Err(job.problem("model.kind", message).into());
        };
        if !network.is_built_in() {
            return Ok(job);
        }
        let layers = network.layers().iter().enumerate();
        let layers: Vec<_> = layers.map(|(index, layer)| layer.toml(index)).collect();
        let text = format!("{{ kind = \"network\", layers = [{}] }}", layers.join(", "));
        let origin = SettingOrigin::Network { name: network.name };
        let table = DeValue::parse(&text);
        let Ok(DeValue::Table(table)) = table.as_ref().map(|table| table.get_ref()) else {
            unreachable!("{text} is a table")
        };
        for (key, value) in table {
            job.put(&format!("model.{}", key.get_ref()), value.get_ref(), &origin);
        }
        job.entries.remove("model.dropout");
        Ok(job)
    }
}

impl DataKind {
    /// The channels, rows and columns of an example, if the data need not be read for them.
    pub fn planes(&self) -> Option<[usize; 3]> {
        match self {
            DataKind::Digits { .. } => Some([1, 28, 28]),
            DataKind::FakeImages { size, .. } | DataKind::Pictures { size, .. } => {
                Some([3, *size, *size])
            }
            DataKind::Mnist { .. } | DataKind::FashionMnist { .. } => None,
            DataKind::Rows(_) | DataKind::Table(_) => None,
            DataKind::DenseRows(_) => None,
            DataKind::Numpy(_) | DataKind::Records(_) => None,
        }
    }

    /// The number of classes, if the data need not be read for it.
    pub fn classes(&self) -> Option<usize> {
        match self {
            DataKind::Digits { .. } | DataKind::Mnist { .. } | DataKind::FashionMnist { .. } => {
                Some(10)
            }
            DataKind::FakeImages { classes, .. } => Some(*classes),
            DataKind::Rows(_) => Some(2),
            DataKind::Table(_) => None,
            DataKind::DenseRows(_) | DataKind::Numpy(_) | DataKind::Records(_) => None,
            DataKind::Pictures { .. } => None,
        }
    }
}
