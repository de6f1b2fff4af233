//! Segments: the rows of a store, some thousands at a time, with their keys in few bits.

mod block_kernel;
mod key_code;
mod key_encoder;
mod key_reader;
#[cfg(target_arch = "x86_64")]
mod key_vectors;
mod layout;

pub(crate) use key_code::KeyCode;
pub(crate) use key_encoder::KeyEncoder;
pub use key_reader::KeyBuffer;
pub(crate) use key_reader::KeyReader;
pub(crate) use layout::{
    ALIGN, INDEX_BYTES, SegmentHeader, SegmentSections, SourcePosition, encode_segment, is_sound,
    row_label, row_start, take_fields,
};
