//! The keyed hash of payloads: POLYVAL, which is GHASH without its reversed bits.
//!
//! It reads the bytes once, and copies only those of a stripe that a piece does not fill. Two
//! payloads have the same hash with a probability of at most their length in blocks of 16 bytes by
//! 2^128, as long as the key is unknown. So it must never be sent as it is: [`seal`](crate::seal)
//! makes a tag of it.

#[cfg(target_arch = "x86_64")]
mod lanes;
mod stripe;

use polyval::Polyval;
use polyval::universal_hash::UniversalHash;

pub(crate) use stripe::HASH_BYTES;
use stripe::{STRIPE_BYTES, Stripe, StripeHash};

/// The hash under one key.
pub(crate) struct SealedHash {
    stripes: Box<dyn StripeHash>,
    /// The first bytes of a stripe that is not complete.
    part: Stripe,
    part_len: usize,
}

/// The hash as every processor can compute it.
struct PlainHash {
    fresh: Polyval,
    current: Polyval,
}

impl PlainHash {
    fn new(key: &[u8; HASH_BYTES]) -> Self {
        let fresh = Polyval::new(key.into());
        Self { current: fresh.clone(), fresh }
    }
}

impl StripeHash for PlainHash {
    fn add(&mut self, stripes: &[Stripe]) {
        self.current.update_padded(stripes.as_flattened());
    }

    fn finish(&mut self, block: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
        let mut hash = std::mem::replace(&mut self.current, self.fresh.clone());
        hash.update_padded(block);
        hash.finalize().into()
    }
}

impl SealedHash {
    pub(crate) fn new(key: &[u8; HASH_BYTES]) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(stripes) = lanes::new(key) {
            return Self::with(stripes);
        }
        Self::with(Box::new(PlainHash::new(key)))
    }

    fn with(stripes: Box<dyn StripeHash>) -> Self {
        Self { stripes, part: [0; STRIPE_BYTES], part_len: 0 }
    }

    /// The hash of a payload in pieces, filled up by zeros to whole stripes, and of its length.
    pub(crate) fn hash(&mut self, pieces: &[&[u8]]) -> [u8; HASH_BYTES] {
        let mut len = 0;
        for piece in pieces {
            len += piece.len() as u64;
            self.add(piece);
        }
        if self.part_len > 0 {
            self.part[self.part_len..].fill(0);
            self.part_len = 0;
            self.stripes.add(&[self.part]);
        }
        let mut block = [0; HASH_BYTES];
        block[..8].copy_from_slice(&len.to_le_bytes());
        self.stripes.finish(&block)
    }

    fn add(&mut self, mut bytes: &[u8]) {
        if self.part_len > 0 {
            let (head, rest) = bytes.split_at(bytes.len().min(STRIPE_BYTES - self.part_len));
            self.part[self.part_len..][..head.len()].copy_from_slice(head);
            self.part_len += head.len();
            bytes = rest;
            if self.part_len < STRIPE_BYTES {
                return;
            }
            self.stripes.add(&[self.part]);
        }
        let (stripes, rest) = bytes.as_chunks();
        self.stripes.add(stripes);
        self.part[..rest.len()].copy_from_slice(rest);
        self.part_len = rest.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_polyval() {
        // RFC 8452, appendix A.
        let hex = |text: &str| -> [u8; 16] {
            std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        };
        let key = hex("25629347589242761d31f826ba4b757b");
        let blocks =
            [hex("4f4f95668c83dfb6401762bb2d01a262"), hex("d1a24ddd2721d006bbe45f20d3c9f362")];
        let mut hash = Polyval::new(&key.into());
        hash.update_padded(blocks.as_flattened());
        let expected = hex("f7a3b47b846119fae5b7866cf5e5b77e");
        assert_eq!(<[u8; 16]>::from(hash.finalize()), expected);
    }

    /// The hash in every form that this processor has.
    fn all_forms(key: &[u8; 16]) -> Vec<SealedHash> {
        let mut forms: Vec<Box<dyn StripeHash>> = vec![Box::new(PlainHash::new(key))];
        #[cfg(target_arch = "x86_64")]
        forms.extend(
            [lanes::new_512, lanes::new_256, lanes::new_128].into_iter().filter_map(|new| new(key)),
        );
        forms.into_iter().map(SealedHash::with).collect()
    }

    proptest! {
        #[test]
        fn all_forms_and_all_pieces_give_the_same_hash(
            key: [u8; 16], bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
            (first, second) in (0usize..3_000, 0usize..3_000),
        ) {
            let (first, second) = (first.min(bytes.len()), second.min(bytes.len()));
            let (from, to) = (first.min(second), first.max(second));
            let pieces = [&bytes[..from], &bytes[from..to], &bytes[to..]];
            let whole = SealedHash::with(Box::new(PlainHash::new(&key))).hash(&[&bytes]);
            for mut hash in all_forms(&key) {
                prop_assert_eq!(hash.hash(&pieces), whole);
                prop_assert_eq!(hash.hash(&[&bytes]), whole, "a hash leaves nothing behind");
            }
        }

        #[test]
        fn zeros_at_the_end_change_the_hash(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut hash = SealedHash::new(&[9; 16]);
            prop_assert_ne!(hash.hash(&[&bytes]), hash.hash(&[&bytes, &[0]]));
        }
    }
}
