//! A training set and a test set that belong together.

use std::sync::Arc;

use crate::examples::Examples;

/// A training set, the test set that goes with it, and where both came from.
///
/// `T` is the kind of data: [`Images`](crate::Images),
/// [`SparseRows`](crate::SparseRows), [`InMemoryExamples`](crate::InMemoryExamples), or a type of
/// your own that implements [`Examples`].
///
/// ```
/// use paceline_data::{Digits, TrainTest};
///
/// let TrainTest { train, test, origin, .. } = Digits::generate(60, 1);
/// assert_eq!((train.len(), test.len()), (60, 10));
/// assert_eq!(origin, "generated from seed 1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainTest<T> {
    /// The examples a model is trained on.
    pub train: T,
    /// The examples a model is judged on; it never trains on them.
    pub test: T,
    /// The examples that a model is tested on while it trains, if not on `test`: decisions such as
    /// when to stop then do not depend on the examples that judge the result.
    pub validation: Option<T>,
    /// Where the data came from, for messages: a directory, a file or a seed.
    pub origin: String,
}

impl<T> TrainTest<T> {
    /// Pairs two sets that the program made itself.
    pub fn new(train: T, test: T) -> Self {
        Self { train, test, validation: None, origin: "given by the program".into() }
    }

    /// The same sets with these examples to test on while a model trains.
    #[must_use]
    pub fn with_validation(self, validation: T) -> Self {
        Self { validation: Some(validation), ..self }
    }

    /// The same sets, each converted.
    pub fn map<U>(self, mut convert: impl FnMut(T) -> U) -> TrainTest<U> {
        TrainTest {
            train: convert(self.train),
            test: convert(self.test),
            validation: self.validation.map(convert),
            origin: self.origin,
        }
    }

    /// The examples that a model is tested on while it trains.
    pub fn tested(&self) -> &T {
        self.validation.as_ref().unwrap_or(&self.test)
    }
}

impl<T: Examples + 'static> TrainTest<T> {
    /// The same sets behind shared pointers, for code that does not know their type.
    pub fn into_shared(self) -> TrainTest<Arc<dyn Examples>> {
        self.map(|examples| Arc::new(examples) as Arc<dyn Examples>)
    }
}
