//! A frame that carries neither parameters nor a gradient.

use crate::{FrameKind, Header};

/// A control frame, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlFrame {
    /// The header.
    pub header: Header,
    /// The payload, of the length that the header states.
    pub body: Vec<u8>,
}

impl ControlFrame {
    /// # Panics
    /// If the payload is longer than the kind allows.
    pub(crate) fn new(kind: FrameKind, body: Vec<u8>) -> Self {
        Self { header: Header::new(kind, body.len()), body }
    }
}
