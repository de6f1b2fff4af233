//! What a worker's connections report to their caller while an operation runs.

/// What an exchange does at the moment, for time accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangePhase {
    /// Sending the gradient.
    Push,
    /// Nothing can be sent or read.
    Wait,
    /// Receiving parameters.
    Pull,
}

/// Observes a worker's connections to servers or to other workers.
///
/// All calls come from the thread that runs the operation, some of them many times per step: an
/// implementation must be quick and must not block.
pub trait LinkObserver {
    /// The time from now on belongs to `phase`. Called also when the phase does not change.
    fn enter_phase(&mut self, phase: ExchangePhase);
    /// A message for a person: what a step waits for, or a notice from a server.
    fn note(&mut self, text: &str);
    /// Whether to give up; asked a few times a second during waits. The operation then ends with
    /// [`LinkError::Interrupted`](crate::LinkError::Interrupted).
    fn should_give_up(&mut self) -> bool;
    /// Whether to abandon the step in progress, and the run with it; called often. The operation
    /// then cuts the run short.
    fn cuts_short(&mut self) -> bool {
        false
    }
    /// The run is cut short, by this worker or by another one.
    fn was_cut_short(&mut self) {}
    /// The gradient of plan step `step` is about to go to all servers or workers.
    fn sending_gradient(&mut self, _step: u64) {}
    /// The first chunk of the updated parameters arrived from this server or worker.
    fn update_arrived(&mut self, _peer: usize) {}
    /// Mesh only: the first chunk of another worker's gradient of plan step `step` arrived.
    fn gradient_arrived(&mut self, _peer: usize, _step: u64) {}
    /// Mesh only: this worker applied gradients since the last phase change, and has not sent
    /// the result yet.
    fn gradients_applied(&mut self) {}
}
