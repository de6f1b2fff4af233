//! Means and peaks over many samples.

/// Means and peaks of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The number of samples.
    pub samples: u64,
    /// The number of cores that the task may use.
    pub cores: f64,
    seconds: f64,
    sums: Vec<f64>,
    peaks: Vec<f64>,
}

impl Usage {
    /// Without samples, for a task that may use these cores and has this number of columns.
    pub(crate) fn of_cores(cores: f64, width: usize) -> Self {
        Self { cores, sums: vec![0.0; width], peaks: vec![0.0; width], ..Self::default() }
    }

    /// Forgets all samples.
    pub(crate) fn begin_again(&mut self) {
        *self = Self::of_cores(self.cores, self.sums.len());
    }

    /// Adds the figures of an interval of these seconds.
    pub(crate) fn add(&mut self, figures: &[f64], seconds: f64) {
        self.samples += 1;
        self.seconds += seconds;
        for (column, figure) in figures.iter().enumerate() {
            self.sums[column] += figure * seconds;
            self.peaks[column] = self.peaks[column].max(*figure);
        }
    }

    /// The mean of each column over time; 0 without samples.
    pub fn means(&self) -> Vec<f64> {
        let mean = |sum: &f64| if self.seconds > 0.0 { sum / self.seconds } else { 0.0 };
        self.sums.iter().map(mean).collect()
    }

    /// The greatest figure of each column.
    pub fn peaks(&self) -> &[f64] {
        &self.peaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::columns::WIDTH;

    #[test]
    fn means_are_over_time_and_peaks_over_samples() {
        let mut usage = Usage::of_cores(1.0, WIDTH);
        assert_eq!(usage.means(), [0.0; WIDTH]);
        usage.add(&[1.0; WIDTH], 3.0);
        usage.add(&[5.0; WIDTH], 1.0);
        assert_eq!((usage.samples, usage.means()[0], usage.peaks()[0]), (2, 2.0, 5.0));
    }
}
