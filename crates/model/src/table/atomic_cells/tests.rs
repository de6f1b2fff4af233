use super::*;

#[test]
fn cells_start_at_zero_and_keep_their_values_at_odd_sizes() {
    for len in [0, 1, 3, 1_023, 1_025, 600_001] {
        let cells = AtomicCells::zeros(len).unwrap();
        assert_eq!(cells.all().len(), len);
        assert!(cells.all().iter().all(|cell| cell.get().to_bits() == 0));
        cells.all().iter().enumerate().for_each(|(i, cell)| cell.set(i as f32));
        assert!(cells.all().iter().enumerate().all(|(i, cell)| cell.get() == i as f32));
    }
}

#[test]
fn runs_of_any_length_are_copied_whole_and_nothing_beside_them_changes() {
    let cells = AtomicCells::zeros(64).unwrap();
    for len in 0..20 {
        cells.all().iter().for_each(|cell| cell.set(-1.0));
        let values: Vec<f32> = (0..len).map(|at| at as f32 + 0.5).collect();
        store_all(&cells.all()[3..3 + len], &values);
        let mut out = vec![f32::NAN; len];
        load_all(&cells.all()[3..3 + len], &mut out);
        assert_eq!(out, values);
        let changed = cells.all().iter().filter(|cell| cell.get() != -1.0).count();
        assert_eq!(changed, len);
    }
}
