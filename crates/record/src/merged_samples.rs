//! Merges resource samples, so that fewer of them are written the longer a run takes.

use paceline_observe::Sample;

/// Samples that are not written yet, as one.
#[derive(Debug, Default)]
pub(crate) struct MergedSamples {
    merged: Option<Sample>,
    /// The time that the merged sample is of.
    seconds: f64,
    /// When the last sample was taken.
    last_s: Option<f64>,
    /// When the first sample was taken.
    first_s: Option<f64>,
}

impl MergedSamples {
    /// Adds a sample. Its figures are of the time since the sample before, and count in proportion
    /// to it.
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.first_s.get_or_insert(sample.time_s);
        let before = self.last_s.replace(sample.time_s);
        // A clock that was set back must not give a sample a negative weight.
        let seconds = before.map_or(0.0, |before| sample.time_s - before).max(1e-3);
        let Some(merged) = &mut self.merged else {
            (self.merged, self.seconds) = (Some(sample.clone()), seconds);
            return;
        };
        self.seconds += seconds;
        let share = seconds / self.seconds;
        for (mean, figure) in merged.figures.iter_mut().zip(&sample.figures) {
            *mean += (figure - *mean) * share;
        }
        (merged.time_s, merged.step) = (sample.time_s, sample.step);
    }

    /// Seconds from the first sample to the last.
    pub(crate) fn elapsed_s(&self) -> f64 {
        self.last_s.zip(self.first_s).map_or(0.0, |(last, first)| last - first)
    }

    /// Takes the samples since the last call as one: their means, and the time and step of the
    /// last.
    pub(crate) fn take(&mut self) -> Option<Sample> {
        self.merged.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_sample_is_the_mean_over_time() {
        let mut samples = MergedSamples::default();
        let sample = |time_s, step, figure| Sample { time_s, step, figures: vec![figure, 7.0] };
        samples.add(&sample(10.0, 1, 100.0));
        assert_eq!(samples.take(), Some(sample(10.0, 1, 100.0)));
        // One second of 20 and three seconds of 60.
        samples.add(&sample(11.0, 2, 20.0));
        samples.add(&sample(14.0, 3, 60.0));
        assert_eq!(samples.take(), Some(sample(14.0, 3, 50.0)));
        assert_eq!((samples.take(), samples.elapsed_s()), (None, 4.0));
    }
}
