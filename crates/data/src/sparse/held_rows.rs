//! The rows of a store that are left when some are held out, by index.
//!
//! Training must find row number i of the rest quickly, without a list as long as the data. The
//! held-out rows split the rest into runs, so a row's place in the store is its index plus the
//! number of held-out rows before it. A table says that number for blocks of indices, each about as
//! long as a run, so almost nothing is left to search.

/// Finds rows between held-out ones.
#[derive(Debug)]
pub(crate) struct HeldRows {
    /// For each held-out row, the index of the first remaining row after it.
    gaps: Box<[u32]>,
    /// The number of gaps before each block of indices, and after the last block all of them.
    blocks: Box<[u32]>,
    /// A block has 2 to the power of this many indices.
    block_bits: u32,
    rest: usize,
}

impl HeldRows {
    /// Holds out these rows, in increasing order, of a store's first `all` rows.
    pub(crate) fn new(held: &[u32], all: usize) -> Self {
        assert!(held.is_sorted_by(|a, b| a < b) && held.len() < all, "held-out rows");
        assert!(held.last().is_none_or(|&last| (last as usize) < all), "held-out rows");
        let rest = all - held.len();
        let gaps: Box<[u32]> = (0..).zip(held).map(|(before, &row)| row - before).collect();
        let block_bits = (rest / held.len().max(1)).max(1).ilog2();
        let blocks = (0..=(rest >> block_bits) + 1)
            .map(|block| gaps.partition_point(|&gap| (gap as usize) < block << block_bits) as u32);
        let blocks = blocks.collect();
        HeldRows { gaps, blocks, block_bits, rest }
    }

    /// The number of rows that are not held out.
    pub(crate) fn rest(&self) -> usize {
        self.rest
    }

    /// The held-out rows, in increasing order.
    pub(crate) fn held(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.gaps).map(|(before, &gap)| gap + before)
    }

    /// The place in the store of a row that is not held out.
    #[inline]
    pub(crate) fn locate(&self, index: usize) -> usize {
        let block = index >> self.block_bits;
        let (from, to) = (self.blocks[block] as usize, self.blocks[block + 1] as usize);
        let here = self.gaps[from..to].partition_point(|&gap| gap as usize <= index);
        index + from + here
    }
}

#[cfg(test)]
#[path = "held_rows_tests.rs"]
mod tests;
