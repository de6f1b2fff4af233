//! The figures of a run that tables show and that references and findings name.

use paceline_record::{ResourceUse, StoredSummary, TaskSummary};

/// One figure of a run.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name, as in `summary.json`.
    pub name: &'static str,
    /// Title of its column.
    pub title: &'static str,
    /// Factor from the unit of `summary.json` to the unit of the title.
    pub scale: f64,
    /// Decimal places of values below 10; larger values have fewer.
    pub digits: usize,
}

/// All figures, in the order of the table.
pub const FIGURES: &[Figure] = &[
    Figure { name: "seconds", title: "seconds", scale: 1.0, digits: 2 },
    Figure { name: "global_steps", title: "steps", scale: 1.0, digits: 0 },
    Figure { name: "examples", title: "examples", scale: 1.0, digits: 0 },
    Figure { name: "steps_per_second", title: "steps/s", scale: 1.0, digits: 1 },
    Figure { name: "examples_per_second", title: "examples/s", scale: 1.0, digits: 1 },
    Figure { name: "test_loss", title: "test loss", scale: 1.0, digits: 4 },
    Figure { name: "test_accuracy", title: "accuracy %", scale: 100.0, digits: 2 },
    Figure { name: "test_auc", title: "AUC", scale: 1.0, digits: 4 },
    Figure { name: "bytes_per_step", title: "kB/step", scale: 1e-3, digits: 1 },
    Figure { name: "network_bytes_per_second", title: "network MB/s", scale: 1e-6, digits: 2 },
    Figure { name: "peak_network_bytes_per_second", title: "peak MB/s", scale: 1e-6, digits: 2 },
    Figure { name: "cpu_percent", title: "CPU %", scale: 1.0, digits: 1 },
    Figure { name: "peak_cpu_percent", title: "peak CPU %", scale: 1.0, digits: 1 },
    Figure { name: "cpu_seconds", title: "CPU s", scale: 1.0, digits: 2 },
    Figure { name: "peak_rss_bytes", title: "peak MB", scale: 1e-6, digits: 1 },
];

impl Figure {
    /// Returns the figure with this name.
    pub fn named(name: &str) -> Option<&'static Figure> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// The value in a run; none if the summary does not have it.
    ///
    /// Processor time and network traffic are sums over all tasks, CPU is the mean over the tasks'
    /// machines, and memory and peaks are those of the task with the largest value.
    pub fn of(&self, summary: &StoredSummary) -> Option<f64> {
        let tasks = summary.tasks.iter();
        match self.name {
            "cpu_seconds" => tasks.map(|task| task.cpu_seconds).sum::<Option<f64>>(),
            "network_bytes_per_second" => {
                let sent: u64 = tasks.map(|task| task.sent_bytes).sum();
                summary.number("seconds").map(|seconds| sent as f64 / seconds)
            }
            "peak_network_bytes_per_second" => {
                resources(tasks).filter_map(ResourceUse::peak_network_bytes_per_s).reduce(f64::max)
            }
            "cpu_percent" => mean(resources(tasks).filter_map(ResourceUse::busy_percent)),
            "peak_cpu_percent" => {
                resources(tasks).filter_map(ResourceUse::peak_busy_percent).reduce(f64::max)
            }
            "peak_rss_bytes" => {
                tasks.filter_map(|task| task.peak_rss_bytes).max().map(|bytes| bytes as f64)
            }
            name => summary.number(name),
        }
        .filter(|number| number.is_finite())
    }

    /// Formats a value for a table, in the unit of the title.
    pub fn format(&self, value: f64) -> String {
        format_number(value * self.scale, self.digits)
    }

    /// Formats a mean and its deviation, both with the mean's digits.
    pub fn format_spread(&self, mean: f64, deviation: f64) -> String {
        let digits = shown_digits(mean * self.scale, self.digits);
        format!("{} ± {}", self.format(mean), group_thousands(deviation * self.scale, digits))
    }
}

fn resources<'a>(
    tasks: impl Iterator<Item = &'a TaskSummary>,
) -> impl Iterator<Item = &'a ResourceUse> {
    tasks.filter_map(|task| task.resources.as_ref())
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Formats a number with at most `digits` decimal places, fewer for large numbers, and with a comma
/// between thousands.
pub(crate) fn format_number(value: f64, digits: usize) -> String {
    group_thousands(value, shown_digits(value, digits))
}

/// The decimal places of a number that has at most `digits`.
fn shown_digits(value: f64, digits: usize) -> usize {
    let size = value.abs();
    let fewer = match size {
        s if s >= 1000.0 => digits,
        s if s >= 10.0 => digits.min(1),
        _ => 0,
    };
    // Losses and percentages keep their digits, because runs differ in the last of them.
    if digits >= 4 || size < 100.0 && digits == 2 { digits } else { digits - fewer }
}

fn group_thousands(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Whether a figure has this name.
pub fn is_figure(name: &str) -> bool {
    Figure::named(name).is_some()
}

/// The names of all figures.
pub fn figure_names() -> Vec<&'static str> {
    FIGURES.iter().map(|figure| figure.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_fewer_digits() {
        let shown = [(0.3512, 4), (92.137, 2), (291.94, 2), (45_912.3, 1), (7100.0, 0), (-1.25, 1)]
            .map(|(value, digits)| format_number(value, digits));
        assert_eq!(shown, ["0.3512", "92.14", "291.9", "45,912", "7,100", "-1.2"]);
    }

    #[test]
    fn a_deviation_has_the_digits_of_its_mean() {
        let spread =
            |name, mean, deviation| Figure::named(name).unwrap().format_spread(mean, deviation);
        assert_eq!(spread("cpu_percent", 100.0, 0.04), "100 ± 0");
        assert_eq!(spread("seconds", 0.137, 0.031), "0.14 ± 0.03");
        assert_eq!(spread("examples_per_second", 2.1715e6, 149_863.6), "2,171,500 ± 149,864");
    }

    #[test]
    fn memory_is_that_of_the_largest_task_and_processor_time_the_sum() {
        let text = r#"{"tasks": [{"cpu_seconds": 1.5, "peak_rss_bytes": 7},
                                 {"cpu_seconds": 2.0, "peak_rss_bytes": 5}]}"#;
        let summary = StoredSummary::parse(text).unwrap();
        let of = |name| Figure::named(name).unwrap().of(&summary);
        assert_eq!((of("cpu_seconds"), of("peak_rss_bytes")), (Some(3.5), Some(7.0)));
        assert_eq!(of("seconds"), None);
    }
}
