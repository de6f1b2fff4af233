//! Softmax over sparse rows agrees with PyTorch: see `golden/sparse_softmax.py`.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_factor::SparseSoftmax;
use paceline_model::{Batch, Model, OutputMode, Rows};
use serde_json::Value;

mod golden;

const FEATURES: usize = 11;
const ROWS: usize = 7;
const KEYS: usize = 4;

#[test]
fn losses_and_gradients_agree_with_pytorch() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("golden/sparse_softmax.json")).unwrap();
    for case in cases {
        let [classes, salt] = ["classes", "salt"].map(|name| case[name].as_u64().unwrap() as usize);
        let mut model = SparseSoftmax::new(FEATURES, classes);
        let params = golden::values((FEATURES + 1) * classes, salt);
        let values = golden::values(ROWS * KEYS, salt + 1);
        let of_row = |row: usize| (0..KEYS).map(move |place| (5 * row + 3 * place) % FEATURES);
        let keys: Vec<u32> = (0..ROWS).flat_map(of_row).map(|key| key as u32).collect();
        let starts: Vec<u32> = (0..=ROWS).map(|row| (row * KEYS) as u32).collect();
        let labels: Vec<u32> = (0..ROWS).map(|row| (row % classes) as u32).collect();
        let weights: Vec<f32> = (1..=ROWS).map(|number| number as f32).collect();
        let weights = if case["weighted"].as_bool().unwrap() { &weights[..] } else { &[] };
        let rows = Rows { starts: &starts, places: &keys, values: &values };
        let batch = Batch::sparse(rows, &labels).weighted(weights);

        let mut grad = vec![f32::NAN; params.len()];
        let share = 1.0 / ROWS as f32;
        let loss = model.gradient(&params, batch, share, OutputMode::Overwrite, &mut grad);
        let off = (f64::from(loss) - case["loss"].as_f64().unwrap()).abs();
        assert!(off < 2e-6, "the loss of {classes} classes is off by {off}");
        let expected = case["grad"].as_array().unwrap();
        assert_eq!(grad.len(), expected.len());
        for (at, (got, want)) in grad.iter().zip(expected).enumerate() {
            let off = (f64::from(*got) - want.as_f64().unwrap()).abs();
            assert!(off < 2e-6, "parameter {at} of {classes} classes is off by {off}");
        }
    }
}
