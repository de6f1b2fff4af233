//! POLYVAL of four blocks at once, by vector instructions of x86-64.
//!
//! Four lanes have a block each. Lane `j` sums what blocks `j` of all stripes add, and lanes are
//! added up at the end only. Eight stripes are multiplied by eight powers of the key before the sum
//! is reduced once. Multiplication and reduction are those of Lemma 3 of
//! <https://eprint.iacr.org/2025/2171>, as the crate `polyval` has them for one block.
#![expect(unsafe_code, reason = "only their caller can know which instructions there are")]

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_clmulepi64_si128, _mm_set1_epi64x, _mm_shuffle_epi32,
    _mm_xor_si128, _mm256_clmulepi64_epi128, _mm256_set1_epi64x, _mm256_shuffle_epi32,
    _mm256_xor_si256, _mm512_clmulepi64_epi128, _mm512_set1_epi64, _mm512_shuffle_epi32,
    _mm512_xor_si512,
};

use super::stripe::{HASH_BYTES, Stripe, StripeHash};

/// The upper half of the field's polynomial.
const POLYNOMIAL: i64 = 0xc200_0000_0000_0000_u64 as i64;
/// Stripes between two reductions.
const GROUP: usize = 8;

/// Four lanes of 128 bits.
///
/// # Safety
/// A type that implements it has 64 bytes, which may have any value. Its functions may be called
/// only if the processor has their instructions.
unsafe trait Lanes: Copy + Send + Sync + 'static {
    /// This half in both halves of each lane.
    unsafe fn fill(half: i64) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    /// Exchanges the halves of each lane.
    unsafe fn swap(self) -> Self;
    /// The product of the halves that `WHICH` names, without carries.
    unsafe fn multiply<const WHICH: i32>(self, other: Self) -> Self;
}

// SAFETY: it has 64 bytes. The instructions are those of AVX-512F and VPCLMULQDQ.
unsafe impl Lanes for __m512i {
    #[inline(always)]
    unsafe fn fill(half: i64) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_set1_epi64(half) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_xor_si512(self, other) }
    }

    #[inline(always)]
    unsafe fn swap(self) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_shuffle_epi32::<0x4e>(self) }
    }

    #[inline(always)]
    unsafe fn multiply<const WHICH: i32>(self, other: Self) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_clmulepi64_epi128::<WHICH>(self, other) }
    }
}

