//! The passes at odd sizes, next to the definition of a convolution in double precision.

use super::{WinogradConv, winograd};
use crate::kernels::OutputMode;
use crate::layers::conv::Conv;
use crate::layers::layer_op::{BackwardInputs, BufferedLayer, LayerPass};
use crate::layers::{PaddedShape, Shape, Windows};
use crate::seed::fill_uniform;
use crate::thread_pool::ThreadPool;

/// A convolution of some images, with a value of every kind.
struct Case {
    from: PaddedShape,
    to: PaddedShape,
    taps: usize,
    padding: [usize; 2],
    count: usize,
    params: Vec<f32>,
    x: Vec<f32>,
    dy: Vec<f32>,
}

/// The result of all passes.
#[derive(PartialEq)]
struct Results {
    y: Vec<f32>,
    dx: Vec<f32>,
    grad: Vec<f32>,
}

/// The same by the definition.
struct Exact {
    y: Vec<f64>,
    dx: Vec<f64>,
    grad: Vec<f64>,
}

fn drawn(len: usize, salt: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    fill_uniform(salt, 0, 1.0, &mut values);
    values
}

impl Case {
    fn new(channels: [usize; 2], size: [usize; 2], taps: usize, padding: [usize; 2]) -> Self {
        let count = if size[0].is_multiple_of(2) { 1 } else { 3 };
        let from =
            PaddedShape { shape: Shape::image(channels[0], size[0], size[1]), border: padding };
        let [height, width] = [0, 1].map(|axis| size[axis] + 2 * padding[axis] + 1 - taps);
        let to = PaddedShape { shape: Shape::image(channels[1], height, width), border: [1, 2] };
        let params = drawn(channels[0] * channels[1] * taps * taps + channels[1], 1);
        let mut x = vec![0.0; count * from.len()];
        let values = drawn(x.len(), 2);
        for example in 0..count {
            for y in 0..size[0] {
                let at = example * from.len() + from.at(y, 0);
                let row = at..at + size[1] * channels[0];
                x[row.clone()].copy_from_slice(&values[row]);
            }
        }
        // The border of a gradient is unspecified.
        let dy = drawn(count * to.len(), 3);
        Self { from, to, taps, padding, count, params, x, dy }
    }

    fn run(&self, layer: &dyn BufferedLayer, threads: usize) -> Results {
        let pool = ThreadPool::new(threads).expect("threads start");
        let mut scratch = vec![f32::NAN; layer.scratch(self.count)];
        let mut y = vec![0.0; self.count * self.to.len()];
        let mut dx = vec![0.0; self.count * self.from.len()];
        let mut grad = vec![f32::NAN; self.params.len()];
        pool.run(|| {
            let pass = &mut LayerPass {
                pool: &pool,
                count: self.count,
                scratch: &mut scratch,
                finish: &|_, _| {},
            };
            layer.forward(pass, &self.params, &self.x, &mut y);
            let inputs = BackwardInputs { x: &self.x, y: &y, dy: &self.dy };
            layer.input_gradient(pass, &self.params, inputs, &mut dx);
            layer.param_gradient(pass, &self.x, &self.dy, OutputMode::Overwrite, &mut grad);
        });
        Results { y, dx, grad }
    }

    /// Calls `work` with the indices of output, input, weight and bias for every product.
    fn each_product(&self, mut work: impl FnMut(usize, usize, usize, usize)) {
        let (from, to, taps) = (self.from, self.to, self.taps);
        let inputs = from.shape.channels;
        for example in 0..self.count {
            for (y, x, output) in triples(to.shape) {
                for (ky, kx, input) in triples(Shape::image(inputs, taps, taps)) {
                    let (row, column) = (y + ky, x + kx);
                    let inside = (self.padding[0]..self.padding[0] + from.shape.height)
                        .contains(&row)
                        && (self.padding[1]..self.padding[1] + from.shape.width).contains(&column);
                    if inside {
                        let at = from.at(row - self.padding[0], column - self.padding[1]);
                        work(
                            example * to.len() + to.at(y, x) + output,
                            example * from.len() + at + input,
                            ((output * inputs + input) * taps + ky) * taps + kx,
                            output,
                        );
                    }
                }
            }
        }
    }

    fn exact(&self) -> Exact {
        let weights = self.params.len() - self.to.shape.channels;
        let mut exact = Exact {
            y: vec![0.0; self.count * self.to.len()],
            dx: vec![0.0; self.x.len()],
            grad: vec![0.0; self.params.len()],
        };
        let wide = |value: f32| f64::from(value);
        self.each_product(|y, x, weight, _| {
            exact.y[y] += wide(self.x[x]) * wide(self.params[weight]);
            exact.dx[x] += wide(self.dy[y]) * wide(self.params[weight]);
            exact.grad[weight] += wide(self.dy[y]) * wide(self.x[x]);
        });
        for example in 0..self.count {
            for (y, x, output) in triples(self.to.shape) {
                let at = example * self.to.len() + self.to.at(y, x) + output;
                exact.y[at] += wide(self.params[weights + output]);
                exact.grad[weights + output] += wide(self.dy[at]);
            }
        }
        exact
    }
}

/// Rows, columns and channels of a shape.
fn triples(shape: Shape) -> impl Iterator<Item = (usize, usize, usize)> {
    let pixel = shape.width * shape.channels;
    (0..shape.values()).map(move |i| (i / pixel, i % pixel / shape.channels, i % shape.channels))
}

