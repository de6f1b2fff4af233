//! Bare matrix products by the crate `gemm`, for comparison in `bench step` and `bench layers`.
//!
//! The feature `bench-gemm` builds them. It is off by default because `gemm` takes long to
//! compile and nothing else needs it.

/// Whether the program was built with `gemm`.
pub(crate) const ENABLED: bool = cfg!(feature = "bench-gemm");

/// A hint for programs built without `gemm`.
pub(crate) const NOTE: &str = if ENABLED {
    ""
} else {
    "for the comparison with bare products: cargo build --release --features bench-gemm\n"
};

/// A dense matrix: its values, and the strides between rows and between columns.
pub(crate) struct MatrixView<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) strides: [isize; 2],
}

/// `out = left * right` for sizes [m, n, k]; `out` is stored row after row. Only called when
/// [`ENABLED`].
#[cfg(not(feature = "bench-gemm"))]
pub(crate) fn product(_: [usize; 3], _: &mut [f32], left: &MatrixView<'_>, _: &MatrixView<'_>) {
    unreachable!("no gemm for {} values, strides {:?}", left.values.len(), left.strides);
}

/// `out = left * right` for sizes [m, n, k]; `out` is stored row after row.
#[cfg(feature = "bench-gemm")]
#[expect(unsafe_code, reason = "the crate gemm takes raw pointers")]
pub(crate) fn product(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    left: &MatrixView<'_>,
    right: &MatrixView<'_>,
) {
    assert_eq!((out.len(), left.values.len(), right.values.len()), (m * n, m * k, k * n));
    // SAFETY: the three slices are exactly as large as the sizes say, their strides are those
    // of dense matrices of these sizes, and `out` is borrowed mutably, so it overlaps neither.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            left.values.as_ptr(),
            left.strides[1],
            left.strides[0],
            right.values.as_ptr(),
            right.strides[1],
            right.strides[0],
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
