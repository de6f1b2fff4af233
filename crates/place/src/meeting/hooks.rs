//! What a meeting asks of the program that takes part in it.

/// What surrounds a meeting.
pub trait MeetingHooks: Sync {
    /// The process waits for this, or no longer.
    fn waiting(&self, text: Option<&str>);

    /// The signal that asks the process to end, if it received one.
    fn stop_signal(&self) -> Option<i32>;
}
