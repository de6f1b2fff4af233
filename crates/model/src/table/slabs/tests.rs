use super::*;

#[test]
fn entries_of_all_slabs_have_cells_of_their_own() {
    let slabs = Slabs::new(3);
    let count = 5 << FIRST;
    for number in 0..count {
        assert_eq!(slabs.take(), number);
        slabs.entry(number).iter().for_each(|cell| cell.set(number as f32));
    }
    for number in 0..count {
        assert_eq!(slabs.entry(number).len(), 3);
        assert!(slabs.entry(number).iter().all(|cell| cell.get() == number as f32));
    }
    assert_eq!(slabs.used(), count);
}
