//! How a server and the program around it name connections and hand payloads to each other.

use paceline_model::kernels::bf16_encode;

/// The program's name for a connection. It is never reused after the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The payload of a frame that arrived.
#[derive(Debug)]
pub enum Payload<'a> {
    /// Of every kind except `Push` and `PushKeys`.
    Bytes(&'a [u8]),
    /// Of a `Push`: exactly as many floats as the frame carried, or half as many that hold the
    /// frame's bf16 numbers, with up to two bytes of padding. Of a `PushKeys`: the whole payload,
    /// which begins with floats and ends with keys and up to three bytes of padding.
    ///
    /// When the server must keep a gradient for later it takes this vector and leaves a spare
    /// one, of any length, in its place. So it copies nothing, and after the first steps it
    /// allocates nothing.
    Floats(&'a mut Vec<f32>),
    /// The same of a `Push` for which [`PayloadLimits::is_finite`](crate::PayloadLimits::is_finite)
    /// holds, so that the server need not look again.
    FiniteFloats(&'a mut Vec<f32>),
}

/// The payload of a frame to send.
#[derive(Clone, Copy, Debug)]
pub enum FrameBody<'a> {
    /// Of every kind except `Params` and `Values`.
    Bytes(&'a [u8]),
    /// Of `Params`, `Values` and `KnownGradient`, borrowed straight from where they are kept.
    Floats(&'a [f32]),
    /// Of `Params`, which travel rounded to bf16.
    Rounded(&'a [f32]),
}

impl FrameBody<'_> {
    /// Appends the payload as it is written to the wire.
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        match self {
            FrameBody::Bytes(body) => bytes.extend_from_slice(body),
            FrameBody::Floats(floats) => bytes.extend_from_slice(crate::as_bytes(floats)),
            FrameBody::Rounded(floats) => append_rounded(floats, bytes),
        }
    }
}

/// Floats rounded at a time: few enough to stay in the fastest cache until they are copied.
const ROUNDED_FLOATS: usize = 2048;

/// Appends floats rounded to bf16.
fn append_rounded(floats: &[f32], bytes: &mut Vec<u8>) {
    let mut rounded = [0u16; ROUNDED_FLOATS];
    bytes.reserve(2 * floats.len());
    for piece in floats.chunks(ROUNDED_FLOATS) {
        let rounded = &mut rounded[..piece.len()];
        bf16_encode(piece, rounded);
        bytes.extend_from_slice(bytemuck::cast_slice(rounded));
    }
}
