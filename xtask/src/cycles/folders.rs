//! Modules taken together with all modules below them.

use std::collections::BTreeMap;

use super::module_tree::SourceModule;

/// For each module with children, which of the children each file below it belongs to. Groups
/// without a grandchild are left out: the check of files covers them.
pub(crate) fn sibling_groups(modules: &[SourceModule]) -> Vec<BTreeMap<usize, usize>> {
    let mut groups = vec![BTreeMap::new(); modules.len()];
    let mut is_deep = vec![false; modules.len()];
    for file in 0..modules.len() {
        let (mut child, mut parent) = (file, modules[file].parent);
        while let Some(above) = parent {
            groups[above].insert(file, child);
            is_deep[above] |= child != file;
            (child, parent) = (above, modules[above].parent);
        }
    }
    groups
        .into_iter()
        .zip(is_deep)
        .filter(|(_, is_deep)| *is_deep)
        .map(|(group, _)| group)
        .collect()
}
