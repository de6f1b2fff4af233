//! Care for dependencies: each has a licence we can pass on, comes from the registry or from
//! here, is not there in two major versions, and, if we chose it ourselves, has earned its
//! place by a line in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::{Done, cargo};

/// Licences that can be passed on with ours.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "CDLA-Permissive-2.0",
    "0BSD",
    "BSL-1.0",
    "Unlicense",
];

/// Packages that may be there in several versions, because others have not agreed yet.
const SEVERAL_VERSIONS: &[&str] =
    &["getrandom", "hashbrown", "miniz_oxide", "syn", "thiserror", "thiserror-impl", "windows-sys"];

pub(crate) fn check(root: &Path) -> Done {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))
        .map_err(|error| format!("ARCHITECTURE.md: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;

    let mut faults = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        match package["source"].as_str() {
            None => faults.extend(unexplained(package, &architecture)),
            Some(source) if source.starts_with("registry+") => {}
            Some(source) => faults.push(format!("{name} comes from {source}")),
        }
        let licence = package["license"].as_str().unwrap_or_default();
        if !can_be_passed_on(licence) {
            faults.push(format!("{name} has the licence {licence:?}"));
        }
        versions.entry(name).or_default().insert(package["version"].as_str().unwrap_or_default());
    }
    for (name, versions) in versions {
        if versions.len() > 1 && !SEVERAL_VERSIONS.contains(&name) {
            faults.push(format!("{name} is there in {} versions: {versions:?}", versions.len()));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Our package's dependencies that ARCHITECTURE.md does not speak of.
fn unexplained(package: &Value, architecture: &str) -> Vec<String> {
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    dependencies
        .iter()
        .filter(|dependency| dependency["source"].is_string())
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| !architecture.contains(&format!("| `{name}` |")))
        .map(|name| format!("ARCHITECTURE.md has no line on the dependency {name}"))
        .collect()
}

/// Whether some choice that the licence expression offers is one of ours.
fn can_be_passed_on(licence: &str) -> bool {
    let plain = licence.replace(['(', ')'], "").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|choice| LICENCES.contains(&choice.trim())))
}
