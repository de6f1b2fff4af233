//! Some of the examples of a set: what training and tests take of one file.

use std::sync::Arc;

use paceline_data::{DataError, Examples, HoldOut, TrainTest};

/// Some examples of a set, by their numbers; all of them without a list.
#[derive(Clone, Debug)]
pub struct SelectedExamples<E> {
    examples: Arc<E>,
    list: Option<Arc<[u32]>>,
}

impl<E: Examples> SelectedExamples<E> {
    /// All examples of a set.
    pub(crate) fn all(examples: E) -> Self {
        SelectedExamples { examples: Arc::new(examples), list: None }
    }

    /// The set that these examples are from.
    pub fn source(&self) -> &E {
        &self.examples
    }

    /// The same examples of a changed copy of the set.
    pub(crate) fn map_source(self, change: impl FnOnce(E) -> E) -> Self
    where
        E: Clone,
    {
        let examples = Arc::new(change(E::clone(&self.examples)));
        SelectedExamples { examples, ..self }
    }

    #[inline]
    fn locate(&self, example: u32) -> u32 {
        self.list.as_ref().map_or(example, |list| list[example as usize])
    }
}

/// How a set without test examples is split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitRule {
    pub(crate) hold_out: Option<usize>,
    pub(crate) split: HoldOut,
    pub(crate) seed: u64,
}

/// Holds examples out for tests: as many as the rule says, by default a tenth.
pub(crate) fn hold_out<E: Examples>(
    examples: E,
    labels: &[u32],
    rule: SplitRule,
    origin: String,
) -> Result<TrainTest<SelectedExamples<E>>, DataError> {
    let all = labels.len();
    let count = rule.hold_out.unwrap_or_else(|| HoldOut::default_count(all));
    if count >= all {
        let what = format!("{count} of {all} examples cannot be held out to test on");
        return Err(DataError::Sparse { path: origin.into(), what });
    }
    let chosen = rule.split.choose(labels.iter().copied(), count, rule.seed);
    let examples = Arc::new(examples);
    let select = |list: Vec<u32>| SelectedExamples {
        examples: Arc::clone(&examples),
        list: Some(list.into()),
    };
    let (train, test) = (select(chosen.rest), select(chosen.test));
    Ok(TrainTest { origin, ..TrainTest::new(train, test) })
}

impl<E: Examples> Examples for SelectedExamples<E> {
    fn len(&self) -> usize {
        self.list.as_ref().map_or(self.examples.len(), |list| list.len())
    }

    fn shape(&self) -> [usize; 3] {
        self.examples.shape()
    }

    fn classes(&self) -> usize {
        self.examples.classes()
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        self.examples.class_of(self.locate(example))
    }

    fn fill(&self, example: u32, draw: u64, out: &mut [f32]) -> Result<u32, DataError> {
        self.examples.fill(self.locate(example), draw, out)
    }
}
