//! Every crate can be published: `cargo package` succeeds, and the registry's page would say what
//! the crate is.
//!
//! The packages are not built here: that takes as long as building the workspace again.

use serde_json::Value;

use crate::metadata::metadata;
use crate::process::cargo;
use crate::source_tree::SourceFile;

/// What the registry shows of a crate.
const SHOWN: &[&str] =
    &["description", "license", "repository", "documentation", "readme", "keywords", "categories"];

/// The most keywords that the registry takes.
const MOST_KEYWORDS: usize = 5;

pub(crate) fn check(_: &[SourceFile]) -> Vec<String> {
    let metadata = match metadata(&["--no-deps"]) {
        Ok(metadata) => metadata,
        Err(why) => return vec![why],
    };
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    // An empty list of registries is `publish = false`.
    let is_published =
        |package: &&Value| package["publish"].as_array().is_none_or(|r| !r.is_empty());
    let mut faults: Vec<_> =
        packages.iter().filter(is_published).flat_map(missing_fields).collect();
    let mut package = cargo(&["package", "--workspace", "--no-verify", "--allow-dirty"]);
    // What the workspace depends on is there when anything has been built.
    package.args(["--offline", "--quiet"]);
    for unpublished in packages.iter().filter(|package| !is_published(package)) {
        package.args(["--exclude", unpublished["name"].as_str().unwrap_or_default()]);
    }
    match package.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => faults.push(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
        Err(error) => faults.push(format!("cargo package: {error}")),
    }
    faults
}

fn missing_fields(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let is_there = |field: &str| match &package[field] {
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    let mut faults: Vec<_> = SHOWN
        .iter()
        .filter(|field| !is_there(field))
        .map(|field| format!("{name}: Cargo.toml has no {field}"))
        .collect();
    let keywords = package["keywords"].as_array().map_or(0, Vec::len);
    if keywords > MOST_KEYWORDS {
        faults.push(format!("{name}: {keywords} keywords, more than {MOST_KEYWORDS}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_fields_are_named() {
        let package = json!({
            "name": "a", "description": "b", "license": "MIT", "repository": "c", "readme": null,
            "documentation": "d", "keywords": ["1", "2", "3", "4", "5", "6"], "categories": [],
        });
        assert_eq!(
            missing_fields(&package),
            [
                "a: Cargo.toml has no readme",
                "a: Cargo.toml has no categories",
                "a: 6 keywords, more than 5",
            ]
        );
    }
}
