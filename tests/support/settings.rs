//! Settings that keep runs short.

/// Arguments that make the built-in job a matter of milliseconds, in one process.
pub(crate) const SMALL: [&str; 6] = [
    "--set",
    "cluster.mode=single",
    "--set",
    "data.train_examples=600",
    "--set",
    "data.test_examples=100",
];

/// Settings that do the same for runs of several tasks, whatever their mode.
pub(crate) const SMALL_DATA: [&str; 2] = ["data.train_examples=600", "data.test_examples=100"];

/// The modes that share parameters through servers.
pub(crate) const SHARED_MODES: [&str; 3] = ["async", "sync", "bounded"];

/// The setting of a run that only a signal ends. Its steps are slow, so that it leaves the cores to
/// other tests while the test looks at it.
pub(crate) const ENDLESS: &str = "train.stop={test_loss=1e-9}";

/// What makes the steps of small models slow: the tasks sleep most of the time.
const SLOW: (&str, &str) = ("PACELINE_TEST_SLOW", "*:20");

/// The environment of tasks with these settings.
pub(crate) fn environment_for<'a>(
    mut settings: impl Iterator<Item = &'a str>,
) -> Option<(&'static str, &'static str)> {
    settings.any(|setting| setting == ENDLESS).then_some(SLOW)
}
