//! DeepFM and the wide and deep model agree with PyTorch: see `golden/deep.py`.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_factor::{DeepMachine, DeepShape};
use paceline_model::{Batch, Model, OutputMode, Rows};
use serde_json::Value;

mod golden;

const FEATURES: usize = 11;
const FIELDS: usize = 4;
const ROWS: usize = 6;

#[test]
fn losses_and_gradients_agree_with_pytorch() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("golden/deep.json")).unwrap();
    for case in cases {
        let numbers = case["numbers"].as_u64().unwrap() as usize;
        let shape = DeepShape {
            features: FEATURES,
            fields: FIELDS - numbers,
            numbers,
            rank: 3,
            hidden: vec![5, 3],
            has_pairs: case["pairs"].as_bool().unwrap(),
        };
        let mut model = DeepMachine::new(shape);
        let salt = case["salt"].as_u64().unwrap() as usize;
        let params: Vec<f32> =
            golden::values(model.layout().len(), salt).iter().map(|number| 0.7 * number).collect();
        let values = golden::values(ROWS * FIELDS, salt + 1);
        let of_row = |row: usize| (0..FIELDS).map(move |field| (5 * row + 3 * field) % FEATURES);
        let keys: Vec<u32> = (0..ROWS).flat_map(of_row).map(|key| key as u32).collect();
        let fields: Vec<u16> = (0..ROWS).flat_map(|_| 0..FIELDS as u16).collect();
        let starts: Vec<u32> = (0..=ROWS).map(|row| (row * FIELDS) as u32).collect();
        let labels: Vec<u32> = (0..ROWS as u32).map(|row| row % 2).collect();
        let rows = Rows { starts: &starts, places: &keys, values: &values };
        let batch = Batch::sparse(rows, &labels).with_fields(&fields);

        let mut grad = vec![f32::NAN; params.len()];
        let share = 1.0 / ROWS as f32;
        let loss = model.gradient(&params, batch, share, OutputMode::Overwrite, &mut grad);
        let off = (f64::from(loss) - case["loss"].as_f64().unwrap()).abs();
        assert!(off < 1e-6, "the loss is off by {off}");
        let expected = case["grad"].as_array().unwrap();
        assert_eq!(grad.len(), expected.len());
        for (at, (got, want)) in grad.iter().zip(expected).enumerate() {
            let off = (f64::from(*got) - want.as_f64().unwrap()).abs();
            assert!(off < 1e-6, "parameter {at} is off by {off}");
        }
    }
}
