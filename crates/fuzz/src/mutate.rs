//! Changes valid inputs a little, or a lot.

use paceline_data::Random;

/// The longest input, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Numbers at the edges of what fits.
const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// Pieces of text that readers treat specially.
const WORDS: [&str; 16] = [
    "nan",
    "inf",
    "-1",
    "1e999",
    "4294967295",
    "18446744073709551616",
    ":",
    ",",
    "\"",
    "\n",
    "\r\n",
    "\t",
    "{",
    "}",
    "[",
    "\0",
];

/// Draws inputs that are almost valid.
pub(crate) struct Mutator {
    random: Random,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(seeds: Vec<Vec<u8>>, seed: u64) -> Self {
        Self { random: Random::keyed(&[seed]), seeds }
    }

    fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { self.random.range(limit as u64) as usize }
    }

    /// The next input, in place of the last one.
    pub(crate) fn next(&mut self, input: &mut Vec<u8>) {
        input.clear();
        let seed = self.below(self.seeds.len());
        match self.seeds.get(seed) {
            Some(seed) => input.extend_from_slice(seed),
            None => return,
        }
        // Most inputs differ in one place; few in many.
        let most = 1 << self.below(5);
        let changes = 1 + self.below(most);
        for _ in 0..changes {
            self.change(input);
        }
        input.truncate(MAX_BYTES);
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (at, len) = (self.below(input.len() + 1), input.len());
        let end = (at + 1 + self.below(32)).min(len);
        match self.below(10) {
            0 if at < len => input[at] ^= 1 << self.below(8),
            1 if at < len => input[at] = self.below(256) as u8,
            2 => input.truncate(at),
            3 if at < end => drop(input.drain(at..end)),
            4 if at < end => {
                let copy = input[at..end].to_vec();
                let to = self.below(len + 1);
                input.splice(to..to, copy);
            }
            5 => {
                let bytes: Vec<u8> =
                    (0..1 + self.below(16)).map(|_| self.below(256) as u8).collect();
                input.splice(at..at, bytes);
            }
            6 => {
                let edge = EDGES[self.below(EDGES.len())];
                let width = 1 << self.below(4);
                let bytes = edge.to_le_bytes();
                let to = (at + width).min(len);
                input[at..to].copy_from_slice(&bytes[..to - at]);
            }
            7 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(at..end.max(at), word.bytes());
            }
            8 => {
                // The end of another input behind the beginning of this one.
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].len() + 1);
                let rest = self.seeds[other][from..].to_vec();
                input.truncate(at);
                input.extend(rest);
            }
            _ => {
                // The same again and again.
                let copy = input.clone();
                for _ in 0..self.below(4) {
                    input.extend_from_slice(&copy);
                }
            }
        }
    }
}
