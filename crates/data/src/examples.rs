//! The interface of every source of dense examples.
//!
//! Digits in memory, pictures in folders and generated pictures implement one trait, so a
//! worker's loop and the [`Loader`](crate::Loader) work with any of them.

use crate::batch::bytes_to_unit;
use crate::error::DataError;
use crate::images::Images;

/// What the elements of a file are that examples are read from. Predictions read other files the
/// same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ElementForm {
    /// Numbers, which keep their values.
    #[default]
    Numbers,
    /// Bytes of pixels, which become numbers from 0 to 1.
    Pixels,
    /// Encoded pictures.
    Pictures,
    /// Rows of LIBSVM text.
    Rows {
        /// The index of the first feature: 0 or 1.
        first_index: u32,
    },
}

/// Examples of one size: each is a dense row of numbers with the number of its class.
///
/// Implement this trait to train on data of your own. A reader asks for an example by its index
/// and by the number of the epoch: random crops and flips must depend on
/// (seed, epoch, example) alone. A run can then be repeated with any number of workers, each of
/// which sees what a single worker would have seen.
///
/// ```
/// use paceline_data::{DataError, Examples};
///
/// /// Points on a grid, labelled by the side of the diagonal they lie on.
/// struct Grid(usize);
///
/// impl Examples for Grid {
///     fn len(&self) -> usize {
///         self.0 * self.0
///     }
///
///     fn shape(&self) -> [usize; 3] {
///         [1, 1, 2]
///     }
///
///     fn classes(&self) -> usize {
///         2
///     }
///
///     fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
///         let (x, y) = (example as usize % self.0, example as usize / self.0);
///         out.copy_from_slice(&[x as f32, y as f32]);
///         Ok(u32::from(x > y))
///     }
/// }
///
/// let mut point = [0.0; 2];
/// assert_eq!(Grid(4).fill(7, 0, &mut point).unwrap(), 1);
/// assert_eq!(point, [3.0, 1.0]);
/// ```
pub trait Examples: Send + Sync {
    /// The number of examples.
    fn len(&self) -> usize;

    /// Whether there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Channels, rows and columns of one example, in the order its values lie in memory. Data
    /// that is not an image has the shape `[1, 1, values]`.
    fn shape(&self) -> [usize; 3];

    /// The number of values of one example: the product of its [`shape`](Self::shape).
    fn inputs(&self) -> usize {
        self.shape().iter().product()
    }

    /// The number of classes; every label is below it.
    fn classes(&self) -> usize;

    /// The names of the classes, if they have names: class `i` is the name at index `i`.
    fn class_names(&self) -> &[String] {
        &[]
    }

    /// What the elements of the files are that the examples are read from.
    fn element_form(&self) -> ElementForm {
        ElementForm::Numbers
    }

    /// The class of an example, if it is known without reading the example.
    fn class_of(&self, _example: u32) -> Option<u32> {
        None
    }

    /// Whether examples have weights of their own ([`weight_of`](Self::weight_of)).
    fn has_weights(&self) -> bool {
        false
    }

    /// What the loss and the gradient of an example are multiplied by in training. It is asked for
    /// only if [`has_weights`](Self::has_weights) is true.
    fn weight_of(&self, _example: u32) -> f32 {
        1.0
    }

    /// Writes the values of an example to `out` and returns its class.
    ///
    /// Equal arguments give equal values, whatever was read before and by whichever thread.
    ///
    /// # Errors
    /// If the example cannot be read. If [`DataError::is_bad_example`] is true of the error, the
    /// fault lies in this one example and a caller may use another in its place.
    ///
    /// # Panics
    /// If `example` is not below [`len`](Self::len), or `out` does not have
    /// [`inputs`](Self::inputs) values.
    fn fill(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<u32, DataError>;
}

impl Examples for Images {
    fn len(&self) -> usize {
        Images::len(self)
    }

    fn shape(&self) -> [usize; 3] {
        [1, self.rows(), self.cols()]
    }

    fn classes(&self) -> usize {
        Images::classes(self)
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.label(example as usize).into())
    }

    fn fill(&self, example: u32, _epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        assert_eq!(out.len(), Images::inputs(self), "the buffer must hold exactly one image");
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
        assert_eq!((images.shape(), Examples::inputs(&images)), ([1, 1, 3], 3));
    }
}
