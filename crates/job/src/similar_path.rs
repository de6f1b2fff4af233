//! The path that was probably meant by one that does not exist.

use std::path::Path;

/// The least likeness of two names, from 0 to 1, for one to be suggested instead of the other.
const LEAST_LIKENESS: f64 = 0.7;

/// The path beside `path` with the most similar name, as text to add to an error; empty if none is
/// similar. `is_candidate` says which paths can be meant.
pub fn did_you_mean(path: &Path, is_candidate: fn(&Path) -> bool) -> String {
    match similar_path(path, is_candidate) {
        Some(near) => format!(" (did you mean {near}?)"),
        None => String::new(),
    }
}

fn similar_path(path: &Path, is_candidate: fn(&Path) -> bool) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        is_candidate(&entry.path()).then_some(name)
    });
    // A link to nothing is listed, but does not exist.
    let names = names.filter(|other| other != name);
    // Names with equal endings are alike only if what is before the endings is.
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let stem = |name: &str| name.strip_suffix(ending).unwrap_or(name).to_owned();
    let likeness = |other: &String| strsim::jaro_winkler(&stem(name), &stem(other));
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    let is_alike = likeness(&best) > LEAST_LIKENESS;
    is_alike.then(|| path.with_file_name(best).display().to_string())
}
