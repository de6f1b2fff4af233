//! Decodes keys with AVX2: eight at a time.

use std::arch::x86_64::{__m128i, __m256i};

use bytemuck::cast;
use pulp::x86::V3;

use super::block_kernel::{BlockKernel, KeyHalves, WINDOW_BYTES};
use super::key_code::BLOCK_ENTRIES;

/// The processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2Keys(V3);

impl Avx2Keys {
    pub(super) fn new() -> Option<Self> {
        V3::try_new().map(Avx2Keys)
    }

    /// Compiles a function for these vectors and calls it.
    #[inline(always)]
    pub(super) fn run(self, function: impl FnOnce()) {
        self.0.vectorize(function);
    }
}

/// How eight keys of some bits become numbers of 32 bits. The first four are read from one place,
/// the last four from another.
#[derive(Clone, Copy)]
struct UnpackStep {
    /// The four bytes that each key lies in.
    bytes: [u8; 32],
    /// Where in them it begins, in bits.
    shifts: [u32; 8],
}

static UNPACK: [UnpackStep; 33] = {
    let mut steps = [UnpackStep { bytes: [0; 32], shifts: [0; 8] }; 33];
    let mut bits = 0;
    while bits <= 32 {
        let mut lane = 0;
        while lane < 8 {
            let bit = lane % 4 * bits;
            let mut byte = 0;
            while byte < 4 {
                // A key never reaches beyond the 16 bytes; what would is not looked at.
                let at = bit / 8 + byte;
                steps[bits].bytes[4 * lane + byte] = if at < 16 { at as u8 } else { 0x80 };
                byte += 1;
            }
            steps[bits].shifts[lane] = (bit % 8) as u32;
            lane += 1;
        }
        bits += 1;
    }
    steps
};

/// For eight kinds: how many of the same kind come before each, and the highest bit for keys that
/// are not popular.
static RANKS: [[u8; 8]; 256] = {
    let mut ranks = [[0; 8]; 256];
    let mut kinds = 0;
    while kinds < 256 {
        let (mut popular, mut other, mut lane) = (0, 0, 0);
        while lane < 8 {
            if kinds >> lane & 1 == 1 {
                ranks[kinds][lane] = 0x80 | other;
                other += 1;
            } else {
                ranks[kinds][lane] = popular;
                popular += 1;
            }
            lane += 1;
        }
        kinds += 1;
    }
    ranks
};

impl BlockKernel for Avx2Keys {
    #[inline(always)]
    fn unpack(
        self,
        window: &[u8; WINDOW_BYTES],
        at: usize,
        count: usize,
        bits: usize,
        last: u32,
        out: &mut [u32; 2 * BLOCK_ENTRIES],
    ) {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let step = &UNPACK[bits % 33];
        let (bytes, shifts): (__m256i, __m256i) = (cast(step.bytes), cast(step.shifts));
        let mask = avx._mm256_set1_epi32(((1u64 << bits) - 1) as u32 as i32);
        let last = avx._mm256_set1_epi32(last as i32);
        let eights = out.as_chunks_mut::<8>().0.iter_mut();
        // At least two rounds, which is enough for most rows: a number that is easy to predict.
        for (round, eight) in eights.take(count.div_ceil(8).max(2)).enumerate() {
            // What is behind the keys may lie in memory that was not prefetched.
            let from = |first, place| if first < count { place } else { at };
            let low = half(window, from(8 * round, at + round * bits));
            let high = half(window, from(8 * round + 4, at + round * bits + bits / 2));
            let both = avx2._mm256_shuffle_epi8(avx._mm256_set_m128i(high, low), bytes);
            let keys = avx2._mm256_and_si256(avx2._mm256_srlv_epi32(both, shifts), mask);
            *eight = cast(avx2._mm256_min_epu32(keys, last));
        }
    }

    #[inline(always)]
    fn merge(self, kinds: u64, count: usize, halves: &KeyHalves, out: &mut [u32; BLOCK_ENTRIES]) {
        let (avx, avx2) = (self.0.avx, self.0.avx2);
        let (mut index, mut before) = (0, 0);
        for eight in out.as_chunks_mut::<8>().0.iter_mut().take(count.div_ceil(8)) {
            let kinds = (kinds >> index) as u8;
            let popular = cast(*eight_at(&halves.popular, index - before));
            let others = cast(*eight_at(&halves.others, before));
            let ranks = [u64::from_le_bytes(RANKS[usize::from(kinds)]), 0];
            let ranks = avx2._mm256_cvtepi8_epi32(cast(ranks));
            let popular = avx2._mm256_permutevar8x32_epi32(popular, ranks);
            let others = avx2._mm256_permutevar8x32_epi32(others, ranks);
            *eight = cast(avx._mm256_blendv_ps(cast(popular), cast(others), cast(ranks)));
            before += kinds.count_ones() as usize;
            index += 8;
        }
    }
}

/// Half a vector of a window; zeros beyond its end.
#[inline(always)]
fn half(window: &[u8; WINDOW_BYTES], at: usize) -> __m128i {
    let bytes = window.get(at..).and_then(|bytes| bytes.first_chunk::<16>());
    cast(*bytes.unwrap_or(&[0; 16]))
}

/// Eight of a block's keys.
#[inline(always)]
fn eight_at(keys: &[u32; 2 * BLOCK_ENTRIES], at: usize) -> &[u32; 8] {
    match keys[at % BLOCK_ENTRIES..].first_chunk() {
        Some(eight) => eight,
        None => unreachable!("there is room for reading beyond a block"),
    }
}
