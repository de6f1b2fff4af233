//! A curve of any number of points in bounded memory, ready to be drawn at any width.
//!
//! A screen shows at most a few thousand points of a curve, but which ones is known only when a
//! chart is drawn. So the curve is stored as *buckets* with equal numbers of consecutive points:
//! the position of the first, and the least, greatest and mean value. A bucket holds one point
//! until there are too many buckets; then neighbours are merged in pairs and each holds twice as
//! many. Drawing merges buckets in the same way, so a spike is never lost.

use std::ops::Range;

/// Most buckets of a curve, of 32 bytes each.
const MAX_BUCKETS: usize = 1 << 17;

/// Consecutive points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// Global step of the first point.
    pub(crate) step: u64,
    /// When the first point was recorded, in seconds since 1970.
    pub(crate) wall_seconds: f64,
    pub(crate) min: f32,
    pub(crate) max: f32,
    pub(crate) mean: f32,
}

/// The horizontal axis of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurveAxis {
    Step,
    Time,
}

/// How much of a curve a reader has received. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentMark {
    generation: u64,
    buckets: usize,
}

/// What a reader has not received of a curve.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewBuckets {
    pub(crate) buckets: Vec<Bucket>,
    /// Whether the buckets replace everything that the reader has received before.
    pub(crate) is_replacement: bool,
    /// The mark for the next call.
    pub(crate) mark: SentMark,
}

/// A curve in bounded memory.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    buckets: Vec<Bucket>,
    /// Points in each bucket except the last.
    stride: u64,
    /// Points in the last bucket.
    in_last: u64,
    /// Changes whenever existing buckets change.
    generation: u64,
    max_buckets: usize,
    /// The least and greatest of the values whose mean the next point is.
    next_range: Option<(f32, f32)>,
}

impl Default for Series {
    fn default() -> Self {
        Self::with_max_buckets(MAX_BUCKETS)
    }
}

impl Series {
    fn with_max_buckets(max_buckets: usize) -> Self {
        let (stride, in_last, generation, next_range) = (1, 1, 1, None);
        Self { buckets: Vec::new(), stride, in_last, generation, max_buckets, next_range }
    }

    /// The next point is a mean of values that include this one.
    pub(crate) fn widen_next(&mut self, value: f32) {
        if value.is_finite() {
            let (min, max) = self.next_range.unwrap_or((value, value));
            self.next_range = Some((min.min(value), max.max(value)));
        }
    }

    /// Appends a point; ignores values that are not finite.
    pub(crate) fn push(&mut self, step: u64, wall_seconds: f64, value: f32) {
        if !value.is_finite() {
            return;
        }
        let (min, max) = self.next_range.take().unwrap_or((value, value));
        match self.buckets.last_mut().filter(|_| self.in_last < self.stride) {
            Some(last) => {
                self.in_last += 1;
                last.min = last.min.min(min);
                last.max = last.max.max(max);
                last.mean += (value - last.mean) / self.in_last as f32;
            }
            None => {
                self.halve_if_full();
                self.buckets.push(Bucket { step, wall_seconds, min, max, mean: value });
                self.in_last = 1;
            }
        }
    }

    fn halve_if_full(&mut self) {
        if self.buckets.len() < self.max_buckets {
            return;
        }
        self.buckets = self.buckets.chunks(2).map(merged).collect();
        self.stride *= 2;
        self.generation += 1;
    }

    /// Drops the points of this step and later ones.
    pub(crate) fn truncate_from(&mut self, step: u64) {
        let keep = self.buckets.partition_point(|bucket| bucket.step < step);
        if keep < self.buckets.len() {
            self.buckets.truncate(keep);
            // The last remaining bucket may contain dropped points: close it as it is.
            self.in_last = self.stride;
            self.generation += 1;
        }
    }

    /// The last bucket, full or not.
    pub(crate) fn last(&self) -> Option<&Bucket> {
        self.buckets.last()
    }

    pub(crate) fn first(&self) -> Option<&Bucket> {
        self.buckets.first()
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.buckets.iter().map(|bucket| f64::from(bucket.mean)).sum();
        (!self.buckets.is_empty()).then(|| sum / self.buckets.len() as f64)
    }

