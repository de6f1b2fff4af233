//! Breaches of the protocol.

/// The result of handling a frame.
pub(super) type Checked<T = ()> = Result<T, Violation>;

/// What a client did that the protocol forbids. The server closes its connection for it.
#[derive(Debug)]
pub(super) struct Violation(pub(super) String);

impl From<&str> for Violation {
    fn from(what: &str) -> Self {
        Violation(what.to_owned())
    }
}

impl From<crate::KeysError> for Violation {
    fn from(error: crate::KeysError) -> Self {
        Violation(error.to_string())
    }
}
