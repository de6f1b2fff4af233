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
    Figure { name: "keys_per_step", title: "keys/step", scale: 1.0, digits: 1 },
    Figure { name: "key_bytes_per_step", title: "keys kB/step", scale: 1e-3, digits: 1 },
    Figure { name: "value_bytes_per_step", title: "values kB/step", scale: 1e-3, digits: 1 },
    Figure { name: "entries", title: "entries", scale: 1.0, digits: 0 },
    Figure { name: "entry_bytes", title: "entries MB", scale: 1e-6, digits: 1 },
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
    /// machines, and memory and peaks are those of the task with the largest value. Keys are
    /// counted in a worker's step, on average. Entries are counted on all servers; without servers
    /// each worker has all.
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
            "keys_per_step" => per_worker_step(summary, |task| task.keys),
            "key_bytes_per_step" => per_worker_step(summary, |task| task.key_bytes),
            "value_bytes_per_step" => per_worker_step(summary, |task| task.value_bytes),
            "entries" => held(summary, |task| task.entries),
            "entry_bytes" => held(summary, |task| task.entry_bytes),
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

/// The mean over the steps of all workers; none if it is 0, as for models that are not sparse.
fn per_worker_step(summary: &StoredSummary, of: impl Fn(&TaskSummary) -> u64) -> Option<f64> {
    let (sum, steps) = summary
        .worker_tasks()
        .fold((0, 0), |(sum, steps), task| (sum + of(task), steps + task.steps));
    (sum > 0 && steps > 0).then(|| sum as f64 / steps as f64)
}

/// What the servers hold together, or else the worker that holds most.
fn held(summary: &StoredSummary, of: impl Fn(&TaskSummary) -> Option<u64>) -> Option<f64> {
    let workers = summary.worker_tasks().filter_map(&of).max();
    let servers = summary.tasks.iter().filter(|task| !task.is_worker()).filter_map(&of);
    servers.reduce(|sum, more| sum + more).or(workers).map(|held| held as f64)
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
        assert_eq!((of("keys_per_step"), of("entries")), (None, None), "a dense model has none");
    }

    #[test]
    fn keys_are_those_of_a_step_and_entries_those_of_all_servers() {
        let text = r#"{"tasks": [
            {"task": "worker:0", "steps": 3, "keys": 30, "key_bytes": 60, "value_bytes": 1080},
            {"task": "worker:1", "steps": 1, "keys": 10, "key_bytes": 20, "value_bytes": 360},
            {"task": "ps:0", "steps": 4, "entries": 7, "entry_bytes": 700},
            {"task": "ps:1", "steps": 4, "entries": 8, "entry_bytes": 800}]}"#;
        let of = |text: &str, name| {
            Figure::named(name).unwrap().of(&StoredSummary::parse(text).unwrap())
        };
        let names = ["keys_per_step", "key_bytes_per_step", "value_bytes_per_step"];
        assert_eq!(names.map(|name| of(text, name)), [10.0, 20.0, 360.0].map(Some));
        assert_eq!(["entries", "entry_bytes"].map(|name| of(text, name)), [15.0, 1500.0].map(Some));
        let replicas = r#"{"tasks": [{"task": "worker:0", "entries": 7},
                                     {"task": "worker:1", "entries": 7}]}"#;
        assert_eq!(of(replicas, "entries"), Some(7.0));
    }
}
