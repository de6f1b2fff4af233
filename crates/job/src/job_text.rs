//! What is wrong with a job file that cannot be read, in words that name the remedy.

use std::path::Path;

/// What was probably meant by a path that does not exist; empty if that is unknown.
pub(super) fn path_hint(path: &Path) -> &'static str {
    match path.to_str() {
        Some("-") => "a job is read from a file, not from standard input",
        Some(text) if text.contains("://") => {
            "this is an address; fetch the file first, and give its path"
        }
        _ => "",
    }
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
    why
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
