//! Identifies a layout by its digest.

use paceline_model::Layout;
use sha2::{Digest, Sha256};

/// Identifies a layout: equal for equal names, shapes and groups of tensors.
pub fn layout_digest(layout: &Layout) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tensor in layout.tensors() {
        hash.update(format!("{} {:?} {:?}\n", tensor.name, tensor.shape, tensor.group));
    }
    hash.finalize().into()
}
