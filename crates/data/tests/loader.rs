//! The loader delivers the plan's batches in order, in bounded memory, even if reads fail.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_data::{BatchPlan, DataError, Examples, Loader, LoaderOptions, OnBad, SlotBatches};
use proptest::prelude::*;

/// Examples whose values are their own index; some are bad.
#[derive(Default)]
struct Numbers {
    examples: usize,
    bad: BTreeSet<u32>,
    missing: BTreeSet<u32>,
    panics: BTreeSet<u32>,
    filled: AtomicU64,
}

impl Numbers {
    fn new(examples: usize) -> Self {
        Numbers { examples, ..Numbers::default() }
    }
}

impl Examples for Numbers {
    fn len(&self) -> usize {
        self.examples
    }

    fn shape(&self) -> [usize; 3] {
        [1, 1, 2]
    }

    fn classes(&self) -> usize {
        self.examples
    }

    fn fill(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        self.filled.fetch_add(1, Ordering::SeqCst);
        let path = PathBuf::from(format!("{example}.jpg"));
        assert!(!self.panics.contains(&example), "example {example} panics");
        if self.missing.contains(&example) {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(DataError::Io { action: "open", path, source });
        }
        if self.bad.contains(&example) {
            return Err(DataError::Picture { path, what: "damaged".into() });
        }
        out.copy_from_slice(&[example as f32, epoch as f32]);
        Ok(example)
    }
}

fn batches(examples: &Arc<Numbers>, plan: &BatchPlan, slot: usize) -> SlotBatches {
    SlotBatches { examples: examples.clone(), plan: plan.clone(), slot }
}

fn start(source: &Arc<Numbers>, plan: &BatchPlan, options: LoaderOptions) -> Loader {
    Loader::new(batches(source, plan, 0), 0, options)
}

const SKIP: LoaderOptions =
    LoaderOptions { ahead: 3, threads: 2, on_bad: OnBad::Skip, timeout_s: 60 };
const STOP: LoaderOptions = LoaderOptions { on_bad: OnBad::Fail, ..SKIP };

fn labels(loader: &mut Loader, step: u64) -> Vec<u32> {
    loader.batch(step).expect("a good batch").labels.clone()
}