/// The largest error, as a part of the largest value.
fn error(got: &[f32], exact: &[f64]) -> f64 {
    let largest = exact.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
    let pairs = got.iter().zip(exact);
    let error = pairs.map(|(got, exact)| (f64::from(*got) - exact).abs()).fold(0.0, f64::max);
    error / largest
}

fn check(case: &Case, layer: &dyn BufferedLayer) {
    let results = case.run(layer, 1);
    let what =
        format!("{} to {}, {} taps, {:?}", case.from.shape, case.to.shape, case.taps, case.padding);
    assert!(case.run(layer, 3) == results, "{what}: the bits depend on threads");
    let exact = case.exact();
    let inner = |values: &[f32], place: PaddedShape| inside(values, place, case.count);
    let wide = |values: &[f64], place: PaddedShape| inside(values, place, case.count);
    let errors = [
        error(&results.y, &exact.y),
        error(&inner(&results.dx, case.from), &wide(&exact.dx, case.from)),
        error(&results.grad, &exact.grad),
    ];
    assert!(errors.iter().all(|error| *error < 1e-5), "{what}: errors {errors:?}");
}

/// The values without the border.
fn inside<T: Copy>(values: &[T], place: PaddedShape, count: usize) -> Vec<T> {
    (0..count)
        .flat_map(|example| {
            triples(place.shape).map(move |(y, x, c)| example * place.len() + place.at(y, x) + c)
        })
        .map(|at| values[at])
        .collect()
}

#[test]
fn all_passes_agree_with_the_definition_at_odd_sizes_on_any_number_of_threads() {
    let channels = [[1, 1], [3, 5], [8, 16], [17, 9], [19, 35], [33, 70]];
    let sizes = [[5, 7], [6, 6], [9, 4], [13, 13], [8, 11]];
    for channels in channels {
        for size in sizes {
            for padding in [[0, 0], [1, 1], [2, 1], [3, 4]] {
                let case = Case::new(channels, size, 3, padding);
                check(&case, &WinogradConv::<3, 4>::new(case.from, case.to, padding));
            }
            for padding in [[2, 2], [1, 3], [4, 5]] {
                let case = Case::new(channels, size, 5, padding);
                check(&case, &WinogradConv::<5, 2>::new(case.from, case.to, padding));
            }
        }
    }
}

/// The root of the mean square error, as a part of that of the values.
fn mean_error(got: &[f32], exact: &[f64]) -> f64 {
    let square = |sum: f64, value: f64| sum + value * value;
    let pairs = got.iter().zip(exact);
    let errors = pairs.map(|(got, exact)| f64::from(*got) - exact).fold(0.0, square);
    (errors / exact.iter().copied().fold(0.0, square)).sqrt()
}

/// The errors of the output, the gradient by the input and that by the weights.
fn mean_errors(case: &Case, layer: &dyn BufferedLayer, exact: &Exact) -> [f64; 3] {
    let Results { y, dx, grad } = case.run(layer, 1);
    let dx = inside(&dx, case.from, case.count);
    let exact_dx = inside(&exact.dx, case.from, case.count);
    [mean_error(&y, &exact.y), mean_error(&dx, &exact_dx), mean_error(&grad, &exact.grad)]
}

#[test]
fn the_error_is_a_small_multiple_of_that_of_plain_sums() {
    for (taps, channels) in [(3, [192, 64]), (5, [64, 96])] {
        let padding = [taps / 2; 2];
        let case = Case::new(channels, [13, 13], taps, padding);
        let exact = case.exact();
        let windows = Windows { kernel: [taps; 2], stride: [1; 2], padding };
        let plain = mean_errors(&case, &Conv::new(case.from, case.to, windows), &exact);
        let fast = if taps == 3 {
            mean_errors(&case, &WinogradConv::<3, 4>::new(case.from, case.to, padding), &exact)
        } else {
            mean_errors(&case, &WinogradConv::<5, 2>::new(case.from, case.to, padding), &exact)
        };
        let text = |errors: [f64; 3]| errors.map(|error| format!("{error:.1e}")).join(", ");
        println!("{taps}x{taps}: {}; by plain sums {}", text(fast), text(plain));
        for (fast, plain) in fast.iter().zip(plain) {
            assert!(*fast < 8.0 * plain && *fast < 2e-6, "{taps} taps: {fast:e} and {plain:e}");
        }
    }
}

#[test]
fn sizes_alone_choose_the_method() {
    let shape =
        |channels, size| PaddedShape { shape: Shape::image(channels, size, size), border: [3; 2] };
    let windows = |kernel, stride, padding| Windows {
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
    };
    let is_chosen = |from, to, windows| winograd(from, to, windows).is_some();
    assert!(is_chosen(shape(192, 13), shape(384, 13), windows(3, 1, 1)));
    assert!(is_chosen(shape(64, 27), shape(192, 27), windows(5, 1, 2)));
    // Too few channels, a stride, a kernel without a transform, a single output.
    assert!(!is_chosen(shape(6, 14), shape(16, 10), windows(5, 1, 0)));
    assert!(!is_chosen(shape(64, 27), shape(64, 14), windows(3, 2, 1)));
    assert!(!is_chosen(shape(64, 13), shape(64, 13), windows(7, 1, 3)));
    assert!(!is_chosen(shape(64, 3), shape(64, 1), windows(3, 1, 0)));
}
