//! The transforms of Winograd's convolution, in one direction.
//!
//! A convolution of N outputs by T taps, N + T = 7, takes six products instead of N * T: of the
//! six transformed values, with the six transformed taps; a last transform turns the products
//! into the outputs. The products are the values of two polynomials at six points, whose
//! product the last transform interpolates. The points are 0, ±`NEAR`, ±`FAR` and infinity.
//! Sums of products over channels, or over tiles, are taken before the last transform.

use pulp::Simd;

/// Values of a tile in one direction, and of its transform.
pub const TILE: usize = 6;
/// Values of a whole tile.
pub const TILE_VALUES: usize = TILE * TILE;

/// The inner pair of points. With the usual 1 and 2 the error would be about three times that with
/// 3/4 and 3/2 (docs/decisions/winograd.md).
const NEAR: f32 = 0.75;
/// The outer pair of points.
const FAR: f32 = 1.5;

const NEAR2: f32 = NEAR * NEAR;
const FAR2: f32 = FAR * FAR;

/// `a * b + c` for a constant factor.
#[inline(always)]
fn add_scaled<S: Simd>(simd: S, scale: f32, value: S::f32s, sum: S::f32s) -> S::f32s {
    simd.mul_add_e_f32s(simd.splat_f32s(scale), value, sum)
}

/// Transforms six values.
#[inline(always)]
pub fn transform_values<S: Simd>(simd: S, d: [S::f32s; TILE]) -> [S::f32s; TILE] {
    let near_even = add_scaled(simd, -FAR2, d[2], d[4]);
    let near_odd = add_scaled(simd, -FAR2, d[1], d[3]);
    let far_even = add_scaled(simd, -NEAR2, d[2], d[4]);
    let far_odd = add_scaled(simd, -NEAR2, d[1], d[3]);
    let first = add_scaled(simd, -(NEAR2 + FAR2), d[2], d[4]);
    let last = add_scaled(simd, -(NEAR2 + FAR2), d[3], d[5]);
    [
        add_scaled(simd, NEAR2 * FAR2, d[0], first),
        add_scaled(simd, NEAR, near_odd, near_even),
        add_scaled(simd, -NEAR, near_odd, near_even),
        add_scaled(simd, FAR, far_odd, far_even),
        add_scaled(simd, -FAR, far_odd, far_even),
        add_scaled(simd, NEAR2 * FAR2, d[1], last),
    ]
}

/// The polynomial of `T` taps at a point and at its negative, times a factor.
#[inline(always)]
fn at_both<S: Simd, const T: usize>(
    simd: S,
    taps: [S::f32s; T],
    point: f32,
    scale: f32,
) -> [S::f32s; 2] {
    let mut parts = [simd.splat_f32s(0.0); 2];
    let mut power = scale;
    for (index, &tap) in taps.iter().enumerate() {
        parts[index % 2] = add_scaled(simd, power, tap, parts[index % 2]);
        power *= point;
    }
    let [even, odd] = parts;
    [simd.add_f32s(even, odd), simd.sub_f32s(even, odd)]
}

/// Transforms `T` taps.
#[inline(always)]
pub fn transform_taps<S: Simd, const T: usize>(simd: S, taps: [S::f32s; T]) -> [S::f32s; TILE] {
    let near = at_both(simd, taps, NEAR, 1.0 / (2.0 * NEAR2 * (NEAR2 - FAR2)));
    let far = at_both(simd, taps, FAR, 1.0 / (2.0 * FAR2 * (FAR2 - NEAR2)));
    let zero = simd.mul_f32s(simd.splat_f32s(1.0 / (NEAR2 * FAR2)), taps[0]);
    [zero, near[0], near[1], far[0], far[1], taps[T - 1]]
}

/// Turns sums of six products into `N` outputs.
#[inline(always)]
pub fn transform_sums<S: Simd, const N: usize>(simd: S, sums: [S::f32s; TILE]) -> [S::f32s; N] {
    let near = [simd.add_f32s(sums[1], sums[2]), simd.sub_f32s(sums[1], sums[2])];
    let far = [simd.add_f32s(sums[3], sums[4]), simd.sub_f32s(sums[3], sums[4])];
    let (mut near_power, mut far_power) = (1.0, 1.0);
    let mut outputs = [simd.splat_f32s(0.0); N];
    outputs[0] = sums[0];
    outputs[N - 1] = simd.add_f32s(outputs[N - 1], sums[TILE - 1]);
    for (n, output) in outputs.iter_mut().enumerate() {
        *output = add_scaled(simd, near_power, near[n % 2], *output);
        *output = add_scaled(simd, far_power, far[n % 2], *output);
        (near_power, far_power) = (near_power * NEAR, far_power * FAR);
    }
    outputs
}

/// A column of a square, given row by row.
#[inline(always)]
pub fn column<V: Copy, const N: usize, const M: usize>(
    rows: &[[V; N]; M],
    column: usize,
) -> [V; M] {
    let mut values = [rows[0][column]; M];
    for (value, row) in values.iter_mut().zip(rows) {
        *value = row[column];
    }
    values
}
