//! The area under the ROC curve, in constant memory.
//!
//! An exact ranking needs every score, and test sets have millions of rows. So each class has a
//! histogram over the leading bits of the scores: sign, exponent and 9 bits of the fraction, a
//! relative resolution of 1/512. Pairs that share a bin count half, as ties do. The area is
//! therefore wrong by at most half the share of unequal pairs in one bin, and exact without such
//! pairs.

/// Leading bits of a score that determine its bin.
const BITS: u32 = 18;
const BINS: usize = 1 << BITS;

/// The distribution of the scores of two classes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranking {
    /// The number of examples of class 0 and of class 1 in each bin, lowest scores first.
    bins: Vec<[u64; 2]>,
}

impl Default for Ranking {
    fn default() -> Self {
        Self { bins: vec![[0; 2]; BINS] }
    }
}

impl Ranking {
    /// Counts an example.
    #[inline]
    pub(crate) fn count(&mut self, score: f32, present: bool) {
        self.bins[bin(score)][usize::from(present)] += 1;
    }

    /// The probability that an example of class 1 ranks above one of class 0, where ties count
    /// half; `None` if a class has no examples.
    pub(crate) fn auc(&self) -> Option<f64> {
        // Twice the number of pairs in order: exact for up to 2^64 examples of each class.
        let (mut below, mut above, mut doubled) = (0u128, 0u128, 0u128);
        for &[absent, present] in &self.bins {
            let (absent, present) = (u128::from(absent), u128::from(present));
            doubled += present * (2 * below + absent);
            below += absent;
            above += present;
        }
        let pairs = below * above;
        (pairs > 0).then(|| doubled as f64 / (2.0 * pairs as f64))
    }
}

/// The bin of a score. A greater score never has a smaller bin.
#[inline]
fn bin(score: f32) -> usize {
    // Adding zero turns -0.0 into 0.0.
    let bits = (score + 0.0).to_bits();
    // The bits of negative numbers are in reverse order, and they come first.
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    (ordered >> (u32::BITS - BITS)) as usize
}

#[cfg(test)]
mod tests;
