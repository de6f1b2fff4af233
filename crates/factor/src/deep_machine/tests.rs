//! Perceptrons on sparse vectors.

use paceline_model::{AdaGrad, Compactor, ParamTable, Rows, Sgd};

use super::*;

const STARTS: [u32; 5] = [0, 3, 3, 5, 8];
const KEYS: [u32; 8] = [1, 4, 8, 4, 5, 0, 8, 2];
/// The second row has no keys, the last has two keys of one field.
const FIELDS: [u16; 8] = [0, 1, 2, 1, 2, 0, 2, 0];
const VALUES: [f32; 8] = [0.5, -1.0, 2.0, 1.0, 0.25, 1.5, -0.5, 1.0];
const LABELS: [u32; 4] = [1, 0, 0, 1];

fn batch(places: &[u32]) -> Batch<'_> {
    let rows = Rows { starts: &STARTS, places, values: &VALUES };
    Batch::sparse(rows, &LABELS).with_fields(&FIELDS)
}

fn model(has_pairs: bool) -> DeepMachine {
    model_with_numbers(has_pairs, 0)
}

/// A model to which the last of the three fields are numbers.
fn model_with_numbers(has_pairs: bool, numbers: usize) -> DeepMachine {
    let (features, fields, rank, hidden) = (9, 3 - numbers, 4, vec![5, 3]);
    DeepMachine::new(DeepShape { features, fields, numbers, rank, hidden, has_pairs })
}

fn gradient(model: &mut DeepMachine, params: &[f32], batch: Batch<'_>) -> (f32, Vec<f32>) {
    let mut grad = vec![f32::NAN; params.len()];
    let loss = model.gradient(params, batch, 0.25, OutputMode::Overwrite, &mut grad);
    (loss, grad)
}

#[test]
fn gradients_agree_with_finite_differences() {
    for (has_pairs, numbers) in [(true, 0), (false, 0), (true, 1), (false, 2)] {
        let mut model = model_with_numbers(has_pairs, numbers);
        let mut params = vec![0.0; model.layout().len()];
        fill_uniform(3, 0, 0.7, &mut params);
        let weights = [1.0, 2.0, 0.5, 1.5];
        let batch = batch(&KEYS).weighted(&weights);
        let (_, grad) = gradient(&mut model, &params, batch);
        for at in 0..params.len() {
            let here = params[at];
            let mut loss_at = |value: f32| {
                params[at] = value;
                f64::from(gradient(&mut model, &params, batch).0)
            };
            // Small, so that few parameters move an output of ReLU across zero.
            let step = 1.0 / 1024.0;
            let slope = (loss_at(here + step) - loss_at(here - step)) / f64::from(2.0 * step);
            params[at] = here;
            let off = (f64::from(grad[at]) - slope).abs();
            let what = format!("pairs {has_pairs}, {numbers} numbers, parameter {at}");
            assert!(off < 4e-3, "{what}: {} and {slope}", grad[at]);
        }
    }
}

#[test]
fn a_number_reaches_the_perceptron_as_it_is_and_its_vector_is_not_used() {
    let mut model = model_with_numbers(true, 1);
    assert_eq!((model.shape.inputs(), SparseModel::fields(&model)), (2 * 4 + 1, 3));
    let mut params = vec![0.0; model.layout().len()];
    fill_uniform(3, 0, 0.7, &mut params);
    let (_, grad) = gradient(&mut model, &params, batch(&KEYS));
    // The inputs of the first layer end with the number.
    assert_eq!(model.embedded.len(), 4 * 9);
    model.forward(&params, batch(&KEYS), None);
    let numbers: Vec<f32> = model.embedded.chunks(9).map(|inputs| inputs[8]).collect();
    assert_eq!(numbers, [2.0, 0.0, 0.25, -0.5], "0 where a row has none");
    // Key 8 is only ever a number: its weight has a gradient, its vector has none.
    let entry = &grad[8 * 5..9 * 5];
    assert!(entry[0] != 0.0 && entry[1..] == [0.0; 4], "{entry:?}");
    for vector in &mut params[8 * 5 + 1..9 * 5] {
        *vector = 9.0;
    }
    assert_eq!(gradient(&mut model, &params, batch(&KEYS)).1, grad);
}