    /// Returns what a reader with this mark has not received, merged into at most `max` buckets.
    pub(crate) fn since(&self, mark: SentMark, max: usize) -> NewBuckets {
        // The last bucket is held back while it still changes.
        let is_open = self.stride > 1 && self.in_last < self.stride;
        let full = self.buckets.len() - usize::from(is_open);
        let is_replacement = mark.generation != self.generation;
        let from = if is_replacement { 0 } else { mark.buckets.min(full) };
        let mark = SentMark { generation: self.generation, buckets: full };
        NewBuckets { buckets: self.merge(from..full, max), is_replacement, mark }
    }

    /// Returns the points between two positions of an axis and one bucket on either side, merged
    /// into at most `max` buckets.
    pub(crate) fn between(&self, axis: CurveAxis, range: Range<f64>, max: usize) -> Vec<Bucket> {
        let position = |bucket: &Bucket| match axis {
            CurveAxis::Step => bucket.step as f64,
            CurveAxis::Time => bucket.wall_seconds,
        };
        let from = self.buckets.partition_point(|bucket| position(bucket) < range.start);
        let to = self.buckets.partition_point(|bucket| position(bucket) <= range.end);
        self.merge(from.saturating_sub(1)..(to + 1).min(self.buckets.len()), max)
    }

    fn merge(&self, range: Range<usize>, max: usize) -> Vec<Bucket> {
        let mut drawn = self.merge_points(range, max);
        even_ranges(&mut drawn);
        drawn
    }

    fn merge_points(&self, range: Range<usize>, max: usize) -> Vec<Bucket> {
        let buckets = self.buckets.get(range).unwrap_or_default();
        let Some((last, others)) = buckets.split_last() else { return Vec::new() };
        if buckets.len() <= max {
            return buckets.to_vec();
        }
        if max < 2 {
            return vec![merged(buckets)];
        }
        // The last point stays alone, so that the curve is drawn to its end. With limits for half
        // of the points, no more than all of them are drawn; points that are evenly spaced allow
        // narrower limits.
        let most = max - 1;
        let mut attempts =
            (4..8).rev().map(|eighths| grouped(others, ((most - 1) * eighths / 8).max(1)));
        let mut drawn = attempts.find(|drawn| drawn.len() <= most).unwrap_or_default();
        drawn.push(*last);
        drawn
    }
}

/// Merges neighbours. A group ends because it has its share of `limit` of the points or of the
/// width: points are dense at first and far apart later.
fn grouped(buckets: &[Bucket], limit: usize) -> Vec<Bucket> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return Vec::new() };
    let most = buckets.len().div_ceil(limit);
    let widest = last.step.saturating_sub(first.step) / limit as u64;
    let (mut drawn, mut rest) = (Vec::with_capacity(2 * limit + 1), buckets);
    while let Some(first) = rest.first() {
        let is_near = |bucket: &&Bucket| bucket.step.saturating_sub(first.step) <= widest;
        let len = rest.iter().take(most).take_while(is_near).count();
        let (group, others) = rest.split_at(len);
        drawn.push(merged(group));
        rest = others;
    }
    drawn
}

/// Makes every range cover about equally many steps. Points are recorded for every step at first
/// and as means of several steps later, and the range of more steps is wider: without this, a band
/// would widen where only the recording changes and not the values.
fn even_ranges(drawn: &mut [Bucket]) {
    if drawn.iter().all(|bucket| bucket.min == bucket.max) {
        return; // Nothing is drawn as a band.
    }
    let mut spans: Vec<u64> =
        drawn.windows(2).map(|pair| pair[1].step.saturating_sub(pair[0].step)).collect();
    spans.sort_unstable();
    // Not the widest: one gap says nothing about the recording.
    let Some(&span) = spans.get(spans.len() * 9 / 10) else { return };
    for at in 0..drawn.len() {
        let end = drawn[at].step.saturating_add(span);
        let within = drawn[at + 1..].iter().take_while(|next| next.step < end);
        // The next bucket still has its own range.
        let ranges = within.map(|next| (next.min, next.max));
        let own = (drawn[at].min, drawn[at].max);
        let both = |a: (f32, f32), b: (f32, f32)| (a.0.min(b.0), a.1.max(b.1));
        (drawn[at].min, drawn[at].max) = ranges.fold(own, both);
    }
}

