//! `async`: each worker runs at its own pace.
//!
//! A push is applied when it arrives and answered at once with the result. No worker waits for
//! another; the price is that gradients are applied to parameters newer than those they were
//! computed from.

use super::api::{Decision, Gate, GateView, Push};

/// The gate of `async`.
pub(super) struct AsyncGate;

impl Gate for AsyncGate {
    fn judge(&self, _view: GateView<'_>, _push: Push) -> Decision {
        Decision::Apply
    }
}
