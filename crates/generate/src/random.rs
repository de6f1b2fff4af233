//! Randomness that is a pure function of its keys.
//!
//! A run must be repeatable on any machine and in any order: which examples a slot reads, or what
//! image 4711 looks like, may depend on the seed and on an index, never on what was drawn before.
//! So there is no global generator. Code creates a [`Random`] from the keys of one item (`[seed,
//! split, index]`), draws what the item needs, and drops it.
//!
//! Nothing here calls the platform's `sin` or `ln`, whose last bits differ between C libraries.
//! Only IEEE arithmetic is used, so equal keys give equal bits everywhere.

/// The increment of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles 64 bits so that nearby inputs give unrelated outputs (the splitmix64 finaliser).
///
/// It is a bijection: different inputs give different outputs.
pub const fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A small, fast generator (splitmix64) for drawing data. It is not secure.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of numbers that belongs to these keys, for example `[seed, epoch]`. The order of
    /// the keys matters.
    pub fn keyed(keys: &[u64]) -> Self {
        let state =
            keys.iter().fold(0, |state: u64, &key| mix(state.wrapping_add(GOLDEN) ^ mix(key)));
        Random { state }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A uniform number in `0.0..1.0`, a multiple of 2^-24.
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// A uniform number in `low..high`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// A uniform integer in `0..bound`: the high half of a 128-bit product, with a bias below
    /// `bound` / 2^64.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn range(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "the range 0..0 is empty");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A bell-shaped number with mean 0 and standard deviation 1.
    ///
    /// It is the sum of four uniform numbers, so it stays within ±3.47 and its tails are lighter
    /// than a true normal's. That suffices to vary data, and gives the same bits everywhere.
    pub fn normal(&mut self) -> f32 {
        let bits = self.next_u64();
        let sum: u32 = (0..4).map(|lane| (bits >> (16 * lane)) as u32 & 0xffff).sum();
        // Four uniforms on 0..1 have mean 2 and variance 4/12.
        (sum as f32 / 65536.0 - (2.0 - 2.0 / 65536.0)) * 1.732_050_8
    }

    /// Shuffles a slice (Fisher-Yates): every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.range(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_splitmix64_sequence() {
        let mut random = Random { state: 1_234_567 };
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn keys_and_their_order_decide_every_number() {
        let draw = |keys: &[u64]| Random::keyed(keys).next_u64();
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1]), draw(&[1, 0]));
        assert_ne!(draw(&[0]), draw(&[0, 0]));
    }

    #[test]
    fn normal_numbers_have_mean_0_and_deviation_1() {
        let mut random = Random::keyed(&[7]);
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| f64::from(random.normal())).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.01, "variance {variance}");
        assert!(draws.iter().all(|d| d.abs() < 3.47));
    }

    #[test]
    fn ranges_are_uniform_and_respect_their_bound() {
        let mut random = Random::keyed(&[8]);
        let mut counts = [0; 7];
        for _ in 0..70_000 {
            counts[random.range(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&c: &i32| (c - 10_000).abs() < 500), "{counts:?}");
        assert!((0..1000).all(|_| random.unit() < 1.0));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::keyed(&[9]).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
