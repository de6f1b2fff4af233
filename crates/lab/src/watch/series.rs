//! A curve that may have millions of points, in bounded memory, ready to be drawn at any width.
//!
//! A screen cannot show more than a few thousand points of a curve, but which ones it should show
//! is known only when somebody looks. So points are kept as *buckets* of equally many points each:
//! where they begin, their least, greatest and mean value. A bucket holds one point until there
//! are too many buckets; then neighbours are put together, two and two, and each holds twice as
//! many. What is drawn is buckets put together in the same way, so that a spike is never lost.

use std::ops::Range;

/// Buckets that are kept at most, 32 bytes each.
const MOST_BUCKETS: usize = 1 << 20;

/// Some points in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bucket {
    /// The global step of the first.
    pub(crate) step: u64,
    /// When the first was written, in seconds since 1970.
    pub(crate) wall_seconds: f64,
    pub(crate) min: f32,
    pub(crate) max: f32,
    pub(crate) mean: f32,
}

/// Which way a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurveAxis {
    Step,
    Time,
}

/// A place in a curve, for whoever wants to know what has come since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentMark {
    generation: u64,
    buckets: usize,
}

/// A curve.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    buckets: Vec<Bucket>,
    /// Points in each bucket but the last.
    stride: u64,
    /// Points in the last bucket.
    in_last: u64,
    /// Changes when buckets that were there become others.
    generation: u64,
    most: usize,
}

impl Default for Series {
    fn default() -> Self {
        Self::with_most(MOST_BUCKETS)
    }
}

impl Series {
    fn with_most(most: usize) -> Self {
        Self { buckets: Vec::new(), stride: 1, in_last: 1, generation: 1, most }
    }

    /// Adds a point at the end; one that is no number is left out.
    pub(crate) fn push(&mut self, step: u64, wall_seconds: f64, value: f32) {
        if !value.is_finite() {
            return;
        }
        match self.buckets.last_mut().filter(|_| self.in_last < self.stride) {
            Some(last) => {
                self.in_last += 1;
                last.min = last.min.min(value);
                last.max = last.max.max(value);
                last.mean += (value - last.mean) / self.in_last as f32;
            }
            None => {
                self.halve_if_full();
                let (min, max, mean) = (value, value, value);
                self.buckets.push(Bucket { step, wall_seconds, min, max, mean });
                self.in_last = 1;
            }
        }
    }

    fn halve_if_full(&mut self) {
        if self.buckets.len() < self.most {
            return;
        }
        self.buckets = self.buckets.chunks(2).map(joined).collect();
        self.stride *= 2;
        self.generation += 1;
    }

    /// Forgets the points of this step and later ones.
    pub(crate) fn forget_from(&mut self, step: u64) {
        let keep = self.buckets.partition_point(|bucket| bucket.step < step);
        if keep < self.buckets.len() {
            self.buckets.truncate(keep);
            // The last bucket that stays may hold points that do not: it is closed as it is.
            self.in_last = self.stride;
            self.generation += 1;
        }
    }

    /// The last bucket, complete or not.
    pub(crate) fn last(&self) -> Option<&Bucket> {
        self.buckets.last()
    }

    /// The first bucket.
    pub(crate) fn first(&self) -> Option<&Bucket> {
        self.buckets.first()
    }

    /// The mean of all values.
    pub(crate) fn mean(&self) -> Option<f64> {
        let sum: f64 = self.buckets.iter().map(|bucket| f64::from(bucket.mean)).sum();
        (!self.buckets.is_empty()).then(|| sum / self.buckets.len() as f64)
    }

    /// What has come since the mark, in at most so many buckets, and the mark for the next time;
    /// all of it, and true, if what was there before has changed.
    pub(crate) fn since(&self, mark: SentMark, most: usize) -> (Vec<Bucket>, bool, SentMark) {
        // A bucket that is not full yet will change, unless nothing else is ever shown.
        let is_open = self.stride > 1 && self.in_last < self.stride;
        let complete = self.buckets.len() - usize::from(is_open);
        let is_anew = mark.generation != self.generation;
        let from = if is_anew { 0 } else { mark.buckets.min(complete) };
        let mark = SentMark { generation: self.generation, buckets: complete };
        (self.put_together(from..complete, most), is_anew, mark)
    }

