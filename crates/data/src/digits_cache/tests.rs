use std::ops::ControlFlow;

use super::*;
use crate::Digits;
use crate::open_observer::{OpenReport, ignore_reports};

fn cached(dir: &Path, train: usize, test: usize, seed: u64) -> TrainTest<Images> {
    cached_in(dir, train, test, seed, &mut ignore_reports()).unwrap()
}

#[test]
fn an_interrupted_drawing_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut stop = |report: OpenReport<'_>| {
        assert!(matches!(report, OpenReport::Progress(at) if at.action == "drawing"));
        ControlFlow::Break(())
    };
    let stopped = cached_in(dir.path(), 1_000, 10, 7, &mut stop);
    assert!(matches!(stopped, Err(DataError::Interrupted)));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn cached_digits_equal_the_drawn_ones() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = Digits::generate_sets(40, 10, 7);
    for _ in 0..2 {
        let read = cached(dir.path(), 40, 10, 7);
        assert!(read.train == drawn.train && read.test == drawn.test);
    }
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_damaged_set_is_drawn_and_cached_again() {
    let dir = tempfile::tempdir().unwrap();
    cached(dir.path(), 40, 10, 7);
    let file = dir.path().join("v1-seed7-40-10/train-images");
    fs::write(&file, "no images").unwrap();
    assert!(cached(dir.path(), 40, 10, 7).train == Digits::generate_sets(40, 10, 7).train);
    assert!(fs::metadata(&file).unwrap().len() > 40 * 784);
}

#[test]
fn the_number_of_cached_sets_is_limited() {
    let dir = tempfile::tempdir().unwrap();
    for seed in 0..MAX_SETS as u64 + 3 {
        cached(dir.path(), 2, 1, seed);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MAX_SETS);
}

#[test]
fn digits_are_drawn_where_nothing_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(cached(&file, 2, 1, 7).train.len(), 2);
}
