//! What a session can do besides training to the end: early stopping, weights, other sets and
//! beginnings.

use std::sync::Arc;

use paceline_checkpoint::StartModel;
use paceline_model::EntryPolicy;
use paceline_observe::TestMetric;

use super::Session;
use crate::settings::OnDivergence;

impl Session {
    /// Decides which features of a sparse model with several numbers for each have an entry: by
    /// default all that training has seen.
    #[must_use]
    pub fn entries(mut self, policy: EntryPolicy) -> Self {
        self.settings.entries = policy;
        self
    }

    /// Multiplies the loss and the gradient of each example by the weight of its class, in the
    /// order of the labels. Examples may also have their own weights ([`Examples::weight_of`],
    /// [`SparseRows::with_weights`]). Tests count every example once.
    ///
    /// ```
    /// use paceline_data::{SparseRows, TrainTest};
    /// use paceline_engine::{Session, Stop};
    /// use paceline_model::Logistic;
    ///
    /// let rows = (0..200u32).map(|i| (vec![i % 7], vec![], u32::from(i % 7 == 3)));
    /// let data = SparseRows::from_rows(7, rows)?.hold_out(40, 1)?;
    /// let report = Session::sparse(Logistic::new(7), data)
    ///     .class_weights([1.0, 6.0]) // As if there were six of each of the few positive rows.
    ///     .stop(Stop::epochs(2))
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Examples::weight_of`]: paceline_data::Examples::weight_of
    /// [`SparseRows::with_weights`]: paceline_data::SparseRows::with_weights
    #[must_use]
    pub fn class_weights(mut self, weights: impl Into<Vec<f32>>) -> Self {
        self.settings.class_weights = weights.into().into();
        self
    }

    /// Starts from the parameters of a trained model instead of those that the model initialises.
    /// The model may have gained features since then: the new ones start as they would without
    /// this. The optimizer's state and the steps start from the beginning.
    ///
    /// ```
    /// use paceline_data::SparseRows;
    /// use paceline_engine::{Session, StartModel, Stop};
    /// use paceline_model::Logistic;
    ///
    /// let rows = |features: u32| {
    ///     let rows = (0..200).map(move |i| (vec![i % features], vec![], i % 2));
    ///     SparseRows::from_rows(features as usize, rows)?.hold_out(40, 1)
    /// };
    /// let first = Session::sparse(Logistic::new(6), rows(6)?).stop(Stop::epochs(2)).run()?;
    /// let start = StartModel::of_params(&first.layout, first.params);
    /// let second = Session::sparse(Logistic::new(8), rows(8)?)
    ///     .start(start)
    ///     .stop(Stop::epochs(1))
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn start(mut self, start: StartModel) -> Self {
        self.settings.start = Some(Arc::new(start));
        self
    }

    /// Compares tests by this metric for [`Stop::patience`](crate::Stop::patience) and
    /// [`keep_best`](Self::keep_best); by their loss unless this is called.
    #[must_use]
    pub fn metric(mut self, metric: TestMetric) -> Self {
        self.settings.best.metric = metric;
        self
    }

    /// The least gain over the best test before that counts for
    /// [`Stop::patience`](crate::Stop::patience); any gain unless this is called.
    #[must_use]
    pub fn min_gain(mut self, min_gain: f64) -> Self {
        self.settings.best.min_gain = min_gain;
        self
    }

    /// Keeps the parameters of the best test as well as the final ones, in
    /// [`SessionReport::best_params`](crate::SessionReport::best_params) and in the run directory
    /// if there is one.
    ///
    /// ```
    /// use paceline_data::Digits;
    /// use paceline_engine::{Session, Stop, TestMetric};
    /// use paceline_model::{Sgd, Softmax};
    ///
    /// let report = Session::new(Softmax::new(784, 10), Digits::generate(300, 1))
    ///     .optimizer(Sgd::new(0.5))
    ///     .stop(Stop::epochs(50).or(Stop::patience(3)))
    ///     .metric(TestMetric::Accuracy)
    ///     .test_every(10)
    ///     .keep_best()
    ///     .run()?;
    /// let best = report.summary.best.expect("there was a test");
    /// assert!(best.value >= report.accuracy && report.best_params.is_some());
    /// # Ok::<(), paceline_engine::TrainError>(())
    /// ```
    #[must_use]
    pub fn keep_best(mut self) -> Self {
        self.settings.best.keep = true;
        self
    }

    /// Whether the run ends when the loss is far above where it started. By default it does.
    #[must_use]
    pub fn on_divergence(mut self, on_divergence: OnDivergence) -> Self {
        self.settings.on_divergence = on_divergence;
        self
    }
}
