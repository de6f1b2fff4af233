//! Chooses the examples that are held out for tests.
//!
//! Files are often sorted by class or by time, so the last examples of a file may lack a class
//! altogether. The choice is random instead, and each class contributes in proportion to its size.
//! It is a function of (seed, number of examples, labels) in whole numbers alone, so every task of
//! a run makes the same choice on every machine.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use paceline_generate::random::Random;

/// How examples are held out for tests, if the data has no test set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HoldOut {
    /// At random by the seed, from each class in proportion to its size.
    #[default]
    Stratified,
    /// The rule of earlier versions, for continuing runs that used it: the last rows of files, or
    /// pictures drawn at random whatever their classes.
    Plain,
}

/// Without a test set, one in `HOLD_OUT_SHARE` examples is held out for tests by default, and at
/// most `MAX_HOLD_OUT`.
const HOLD_OUT_SHARE: usize = 10;
const MAX_HOLD_OUT: usize = 10_000;

/// Examples by their numbers: those that are left to train on, in order, and those to test on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenExamples {
    /// The examples to train on.
    pub rest: Vec<u32>,
    /// The examples to test on, in random order.
    pub test: Vec<u32>,
}

impl HoldOut {
    /// The default number of examples held out for tests.
    pub fn default_count(examples: usize) -> usize {
        (examples / HOLD_OUT_SHARE).clamp(1, MAX_HOLD_OUT)
    }

    /// Chooses `count` of the examples with these labels for tests; the plain rule takes the last.
    ///
    /// # Panics
    /// If `count` is not below the number of labels, or there are more than 2^32 - 1 labels.
    pub fn choose(
        self,
        labels: impl ExactSizeIterator<Item = u32> + Clone,
        count: usize,
        seed: u64,
    ) -> ChosenExamples {
        let all = labels.len() as u32;
        let held = match self {
            HoldOut::Stratified => choose_by_class(labels, count, seed),
            HoldOut::Plain => (all - count as u32..all).collect(),
        };
        let mut next = held.iter().copied().peekable();
        let rest = (0..all).filter(|&example| next.next_if_eq(&example).is_none()).collect();
        let test = if self == HoldOut::Plain { held } else { test_order(held, seed) };
        ChosenExamples { rest, test }
    }
}

/// Keeps the random streams apart from those for other purposes.
const CHOICE_STREAM: u64 = 0x686f_6c64_6f75_7431;
const ORDER_STREAM: u64 = 0x686f_6c64_6f75_7432;

/// Chooses `count` of the examples with these labels, and returns their numbers in increasing
/// order. A class with two examples or more is in both sets, as far as `count` allows.
///
/// # Panics
/// If `count` is not below the number of labels, or there are more than 2^32 - 1 labels.
pub(crate) fn choose_by_class(
    labels: impl Iterator<Item = u32> + Clone,
    count: usize,
    seed: u64,
) -> Vec<u32> {
    let mut sizes: Vec<u64> = Vec::new();
    for label in labels.clone() {
        let class = label as usize;
        if class >= sizes.len() {
            sizes.resize(class + 1, 0);
        }
        sizes[class] += 1;
    }
    let shares = class_shares(&sizes, count as u64);
    let drawn: Vec<Vec<u32>> = (0..)
        .zip(sizes.iter().zip(&shares))
        .map(|(class, (size, share))| {
            draw_subset(&mut Random::keyed(&[seed, CHOICE_STREAM, class]), *size, *share)
        })
        .collect();
    let mut walks: Vec<_> =
        drawn.iter().map(|drawn| (0u32, drawn.iter().copied().peekable())).collect();
    let mut chosen = Vec::with_capacity(count);
    for (number, label) in (0..).zip(labels) {
        let (rank, ranks) = &mut walks[label as usize];
        if ranks.next_if_eq(rank).is_some() {
            chosen.push(number);
        }
        *rank += 1;
    }
    chosen
}

/// The order in which held-out examples are tested: random, so that the first of them are a fair
/// sample of all.
pub(crate) fn test_order(mut chosen: Vec<u32>, seed: u64) -> Vec<u32> {
    Random::keyed(&[seed, ORDER_STREAM]).shuffle(&mut chosen);
    chosen
}

/// How many examples each class contributes to a total of `count`.
fn class_shares(sizes: &[u64], count: u64) -> Vec<u64> {
    let all: u64 = sizes.iter().sum();
    assert!(count < all && u32::try_from(all).is_ok(), "{count} of {all} cannot be held out");
    let mut shares: Vec<u64> = sizes.iter().map(|size| size * count / all).collect();
    // The examples that rounding left over go to the classes that it cost most.
    let mut by_loss: Vec<usize> = (0..sizes.len()).collect();
    by_loss.sort_by_key(|&class| (Reverse(sizes[class] * count % all), class));
    let left = count - shares.iter().sum::<u64>();
    by_loss.iter().take(left as usize).for_each(|&class| shares[class] += 1);

    // A class that the training set, or after that the test set, would lack takes the place of one
    // example of the class that has most there.
    let kept = sizes.iter().zip(&shares).map(|(size, share)| size - share);
    let mut kept = LargestFirst::new(kept);
    for class in 0..sizes.len() {
        if sizes[class] > 0
            && shares[class] == sizes[class]
            && let Some(giver) = kept.take_one()
        {
            shares[giver] += 1;
            shares[class] -= 1;
        }
    }
    let mut tested = LargestFirst::new(shares.iter().copied());
    for class in 0..sizes.len() {
        if sizes[class] > 1
            && shares[class] == 0
            && let Some(giver) = tested.take_one()
        {
            shares[giver] -= 1;
            shares[class] += 1;
        }
    }
    shares
}

/// Classes by their number of examples in a set.
struct LargestFirst(BinaryHeap<(u64, Reverse<usize>)>);

impl LargestFirst {
    fn new(counts: impl Iterator<Item = u64>) -> Self {
        Self(counts.zip((0..).map(Reverse)).collect())
    }

    /// Takes one example from the largest class, unless it has only one left.
    fn take_one(&mut self) -> Option<usize> {
        let mut largest = self.0.peek_mut().filter(|largest| largest.0 > 1)?;
        largest.0 -= 1;
        Some(largest.1.0)
    }
}

/// Draws `count` different numbers below `size`, every set of them equally likely (Floyd's
/// method), and returns them in increasing order.
fn draw_subset(random: &mut Random, size: u64, count: u64) -> Vec<u32> {
    let mut drawn = HashSet::with_capacity(count as usize);
    for last in size - count..size {
        let number = random.range(last + 1) as u32;
        if !drawn.insert(number) {
            drawn.insert(last as u32);
        }
    }
    let mut drawn: Vec<u32> = drawn.into_iter().collect();
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
#[path = "hold_out_tests.rs"]
mod tests;
