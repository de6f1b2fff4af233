//! The three passes of a convolution by Winograd's method.

use super::grid::TileGrid;
use super::outputs::{TransformTiles, TransformWeights};
use super::values::{TransformImage, TransformOutputGrad};
use crate::kernels::OutputMode;
use crate::kernels::panels::Panels;
use crate::kernels::tile::{MemoryRun, RowsTimesPanel};
use crate::kernels::vectors::widest;
use crate::kernels::winograd::TILE_VALUES;
use crate::kernels::winograd_filters::{Direction, TransformKernels};
use crate::kernels::winograd_sums::SumOverTiles;
use crate::layers::conv::Conv;
use crate::layers::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use crate::layers::{PaddedShape, Windows};
use crate::thread_pool::ThreadPool;

/// Tiles that are transformed at a time, if images are not larger: enough rows for the products,
/// and few enough for them to stay in the cache.
const TILES: usize = 128;

/// A convolution of `TAPS x TAPS` with a stride of 1, which computes `STEP x STEP` outputs at a
/// time. `TAPS + STEP` is 7.
pub(crate) struct WinogradConv<const TAPS: usize, const STEP: usize> {
    conv: Conv,
    from: PaddedShape,
    to: PaddedShape,
    padding: [usize; 2],
}

/// A convolution in one direction.
struct DirectedConv {
    direction: Direction,
    from: PaddedShape,
    to: PaddedShape,
    /// How far a tile begins before its place.
    before: [isize; 2],
    grid: TileGrid,
    /// The transformed kernels, for each of the 36 values.
    kernels: Panels,
}

impl DirectedConv {
    /// Examples that are transformed at a time, of `count`.
    fn together(&self, count: usize) -> usize {
        let most = TILES.div_ceil(self.grid.count()).min(count).max(1);
        count.div_ceil(count.div_ceil(most).max(1)).max(1)
    }

    /// Numbers of one example's tiles.
    fn tiles(&self) -> usize {
        TILE_VALUES * self.grid.count() * self.from.shape.channels
    }

    /// Numbers of one example's sums.
    fn sums(&self) -> usize {
        TILE_VALUES * self.grid.count() * self.kernels.stored_columns()
    }

    fn scratch(&self, count: usize) -> usize {
        TILE_VALUES * self.kernels.len() + self.together(count) * (self.tiles() + self.sums())
    }

    fn transform_images(&self, pool: &ThreadPool, from: &[f32], tiles: &mut [f32]) {
        pool.for_each_piece(tiles, self.tiles(), |example, tiles| {
            widest().dispatch(TransformImage {
                grid: self.grid,
                shape: self.from,
                before: self.before,
                image: &from[example * self.from.len()..][..self.from.len()],
                tiles,
            });
        });
    }

    /// One of the 36 products: the rows are the tiles of some images.
    fn multiply(&self, value: usize, kernels: &[f32], tiles: &[f32], sums: &mut [f32]) {
        let (depth, stored) = (self.from.shape.channels, self.kernels.stored_columns());
        let (count, values) = (self.grid.count(), self.tiles() / TILE_VALUES);
        for panel in self.kernels.iter() {
            let start = TILE_VALUES * panel.start + value * depth * panel.width;
            RowsTimesPanel {
                count: sums.len() / stored,
                place: &|row: usize| {
                    let (image, tile) = (row / count, row % count);
                    let matrix = (image * TILE_VALUES + value) * values;
                    (matrix + tile * depth, row * stored + panel.column)
                },
                left: tiles,
                runs: &[MemoryRun { start: 0, len: depth }],
                right: &kernels[start..][..depth * panel.width],
                panel,
                used: panel.width,
                spills: false,
                start: &[],
                mode: OutputMode::Overwrite,
                out: sums,
            }
            .run();
        }
    }

    fn run<const TAPS: usize, const STEP: usize>(
        &self,
        pass: &mut LayerPass<'_>,
        params: ConvParams<'_>,
        from: &[f32],
        to: &mut [f32],
    ) {
        let (pool, count, together) = (pass.pool, pass.count, self.together(pass.count));
        let (kernels, rest) = pass.scratch.split_at_mut(TILE_VALUES * self.kernels.len());
        let (tiles, rest) = rest.split_at_mut(together * self.tiles());
        let sums = &mut rest[..together * self.sums()];
        let depth = self.from.shape.channels;
        let piece = TILE_VALUES * depth * self.kernels.full();
        pool.for_each_piece(kernels, piece, |index, kernels| {
            self.kernels.vectors().dispatch(TransformKernels::<TAPS> {
                direction: self.direction,
                weights: params.weights,
                inputs: params.inputs,
                panel: self.kernels.get(index),
                depth,
                kernels,
            });
        });
        let kernels = &*kernels;
        let froms = from[..count * self.from.len()].chunks(together * self.from.len());
        let tos = to[..count * self.to.len()].chunks_mut(together * self.to.len());
        for (nth, (from, to)) in froms.zip(tos).enumerate() {
            let images = to.len() / self.to.len();
            let tiles = &mut tiles[..images * self.tiles()];
            self.transform_images(pool, from, tiles);
            let (tiles, sums) = (&*tiles, &mut sums[..images * self.sums()]);
            let plane = sums.len() / TILE_VALUES;
            pool.for_each_piece(sums, plane, |value, sums| {
                self.multiply(value, kernels, tiles, sums);
            });
            let (sums, row) = (&*sums, self.kernels.stored_columns());
            pool.for_each_piece(to, self.to.len(), |example, image| {
                self.kernels.vectors().dispatch(TransformTiles::<STEP> {
                    grid: self.grid,
                    shape: self.to,
                    sums: &sums[example * self.grid.count() * row..],
                    row,
                    plane,
                    bias: params.bias,
                    image,
                });
                (pass.finish)(nth * together + example, image);
            });
        }
    }
}

