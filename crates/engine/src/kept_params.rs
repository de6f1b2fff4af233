//! A copy of a model's parameters, whose memory follows the entries that exist.

use crate::context::VisitPiece;
use crate::error::TrainError;

/// Keys that are visited together.
const KEYS: usize = 1 << 14;

/// All parameters of a model, given and visited in order. If keys have several parameters, those
/// that are all zero, such as those without an entry, take no memory.
#[derive(Default)]
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
        Self { width, ..Self::default() }
    }

    /// Forgets all parameters.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.begun.clear();
        self.next = 0;
    }

    /// Adds the parameters that follow.
    pub(crate) fn extend(&mut self, piece: &[f32]) {
        if self.width == 1 {
            return self.values.extend_from_slice(piece);
        }
        let missing = if self.begun.is_empty() { 0 } else { self.width - self.begun.len() };
        let (first, rest) = piece.split_at(missing.min(piece.len()));
        self.begun.extend_from_slice(first);
        if self.begun.len() == self.width {
            let key = std::mem::take(&mut self.begun);
            self.add_key(&key);
        }
        let whole = rest.chunks_exact(self.width);
        let last = whole.remainder();
        whole.for_each(|key| self.add_key(key));
        self.begun.extend_from_slice(last);
    }

    fn add_key(&mut self, values: &[f32]) {
        if values.iter().any(|value| value.to_bits() != 0) {
            self.keys.push(self.next);
            self.values.extend_from_slice(values);
        }
        self.next += 1;
    }

    /// All parameters, if each key has one.
    pub(crate) fn all(&self) -> &[f32] {
        assert_eq!(self.width, 1, "parameters of a key");
        &self.values
    }

    /// Appends the parameters of some keys; zeros take the place of those that the last key lacks.
    pub(crate) fn read(&self, keys: &[u32], out: &mut Vec<f32>) {
        if self.width == 1 {
            return out.extend(keys.iter().map(|&key| self.values[key as usize]));
        }
        for key in keys {
            let end = out.len() + self.width;
            match self.keys.binary_search(key) {
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
        let mut piece = Vec::new();
        for from in (0..self.next as usize).step_by(KEYS) {
            let to = (from + KEYS).min(self.next as usize);
            piece.clear();
            piece.resize((to - from) * self.width, 0.0);
            while let Some((key, values)) = kept.next_if(|(key, _)| (**key as usize) < to) {
                let at = (*key as usize - from) * self.width;
                piece[at..at + self.width].copy_from_slice(values);
            }
            visit(&piece)?;
        }
        visit(&self.begun)
    }
}

#[cfg(test)]
mod tests;
