//! A copy of a model's parameters, whose memory follows the entries that exist.

use crate::context::VisitPiece;
use crate::error::TrainError;

/// All parameters of a model, given and visited in order. If keys have several parameters, those
/// that are all zero, such as those without an entry, take no memory.
pub(crate) struct KeptParams {
    /// Parameters of each key.
    width: usize,
    /// The keys that are kept, in order; none if each has one parameter.
    keys: Vec<u32>,
    /// The parameters of these keys, or all.
    values: Vec<f32>,
    /// The first parameters of the next key, behind all that are known.
    begun: Vec<f32>,
    next: u32,
}

impl KeptParams {
    /// No parameters yet, of keys that have `width` each.
    pub(crate) fn new(width: usize) -> Self {
        Self { width, keys: Vec::new(), values: Vec::new(), begun: Vec::new(), next: 0 }
    }

    /// Adds the parameters that follow.
    pub(crate) fn extend(&mut self, piece: &[f32]) {
        if self.width == 1 {
            return self.values.extend_from_slice(piece);
        }
        self.begun.extend_from_slice(piece);
        let mut whole = self.begun.chunks_exact(self.width);
        for (key, values) in (self.next..).zip(&mut whole) {
            if values.iter().any(|value| value.to_bits() != 0) {
                self.keys.push(key);
                self.values.extend_from_slice(values);
            }
            self.next += 1;
        }
        let last = whole.remainder().len();
        self.begun.drain(..self.begun.len() - last);
    }

    /// All parameters, if each key has one.
    pub(crate) fn all(&self) -> &[f32] {
        assert_eq!(self.width, 1, "parameters of a key");
        &self.values
    }

    /// Appends the parameters of some keys; zeros take the place of those that the last key lacks.
    pub(crate) fn read(&self, keys: &[u32], out: &mut Vec<f32>) {
        for key in keys {
            let end = out.len() + self.width;
            match self.keys.binary_search(key) {
                _ if self.width == 1 => out.push(self.values[*key as usize]),
                Ok(at) => out.extend_from_slice(&self.values[at * self.width..][..self.width]),
                Err(_) if *key == self.next => out.extend_from_slice(&self.begun),
                Err(_) => {}
            }
            out.resize(end, 0.0);
        }
    }

    /// Calls `visit` with all parameters in order, a piece at a time.
    pub(crate) fn for_each_piece(&self, visit: &mut VisitPiece<'_>) -> Result<(), TrainError> {
        if self.width == 1 {
            return visit(&self.values);
        }
        let mut kept = self.keys.iter().zip(self.values.chunks_exact(self.width)).peekable();
        for from in (0..self.next).step_by(1 << 14) {
            let to = self.next.min(from + (1 << 14));
            let mut piece = vec![0.0; (to - from) as usize * self.width];
            while let Some((key, values)) = kept.next_if(|(key, _)| **key < to) {
                let at = (key - from) as usize * self.width;
                piece[at..at + self.width].copy_from_slice(values);
            }
            visit(&piece)?;
        }
        visit(&self.begun)
    }
}

#[cfg(test)]
mod tests;
