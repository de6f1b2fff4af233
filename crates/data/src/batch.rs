//! A batch as models take it: numbers, not bytes.
//!
//! Images stay bytes in memory until the step that uses them, which keeps MNIST at 55 MB instead of
//! 220 MB. The buffer is refilled for every step and allocates only the first time.

use pulp::Arch;

use crate::images::Images;

/// A reusable buffer for one batch of examples.
#[derive(Debug, Default)]
pub struct BatchBuffer {
    /// The examples' values, example after example: grey pixels from 0 to 1, or what
    /// [`Examples::fill`](crate::Examples::fill) writes.
    pub inputs: Vec<f32>,
    /// The examples' classes.
    pub labels: Vec<u32>,
    /// The examples' weights; empty if they have none.
    pub weights: Vec<f32>,
}

impl BatchBuffer {
    /// Replaces the buffer's contents with the given examples.
    #[inline]
    pub fn fill(
        &mut self,
        images: &Images,
        examples: impl ExactSizeIterator<Item = usize> + Clone,
    ) {
        let width = images.inputs();
        self.inputs.resize(examples.len() * width, 0.0);
        self.labels.clear();
        self.weights.clear();
        // Shuffled examples lie anywhere in memory: prefetch them before they are needed.
        let mut ahead = examples.clone();
        ahead.by_ref().take(AHEAD).for_each(|example| prefetch(images.image(example)));
        let (inputs, labels) = (&mut self.inputs, &mut self.labels);
        // The processor's vectors are looked up once for all examples.
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (row, example) in inputs.chunks_exact_mut(width).zip(examples) {
                    if let Some(later) = ahead.next() {
                        prefetch(images.image(later));
                    }
                    convert(images.image(example), row);
                    labels.push(u32::from(images.label(example)));
                }
            },
        );
    }
}

/// How many examples before its use an example is prefetched.
const AHEAD: usize = 3;

/// Starts loading these bytes into the processor's cache, without waiting for them.
#[inline]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    // The last byte may be in a line of its own, because the first need not begin one.
    for byte in bytes.iter().step_by(64).chain(bytes.last()) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "the instruction has no safe form")]
        // SAFETY: a prefetch has no visible effect and never faults, and the address points into a
        // slice.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// `out[i] = bytes[i] / 255`, with the widest vectors of the processor.
pub(crate) fn bytes_to_unit(bytes: &[u8], out: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || convert(bytes, out),
    );
}

/// `out[i] = bytes[i] / 255`, with the vectors of the caller.
#[inline(always)]
fn convert(bytes: &[u8], out: &mut [f32]) {
    for (out, &byte) in out.iter_mut().zip(bytes) {
        *out = f32::from(byte) * (1.0 / 255.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_become_numbers_from_0_to_1() {
        let images = Images::new(1, 3, 10, vec![0, 51, 255, 1, 2, 3], vec![7, 9]).unwrap();
        let mut batch = BatchBuffer::default();
        batch.fill(&images, [1, 0].into_iter());
        assert_eq!(batch.labels, [9, 7]);
        assert_eq!((batch.inputs[3], batch.inputs[5]), (0.0, 1.0));
        assert!((batch.inputs[4] - 0.2).abs() < 1e-6);
        batch.fill(&images, [0].into_iter());
        assert_eq!((batch.inputs.len(), batch.labels.len()), (3, 1));
    }
}
