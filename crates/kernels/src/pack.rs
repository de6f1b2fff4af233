//! Copies rows of a matrix into panels.

use pulp::{Simd, WithSimd};

use crate::panels::Panels;
use crate::prefetch::prefetch;

/// Copies a row of a panel and fills it up with zeros.
#[inline(always)]
pub fn copy_row<S: Simd>(simd: S, from: &[f32], to: &mut [f32]) {
    let (vectors, rest) = S::as_simd_f32s(from);
    let to = S::as_mut_simd_f32s(to).0;
    let (whole, last) = to.split_at_mut(vectors.len());
    for (to, from) in whole.iter_mut().zip(vectors) {
        *to = *from;
    }
    for last in last {
        *last = simd.partial_load_f32s(rest);
    }
}

/// Packs `rows` rows of a matrix, `stride` numbers apart, into panels of columns.
pub fn pack_panels(panels: Panels, from: &[f32], stride: usize, rows: usize, packed: &mut [f32]) {
    panels.vectors().dispatch(PackPanels { panels, from, stride, rows, packed });
}

/// How many rows before its turn a row is prefetched: the processor does not predict the access.
const AHEAD: usize = 2;
/// Values of a cache line.
const LINE: usize = 16;

struct PackPanels<'a> {
    panels: Panels,
    from: &'a [f32],
    stride: usize,
    rows: usize,
    packed: &'a mut [f32],
}

impl WithSimd for PackPanels<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for row in 0..self.rows {
            let ahead = (row + AHEAD).min(self.rows) * self.stride;
            for line in (0..self.panels.columns()).step_by(LINE) {
                prefetch(self.from, ahead + line);
            }
            let from = &self.from[row * self.stride..];
            for panel in self.panels.iter() {
                let from = &from[panel.column..][..panel.used];
                let to = &mut self.packed[panel.start + row * panel.width..][..panel.width];
                copy_row(simd, from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_packed_and_the_padding_is_zero() {
        for (rows, columns, stride) in [(1, 1, 1), (3, 7, 9), (5, 16, 16), (9, 37, 50), (2, 70, 71)]
        {
            let panels = Panels::new(rows, columns);
            let value = |row: usize, column: usize| (row * 100 + column + 1) as f32;
            let mut from = vec![f32::NAN; (rows - 1) * stride + columns];
            for row in 0..rows {
                for column in 0..columns {
                    from[row * stride + column] = value(row, column);
                }
            }
            let mut packed = vec![f32::NAN; panels.len()];
            pack_panels(panels, &from, stride, rows, &mut packed);
            for panel in panels.iter() {
                for (row, packed) in
                    packed[panel.start..].chunks(panel.width).take(rows).enumerate()
                {
                    for (column, got) in packed.iter().enumerate() {
                        let is_there = column < panel.used;
                        let wanted = if is_there { value(row, panel.column + column) } else { 0.0 };
                        assert_eq!(*got, wanted, "{rows}x{columns}: {row},{column}");
                    }
                }
            }
        }
    }
}
