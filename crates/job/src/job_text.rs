//! What is wrong with a job file that cannot be read, in words that name the remedy.

use std::path::Path;

use super::schema::find_key;
use super::similar_path::did_you_mean;

/// What was probably meant by a path that cannot be opened, if that is known.
pub(super) fn path_hint(path: &Path) -> Option<String> {
    let text = path.to_str().unwrap_or_default();
    if text == "-" {
        return Some("a job is read from a file, not from standard input".into());
    }
    if text.contains("://") {
        return Some("this is an address; fetch the file first, and give its path".into());
    }
    if path.exists() {
        return None;
    }
    if text.split_once('=').is_some_and(|(key, _)| find_key(key).is_some()) {
        return Some(format!("there is no such file; a key is set with --set {text}"));
    }
    let near = did_you_mean(path, |path| path.extension().is_some_and(|ending| ending == "toml"));
    (!near.is_empty()).then(|| format!("there is no such file{near}"))
}

/// Says why a text is not TOML.
pub(super) fn invalid_toml(text: &str, error: &toml::de::Error) -> String {
    let why = error.message().replace('\n', "; ");
    if let Some(language) = other_language(text) {
        return format!("this looks like {language}, but a job is a TOML file: {why}");
    }
    let name = error.span().and_then(|span| text.get(span)).unwrap_or_default();
    if why == "duplicate key" && !name.is_empty() {
        return format!("{name} is there twice; remove one of them");
    }
    let line = error.span().and_then(|span| line_around(text, span.start)).unwrap_or_default();
    value_remedy(line).unwrap_or(why)
}

/// The line with this byte of a text.
fn line_around(text: &str, at: usize) -> Option<&str> {
    let (before, after) = (text.get(..at)?, text.get(at..)?);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = after.find('\n').map_or(text.len(), |length| at + length);
    text.get(start..end)
}

/// What is wrong with a line whose value is neither a number nor in quotes or brackets, and what to
/// write instead.
fn value_remedy(line: &str) -> Option<String> {
    let (_, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let with_point = value.replace(',', ".");
    let lower = value.to_lowercase();
    if value.is_empty() {
        return Some("there is no value after the =".into());
    }
    let remedy = if value.starts_with(['"', '\'', '[', '{']) {
        return None;
    } else if let Some(rest) = value.strip_suffix(',') {
        format!("leave out the comma: {rest}")
    } else if value.contains(',') && with_point.parse::<f64>().is_ok() {
        format!("a number has a point: {with_point}")
    } else if ["true", "false"].contains(&lower.as_str()) {
        format!("write {lower}")
    } else {
        format!("text needs quotes: \"{value}\"")
    };
    Some(format!("{value} is not a value in TOML; {remedy}"))
}

/// The language of a text that is not TOML, if its first line shows it.
fn other_language(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(str::trim_end);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_word =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    if first.starts_with('{') {
        Some("JSON")
    } else if first == "---" || first.split_once(':').is_some_and(|(name, _)| is_word(name)) {
        Some("YAML")
    } else if text.contains('\0') {
        Some("binary data")
    } else {
        None
    }
}
