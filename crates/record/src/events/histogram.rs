//! Histograms, for TensorBoard's Histograms and Distributions tabs.

/// The numbers of values in adjacent buckets.
///
/// Bucket `i` counts values from `edges[i]` to below `edges[i + 1]`; the last bucket includes its
/// upper edge. A value outside all buckets counts in the nearest one, so that none is lost. Values
/// that are not finite are counted separately.
///
/// ```
/// use paceline_record::events::Histogram;
///
/// let mut staleness = Histogram::with_edges(vec![0.0, 1.0, 2.0, 8.0]);
/// [0.0, 1.0, 1.0, 7.5].map(|updates| staleness.add(updates));
/// assert_eq!(staleness.counts(), [1, 2, 1]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    edges: Vec<f64>,
    counts: Vec<u64>,
    not_finite: u64,
}

impl Histogram {
    /// An empty histogram with these edges.
    ///
    /// # Panics
    ///
    /// If there are fewer than two edges, or they are not finite or not in ascending order.
    pub fn with_edges(edges: Vec<f64>) -> Self {
        assert!(edges.len() >= 2, "a histogram needs two edges, not {}", edges.len());
        assert!(edges.iter().all(|edge| edge.is_finite()), "an edge is not finite: {edges:?}");
        assert!(edges.is_sorted(), "the edges are not in order: {edges:?}");
        let counts = vec![0; edges.len() - 1];
        Self { edges, counts, not_finite: 0 }
    }

    /// A histogram with these edges and counts.
    ///
    /// # Panics
    ///
    /// As [`with_edges`](Self::with_edges), and if there is not one count for each bucket.
    pub fn with_counts(edges: Vec<f64>, counts: Vec<u64>) -> Self {
        let empty = Self::with_edges(edges);
        assert_eq!(counts.len(), empty.counts.len(), "there must be a count for each bucket");
        Self { counts, ..empty }
    }

    /// The histogram of these values in buckets of equal width, from the least to the greatest.
    ///
    /// # Panics
    ///
    /// If `buckets` is 0.
    pub fn of(values: &[f32], buckets: usize) -> Self {
        assert!(buckets > 0, "a histogram needs a bucket");
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (min, max) = match finite().count() {
            0 => (0.0, 0.0),
            _ => (finite().fold(f32::MAX, f32::min), finite().fold(f32::MIN, f32::max)),
        };
        let (min, max) = (f64::from(min), f64::from(max));
        let width = (max - min) / buckets as f64;
        let mut edges: Vec<_> = (0..buckets).map(|i| (min + width * i as f64).min(max)).collect();
        edges.push(max);
        let mut histogram = Self::with_edges(edges);
        for &value in values {
            histogram.add(value.into());
        }
        histogram
    }

    /// Counts one value.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        let above = self.edges.partition_point(|edge| *edge <= value);
        let last = self.counts.len() - 1;
        self.counts[above.saturating_sub(1).min(last)] += 1;
    }

    /// The edges, one more than there are buckets.
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// The number of values in each bucket.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The number of values that were infinite or NaN. They are not written to the file.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The rows that TensorBoard reads: left edge, right edge, count.
    pub(super) fn rows(&self) -> impl Iterator<Item = [f64; 3]> {
        self.edges.windows(2).zip(&self.counts).map(|(e, count)| [e[0], e[1], *count as f64])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_belongs_to_the_bucket_on_its_right_except_the_last() {
        let mut histogram = Histogram::with_edges(vec![0.0, 1.0, 2.0, 4.0]);
        for value in [-5.0, 0.0, 0.5, 1.0, 2.0, 4.0, 100.0, f64::NAN, f64::INFINITY] {
            histogram.add(value);
        }
        assert_eq!(histogram.counts(), [3, 1, 3]);
        assert_eq!(histogram.not_finite(), 2);
    }

    #[test]
    fn buckets_of_equal_width_cover_all_finite_values() {
        let histogram = Histogram::of(&[1.0, 2.0, 3.0, 5.0, f32::NAN], 4);
        assert_eq!(histogram.edges(), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(histogram.counts(), [1, 1, 1, 1]);
        // Nothing, one value many times, and the widest range there is.
        assert_eq!(Histogram::of(&[], 3).counts(), [0, 0, 0]);
        assert_eq!(Histogram::of(&[7.0; 9], 3).counts().iter().sum::<u64>(), 9);
        assert_eq!(Histogram::of(&[f32::MIN, f32::MAX], 2).counts(), [1, 1]);
    }
}
