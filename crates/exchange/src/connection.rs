//! How a server and the program around it name connections and hand payloads to each other.

/// The program's name for a connection. It is never reused after the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The payload of a frame that arrived.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Of every kind except `Push` and `PushKeys`.
    Bytes(&'a [u8]),
    /// Of a `Push`: exactly as many floats as the frame carried. Of a `PushKeys`: the whole
    /// payload, which begins with floats and ends with keys and up to three bytes of padding.
    ///
    /// When the server must keep a gradient for later it takes this vector and leaves a spare
    /// one, of any length, in its place. So it copies nothing, and after the first steps it
    /// allocates nothing.
    Floats(&'a mut Vec<f32>),
}

/// The payload of a frame to send.
#[derive(Clone, Copy, Debug)]
pub enum FrameBody<'a> {
    /// Of every kind except `Params` and `Values`.
    Bytes(&'a [u8]),
    /// Of `Params` and `Values`, borrowed straight from the parameters.
    Floats(&'a [f32]),
}

impl<'a> FrameBody<'a> {
    /// The payload as it is written to the wire.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            FrameBody::Bytes(bytes) => bytes,
            FrameBody::Floats(floats) => crate::as_bytes(floats),
        }
    }
}
