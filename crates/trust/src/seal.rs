//! Seals: tags that protect the frames of one direction of a connection.
//!
//! A sealed frame has two tags behind its head. The second is of the payload, with a key that only
//! this direction of this connection has. The first is of the head and the second tag. Both depend
//! on the frame's number. So the receiver checks a head before it acts on it, and a frame that was
//! changed, repeated, left out or moved is noticed.
//!
//! A payload is hashed by POLYVAL, with a key of this direction too. That hash must stay secret, so
//! the tag of a payload is that of AES-128-GCM over the hash. Tags of heads are of the same key,
//! with nonces of their own.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::payload_hash::{HASH_BYTES, SealedHash};

/// The length of both tags.
pub const SEAL_BYTES: usize = 2 * TAG_BYTES;
const TAG_BYTES: usize = 16;
/// The longest head.
const MAX_HEAD_BYTES: usize = 64;

type SealTag = [u8; TAG_BYTES];

/// The keys of the two directions of a connection.
#[derive(Clone)]
pub struct FrameKeys {
    /// Of the frames that this side sends.
    pub send: [u8; 32],
    /// Of the frames that it receives.
    pub receive: [u8; 32],
}

impl FrameKeys {
    /// Seals the frames that this side sends.
    pub fn sealer(&self) -> FrameSealer {
        FrameSealer(SealDirection::new(&self.send))
    }

    /// Checks the frames that this side receives.
    pub fn opener(&self) -> FrameOpener {
        FrameOpener { direction: SealDirection::new(&self.receive), expected: [0; TAG_BYTES] }
    }
}

/// What a tag is of. The value is a part of the nonce.
#[derive(Clone, Copy)]
enum TagOf {
    Payload = 0,
    Head = 1,
}

/// The keys of one direction, and the number of its next frame.
struct SealDirection {
    hash: SealedHash,
    key: LessSafeKey,
    next: u64,
}

impl SealDirection {
    /// The first half of the key is for tags, the second for hashes.
    fn new(key: &[u8; 32]) -> Self {
        let (of_tags, of_hashes) = key.split_at(AES_128_GCM.key_len());
        let hash = SealedHash::new(&std::array::from_fn(|at| of_hashes[at]));
        let key = match UnboundKey::new(&AES_128_GCM, of_tags) {
            Ok(key) => LessSafeKey::new(key),
            Err(_) => unreachable!("it has that length"),
        };
        Self { hash, key, next: 0 }
    }

    /// The tag of some bytes of the frame with this number, which are encrypted for that.
    fn tag(&self, frame: u64, of: TagOf, bytes: &mut [u8]) -> SealTag {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&frame.to_le_bytes());
        nonce[8..].copy_from_slice(&(of as u32).to_le_bytes());
        let nonce = Nonce::assume_unique_for_key(nonce);
        match self.key.seal_in_place_separate_tag(nonce, Aad::empty(), bytes) {
            Ok(tag) => std::array::from_fn(|at| tag.as_ref()[at]),
            Err(_) => unreachable!("the bytes are few"),
        }
    }

    fn payload_tag(&mut self, frame: u64, pieces: &[&[u8]]) -> SealTag {
        let mut hash: [u8; HASH_BYTES] = self.hash.hash(pieces);
        self.tag(frame, TagOf::Payload, &mut hash)
    }

    fn head_tag(&self, frame: u64, head: &[u8], payload_tag: &SealTag) -> SealTag {
        let mut bytes = [0; TAG_BYTES + MAX_HEAD_BYTES];
        let bytes = &mut bytes[..TAG_BYTES + head.len()];
        bytes[..TAG_BYTES].copy_from_slice(payload_tag);
        bytes[TAG_BYTES..].copy_from_slice(head);
        self.tag(frame, TagOf::Head, bytes)
    }
}

/// Seals the frames of one direction of a connection.
pub struct FrameSealer(SealDirection);

impl FrameSealer {
    /// The seals of the next frame, which follow its head.
    pub fn seal(&mut self, head: &[u8], payload: &[&[u8]]) -> [u8; SEAL_BYTES] {
        let frame = self.0.next;
        self.0.next += 1;
        let payload_tag = self.0.payload_tag(frame, payload);
        let mut seals = [0; SEAL_BYTES];
        seals[..TAG_BYTES].copy_from_slice(&self.0.head_tag(frame, head, &payload_tag));
        seals[TAG_BYTES..].copy_from_slice(&payload_tag);
        seals
    }
}

