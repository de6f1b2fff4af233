//! `cargo xtask deps`: every dependency has a licence that can be passed on with ours, comes from
//! the registry or this workspace, and is there in one version. ARCHITECTURE.md says why we chose
//! each that we depend on directly.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::metadata::metadata;
use crate::process::ChoreResult;

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
    "CC0-1.0",
    "Unlicense",
];

/// Packages that may be there in several versions, because our dependencies disagree on them.
const SEVERAL_VERSIONS: &[&str] = &[
    "getrandom",
    "hashbrown",
    "miniz_oxide",
    "num-bigint",
    "r-efi",
    "syn",
    "thiserror",
    "thiserror-impl",
    "windows-sys",
];

pub(crate) fn check(root: &Path) -> ChoreResult {
    let metadata = metadata(&[])?;
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

/// The direct dependencies of one of our packages that ARCHITECTURE.md does not list.
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

/// Whether each part of a licence expression offers a licence that can be passed on.
fn can_be_passed_on(licence: &str) -> bool {
    let plain = licence.replace(['(', ')'], "").replace('/', " OR ");
    plain
        .split(" AND ")
        .all(|part| part.split(" OR ").any(|choice| LICENCES.contains(&choice.trim())))
}
