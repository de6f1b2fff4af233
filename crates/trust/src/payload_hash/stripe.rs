//! What a payload is hashed by: stripes of four blocks.

pub(crate) const HASH_BYTES: usize = 16;
/// Bytes that are hashed at once: four blocks.
pub(super) const STRIPE_BYTES: usize = 4 * HASH_BYTES;

pub(super) type Stripe = [u8; STRIPE_BYTES];

/// How the hash is computed. The results are the same.
pub(super) trait StripeHash: Send + Sync {
    fn add(&mut self, stripes: &[Stripe]);

    /// The hash of all stripes and this block. The next stripe is the first of another payload.
    fn finish(&mut self, block: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES];
}
