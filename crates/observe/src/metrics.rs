//! A task's figures while it runs, in the text format of Prometheus.

use std::fmt::Write;

use crate::process;

/// The type of a figure, as Prometheus defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    /// It only grows.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// All figures of one name.
#[derive(Debug)]
struct MetricFamily {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, kind: MetricKind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, kind: MetricKind::Gauge, help }
}

/// Every figure; a task publishes those that it knows. `docs/observe.md` lists them.
const FAMILIES: [MetricFamily; 18] = [
    gauge("paceline_info", "1, with the task, the mode, the model and the version as labels"),
    gauge("paceline_global_step", "Updates made, as far as the task knows"),
    counter("paceline_steps_total", "Steps that the worker took"),
    counter("paceline_examples_total", "Examples that the worker trained on"),
    gauge("paceline_train_loss", "Loss of the worker's last batch"),
    gauge("paceline_test_loss", "Loss of the last test; coordinator and evaluator"),
    gauge(
        "paceline_test_accuracy_ratio",
        "Share of test examples classified correctly in the last test; coordinator and evaluator",
    ),
    counter(
        "paceline_phase_seconds_total",
        "Time that the worker or the server's threads spent in each phase",
    ),
    counter("paceline_sent_bytes_total", "Bytes sent to each other task"),
    counter("paceline_received_bytes_total", "Bytes received from each other task"),
    counter("paceline_applied_gradients_total", "Gradients that the server applied"),
    counter("paceline_dropped_gradients_total", "Gradients that came too late for the server"),
    gauge("paceline_staleness_mean_updates", "Mean staleness of applied gradients, in updates"),
    gauge("paceline_staleness_max_updates", "Greatest staleness of applied gradients, in updates"),
    gauge("paceline_gradient_seconds", "Mean time of each worker to a gradient; server 0 only"),
    counter("process_cpu_seconds_total", "Processor time of the task, user and system"),
    gauge("process_resident_memory_bytes", "Resident memory of the task"),
    gauge("process_start_time_seconds", "When the task was started, since 1970"),
];

/// The published figures of a task.
#[derive(Debug, Default)]
pub struct MetricFigures(Vec<MetricFigure>);

#[derive(Debug)]
struct MetricFigure {
    /// The name of its family.
    family: &'static str,
    label: Option<MetricLabel>,
    value: f64,
}

#[derive(Debug)]
struct MetricLabel {
    name: &'static str,
    value: String,
}

impl MetricFigures {
    /// Removes all figures.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a figure without a label.
    pub fn add(&mut self, name: &'static str, figure: f64) {
        self.0.push(MetricFigure { family: name, label: None, value: figure });
    }

    /// Adds a figure with a label.
    pub fn add_of(
        &mut self,
        name: &'static str,
        label: &'static str,
        of: impl Into<String>,
        figure: f64,
    ) {
        let label = Some(MetricLabel { name: label, value: of.into() });
        self.0.push(MetricFigure { family: name, label, value: figure });
    }

    /// All figures in Prometheus' text format, with those of this process. `info` has the labels of
    /// the task, and `started_s` is when it was started, in seconds since 1970.
    pub fn render(&self, info: &str, started_s: f64) -> String {
        let used = [
            ("process_cpu_seconds_total", process::cpu_seconds()),
            ("process_resident_memory_bytes", process::rss_bytes().map(|bytes| bytes as f64)),
            ("process_start_time_seconds", Some(started_s)),
        ];
        let mut text = String::new();
        for MetricFamily { name, kind, help } in &FAMILIES {
            let mut lines = String::new();
            if *name == "paceline_info" {
                let _ = writeln!(lines, "{name}{{{info}}} 1");
            }
            for figure in self.0.iter().filter(|figure| figure.family == *name) {
                if let Some(MetricLabel { name: label, value: of }) = &figure.label {
                    let _ = writeln!(lines, "{name}{{{label}=\"{of}\"}} {}", figure.value);
                } else {
                    let _ = writeln!(lines, "{name} {}", figure.value);
                }
            }
            for (_, figure) in used.iter().filter(|(used, _)| used == name) {
                let _ = figure.map(|figure| writeln!(lines, "{name} {figure}"));
            }
            if !lines.is_empty() {
                let kind = if *kind == MetricKind::Counter { "counter" } else { "gauge" };
                let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_documented_and_has_a_unique_name() {
        let docs = include_str!("../../../docs/observe.md");
        for (at, family) in FAMILIES.iter().enumerate() {
            assert!(docs.contains(&format!("`{}`", family.name)), "{}", family.name);
            assert!(FAMILIES[..at].iter().all(|other| other.name != family.name));
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
        }
    }
}