fn planned(plan: &BatchPlan, step: u64) -> Vec<u32> {
    let mut out = Vec::new();
    plan.clone().batch(step, 0, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn batches_follow_the_plan_at_whichever_step_is_taken(
        examples in 1usize..30, batch in 1usize..9, ahead in 1usize..5, threads in 1usize..4,
        steps in proptest::collection::vec(0u64..12, 1..30), in_order: bool, seed: u64,
    ) {
        let source = Arc::new(Numbers::new(examples));
        let plan = BatchPlan::new(examples, batch, 1).shuffled(seed).for_epochs(3);
        let mut loader = start(&source, &plan, LoaderOptions { ahead, threads, ..STOP });
        for (index, step) in steps.into_iter().enumerate() {
            let step = if in_order { index as u64 } else { step };
            let filled = loader.batch(step).unwrap();
            prop_assert_eq!(&filled.labels, &planned(&plan, step));
            let epochs = plan.positions(step, 0).map(|position| plan.example_at(position).epoch);
            let rows: Vec<f32> =
                filled.labels.iter().zip(epochs).flat_map(|(&l, e)| [l as f32, e as f32]).collect();
            prop_assert_eq!(&filled.inputs, &rows);
        }
        drop(loader);
        prop_assert_eq!(Arc::strong_count(&source), 1, "a thread is still running");
    }

    /// Several slots with bad examples see what one wide slot sees.
    #[test]
    fn replacements_of_bad_examples_do_not_depend_on_the_number_of_slots(
        bad in proptest::collection::btree_set(0u32..20, 0..15), batch in 1usize..5, seed: u64,
    ) {
        let skips = bad.len() as u64;
        let source = Arc::new(Numbers { bad, ..Numbers::new(20) });
        let plan = |batch, slots| BatchPlan::new(20, batch, slots).shuffled(seed).for_epochs(1);
        let taken = |plan: BatchPlan, slots: usize| {
            let loader = |slot| Loader::new(batches(&source, &plan, slot), 0, SKIP);
            let mut loaders: Vec<Loader> = (0..slots).map(loader).collect();
            let mut all = Vec::new();
            for step in 0..plan.steps() {
                loaders.iter_mut().for_each(|loader| all.extend(labels(loader, step)));
            }
            (all, loaders.iter().map(|loader| loader.skipped().count).sum::<u64>())
        };
        let (wide, count) = taken(plan(batch * 3, 1), 1);
        prop_assert_eq!(count, skips);
        prop_assert!(wide.iter().all(|example| !source.bad.contains(example)));
        prop_assert_eq!((wide, count), taken(plan(batch, 3), 3));
    }
}

#[test]
fn batches_built_ahead_are_limited_and_buffers_are_reused() {
    let source = Arc::new(Numbers::new(1000));
    let mut loader = start(&source, &BatchPlan::new(1000, 4, 1), STOP);
    let mut buffers = BTreeSet::new();
    for step in 0..200 {
        buffers.insert(loader.batch(step).unwrap().inputs.as_ptr() as usize);
        // The batches handed out so far, and three ahead.
        assert!(source.filled.load(Ordering::SeqCst) <= (step + 1 + 3) * 4);
    }
    assert!(buffers.len() <= 4, "{} buffers", buffers.len());
}

#[test]
fn an_error_is_delivered_at_its_step_and_later_steps_continue() {
    let missing = BTreeSet::from([5]);
    let source = Arc::new(Numbers { missing, ..Numbers::new(20) });
    // A missing file is not a bad example, so it is not skipped.
    let mut loader = start(&source, &BatchPlan::new(20, 2, 1), SKIP);
    assert_eq!(labels(&mut loader, 1), [2, 3]);
    for _ in 0..3 {
        let error = loader.batch(2).unwrap_err().to_string();
        assert!(error.contains("5.jpg"), "{error}");
    }
    assert_eq!(labels(&mut loader, 3), [6, 7]);
}

#[test]
fn bad_examples_are_errors_or_are_replaced_and_counted() {
    let bad = BTreeSet::from([2, 3]);
    let source = Arc::new(Numbers { bad, ..Numbers::new(6) });
    let plan = BatchPlan::new(6, 3, 1);
    let mut loader = start(&source, &plan, STOP);
    assert!(loader.batch(0).unwrap_err().to_string().contains("2.jpg: damaged"));

    let mut loader = start(&source, &plan, SKIP);
    assert_eq!(labels(&mut loader, 0), [0, 1, 4]);
    assert_eq!(labels(&mut loader, 1), [4, 4, 5]);
    assert_eq!(labels(&mut loader, 2), [0, 1, 4]);
    assert_eq!(loader.skipped().count, 3);
    assert!(loader.skipped().first.as_ref().is_some_and(|first| first.contains("2.jpg")));
}

#[test]
fn too_many_consecutive_bad_examples_are_an_error() {
    for (examples, says) in [(3, "3 bad examples in a row"), (1000, "100 bad examples")] {
        let bad = (0..examples as u32).collect();
        let source = Arc::new(Numbers { bad, ..Numbers::new(examples) });
        let mut loader = start(&source, &BatchPlan::new(examples, 2, 1), SKIP);
        let error = loader.batch(0).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_panic_in_a_thread_reaches_the_worker() {
    let panics = BTreeSet::from([1]);
    let source = Arc::new(Numbers { panics, ..Numbers::new(4) });
    let mut loader = start(&source, &BatchPlan::new(4, 2, 1), STOP);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = loader.batch(0);
    }));
    assert!(caught.is_err());
    assert_eq!(labels(&mut loader, 1), [2, 3]);
}
