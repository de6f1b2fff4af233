//! Identifies a layout by its digest.

use paceline_exchange::StepPiece;
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

/// Identifies a layout and how its layers travel: equal to that of the layout if none does as
/// factors.
pub fn pieces_digest(layout: &Layout, pieces: &[StepPiece]) -> [u8; 32] {
    let digest = layout_digest(layout);
    let factors = pieces.iter().filter(|piece| piece.factors.is_some());
    factors.fold(digest, |digest, piece| {
        let mut hash = Sha256::new();
        hash.update(digest);
        hash.update(format!("factors of {:?}\n", piece.range));
        hash.finalize().into()
    })
}