#[test]
fn a_compact_slice_gives_the_bits_of_all_parameters_and_one_update_changes_both_kinds() {
    let mut model = model_with_numbers(true, 1);
    let (width, keys) = (model.layout().width(), model.layout().keys());
    let mut params = vec![0.0; model.layout().len()];
    model.initialise(5, &mut params);
    let (loss, grad) = gradient(&mut model, &params, batch(&KEYS));

    let table = ParamTable::new(AdaGrad::new(0.1), &model, 0..keys, 5);
    let mut compactor = Compactor::new();
    compactor.compact(&KEYS, model.shared_keys());
    let mut compact = vec![f32::NAN; compactor.keys().len() * width];
    table.read(compactor.keys(), &mut compact);
    let (compact_loss, compact_grad) = gradient(&mut model, &compact, batch(compactor.places()));
    assert_eq!(loss, compact_loss);
    for (&key, got) in compactor.keys().iter().zip(compact_grad.chunks(width)) {
        let want = &grad[model.layout().params_of(key as usize..key as usize + 1)];
        assert_eq!(got[..want.len()], *want, "key {key}");
    }
    // One update changes features and the perceptron, and none of them twice.
    table.update(0, compactor.keys(), &compact_grad);
    let mut after = vec![0.0; params.len()];
    table.read_range(0..params.len(), &mut after);
    for (at, (before, after)) in params.iter().zip(&after).enumerate() {
        // The vectors of keys 5 and 8, which are numbers, stay as they are.
        let is_vector = at < 9 * width && at % width > 0;
        if is_vector && [5, 8].contains(&(at / width)) {
            assert_eq!(after, before, "parameter {at}");
            continue;
        }
        let is_touched = at >= 9 * width || KEYS.contains(&((at / width) as u32));
        let moved = before - 0.1 * grad[at] / (grad[at].abs() + 1e-8);
        let expected = if is_touched { moved } else { 0.0 };
        assert!((after - expected).abs() < 1e-4, "parameter {at}: {after}, not {expected}");
    }
}

#[test]
fn an_update_of_many_shared_keys_gives_each_tensor_the_rate_of_its_group() {
    // Hundreds of keys lie in one tensor, others in several.
    let (features, rank, hidden) = (9, 4, vec![70, 3]);
    let shape = DeepShape { features, fields: 3, numbers: 0, rank, hidden, has_pairs: true };
    let model = DeepMachine::new(shape);
    let (layout, keys) = (model.layout().clone(), model.layout().keys());
    let table = ParamTable::new(Sgd::new(0.5).bias_rate(0.25), &model, 0..keys, 5);
    let mut before = vec![0.0; layout.len()];
    table.read_range(0..layout.len(), &mut before);
    let shared: Vec<u32> = model.shared_keys().collect();
    let grad: Vec<f32> = (0..shared.len() * layout.width()).map(|at| at as f32).collect();
    table.update(0, &shared, &grad);
    let mut after = vec![0.0; layout.len()];
    table.read_range(0..layout.len(), &mut after);
    let start = layout.params_of(0..features).end;
    assert_eq!(after[..start], before[..start], "no feature is named");
    for tensor in &layout.tensors()[1..] {
        let rate = if tensor.group == Group::Biases { 0.25 } else { 0.5 };
        for at in tensor.range.clone() {
            let expected = before[at] - rate * grad[at - start];
            assert_eq!(after[at], expected, "{} at {at}", tensor.name);
        }
    }
}

#[test]
fn dropout_depends_on_the_example_alone_and_its_gradient_agrees_with_finite_differences() {
    let mut model = model(true).dropout(0.4);
    let mut params = vec![0.0; model.layout().len()];
    fill_uniform(3, 0, 0.7, &mut params);
    let block = Batch { draw: 90, ..batch(&KEYS) };
    let (loss, grad) = gradient(&mut model, &params, block);
    for at in 0..params.len() {
        let here = params[at];
        let mut loss_at = |value: f32| {
            params[at] = value;
            f64::from(gradient(&mut model, &params, block).0)
        };
        let step = 1.0 / 256.0;
        let slope = (loss_at(here + step) - loss_at(here - step)) / f64::from(2.0 * step);
        params[at] = here;
        let off = (f64::from(grad[at]) - slope).abs();
        assert!(off < 4e-3, "parameter {at}: {} and {slope}", grad[at]);
    }
    // The first two rows alone, and then the others, leave out the same values.
    let part = |rows: std::ops::Range<usize>| {
        let starts = &STARTS[rows.start..=rows.end];
        let block =
            Batch::sparse(Rows { starts, places: &KEYS, values: &VALUES }, &LABELS[rows.clone()]);
        Batch { draw: 90 + rows.start as u64, ..block.with_fields(&FIELDS) }
    };
    let parts = [part(0..2), part(2..4)].map(|part| gradient(&mut model, &params, part).0);
    assert!((parts[0] + parts[1] - loss).abs() < 1e-6, "{parts:?} and {loss}");
    assert_ne!(gradient(&mut model, &params, batch(&KEYS)).0, loss, "another position");
    // Tests leave out nothing.
    let mut tallies = [Tally::keeping_scores(), Tally::keeping_scores()];
    model.evaluate(&params, block, &mut tallies[0]);
    model.clone().dropout(0.0).evaluate(&params, block, &mut tallies[1]);
    assert_eq!(tallies[0], tallies[1]);
}
