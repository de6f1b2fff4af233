//! Segments: the rows of a store, some thousands at a time, with their keys as gaps.

mod key_code;
mod layout;

pub(crate) use key_code::{KeyCode, KeyEncoder};
pub(crate) use layout::{
    ALIGN, SegmentHeader, SegmentSections, SourcePosition, encode_segment, is_sound,
};
