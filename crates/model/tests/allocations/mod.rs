//! A step allocates nothing, whatever its layers and however it is made.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

use paceline_model::{
    AlexNet, Batch, Descent, FactorUpdate, Layer, LayerFactors, LayerKind, LayerPiece, LayerSink,
    Model, Network, OptimizerState, OutputMode, Sgd, Shape, WeightedFactors, Windows,
};

use super::golden::{batch, start};

/// Counts what a thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "an allocator's signature")]
// SAFETY: everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Memory) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations that this thread makes in `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Takes gradients and factors into memory that is there.
struct Taker<'a> {
    pieces: &'a [LayerPiece],
    params: &'a [f32],
    grad: &'a mut [f32],
    /// The factors of a piece, all inputs before all derivatives.
    factors: &'a mut [Vec<f32>],
}

impl LayerSink for Taker<'_> {
    fn gradient(&mut self, piece: usize) -> Option<&mut [f32]> {
        let LayerPiece { range, factors, .. } = &self.pieces[piece];
        factors.is_none().then(|| &mut self.grad[range.clone()])
    }

    fn gradient_done(&mut self, _: usize) {}

    fn factors(&mut self, piece: usize, factors: LayerFactors<'_>) {
        let (inputs, deltas) = self.factors[piece].split_at_mut(factors.inputs.len());
        inputs.copy_from_slice(factors.inputs);
        deltas.copy_from_slice(factors.deltas);
    }

    fn params(&self, piece: usize) -> &[f32] {
        &self.params[self.pieces[piece].range.clone()]
    }

    fn params_done(&mut self, _: usize) {}
}

fn networks(block: usize) -> [Network; 2] {
    let sizes = AlexNet { classes: 5, size: 63, widths: [3, 5, 7, 4, 4], hidden: 9, dropout: 0.5 };
    let grouped =
        LayerKind::Conv { outputs: 6, kernel: [3; 2], stride: [2; 2], padding: [1; 2], groups: 3 };
    let kinds = [
        // Both of these use Winograd's method.
        LayerKind::Conv { outputs: 18, kernel: [3; 2], stride: [1; 2], padding: [1; 2], groups: 1 },
        LayerKind::Conv { outputs: 18, kernel: [5; 2], stride: [1; 2], padding: [2; 2], groups: 1 },
        LayerKind::Tanh,
        LayerKind::Relu,
        LayerKind::MaxPool(Windows::square(2, 1)),
        LayerKind::Tanh,
        grouped,
        LayerKind::AveragePool(Windows::square(2, 2)),
        LayerKind::Dropout { rate: 0.25 },
        LayerKind::AdaptiveAveragePool { to: [2, 3] },
        LayerKind::Flatten,
        LayerKind::Dense { outputs: 11 },
        LayerKind::Tanh,
        LayerKind::Dense { outputs: 3 },
    ];
    let layers = kinds.iter().enumerate();
    let layers = layers.map(|(index, &kind)| Layer::new(&index.to_string(), kind)).collect();
    let every_kind = Network::new(Shape::image(16, 13, 11), layers, block, 1).unwrap();
    [sizes.network(block, 1).unwrap(), every_kind]
}

#[test]
fn a_step_allocates_nothing() {
    for mut model in networks(3) {
        let mut params = start(&model);
        let (x, labels) = batch(&model, 3, 0);
        let (block, len) = (Batch::dense(&x, &labels), params.len());
        let mut grad = vec![0.0; len];
        let at_once = allocations(|| {
            model.gradient(&params, block, 0.5, OutputMode::Overwrite, &mut grad);
        });
        assert_eq!(at_once, 0, "at once");
        let mut optimizer = OptimizerState::new(Sgd::new(0.1), model.layout(), 0..len);
        let descent = Descent { params: &mut params, optimizer: &mut optimizer, step: 0 };
        let in_place = allocations(|| {
            model.in_place().unwrap().descend(descent, block);
        });
        assert_eq!(in_place, 0, "in place");
    }
}

#[test]
fn a_step_in_layers_and_an_update_by_factors_allocate_nothing_after_the_first() {
    for mut model in networks(3) {
        let params = start(&model);
        let (x, labels) = batch(&model, 3, 0);
        let layout = model.layout().clone();
        let model = model.layered().unwrap();
        let pieces = model.pieces();
        let floats = |piece: &LayerPiece| piece.factors.map_or(0, |sizes| sizes.floats(3));
        let mut factors: Vec<_> = pieces.iter().map(|piece| vec![0.0; floats(piece)]).collect();
        let (mut updated, mut grad) = (params.clone(), vec![0.0; params.len()]);
        let mut optimizer = OptimizerState::new(Sgd::new(0.1), &layout, 0..params.len());
        let mut step = |step: u64| {
            let of_piece = &mut |piece: usize| Some(&params[pieces[piece].range.clone()]);
            model.forward_pass(Batch::dense(&x, &labels), 0.5, of_piece, &mut |_| {});
            let (grad, factors) = (&mut grad[..], &mut factors[..]);
            let mut sink = Taker { pieces: &pieces, params: &params, grad, factors };
            assert!(model.backward_pass(&mut sink, &mut |_| {}));
            let with_factors = pieces.iter().enumerate().filter(|(_, its)| its.factors.is_some());
            for (piece, LayerPiece { range, factors: sizes, .. }) in with_factors {
                let (inputs, deltas) = factors[piece].split_at(3 * sizes.unwrap().inputs);
                let factors = LayerFactors { inputs, deltas };
                let workers = &[WeightedFactors { factors, weight: 0.5 }; 2];
                let params = &mut updated[range.clone()];
                let optimizer = &mut optimizer;
                model.apply_factors(FactorUpdate { piece, workers, params, optimizer, step });
            }
        };
        step(0);
        assert_eq!(allocations(|| step(1)), 0);
    }
}