/// Merges buckets into one. The slice is not empty.
fn merged(buckets: &[Bucket]) -> Bucket {
    let mut sum = 0.0;
    let mut one = buckets[0];
    for bucket in buckets {
        one.min = one.min.min(bucket.min);
        one.max = one.max.max(bucket.max);
        sum += f64::from(bucket.mean);
    }
    Bucket { mean: (sum / buckets.len() as f64) as f32, ..one }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(max_buckets: usize, points: u64) -> Series {
        let mut series = Series::with_max_buckets(max_buckets);
        (0..points).for_each(|i| series.push(i, 100.0 + i as f64, i as f32));
        series
    }

    #[test]
    fn memory_is_bounded_and_no_spike_is_lost() {
        let mut series = series(64, 10_000);
        series.push(10_000, 200.0, 1e9);
        (10_001..20_000).for_each(|i| series.push(i, 300.0, 0.0));
        assert!(series.buckets.len() <= 64 && series.stride == 512, "{}", series.stride);
        let drawn = series.since(SentMark::default(), 10).buckets;
        assert!(drawn.len() <= 10);
        assert_eq!(drawn.iter().map(|bucket| bucket.max).fold(0.0, f32::max), 1e9);
        assert_eq!((drawn[0].step, drawn[0].min), (0, 0.0));
    }

    #[test]
    fn a_band_does_not_widen_where_points_become_means_of_several() {
        let mut series = Series::with_max_buckets(1 << 12);
        let noise = |step: u64| (step * 7 % 10) as f32;
        (0..1_000).for_each(|step| series.push(step, 0.0, noise(step)));
        for step in (1_000..5_000).step_by(10) {
            (step..step + 10).for_each(|own| series.widen_next(noise(own)));
            series.push(step, 0.0, 4.5);
        }
        // All points, and fewer.
        for max in [5_000, 300] {
            let drawn = series.since(SentMark::default(), max).buckets;
            let early = drawn.iter().filter(|bucket| bucket.step < 980);
            let widths: Vec<f32> = early.map(|bucket| bucket.max - bucket.min).collect();
            let late = &drawn[drawn.len() - 2];
            assert_eq!(late.max - late.min, 9.0);
            assert!(widths.iter().all(|width| *width >= 8.0), "{max}: {widths:?}");
        }
    }

    #[test]
    fn means_are_of_all_points() {
        let series = series(16, 1024);
        assert!((series.mean().unwrap() - 511.5).abs() < 1e-3);
        assert_eq!(series.since(SentMark::default(), 1).buckets[0].mean, 511.5);
    }

    #[test]
    fn new_points_are_sent_once_and_changed_points_again() {
        let mut series = series(64, 10);
        let all = series.since(SentMark::default(), 100);
        assert_eq!((all.buckets.len(), all.is_replacement), (10, true));
        let none = series.since(all.mark, 100);
        assert_eq!((none.buckets.len(), none.is_replacement, none.mark), (0, false, all.mark));
        series.push(10, 0.0, 1.0);
        let new = series.since(all.mark, 100);
        assert_eq!((new.buckets.len(), new.buckets[0].step, new.is_replacement), (1, 10, false));
        series.truncate_from(5);
        let all = series.since(new.mark, 100);
        assert_eq!((all.buckets.len(), all.is_replacement), (5, true));
        assert_eq!(series.last().unwrap().step, 4);
    }

    #[test]
    fn a_range_is_drawn_finer_than_the_whole() {
        let series = series(1 << 12, 4_000);
        let whole = series.between(CurveAxis::Step, 0.0..1e9, 100);
        let part = series.between(CurveAxis::Time, 1100.0..1149.0, 100);
        assert!(whole.len() <= 100 && part.len() == 52, "{} {}", whole.len(), part.len());
        assert_eq!((part[0].step, part[51].step), (999, 1050));
        assert!(series.between(CurveAxis::Step, 9.0..3.0, 10).len() <= 2);
    }

    #[test]
    fn a_curve_that_is_dense_only_at_first_reaches_its_end() {
        let mut series = series(1 << 14, 10_000);
        [30_000, 60_000, 90_000].into_iter().for_each(|step| series.push(step, 1e6, 1.0));
        for max in [3, 4, 100, 1_500] {
            let drawn = series.since(SentMark::default(), max).buckets;
            assert!(drawn.len() <= max, "{max}: {}", drawn.len());
            assert_eq!(drawn.last().map(|bucket| bucket.step), Some(90_000), "{max}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_ignored() {
        let mut series = Series::default();
        series.push(0, 0.0, f32::NAN);
        series.push(1, 0.0, f32::INFINITY);
        assert!(series.last().is_none() && series.mean().is_none());
    }
}