/// Checks the frames of one direction of a connection.
pub struct FrameOpener {
    direction: SealDirection,
    /// The tag that the current payload must have.
    expected: SealTag,
}

impl FrameOpener {
    /// Checks the head of the next frame.
    ///
    /// # Errors
    /// If it is not the one that the other side sealed next. The connection is of no use then.
    pub fn check_head(&mut self, head: &[u8], seals: &[u8; SEAL_BYTES]) -> Result<(), SealError> {
        let (of_head, of_payload) = seals.split_at(TAG_BYTES);
        self.expected.copy_from_slice(of_payload);
        let (frame, expected) = (self.direction.next, self.expected);
        self.direction.next += 1;
        check(of_head, &self.direction.head_tag(frame, head, &expected))
    }

    /// Checks the payload of the frame whose head was checked last.
    ///
    /// # Errors
    /// If it is not the payload that the other side sealed.
    pub fn check_payload(&mut self, payload: &[u8]) -> Result<(), SealError> {
        let frame = self.direction.next.wrapping_sub(1);
        let tag = self.direction.payload_tag(frame, &[payload]);
        check(&self.expected, &tag)
    }
}

/// A frame was changed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame was changed on the way: its seal is wrong")]
pub struct SealError;

/// Compares in a time that does not reveal where the two differ.
fn check(left: &[u8], right: &[u8]) -> Result<(), SealError> {
    let differences = left.iter().zip(right).fold(0, |sum, (l, r)| sum | (l ^ r));
    let is_equal = left.len() == right.len() && std::hint::black_box(differences) == 0;
    if is_equal { Ok(()) } else { Err(SealError) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: [u8; 40] = [3; 40];

    fn pair() -> (FrameSealer, FrameOpener) {
        let keys = FrameKeys { send: [1; 32], receive: [1; 32] };
        (keys.sealer(), keys.opener())
    }

    fn open(
        opener: &mut FrameOpener,
        head: &[u8],
        seals: &[u8; SEAL_BYTES],
        payload: &[u8],
    ) -> Result<(), SealError> {
        opener.check_head(head, seals)?;
        opener.check_payload(payload)
    }

    #[test]
    fn a_payload_in_pieces_has_the_seal_of_the_whole() {
        let (mut sealer, mut opener) = pair();
        let seals = sealer.seal(&HEAD, &[b"two ", b"pieces"]);
        assert_eq!(open(&mut opener, &HEAD, &seals, b"two pieces"), Ok(()));
        let seals = sealer.seal(&HEAD, &[b"", b""]);
        assert_eq!(open(&mut opener, &HEAD, &seals, b""), Ok(()));
    }

    #[test]
    fn a_frame_that_is_repeated_left_out_or_sent_back_is_refused() {
        let (mut sealer, mut opener) = pair();
        let seals: Vec<_> = (0..3).map(|_| sealer.seal(&HEAD, &[b"same"])).collect();
        assert_eq!(open(&mut opener, &HEAD, &seals[0], b"same"), Ok(()));
        assert_eq!(opener.check_head(&HEAD, &seals[0]), Err(SealError), "repeated");
        let (_, mut opener) = pair();
        assert_eq!(opener.check_head(&HEAD, &seals[1]), Err(SealError), "left out");
        let mut other = FrameKeys { send: [1; 32], receive: [2; 32] }.opener();
        assert_eq!(other.check_head(&HEAD, &seals[0]), Err(SealError), "sent back");
    }

    #[test]
    fn the_payload_of_another_frame_is_refused() {
        let (mut sealer, mut opener) = pair();
        let (first, second) = (sealer.seal(&HEAD, &[b"first"]), sealer.seal(&HEAD, &[b"second"]));
        let mut mixed = first;
        mixed[TAG_BYTES..].copy_from_slice(&second[TAG_BYTES..]);
        assert_eq!(opener.check_head(&HEAD, &mixed), Err(SealError));
    }

    proptest! {
        #[test]
        fn every_flipped_bit_is_noticed(
            payload in proptest::collection::vec(any::<u8>(), 1..40_000), at: usize, bit in 0..8u32,
        ) {
            let (mut sealer, mut opener) = pair();
            let seals = sealer.seal(&HEAD, &[&payload]);
            let mut frame = [&HEAD[..], &seals, &payload].concat();
            let at = at % frame.len();
            frame[at] ^= 1 << bit;
            let (head, rest) = frame.split_at(HEAD.len());
            let (seals, payload) = rest.split_first_chunk().unwrap();
            prop_assert_eq!(open(&mut opener, head, seals, payload), Err(SealError));
        }
    }
}
