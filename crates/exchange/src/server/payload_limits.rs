//! Which frames a server accepts from clients, and how long they may be.
//!
//! A thread checks a header against these limits before it sets aside memory for the payload. They
//! follow from the server's shard, so that a client of a small model cannot cost the server the
//! memory of a large one.

use super::state::Server;
use crate::keys::max_keys_bytes;
use crate::{FrameKind, Header, Store, WireFormat, max_keys};

/// The longest payloads that clients may send to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadLimits {
    /// Of a gradient of one chunk.
    chunk_bytes: usize,
    /// The most keys of one request; 0 for a dense model.
    keys: usize,
    /// The numbers of each key.
    width: usize,
    /// How gradients travel.
    wire: WireFormat,
}

impl Server {
    /// How long the frames of clients may be.
    pub fn payload_limits(&self) -> PayloadLimits {
        let (config, wire) = (&self.config, self.config.wire);
        let longest = self.chunks.iter().map(|chunk| chunk.range.len()).max().unwrap_or_default();
        match &self.store {
            Store::Dense(_) => {
                let chunk_bytes = config.wire.number_bytes() * longest;
                PayloadLimits { chunk_bytes, keys: 0, width: 1, wire }
            }
            Store::Sparse(_) => {
                let (width, keys) = (config.width, config.shard().len());
                PayloadLimits { chunk_bytes: 0, keys: keys.min(max_keys(width)), width, wire }
            }
        }
    }
}

impl PayloadLimits {
    /// Whether a payload is a `Push` of finite numbers. A thread looks before it takes the server's
    /// lock. A payload of another kind has numbers that only the server can tell from keys.
    pub fn is_finite(&self, header: &Header, payload: &[f32]) -> bool {
        header.kind == FrameKind::Push && self.wire.is_finite(header, payload)
    }

    /// Checks the header of a frame that a client sends after its `Hello`.
    ///
    /// # Errors
    /// If no client may send such a frame, or none that long.
    pub fn check(&self, header: &Header) -> Result<(), String> {
        use FrameKind::*;
        let kind = header.kind;
        let most = match kind {
            Push => self.chunk_bytes,
            PushKeys => 4 * self.width * self.keys + max_keys_bytes(self.keys),
            PullKeys => max_keys_bytes(self.keys),
            Pull | Leave | Release | Stop | Collect | Finish | Heartbeat | Checkpoint | Abort => {
                kind.max_payload_bytes()
            }
            _ => return Err(format!("{kind:?}, which no client may send")),
        };
        let len = header.len as usize;
        if len <= most {
            return Ok(());
        }
        Err(format!("{kind:?} with a payload of {len} bytes, more than this shard has"))
    }
}
