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
