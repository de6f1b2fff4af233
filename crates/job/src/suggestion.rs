//! Which key was probably meant by a name that is none.

use super::column_path::split_column;
use super::layer_path::{LAYERS, at_place, pattern_of, place_of};
use super::schema::KEYS;

/// Keys of other programs, and what means the same here.
const OTHER_KEYS: [(&str, &str); 14] = [
    ("data", "data.path"),
    ("data.name", "data.kind"),
    ("data.type", "data.kind"),
    ("data.format", "data.kind"),
    ("model", "model.kind"),
    ("model.name", "model.kind"),
    ("model.type", "model.kind"),
    ("train.optimizer.name", "train.optimizer.kind"),
    ("train.optimizer.type", "train.optimizer.kind"),
    ("data.label_column", LABEL_COLUMN),
    ("data.labels_column", LABEL_COLUMN),
    ("cluster.bound", "cluster.staleness"),
    ("checkpoint.copies", "checkpoint.to"),
    ("checkpoint.every", "checkpoint.every_steps or checkpoint.every_seconds"),
];

/// Names that other programs have in any section, with `_` between words, and what means the same
/// here.
const OTHER_NAMES: [(&[&str], &str); 16] = [
    (&["lr", "learning_rate", "step_size", "eta"], "train.optimizer.rate"),
    (&["weight_decay", "wd"], "train.optimizer.decay"),
    (&["optimizer", "optimiser"], "train.optimizer.kind"),
    (&["batch_size", "minibatch", "mini_batch"], "train.batch"),
    (&["num_epochs", "max_epochs", "n_epochs", "epoch"], "train.stop.epochs"),
    (&["iterations", "max_iter", "num_iterations", "max_steps", "num_steps"], "train.stop.steps"),
    (&["early_stopping"], "train.stop.patience"),
    (&["accuracy", "test_accuracy", "target_accuracy"], "train.stop.test_loss"),
    (&["label", "target", "label_column", "target_column"], LABEL_COLUMN),
    (&["dataset"], "data.kind"),
    (&["file", "filename", "files", "train_path", "train_file", "data_dir", "dir"], "data.path"),
    (&["test_size", "test_split", "test_file"], "data.test"),
    (&["validation_split", "val_split", "validation_size", "val"], "data.validation"),
    (&["num_workers", "n_workers", "nodes", "world_size"], "cluster.workers"),
    (&["num_threads", "n_threads", "n_jobs", "cores", "cpus"], "train.threads"),
    (&["random_state", "random_seed"], "seed"),
];

/// How a table's label is named.
const LABEL_COLUMN: &str = "data.columns.NAME = \"label\"";

/// The key that was probably meant by a path that is none, as the end of a sentence.
pub(super) fn key_suggestion(path: &str) -> String {
    sentence_end(similar_key(path))
}

/// The section that was probably meant by a path that is none, as the end of a sentence.
pub(super) fn section_suggestion(
    path: &str,
    sections: impl Iterator<Item = &'static str>,
) -> String {
    sentence_end(most_similar(path, sections))
}

fn sentence_end(meant: Option<String>) -> String {
    match meant {
        Some(name) => format!("; did you mean {name}?"),
        None => "; docs/job.md lists all keys, `paceline explain` those in use".to_owned(),
    }
}

/// The key that a word of another program's command line probably means, such as `batch-size`.
///
/// ```
/// use paceline_job::key_for_word;
///
/// assert_eq!(key_for_word("epochs").as_deref(), Some("train.stop.epochs"));
/// assert_eq!(key_for_word("batch-size").as_deref(), Some("train.batch"));
/// assert_eq!(key_for_word("gpu"), None);
/// ```
pub fn key_for_word(word: &str) -> Option<String> {
    let word = word.replace('-', "_");
    let is_name_of = |key: &String| key.rsplit('.').next() == Some(&word);
    let translated = other_name(&word).map(str::to_owned);
    translated.or_else(|| similar_key(&word).filter(is_name_of))
}

fn similar_key(path: &str) -> Option<String> {
    let keys = KEYS.iter().map(|key| key.path.as_str()).chain([LAYERS]);
    other_name(path).map(str::to_owned).or_else(|| most_similar(path, keys))
}

fn most_similar(path: &str, known: impl Iterator<Item = &'static str>) -> Option<String> {
    let (place, pattern) = (place_of(path), pattern_of(path));
    let path = pattern.to_lowercase();
    let path = path.as_str();
    let is_of_column = split_column(path).is_some();
    let known = known.filter(|name| is_of_column || split_column(name).is_none());
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |name: &str| {
        // The right name in the wrong section is more likely than a typing error.
        let same_name = if last(name) == last(path) { 0.5 } else { 0.0 };
        // A key of a list's items is rarely meant by one that names no list.
        let in_list = if name.contains('#') && !path.contains('#') { 0.25 } else { 0.0 };
        strsim::normalized_damerau_levenshtein(name, path) + same_name - in_list
    };
    // The first of equals, which is nearer to the top.
    known
        .map(|name| (likeness(name), name))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .filter(|(likeness, _)| *likeness > 0.5)
        .map(|(_, name)| at_place(name, place.as_deref().or(Some("0"))))
}

/// What another program's key is called here.
fn other_name(path: &str) -> Option<&'static str> {
    let path = path.to_lowercase();
    if let Some((_, here)) = OTHER_KEYS.iter().find(|(other, _)| *other == path) {
        return Some(here);
    }
    let (section, name) = path.rsplit_once('.').unwrap_or(("", &path));
    let (_, here) = OTHER_NAMES.iter().find(|(others, _)| others.contains(&name))?;
    let is_likely = match section {
        "" | "data" | "model" | "train" | "train.optimizer" | "train.stop" => true,
        _ => here.strip_prefix(section).is_some_and(|rest| rest.starts_with('.')),
    };
    is_likely.then_some(*here)
}
