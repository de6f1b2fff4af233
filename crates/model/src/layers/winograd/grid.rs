//! The tiles of an image.

use std::ops::Range;

use crate::kernels::winograd::TILE;
use crate::layers::PaddedShape;

/// The tiles of an image, one for every `step x step` pixels of the result.
#[derive(Clone, Copy)]
pub(super) struct TileGrid {
    rows: usize,
    columns: usize,
    step: usize,
}

/// A tile's place: its first pixel, in the result.
#[derive(Clone, Copy)]
pub(super) struct TilePlace {
    pub(super) y: usize,
    pub(super) x: usize,
}

impl TileGrid {
    /// The tiles for a result of a shape.
    pub(super) fn new(result: PaddedShape, step: usize) -> Self {
        let [rows, columns] =
            [result.shape.height, result.shape.width].map(|pixels| pixels.div_ceil(step));
        Self { rows, columns, step }
    }

    /// The number of tiles.
    pub(super) fn count(&self) -> usize {
        self.rows * self.columns
    }

    /// All tiles, row by row.
    #[inline(always)]
    pub(super) fn places(self) -> impl Iterator<Item = TilePlace> {
        (0..self.count()).map(move |tile| TilePlace {
            y: tile / self.columns * self.step,
            x: tile % self.columns * self.step,
        })
    }
}

/// The part of `size` pixels from `start - before` on that is inside an image, counted from there.
#[inline(always)]
pub(super) fn inside(start: usize, before: isize, size: usize, pixels: usize) -> Range<usize> {
    let first = start as isize - before;
    let clamp = |place: isize| place.clamp(0, size as isize) as usize;
    clamp(-first)..clamp(pixels as isize - first)
}

/// The pixels that a tile reads, in one image.
pub(super) struct TileWindow {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
    /// The offset of the tile's first pixel inside the image.
    corner: usize,
    row: usize,
    channels: usize,
}

impl TileWindow {
    /// A tile that begins `before` pixels up and left of its place.
    #[inline(always)]
    pub(super) fn new(image: PaddedShape, place: TilePlace, before: [isize; 2]) -> Self {
        Self::of_size(image, place, before, TILE)
    }

    /// As [`TileWindow::new`], of `size` pixels each way.
    #[inline(always)]
    pub(super) fn of_size(
        image: PaddedShape,
        place: TilePlace,
        before: [isize; 2],
        size: usize,
    ) -> Self {
        let rows = inside(place.y, before[0], size, image.shape.height);
        let columns = inside(place.x, before[1], size, image.shape.width);
        let y = (place.y as isize - before[0] + rows.start as isize).max(0) as usize;
        let x = (place.x as isize - before[1] + columns.start as isize).max(0) as usize;
        let corner = image.at(y, x);
        Self { rows, columns, corner, row: image.row(), channels: image.shape.channels }
    }

    /// The offset of a pixel, which is inside the image.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        self.corner
            + (row - self.rows.start) * self.row
            + (column - self.columns.start) * self.channels
    }
}
