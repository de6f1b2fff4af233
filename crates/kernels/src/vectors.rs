//! Which of the processor's vector instructions the kernels use.
//!
//! Products of matrices run with the widest vectors: there are more registers for larger tiles.
//! Everything else runs with vectors of at most eight numbers, which are as fast where memory sets
//! the pace, and have shorter tails.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use pulp::Scalar;
use pulp::{Arch, Simd, WithSimd};

/// Set in tests and benches to keep to vectors of at most eight numbers.
const NARROW: &str = "PACELINE_TEST_NARROW_VECTORS";

/// The most vectors of a tile's row.
#[inline]
pub const fn vectors<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 4 } else { 2 }
}

/// The widest vectors that the processor has.
#[inline]
pub fn widest() -> Arch {
    static IS_NARROW: OnceLock<bool> = OnceLock::new();
    if *IS_NARROW.get_or_init(|| std::env::var_os(NARROW).is_some()) {
        return narrow().arch();
    }
    Arch::new()
}

/// Vectors of at most eight numbers.
#[inline]
pub fn narrow() -> NarrowVectors {
    #[cfg(target_arch = "x86_64")]
    return NarrowVectors(pulp::x86::V3::try_new());
    #[cfg(not(target_arch = "x86_64"))]
    NarrowVectors(Arch::new())
}

/// The processor's vectors of at most eight numbers, if it has any. No code is generated for wider
/// ones, which an [`Arch`] could have too.
#[derive(Clone, Copy, Debug)]
pub struct NarrowVectors(
    #[cfg(target_arch = "x86_64")] Option<pulp::x86::V3>,
    #[cfg(not(target_arch = "x86_64"))] Arch,
);

impl NarrowVectors {
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn arch(self) -> Arch {
        self.0.map_or(Arch::Scalar, Arch::V3)
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    fn arch(self) -> Arch {
        self.0
    }

    /// Runs a kernel with these vectors.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn dispatch<K: WithSimd>(self, kernel: K) -> K::Output {
        match self.0 {
            Some(simd) => Simd::vectorize(simd, kernel),
            None => Simd::vectorize(Scalar, kernel),
        }
    }

    /// Runs a kernel with these vectors.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub fn dispatch<K: WithSimd>(self, kernel: K) -> K::Output {
        self.0.dispatch(kernel)
    }
}

/// The vectors that a matrix is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vectors {
    is_narrow: bool,
    /// Numbers of one vector.
    pub lanes: usize,
    /// Vectors in a row of a tile.
    pub in_row: usize,
}

impl Vectors {
    /// The vectors for a matrix of some columns: the widest that are not half empty.
    #[inline]
    pub fn for_columns(columns: usize) -> Self {
        let (wide, thin) = (Self::of(widest(), false), Self::of(narrow().arch(), true));
        if columns <= thin.lanes { thin } else { wide }
    }

    #[inline]
    fn of(arch: Arch, is_narrow: bool) -> Self {
        struct Sizes;
        impl WithSimd for Sizes {
            type Output = (usize, usize);
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
                (S::F32_LANES, vectors::<S>())
            }
        }
        let (lanes, in_row) = arch.dispatch(Sizes);
        Self { is_narrow, lanes, in_row }
    }

    /// Runs a kernel with these vectors.
    #[inline]
    pub fn dispatch<K: WithSimd>(self, kernel: K) -> K::Output {
        let arch = if self.is_narrow { narrow().arch() } else { widest() };
        arch.dispatch(kernel)
    }
}
