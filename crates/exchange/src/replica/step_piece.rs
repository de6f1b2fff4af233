//! A piece of the parameters.

use std::ops::Range;

use paceline_model::FactorSizes;

/// A piece of the parameters that is handed in as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPiece {
    /// Its range of the flat parameters. Pieces follow each other without gaps.
    pub range: Range<usize>,
    /// The sizes of its factors, if these travel instead of the gradient.
    pub factors: Option<FactorSizes>,
}
