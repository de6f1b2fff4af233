//! The gradient of a batch, block by block.

use paceline_model::{Batch, Model, OutputMode, StepEvent};
use paceline_observe::Phase;

use crate::error::TrainError;
use crate::loop_trace::record_event;
use crate::step_recorder::StepRecorder;

/// Hands out the examples of a batch in blocks.
pub(crate) trait BlockSource {
    /// The next examples of the batch, at most `most`.
    fn next_block(&mut self, most: usize) -> Result<Batch<'_>, TrainError>;
}

/// The mean loss of a batch of `examples` examples; `grad` receives its gradient. `None` if
/// `is_abandoned` holds between two blocks: a large batch of a large network takes many seconds.
///
/// The values of a block are read, used and discarded while they are in the cache.
#[inline]
pub(crate) fn batch_gradient(
    model: &mut dyn Model,
    blocks: &mut dyn BlockSource,
    examples: usize,
    params: &[f32],
    grad: &mut [f32],
    step_recorder: &mut StepRecorder,
    is_abandoned: impl Fn() -> bool,
) -> Result<Option<f32>, TrainError> {
    let share = 1.0 / examples as f32;
    let (mut loss, mut mode, mut left) = (0.0, OutputMode::Overwrite, examples);
    while left > 0 {
        step_recorder.clock.stay_in(Phase::Input);
        let block = blocks.next_block(model.max_block())?;
        left -= block.len();
        let start = step_recorder.begin_compute();
        loss += match step_recorder.clock.track() {
            None => model.gradient(params, block, share, mode, grad),
            Some(track) => {
                track.begin_row();
                let observe = &mut |event: StepEvent<'_>| record_event(track, &event);
                model.gradient_observed(params, block, share, mode, grad, observe)
            }
        };
        mode = OutputMode::Add;
        step_recorder.slow_down(start);
        if (left > 0 || loss.is_nan()) && is_abandoned() {
            return Ok(None);
        }
    }
    Ok(Some(loss))
}