    /// What lies between two places of an axis, and a little around, in at most so many buckets.
    pub(crate) fn between(&self, axis: CurveAxis, range: Range<f64>, most: usize) -> Vec<Bucket> {
        let place = |bucket: &Bucket| match axis {
            CurveAxis::Step => bucket.step as f64,
            CurveAxis::Time => bucket.wall_seconds,
        };
        let from = self.buckets.partition_point(|bucket| place(bucket) < range.start);
        let to = self.buckets.partition_point(|bucket| place(bucket) <= range.end);
        let around = from.saturating_sub(1)..(to + 1).min(self.buckets.len());
        self.put_together(around, most)
    }

    fn put_together(&self, range: Range<usize>, most: usize) -> Vec<Bucket> {
        let buckets = self.buckets.get(range).unwrap_or_default();
        let many = buckets.len().div_ceil(most.max(1)).max(1);
        buckets.chunks(many).map(joined).collect()
    }
}

/// Several buckets as one. There is one at least.
fn joined(buckets: &[Bucket]) -> Bucket {
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

    fn series(most: usize, points: u64) -> Series {
        let mut series = Series::with_most(most);
        (0..points).for_each(|i| series.push(i, 100.0 + i as f64, i as f32));
        series
    }

    #[test]
    fn memory_is_bounded_and_no_spike_is_lost() {
        let mut series = series(64, 10_000);
        series.push(10_000, 200.0, 1e9);
        (10_001..20_000).for_each(|i| series.push(i, 300.0, 0.0));
        assert!(series.buckets.len() <= 64 && series.stride == 512, "{}", series.stride);
        let (drawn, ..) = series.since(SentMark::default(), 10);
        assert!(drawn.len() <= 10);
        assert_eq!(drawn.iter().map(|bucket| bucket.max).fold(0.0, f32::max), 1e9);
        assert_eq!((drawn[0].step, drawn[0].min), (0, 0.0));
    }

    #[test]
    fn means_are_of_all_points() {
        let series = series(16, 1024);
        assert!((series.mean().unwrap() - 511.5).abs() < 1e-3);
        assert_eq!(series.since(SentMark::default(), 1).0[0].mean, 511.5);
    }

    #[test]
    fn what_is_new_comes_once_and_what_has_changed_comes_again() {
        let mut series = series(64, 10);
        let (all, is_anew, mark) = series.since(SentMark::default(), 100);
        assert_eq!((all.len(), is_anew), (10, true));
        assert_eq!(series.since(mark, 100), (Vec::new(), false, mark));
        series.push(10, 0.0, 1.0);
        let (new, is_anew, mark) = series.since(mark, 100);
        assert_eq!((new.len(), new[0].step, is_anew), (1, 10, false));
        series.forget_from(5);
        let (all, is_anew, _) = series.since(mark, 100);
        assert_eq!((all.len(), is_anew, series.last().unwrap().step), (5, true, 4));
    }

    #[test]
    fn a_part_is_drawn_finer_than_the_whole() {
        let series = series(1 << 12, 4_000);
        let whole = series.between(CurveAxis::Step, 0.0..1e9, 100);
        let part = series.between(CurveAxis::Time, 1100.0..1149.0, 100);
        assert!(whole.len() <= 100 && part.len() == 52, "{} {}", whole.len(), part.len());
        assert_eq!((part[0].step, part[51].step), (999, 1050));
        assert!(series.between(CurveAxis::Step, 9.0..3.0, 10).len() <= 2);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut series = Series::default();
        series.push(0, 0.0, f32::NAN);
        series.push(1, 0.0, f32::INFINITY);
        assert!(series.last().is_none() && series.mean().is_none());
    }
}