/// The parameters of a convolution.
#[derive(Clone, Copy)]
struct ConvParams<'a> {
    inputs: usize,
    weights: &'a [f32],
    bias: &'a [f32],
}

impl<const TAPS: usize, const STEP: usize> WinogradConv<TAPS, STEP> {
    /// Plans a convolution.
    pub(crate) fn new(from: PaddedShape, to: PaddedShape, padding: [usize; 2]) -> Self {
        let windows = Windows { kernel: [TAPS; 2], stride: [1; 2], padding };
        Self { conv: Conv::new(from, to, windows), from, to, padding }
    }

    fn weights(&self) -> usize {
        self.from.shape.channels * self.to.shape.channels * TAPS * TAPS
    }

    fn forwards(&self) -> DirectedConv {
        DirectedConv {
            direction: Direction::Forward,
            from: self.from,
            to: self.to,
            before: self.padding.map(|padding| padding as isize),
            grid: TileGrid::new(self.to, STEP),
            kernels: Panels::new(self.from.shape.channels, self.to.shape.channels),
        }
    }

    fn backwards(&self) -> DirectedConv {
        DirectedConv {
            direction: Direction::Backward,
            from: self.to,
            to: self.from,
            before: self.padding.map(|padding| TAPS as isize - 1 - padding as isize),
            grid: TileGrid::new(self.from, STEP),
            kernels: Panels::new(self.to.shape.channels, self.from.shape.channels),
        }
    }

    /// The matrix of one example's tiles by outputs, for the gradient by the weights.
    fn output_tiles(&self, forwards: &DirectedConv) -> Panels {
        Panels::new(forwards.grid.count(), self.to.shape.channels)
    }

    fn weight_gradient_scratch(&self, count: usize) -> usize {
        let forwards = self.forwards();
        let example = forwards.tiles() + TILE_VALUES * self.output_tiles(&forwards).len();
        let sums = TILE_VALUES * forwards.kernels.len();
        sums + forwards.together(count) * example + count * self.to.shape.channels
    }
}

impl<const TAPS: usize, const STEP: usize> BufferedLayer for WinogradConv<TAPS, STEP> {
    fn scratch(&self, count: usize) -> usize {
        let passes = self.forwards().scratch(count).max(self.backwards().scratch(count));
        passes.max(self.weight_gradient_scratch(count))
    }

    fn forward(&self, pass: &mut LayerPass<'_>, params: &[f32], x: &[f32], y: &mut [f32]) {
        let (weights, bias) = params.split_at(self.weights());
        let params = ConvParams { inputs: self.from.shape.channels, weights, bias };
        self.forwards().run::<TAPS, STEP>(pass, params, x, y);
    }

    fn input_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        params: &[f32],
        from: BackwardInputs<'_>,
        dx: &mut [f32],
    ) {
        let weights = &params[..self.weights()];
        let params = ConvParams { inputs: self.from.shape.channels, weights, bias: &[] };
        self.backwards().run::<TAPS, STEP>(pass, params, from.dy, dx);
    }

    fn param_gradient(
        &self,
        pass: &mut LayerPass<'_>,
        x: &[f32],
        dy: &[f32],
        mode: OutputMode,
        grad: &mut [f32],
    ) {
        let forwards = self.forwards();
        let panels = self.output_tiles(&forwards);
        let (pool, count, together) = (pass.pool, pass.count, forwards.together(pass.count));
        let (inputs, outputs) = (self.from.shape.channels, self.to.shape.channels);
        let (sums, rest) = pass.scratch.split_at_mut(TILE_VALUES * forwards.kernels.len());
        let (x_tiles, rest) = rest.split_at_mut(together * forwards.tiles());
        let (dy_tiles, rest) = rest.split_at_mut(together * TILE_VALUES * panels.len());
        let xs = x[..count * self.from.len()].chunks(together * self.from.len());
        let dys = dy[..count * self.to.len()].chunks(together * self.to.len());
        let mut sums_mode = OutputMode::Overwrite;
        for (x, dy) in xs.zip(dys) {
            let images = dy.len() / self.to.len();
            let x_tiles = &mut x_tiles[..images * forwards.tiles()];
            forwards.transform_images(pool, x, x_tiles);
            let dy_tiles = &mut dy_tiles[..images * TILE_VALUES * panels.len()];
            pool.for_each_piece(dy_tiles, TILE_VALUES * panels.len(), |example, tiles| {
                panels.vectors().dispatch(TransformOutputGrad::<STEP> {
                    grid: forwards.grid,
                    shape: self.to,
                    panels,
                    image: &dy[example * self.to.len()..][..self.to.len()],
                    tiles,
                });
            });
            let (x, dy) = (&*x_tiles, &*dy_tiles);
            pool.for_each_piece(sums, forwards.kernels.len(), |value, sums| {
                let mode = sums_mode;
                panels.vectors().dispatch(SumOverTiles {
                    value,
                    images,
                    inputs,
                    x,
                    panels,
                    dy,
                    mode,
                    sums,
                });
            });
            sums_mode = OutputMode::Add;
        }
        let (weights, bias) = grad.split_at_mut(self.weights());
        let (sums, some) = (&*sums, panels.full());
        pool.for_each_piece(weights, some * inputs * TAPS * TAPS, |task, weights| {
            panels.vectors().dispatch(TransformWeights::<TAPS> {
                sums,
                inputs,
                stored: panels.stored_columns(),
                first: task * some,
                mode,
                weights,
            });
        });
        self.conv.bias_gradient(pool, dy, &mut rest[..count * outputs], mode, bias);
    }
}
