//! Why a network cannot be built.

use crate::layers::Shape;

/// Why a list of layers does not form a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A layer cannot take the output of the one before it.
    #[error("layer {name} ({kind}), given {input}: {reason}")]
    Layer {
        /// The layer's name.
        name: String,
        /// What the layer does.
        kind: &'static str,
        /// The shape of its input.
        input: Shape,
        /// Why it cannot take that input.
        reason: String,
    },
    /// Two layers have the same name.
    #[error("two layers are called {0}")]
    DuplicateName(String),
    /// The last layer's output is not a flat row of scores.
    #[error("the network ends in {0}, not in a flat row of scores: add a dense layer")]
    NoScores(Shape),
    /// No layer has parameters to train.
    #[error("the network has no parameters")]
    Empty,
    /// A size is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// The system refused to start threads.
    #[error("cannot start threads: {0}")]
    Threads(String),
}
