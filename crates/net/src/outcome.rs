//! What came of an operation: its result, or the news that the run went back.

/// The outcome of an operation on [`ServerConnections`](crate::ServerConnections).
///
/// A run survives the loss of a server by going back to its last checkpoint: the servers start a
/// new *generation* from there, and pushes answered since that checkpoint are undone. A worker
/// learns of it in the middle of any operation. That is not an error: the worker calls
/// [`resume_after_rewind`](crate::ServerConnections::resume_after_rewind) and continues at
/// [`resume_step`](crate::ServerConnections::resume_step).
///
/// ```
/// # use paceline_net::{LinkError, LinkObserver, LinkOutcome, ServerConnections};
/// /// Trains up to plan step `last`, through as many rewinds as there are.
/// fn train(
///     servers: &mut ServerConnections,
///     last: u64,
///     mut gradient_of: impl FnMut(u64, &[f32]) -> Vec<f32>,
///     observer: &mut impl LinkObserver,
/// ) -> Result<(), LinkError> {
///     let mut step = servers.resume_step();
///     while step < last {
///         let gradient = gradient_of(step, servers.params());
///         match servers.exchange(step, 32, &gradient, observer)? {
///             LinkOutcome::Done(()) => step += 1,
///             LinkOutcome::Rewound => {
///                 servers.resume_after_rewind(observer)?;
///                 step = servers.resume_step();
///             }
///         }
///     }
///     Ok(())
/// }
/// ```
#[must_use = "a rewind ends the operation without a result"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOutcome<T = ()> {
    /// The operation completed.
    Done(T),
    /// The run went back to a checkpoint, and the operation was abandoned. Every further
    /// operation returns this until `resume_after_rewind` was called.
    Rewound,
}
