//! One door for everything that feeds a model with numbers.
//!
//! Digits in memory, pictures in folders and pictures that are made up on the way all answer
//! the same few questions, so a worker's loop and the [`Loader`](crate::Loader) need not know
//! which they have. An example is asked for by its number and by a *draw*: how it is cropped
//! and flipped depends on (seed, draw, example) alone, and the draw is the epoch, so a run can
//! be repeated by any number of slots, each of which sees what one wide slot would have seen.

use crate::batch::bytes_to_unit;
use crate::{DataError, Images};

/// Examples of one size, each a dense row of numbers with the number of its class.
pub trait DenseSource: Send + Sync {
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Channels, rows and columns of an example, in the order in which its values lie.
    fn shape(&self) -> [usize; 3];

    /// How many values an example has.
    fn inputs(&self) -> usize {
        self.shape().iter().product()
    }

    /// How many classes there are; every label is below this.
    fn classes(&self) -> usize;

    /// Writes the values of an example to `out` and returns its class. Equal numbers give equal
    /// values, whatever was asked for before and by which thread.
    ///
    /// # Errors
    /// If the example cannot be read. When [`DataError::is_bad_example`] says so the fault is in
    /// this one example, and another may be taken for it.
    ///
    /// # Panics
    /// If `example` is not below [`len`](Self::len), or `out` is not
    /// [`inputs`](Self::inputs) long.
    fn fill(&self, example: u32, draw: u64, out: &mut [f32]) -> Result<u32, DataError>;
}

impl DenseSource for Images {
    fn len(&self) -> usize {
        Images::len(self)
    }

    fn shape(&self) -> [usize; 3] {
        [1, self.rows(), self.cols()]
    }

    fn classes(&self) -> usize {
        Images::classes(self)
    }

    fn fill(&self, example: u32, _draw: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), Images::inputs(self), "room for one image");
        bytes_to_unit(self.image(example as usize), out);
        Ok(u32::from(self.label(example as usize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchBuffer;

    #[test]
    fn images_in_memory_give_what_a_batch_buffer_gives() {
        let images = Images::new(1, 3, 10, vec![0, 51, 255, 1, 2, 3], vec![7, 9]).unwrap();
        let mut batch = BatchBuffer::default();
        batch.fill(&images, [1].into_iter());
        let mut row = [9.0; 3];
        assert_eq!(images.fill(1, 5, &mut row).unwrap(), 9);
        assert_eq!(row, batch.inputs[..]);
        assert_eq!((images.shape(), DenseSource::inputs(&images)), ([1, 1, 3], 3));
    }
}
