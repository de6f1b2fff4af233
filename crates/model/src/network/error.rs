//! Why a network cannot be built.

use crate::layers::Shape;

/// Why a list of layers does not form a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A layer cannot take the output of the one before it.
    #[error("layer {}, given {input}: {reason}", numbered(.index, .name, .kind))]
    Layer {
        /// The layer's number, from 0.
        index: usize,
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
    #[error("layers {first} and {index} are both called {name}; every layer needs its own name")]
    DuplicateName {
        /// The name.
        name: String,
        /// The first layer of that name, from 0.
        first: usize,
        /// The second one.
        index: usize,
    },
    /// The last layer's output is not a flat row of scores.
    #[error(
        "the network ends in {0}, not in a flat row of scores: add a flatten and a dense layer"
    )]
    NoScores(Shape),
    /// No layer has parameters to train.
    #[error("the network has no parameters to train: add a dense layer")]
    Empty,
    /// A size is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// The system refused to start threads.
    #[error("cannot start threads: {0}")]
    Threads(String),
}

/// A layer's number, with its name if that is another, and its kind.
fn numbered(index: &usize, name: &str, kind: &str) -> String {
    if name == index.to_string() {
        format!("{index} ({kind})")
    } else {
        format!("{index} ({name}, {kind})")
    }
}
