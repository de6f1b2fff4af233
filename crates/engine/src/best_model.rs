//! Keeps the parameters of the best test. They are only ever replaced by better ones.

use paceline_model::Layout;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_observe::{BestTest, TestMetric};

use crate::context::{FinalModel, TaskContext, VisitPiece};
use crate::error::TrainError;
use crate::kept_params::KeptParams;
use crate::link::Link;
use crate::test_runner::StepScore;

/// Keeps the parameters of the best test.
pub(crate) struct BestKeeper {
    layout: Layout,
    metric: TestMetric,
    /// The best test whose parameters are kept.
    kept: Option<BestTest>,
    /// The step of the parameters below, which a test is about to judge.
    step: Option<u64>,
    params: KeptParams,
    /// Those of the parameters that the test needs, if it does not need all.
    tested: Vec<f32>,
}

impl BestKeeper {
    /// Keeps the best parameters of this layout. `kept` is the test of those that an earlier
    /// process of the run has kept.
    pub(crate) fn new(layout: Layout, metric: TestMetric, kept: Option<BestTest>) -> Self {
        let kept = kept.filter(|kept| kept.metric == metric.name());
        let params = KeptParams::new(layout.width());
        Self { layout, metric, kept, step: None, params, tested: Vec::new() }
    }

    /// The best test whose parameters are kept.
    pub(crate) fn kept(&self) -> Option<&BestTest> {
        self.kept.as_ref()
    }

    /// Fetches all parameters, and returns those that a test of `keys` needs.
    pub(crate) fn fetch(
        &mut self,
        step: u64,
        keys: Option<&[u32]>,
        link: &mut impl Link,
    ) -> Result<LinkOutcome<&[f32]>, TrainError> {
        self.params = KeptParams::new(self.layout.width());
        let params = &mut self.params;
        self.step = None;
        let fetched = link.for_each_piece(&mut |piece| {
            params.extend(piece);
            Ok(())
        })?;
        if fetched == Rewound {
            return Ok(Rewound);
        }
        self.step = Some(step);
        let Some(keys) = keys else { return Ok(Done(self.params.all())) };
        self.tested.clear();
        self.params.read(keys, &mut self.tested);
        Ok(Done(&self.tested))
    }

    /// Keeps the parameters of a test if they are the best.
    pub(crate) fn consider(
        &mut self,
        test: &StepScore,
        context: &dyn TaskContext,
    ) -> Result<(), TrainError> {
        let value = self.metric.of(&test.score).map_err(TrainError::Settings)?;
        let is_better = match &self.kept {
            None => !value.is_nan(),
            Some(kept) => self.metric.gain(value, kept.value) > 0.0,
        };
        if self.step != Some(test.step) || !is_better {
            return Ok(());
        }
        let best = BestTest { step: test.step, metric: self.metric.name().to_owned(), value };
        let params = &self.params;
        let mut pieces = |visit: &mut VisitPiece<'_>| params.for_each_piece(visit);
        context.save_best(FinalModel::new(&self.layout, test.step, &mut pieces), &best)?;
        self.kept = Some(best);
        Ok(())
    }
}
