use proptest::prelude::*;

use super::*;

fn take(plan: &BatchPlan, step: u64, slot: usize) -> Vec<u32> {
    let mut out = Vec::new();
    plan.clone().batch(step, slot, &mut out);
    out
}

fn all(plan: &BatchPlan, slots: usize) -> Vec<u32> {
    (0..plan.steps()).flat_map(|t| (0..slots).flat_map(move |w| take(plan, t, w))).collect()
}

#[test]
fn a_plan_with_another_start_continues_with_the_remaining_examples() {
    // Two slots of 3 take 7 steps; three slots of 5 continue to the end of 4 epochs of 20.
    let before = BatchPlan::new(20, 3, 2).shuffled(9).for_epochs(4);
    let after = BatchPlan::new(20, 5, 3).shuffled(9).for_epochs(4).starting_at(7, 42);
    let walk = |plan: &BatchPlan, steps: std::ops::Range<u64>, slots: usize| -> Vec<u32> {
        steps.flat_map(|t| (0..slots).flat_map(move |w| take(plan, t, w))).collect()
    };
    assert_eq!(after.steps(), 7 + (80u64 - 42).div_ceil(15));
    assert_eq!(after.positions(8, 0).start, 57);
    let all = walk(&before, 0..before.steps(), 2);
    let resumed = [walk(&before, 0..7, 2), walk(&after, 7..after.steps(), 3)].concat();
    assert_eq!(resumed, all);
}

proptest! {
    #[test]
    fn batches_do_not_depend_on_the_order_in_which_they_are_taken(
        examples in 1usize..300, batch in 1usize..40, window in 1usize..320, seed: u64,
        steps in proptest::collection::vec(0u64..60, 1..20),
    ) {
        let plan = BatchPlan::new(examples, batch, 2).shuffled_within(seed, window);
        let (mut walked, mut out) = (plan.clone(), Vec::new());
        for step in steps {
            walked.batch(step, 1, &mut out);
            prop_assert_eq!(&out, &take(&plan, step, 1));
        }
    }

    #[test]
    fn every_epoch_has_every_example_once(
        examples in 1usize..300, batch in 1usize..40, slots in 1usize..6,
        epochs in 1u64..4, seed: u64, shuffle: bool,
        window in proptest::option::of(1usize..320),
    ) {
        let mut plan = BatchPlan::new(examples, batch, slots).for_epochs(epochs);
        if shuffle {
            plan = match window {
                Some(window) => plan.shuffled_within(seed, window),
                None => plan.shuffled(seed),
            };
        }
        let taken = all(&plan, slots);
        prop_assert_eq!(taken.len(), examples * epochs as usize);
        for epoch in taken.chunks(examples) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..examples as u32).collect::<Vec<_>>());
        }
        for w in 0..slots {
            prop_assert!(take(&plan, plan.steps(), w).is_empty());
        }
    }

    #[test]
    fn many_slots_together_take_what_one_wide_slot_takes(
        examples in 1usize..300, batch in 1usize..40, slots in 1usize..6,
        step in 0u64..50, seed: u64, window in 1usize..320,
    ) {
        let many = BatchPlan::new(examples, batch, slots).shuffled_within(seed, window);
        let one = BatchPlan::new(examples, batch * slots, 1).shuffled_within(seed, window);
        let together: Vec<u32> = (0..slots).flat_map(|w| take(&many, step, w)).collect();
        prop_assert_eq!(together, take(&one, step, 0));
    }

    #[test]
    fn a_window_of_all_examples_is_the_full_shuffle(
        examples in 1usize..300, more in 0usize..3, step in 0u64..5, seed: u64,
    ) {
        let plan = BatchPlan::new(examples, 37, 2);
        let full = plan.clone().shuffled(seed);
        let within = plan.shuffled_within(seed, examples + more);
        prop_assert_eq!(take(&within, step, 1), take(&full, step, 1));
    }

    #[test]
    fn windows_come_one_after_the_other(
        examples in 1usize..300, window in 1usize..100, seed: u64,
    ) {
        let plan = BatchPlan::new(examples, examples, 1).shuffled_within(seed, window);
        let mut windows: Vec<usize> =
            take(&plan, 0, 0).iter().map(|&example| example as usize / window).collect();
        windows.dedup();
        prop_assert_eq!(windows.len(), examples.div_ceil(window));
    }
}

#[test]
fn windows_and_their_examples_are_reshuffled_every_epoch() {
    let plan = BatchPlan::new(1000, 1000, 1).shuffled_within(1, 100);
    let epochs: Vec<Vec<u32>> = (0..2).map(|epoch| take(&plan, epoch, 0)).collect();
    let windows = |epoch: &[u32]| -> Vec<u32> { epoch.iter().map(|e| e / 100).collect() };
    assert_ne!(windows(&epochs[0]), windows(&epochs[1]));
    let inside = |epoch: &[u32]| -> Vec<u32> {
        epoch.iter().filter(|&&example| example < 100).copied().collect()
    };
    assert_ne!(inside(&epochs[0]), inside(&epochs[1]));
}

#[test]
fn positions_name_the_examples_of_a_batch() {
    let plan = BatchPlan::new(7, 3, 2).shuffled(4);
    for (step, slot) in [(0, 0), (0, 1), (1, 0), (9, 1)] {
        let at = plan.positions(step, slot).map(|position| plan.example_at(position));
        assert_eq!(at.map(|at| at.example).collect::<Vec<_>>(), take(&plan, step, slot));
    }
    assert_eq!((plan.example_at(6).epoch, plan.example_at(7).epoch), (0, 1));
}

#[test]
fn shuffling_can_be_switched_off() {
    let plan = BatchPlan::new(5, 2, 2).for_epochs(2);
    let taken: Vec<_> = (0..3).map(|t| [take(&plan, t, 0), take(&plan, t, 1)]).collect();
    assert_eq!(taken[0], [vec![0, 1], vec![2, 3]]);
    assert_eq!(taken[1], [vec![4, 0], vec![1, 2]]);
    assert_eq!(taken[2], [vec![3, 4], vec![]]);
}

#[test]
fn seeds_and_epochs_differ_in_their_order() {
    let order = |seed, epoch| {
        let plan = BatchPlan::new(1000, 1000, 1).shuffled(seed);
        take(&plan, epoch, 0)
    };
    assert_eq!(order(1, 0), order(1, 0));
    assert_ne!(order(1, 0), order(2, 0));
    assert_ne!(order(1, 0), order(1, 1));
    // Neighbouring seeds must not share epochs.
    assert_ne!(order(1, 1), order(2, 0));
}

/// With a good shuffle each example is equally likely in each tenth of an epoch.
#[test]
fn the_shuffle_is_uniform() {
    let mut counts = [[0u32; 10]; 10];
    for seed in 0..2000 {
        let plan = BatchPlan::new(100, 100, 1).shuffled(seed);
        for (position, example) in take(&plan, 0, 0).into_iter().enumerate() {
            counts[position / 10][example as usize / 10] += 1;
        }
    }
    // 2,000 expected; one standard deviation is about 40.
    for count in counts.into_iter().flatten() {
        assert!((1_800..2_200).contains(&count), "{counts:?}");
    }
}
