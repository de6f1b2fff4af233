use super::*;
use crate::layers::conv::Conv;
use crate::layers::pool::{PoolKind, Pooling};
use crate::seed::fill_uniform;
use crate::thread_pool::ThreadPool;

/// The sizes of a convolution, the means after it, and the examples.
struct FirstLayers {
    from: PaddedShape,
    between: Shape,
    to: PaddedShape,
    windows: Windows,
    count: usize,
}

/// The means, and the gradient by the parameters.
type MeansAndGradient = [Vec<f32>; 2];

impl FirstLayers {
    fn new(size: [usize; 2], outputs: usize, kernel: [usize; 2], count: usize) -> Self {
        let windows = Windows { kernel, stride: [1; 2], padding: kernel.map(|size| size / 2) };
        let [height, width] =
            [0, 1].map(|axis| size[axis] + 2 * windows.padding[axis] + 1 - kernel[axis]);
        Self {
            from: PaddedShape { shape: Shape::image(1, size[0], size[1]), border: [3, 2] },
            between: Shape::image(outputs, height, width),
            to: PaddedShape { shape: Shape::image(outputs, height / 2, width / 2), border: [1, 2] },
            windows,
            count,
        }
    }

    fn run(
        &self,
        conv: &dyn BufferedLayer,
        pool: &dyn BufferedLayer,
        threads: usize,
    ) -> MeansAndGradient {
        let drawn = |len: usize, salt: u64| {
            let mut values = vec![0.0; len];
            fill_uniform(salt, 0, 1.0, &mut values);
            values
        };
        let taps = self.windows.kernel[0] * self.windows.kernel[1];
        let params = drawn((taps + 1) * self.between.channels, 1);
        // The border too holds numbers: both layers must read the same part of it.
        let x = drawn(self.count * self.from.len(), 2);
        let dy = drawn(self.count * self.to.len(), 3);
        let threads = ThreadPool::new(threads).expect("threads start");
        let scratch = conv.scratch(self.count).max(pool.scratch(self.count));
        let mut scratch = vec![f32::NAN; scratch];
        let mut between = vec![0.0; self.count * self.between.values()];
        let (mut y, mut change) = (vec![0.0; dy.len()], between.clone());
        let mut grad = vec![f32::NAN; params.len()];
        threads.run(|| {
            let (pool_of, finish) = (&threads, &|_, _: &mut [f32]| {});
            let pass =
                &mut LayerPass { pool: pool_of, count: self.count, scratch: &mut scratch, finish };
            conv.forward(pass, &params, &x, &mut between);
            pool.forward(pass, &[], &between, &mut y);
            let inputs = BackwardInputs { x: &between, y: &y, dy: &dy };
            pool.input_gradient(pass, &[], inputs, &mut change);
            conv.param_gradient(pass, &x, &change, OutputMode::Overwrite, &mut grad);
            conv.param_gradient(pass, &x, &change, OutputMode::Add, &mut grad);
        });
        [y, grad]
    }
}

#[test]
fn planes_give_the_results_of_channels_that_lie_together_on_any_number_of_threads() {
    for (size, outputs, kernel, count) in [
        ([28, 28], 6, [5, 5], 17),
        ([4, 16], 1, [1, 1], 1),
        ([6, 35], 15, [3, 4], 9),
        ([8, 40], 8, [7, 3], 8),
    ] {
        let case = FirstLayers::new(size, outputs, kernel, count);
        let FirstLayers { from, between, to, windows, .. } = case;
        assert!(fits([from.shape, between], windows, Windows::square(2, 2)), "{size:?}");
        let conv = FirstConv::new(from, between, windows);
        let means = PlaneMeans::new(between, to);
        let results = case.run(&conv, &means, 1);
        assert!(case.run(&conv, &means, 3) == results, "{size:?}: the bits depend on threads");

        let together = PaddedShape { shape: between, border: [0; 2] };
        let conv = Conv::new(from, together, windows);
        let means = Pooling::regular(PoolKind::Mean, together, to, Windows::square(2, 2));
        for (got, wanted) in results.iter().zip(&case.run(&conv, &means, 1)) {
            let largest = wanted.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
            for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                let near = (got - wanted).abs() <= 3e-6 * largest;
                assert!(near, "{size:?}, {kernel:?}: {i} is {got}, not {wanted}");
            }
        }
    }
}

#[test]
fn sizes_alone_choose_the_planes() {
    let are_chosen = |channels: [usize; 2], [height, width]: [usize; 2], stride: usize| {
        let shapes = channels.map(|channels| Shape::image(channels, height, width));
        fits(shapes, Windows::square(1, stride), Windows::square(2, 2))
    };
    assert!(are_chosen([1, 6], [28, 28], 1));
    // More channels, enough outputs to fill a vector, short rows, odd sizes, a stride.
    assert!(!are_chosen([3, 6], [28, 28], 1));
    assert!(!are_chosen([1, 16], [28, 28], 1));
    assert!(!are_chosen([1, 6], [28, 14], 1));
    assert!(!are_chosen([1, 6], [27, 28], 1));
    assert!(!are_chosen([1, 6], [28, 27], 1));
    assert!(!are_chosen([1, 6], [28, 28], 2));
}
