//! Frames one behind the other, as they come over a connection.

use paceline_exchange::{HEADER_BYTES, Header};

/// The frames at the beginning of some bytes, up to the first invalid one.
pub(crate) struct FrameStream<'a>(pub(crate) &'a [u8]);

/// A frame as it was received.
pub(crate) struct ReceivedFrame<'a> {
    pub(crate) header: Header,
    pub(crate) payload: &'a [u8],
}

impl<'a> Iterator for FrameStream<'a> {
    type Item = ReceivedFrame<'a>;

    fn next(&mut self) -> Option<ReceivedFrame<'a>> {
        let (header, rest) = self.0.split_first_chunk::<HEADER_BYTES>()?;
        let header = Header::decode(header).ok()?;
        let payload = rest.get(..header.len as usize)?;
        self.0 = &rest[payload.len()..];
        Some(ReceivedFrame { header, payload })
    }
}

/// Appends a frame.
pub(crate) fn put_frame(out: &mut Vec<u8>, header: &Header, payload: &[u8]) {
    out.extend(header.encode());
    out.extend(payload);
}

/// Bytes as the floats that they begin with, and zeros up to the next whole one.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    let mut floats = vec![0.0; bytes.len().div_ceil(4)];
    bytemuck::cast_slice_mut::<f32, u8>(&mut floats)[..bytes.len()].copy_from_slice(bytes);
    floats
}
