//! Sizes and durations that several benchmarks share.

use std::time::Duration;

/// The parameters of softmax regression on 28x28 pixels and 10 classes.
pub const SMALL: usize = 7_850;
/// The parameters of AlexNet with 1,000 classes.
pub const LARGE: usize = 61_100_840;
/// Turns of a benchmark of processes.
pub const TURNS: usize = 6;
/// The duration of a turn of a quick benchmark.
pub(crate) const TURN: Duration = Duration::from_millis(200);
