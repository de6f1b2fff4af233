//! `async`: everybody at their own pace.
//!
//! A push is applied when it arrives and answered at once with what came of it. Nobody waits,
//! so nobody can hold anybody up; the price is that gradients are applied to parameters newer
//! than those they were computed from.

use super::{Decision, Gate, GateView, Push};

/// The gate of `async`.
pub(super) struct Async;

impl Gate for Async {
    fn judge(&self, _view: GateView<'_>, _push: Push) -> Decision {
        Decision::Apply
    }
}
