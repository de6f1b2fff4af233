//! Scores and gradients of factorization machines agree with PyTorch: see
//! `golden/factorization.py`.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_factor::{FfmShape, FmShape, RowEntries};
use serde_json::Value;

mod golden;

#[test]
fn scores_and_gradients_agree_with_pytorch() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("golden/factorization.json")).unwrap();
    for case in &cases {
        let [keys, fields, rank, salt] =
            ["keys", "fields", "rank", "salt"].map(|name| case[name].as_u64().unwrap() as usize);
        let (fm, ffm) = (FmShape { rank }, FfmShape { fields, rank });
        let is_aware = case["kind"] == "ffm";
        let width = if is_aware { ffm.width() } else { fm.width() };
        let (params, values) = (golden::values(keys * width, salt), golden::values(keys, salt + 1));
        let places: Vec<u32> = (0..keys as u32).collect();
        let fields: Vec<u16> = (0..keys).map(|key| (key % fields) as u16).collect();
        let row = RowEntries { params: &params, places: &places, values: &values };
        let (mut sums, mut grad) = (vec![0.0; rank], vec![0.0; params.len()]);
        let score = if is_aware {
            ffm.add_gradient(row, &fields, 1.0, &mut grad);
            ffm.score(row, &fields)
        } else {
            let score = fm.score(row, &mut sums);
            fm.add_gradient(row, &sums, 1.0, &mut grad);
            score
        };
        let theirs = case["grad"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap());
        let pairs = grad.iter().zip(theirs).chain([(&score, case["score"].as_f64().unwrap())]);
        assert_eq!(case["grad"].as_array().unwrap().len(), grad.len());
        for (&ours, theirs) in pairs {
            let close = (f64::from(ours) - theirs).abs() < 2e-5 * (1.0 + theirs.abs());
            assert!(close, "{} of {keys} keys: {ours}, not {theirs}", case["kind"]);
        }
    }
}
