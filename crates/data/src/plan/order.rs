//! Permutations of an epoch's examples, computed instead of stored.

use std::ops::Range;

use paceline_generate::random::mix;

/// The order of one epoch: a permutation of windows, and in each window one of its examples.
#[derive(Clone, Debug)]
pub(super) struct EpochOrder {
    key: u64,
    window: u64,
    windows: Permutation,
    /// The length of the last window of the data, and its place in the order of windows.
    short: u64,
    short_turn: u64,
    /// The place of the window that was used last, its order and its first example.
    turn: u64,
    inside: Permutation,
    begin: u64,
    /// The rounds of `inside` as tables, once they are needed.
    rounds: Option<Box<RoundTables>>,
}

impl EpochOrder {
    /// The order of `examples` examples that belongs to a key.
    pub(super) fn new(examples: u64, window: u64, key: u64) -> Self {
        let window = window.min(examples);
        let count = examples.div_ceil(window);
        let windows = Permutation::new(count, key);
        let short = examples - (count - 1) * window;
        let inside = Permutation::new(examples, key);
        // A single window is the full shuffle, whose order is already in `inside`.
        let turn = if count == 1 { 0 } else { u64::MAX };
        let short_turn = windows.position_of(count - 1);
        Self { key, window, windows, short, short_turn, turn, inside, begin: 0, rounds: None }
    }

    /// Appends the examples at these positions.
    pub(super) fn take(&mut self, positions: Range<u64>, out: &mut Vec<u32>) {
        if self.windows.n == 1 && self.inside.is_narrow() {
            let rounds = self.rounds.get_or_insert_with(|| Box::new(RoundTables::of(&self.inside)));
            out.extend(positions.map(|position| rounds.at(position)));
        } else {
            out.extend(positions.map(|position| self.at(position) as u32));
        }
    }

    /// The example at a position.
    pub(super) fn at(&mut self, position: u64) -> u64 {
        // All windows have the same length except the short one.
        let before_short = self.short_turn * self.window;
        let (turn, offset) = if position < before_short {
            (position / self.window, position % self.window)
        } else if position < before_short + self.short {
            (self.short_turn, position - before_short)
        } else {
            let after = position - before_short - self.short;
            (self.short_turn + 1 + after / self.window, after % self.window)
        };
        if turn != self.turn {
            let len = if turn == self.short_turn { self.short } else { self.window };
            let window = self.windows.at(turn);
            self.inside = Permutation::new(len, mix(self.key).wrapping_add(window));
            (self.turn, self.begin) = (turn, window * self.window);
        }
        self.begin + self.inside.at(offset)
    }
}

/// A permutation of `0..n`: a Feistel network over the next power of two, applied until the result
/// is below `n`.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    n: u64,
    key: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
}

impl Permutation {
    const ROUNDS: u64 = 6;

    fn new(n: u64, key: u64) -> Self {
        let bits = (u64::BITS - (n - 1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        let high_mask = (1 << (bits - low_bits)) - 1;
        Self { n, key: mix(key), low_bits, low_mask: (1 << low_bits) - 1, high_mask }
    }

    fn at(&self, position: u64) -> u64 {
        // Each application lands in `0..n` with a chance of at least one half. The network is a
        // permutation, so a walk that starts inside `0..n` must return to it.
        let mut value = self.scramble(position);
        while value >= self.n {
            value = self.scramble(value);
        }
        value
    }

    /// The bits that a round mixes from one half of a value into the other, before masking.
    #[inline(always)]
    fn round(&self, round: u64, half: u64) -> u64 {
        mix(half ^ self.key ^ round << 48)
    }

    /// Whether both halves of a value are short enough for [`RoundTables`].
    fn is_narrow(&self) -> bool {
        self.low_mask.max(self.high_mask) < HALF as u64
    }

    fn scramble(&self, value: u64) -> u64 {
        let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
        for round in 0..Self::ROUNDS / 2 {
            low ^= self.round(2 * round, high) & self.low_mask;
            high ^= self.round(2 * round + 1, low) & self.high_mask;
        }
        high << self.low_bits | low
    }

    /// The position of `value`: the inverse of `at`.
    fn position_of(&self, value: u64) -> u64 {
        let mut position = self.unscramble(value);
        while position >= self.n {
            position = self.unscramble(position);
        }
        position
    }

    fn unscramble(&self, value: u64) -> u64 {
        let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
        for round in (0..Self::ROUNDS / 2).rev() {
            high ^= self.round(2 * round + 1, low) & self.high_mask;
            low ^= self.round(2 * round, high) & self.low_mask;
        }
        high << self.low_bits | low
    }
}

/// The number of values of half a position that a table of a round covers.
const HALF: usize = 256;

/// A permutation of few examples with its rounds as tables: the same order, several times faster.
#[derive(Clone, Debug)]
struct RoundTables {
    order: Permutation,
    tables: [[u8; HALF]; Permutation::ROUNDS as usize],
}

impl RoundTables {
    fn of(order: &Permutation) -> Self {
        let mut tables = [[0; HALF]; Permutation::ROUNDS as usize];
        for (round, table) in (0..).zip(&mut tables) {
            let (from, to) = match round % 2 {
                0 => (order.high_mask, order.low_mask),
                _ => (order.low_mask, order.high_mask),
            };
            for (half, value) in (0..=from).zip(table) {
                *value = (order.round(round, half) & to) as u8;
            }
        }
        Self { order: *order, tables }
    }

    #[inline]
    fn at(&self, position: u64) -> u32 {
        let (n, low_bits) = (self.order.n as usize, self.order.low_bits);
        let mut value = position as usize;
        loop {
            let (mut low, mut high) = (value & self.order.low_mask as usize, value >> low_bits);
            for pair in self.tables.as_chunks::<2>().0 {
                low ^= usize::from(pair[0][high % HALF]);
                high ^= usize::from(pair[1][low % HALF]);
            }
            value = high << low_bits | low;
            if value < n {
                return value as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_tables_give_the_same_order() {
        for n in [1, 2, 3, 200, 256, 1_000, 60_000, 65_536] {
            let order = Permutation::new(n, 77);
            assert!(order.is_narrow());
            let rounds = RoundTables::of(&order);
            assert!((0..n).all(|at| u64::from(rounds.at(at)) == order.at(at)), "{n}");
        }
        assert!(!Permutation::new(65_537, 77).is_narrow());
    }
}