// SAFETY: it has 64 bytes. The instructions are those of AVX2 and VPCLMULQDQ.
unsafe impl Lanes for [__m256i; 2] {
    #[inline(always)]
    unsafe fn fill(half: i64) -> Self {
        // SAFETY: by the caller.
        unsafe { [_mm256_set1_epi64x(half); 2] }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: by the caller.
        std::array::from_fn(|at| unsafe { _mm256_xor_si256(self[at], other[at]) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Self {
        // SAFETY: by the caller.
        self.map(|lanes| unsafe { _mm256_shuffle_epi32::<0x4e>(lanes) })
    }

    #[inline(always)]
    unsafe fn multiply<const WHICH: i32>(self, other: Self) -> Self {
        // SAFETY: by the caller.
        std::array::from_fn(|at| unsafe { _mm256_clmulepi64_epi128::<WHICH>(self[at], other[at]) })
    }
}

// SAFETY: it has 64 bytes. The instructions are those of SSE2 and PCLMULQDQ.
unsafe impl Lanes for [__m128i; 4] {
    #[inline(always)]
    unsafe fn fill(half: i64) -> Self {
        // SAFETY: by the caller.
        unsafe { [_mm_set1_epi64x(half); 4] }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: by the caller.
        std::array::from_fn(|at| unsafe { _mm_xor_si128(self[at], other[at]) })
    }

    #[inline(always)]
    unsafe fn swap(self) -> Self {
        // SAFETY: by the caller.
        self.map(|lane| unsafe { _mm_shuffle_epi32::<0x4e>(lane) })
    }

    #[inline(always)]
    unsafe fn multiply<const WHICH: i32>(self, other: Self) -> Self {
        // SAFETY: by the caller.
        std::array::from_fn(|at| unsafe { _mm_clmulepi64_si128::<WHICH>(self[at], other[at]) })
    }
}

/// A factor in each lane, and what else a product with it needs.
#[derive(Clone, Copy)]
struct LaneFactor<V> {
    lanes: V,
    folded: V,
}

/// The hash under one key, on a processor that has the instructions.
pub(super) struct LaneHash<V> {
    /// The key raised to the powers 4, 8, 12 and so on, in all lanes.
    powers: [LaneFactor<V>; GROUP],
    /// What the lanes are multiplied by at the end: the key raised to the powers 5, 4, 3 and 2.
    last: LaneFactor<V>,
    /// The key in the first lane, for the length.
    first: LaneFactor<V>,
    sum: V,
}

/// The hash with the widest vectors that the processor has; `None` if it has not even narrow ones.
pub(super) fn new(key: &[u8; HASH_BYTES]) -> Option<Box<dyn StripeHash>> {
    new_512(key).or_else(|| new_256(key)).or_else(|| new_128(key))
}

/// The hash with vectors of one type, which need these features of the processor.
macro_rules! lane_hash {
    ($new:ident, $lanes:ty, $enable:literal, [$($feature:tt),+]) => {
        pub(super) fn $new(key: &[u8; HASH_BYTES]) -> Option<Box<dyn StripeHash>> {
            #[target_feature(enable = $enable)]
            fn make(key: &[u8; HASH_BYTES]) -> Box<dyn StripeHash> {
                // SAFETY: the instructions are there.
                Box::new(unsafe { expand::<$lanes>(key) })
            }
            let is_there = $(is_x86_feature_detected!($feature))&&+;
            // SAFETY: the instructions are there.
            is_there.then(|| unsafe { make(key) })
        }

        impl StripeHash for LaneHash<$lanes> {
            fn add(&mut self, stripes: &[Stripe]) {
                #[target_feature(enable = $enable)]
                fn add_here(hash: &mut LaneHash<$lanes>, stripes: &[Stripe]) {
                    // SAFETY: the instructions are there.
                    unsafe { add(hash, stripes) }
                }
                // SAFETY: there is a hash only if the instructions are there.
                unsafe { add_here(self, stripes) }
            }

            fn finish(&mut self, block: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
                #[target_feature(enable = $enable)]
                fn finish_here(
                    hash: &mut LaneHash<$lanes>,
                    block: &[u8; HASH_BYTES],
                ) -> [u8; HASH_BYTES] {
                    // SAFETY: the instructions are there.
                    unsafe { finish(hash, block) }
                }
                // SAFETY: there is a hash only if the instructions are there.
                unsafe { finish_here(self, block) }
            }
        }
    };
}

lane_hash!(new_512, __m512i, "avx512f,vpclmulqdq", ["avx512f", "vpclmulqdq"]);
lane_hash!(new_256, [__m256i; 2], "avx2,vpclmulqdq", ["avx2", "vpclmulqdq"]);
// The functions need SSE2 and PCLMULQDQ only. With AVX, the compiler encodes them with three
// operands, which takes fewer copies of registers; what that gains was not measured.
lane_hash!(new_128, [__m128i; 4], "avx,pclmulqdq", ["avx", "pclmulqdq"]);

#[inline(always)]
unsafe fn expand<V: Lanes>(key: &[u8; HASH_BYTES]) -> LaneHash<V> {
    // SAFETY: by the caller.
    unsafe {
        let one: V = load(&std::array::from_fn(|at| key[at % HASH_BYTES]));
        let by_one = factor(one);
        let two = product(one, &by_one);
        let three = product(two, &by_one);
        let four = product(three, &by_one);
        let five = product(four, &by_one);
        let by_four = factor(four);
        let mut powers = [by_four; GROUP];
        for at in 1..GROUP {
            powers[at] = factor(product(powers[at - 1].lanes, &by_four));
        }
        let last = [five, four, three, two].map(|power| store(power)[0]);
        let last = factor(load(&std::array::from_fn(|at| last.as_flattened()[at])));
        let first = factor(load(&in_first_lane(key)));
        LaneHash { powers, last, first, sum: load(&[0; _]) }
    }
}

#[inline(always)]
unsafe fn add<V: Lanes>(hash: &mut LaneHash<V>, stripes: &[Stripe]) {
    let (groups, rest) = stripes.as_chunks::<GROUP>();
    let powers = hash.powers;
    let mut sum = hash.sum;
    // SAFETY: by the caller.
    unsafe {
        for group in groups {
            let (mut high, mut low) = multiply(sum, &powers[GROUP - 1]);
            for (at, stripe) in group[..GROUP - 1].iter().enumerate() {
                let (more_high, more_low) = multiply(load(stripe), &powers[GROUP - 2 - at]);
                (high, low) = (high.xor(more_high), low.xor(more_low));
            }
            sum = reduce(high, low).xor(load(&group[GROUP - 1]));
        }
        for stripe in rest {
            sum = product(sum, &powers[0]).xor(load(stripe));
        }
    }
    hash.sum = sum;
}

#[inline(always)]
unsafe fn finish<V: Lanes>(hash: &mut LaneHash<V>, block: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    // SAFETY: by the caller.
    unsafe {
        let (high, low) = multiply(hash.sum, &hash.last);
        let (more_high, more_low) = multiply(load(&in_first_lane(block)), &hash.first);
        hash.sum = load(&[0; _]);
        let lanes = store(reduce(high.xor(more_high), low.xor(more_low)));
        std::array::from_fn(|at| lanes.iter().fold(0, |all, lane| all ^ lane[at]))
    }
}

fn in_first_lane(block: &[u8; HASH_BYTES]) -> Stripe {
    std::array::from_fn(|at| if at < HASH_BYTES { block[at] } else { 0 })
}

#[inline(always)]
unsafe fn load<V: Lanes>(stripe: &Stripe) -> V {
    // SAFETY: both have 64 bytes of any value.
    unsafe { stripe.as_ptr().cast::<V>().read_unaligned() }
}

#[inline(always)]
unsafe fn store<V: Lanes>(lanes: V) -> [[u8; HASH_BYTES]; 4] {
    // SAFETY: both have 64 bytes of any value.
    unsafe { (&raw const lanes).cast::<[[u8; HASH_BYTES]; 4]>().read() }
}

#[inline(always)]
unsafe fn factor<V: Lanes>(lanes: V) -> LaneFactor<V> {
    // SAFETY: by the caller.
    let folded = unsafe { lanes.swap().xor(lanes.multiply::<0x10>(V::fill(POLYNOMIAL))) };
    LaneFactor { lanes, folded }
}

/// A product in each lane that is not reduced yet.
#[inline(always)]
unsafe fn multiply<V: Lanes>(lanes: V, by: &LaneFactor<V>) -> (V, V) {
    // SAFETY: by the caller.
    unsafe {
        let high = lanes.multiply::<0x10>(by.folded).xor(lanes.multiply::<0x11>(by.lanes));
        let low = lanes.multiply::<0x00>(by.folded).xor(lanes.multiply::<0x01>(by.lanes));
        (high, low)
    }
}

#[inline(always)]
unsafe fn reduce<V: Lanes>(high: V, low: V) -> V {
    // SAFETY: by the caller.
    unsafe { high.xor(low.swap()).xor(low.multiply::<0x00>(V::fill(POLYNOMIAL))) }
}

#[inline(always)]
unsafe fn product<V: Lanes>(lanes: V, by: &LaneFactor<V>) -> V {
    // SAFETY: by the caller.
    unsafe {
        let (high, low) = multiply(lanes, by);
        reduce(high, low)
    }
}
