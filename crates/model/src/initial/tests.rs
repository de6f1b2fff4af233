use super::*;

#[test]
fn initial_values_are_those_of_seed_key_and_dimension_and_have_the_deviation() {
    let draw = |seed, key| {
        let mut vector = [0.0; 8];
        initial_vector(seed, key, 0.01, &mut vector);
        vector
    };
    assert_eq!(draw(1, 2), draw(1, 2));
    assert!(draw(1, 2) != draw(2, 1) && draw(1, 2) != draw(1, 3));
    let all: Vec<f64> = (0..50_000).flat_map(|key| draw(7, key)).map(f64::from).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
    assert!(mean.abs() < 1e-4, "{mean}");
    assert!((variance.sqrt() / 0.01 - 1.0).abs() < 0.01, "{variance}");
    // Equal seeds give equal bits on every machine, and in every version.
    let bits: Vec<u32> = draw(1, 2)[..2].iter().map(|number| number.to_bits()).collect();
    assert_eq!(bits, [3_147_785_872, 3_113_120_161]);
}
