//! Labelled grey images, as bytes in memory or in a mapped file.
//!
//! Pixels stay bytes until a batch is filled: MNIST takes 47 MB this way and would take 188 MB as
//! floats, and the conversion costs no more than the copy that is needed anyway.

use crate::error::DataError;
use crate::hold_out::{choose_by_class, test_order};
use crate::image_bytes::{FileIdentity, ImageBytes};

/// Grey images of one size, each with the number of its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    rows: usize,
    cols: usize,
    classes: usize,
    pixels: ImageBytes,
    labels: Vec<u8>,
}

impl Images {
    /// Combines pixels (image after image, row after row) with labels.
    ///
    /// # Errors
    /// If there are not exactly `rows * cols` pixels for each label, or a label is not below
    /// `classes`.
    pub fn new(
        rows: usize,
        cols: usize,
        classes: usize,
        pixels: Vec<u8>,
        labels: Vec<u8>,
    ) -> Result<Self, DataError> {
        Self::of_bytes(rows, cols, classes, ImageBytes::Owned(pixels), labels)
    }

    /// As [`Images::new`], with pixels in memory or in a file.
    pub(crate) fn of_bytes(
        rows: usize,
        cols: usize,
        classes: usize,
        pixels: ImageBytes,
        labels: Vec<u8>,
    ) -> Result<Self, DataError> {
        if rows == 0 || cols == 0 {
            return Err(DataError::Images { what: format!("an image of {rows} x {cols} pixels") });
        }
        let expected = rows.checked_mul(cols).and_then(|area| area.checked_mul(labels.len()));
        if expected != Some(pixels.len()) {
            let (count, got) = (labels.len(), pixels.len());
            return Err(DataError::Images {
                what: format!("{got} pixels for {count} labels and images of {rows} x {cols}"),
            });
        }
        if let Some(index) = labels.iter().position(|&label| usize::from(label) >= classes) {
            let label = labels[index];
            return Err(DataError::Images {
                what: format!("label {index} is {label}, but there are only {classes} classes"),
            });
        }
        Ok(Images { rows, cols, classes, pixels, labels })
    }

    /// Splits off `count` randomly drawn images, from each class in proportion to its size: the
    /// others in their order, and the drawn ones. Equal seeds draw equal images.
    ///
    /// # Errors
    /// If no image would be left.
    pub fn hold_out(&self, count: usize, seed: u64) -> Result<[Self; 2], DataError> {
        let all = self.len();
        if count >= all {
            let what = format!("{count} of {all} images cannot be held out");
            return Err(DataError::Images { what });
        }
        let labels = self.labels.iter().map(|&label| label.into());
        let held = choose_by_class(labels, count, seed);
        let mut is_held = vec![false; all];
        held.iter().for_each(|&image| is_held[image as usize] = true);
        let rest: Vec<u32> = (0..all as u32).filter(|&image| !is_held[image as usize]).collect();
        Ok([rest, test_order(held, seed)].map(|which| {
            let images = which.iter().map(|&image| image as usize);
            let pixels = images.clone().flat_map(|image| self.image(image)).copied().collect();
            Images {
                pixels: ImageBytes::Owned(pixels),
                labels: images.map(|image| self.labels[image]).collect(),
                ..*self
            }
        }))
    }

    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The height of an image, in pixels.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The width of an image, in pixels.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The number of classes; every label is below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The number of values of one image: `rows * cols`.
    #[inline]
    pub fn inputs(&self) -> usize {
        self.rows * self.cols
    }

    /// The pixels of image `index`, row after row; 0 is background, 255 full ink.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn image(&self, index: usize) -> &[u8] {
        let area = self.inputs();
        &self.pixels[index * area..(index + 1) * area]
    }

    /// The pixels of all images, image after image.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The mapped file that the pixels are in, if they are in one.
    pub(crate) fn file(&self) -> Option<&FileIdentity> {
        match &self.pixels {
            ImageBytes::Owned(_) => None,
            ImageBytes::Mapped(mapped) => Some(&mapped.file),
        }
    }

    /// The class of image `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[inline]
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// The classes of all images, in order.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_back_what_was_put_in() {
        let images = Images::new(1, 2, 3, vec![1, 2, 3, 4], vec![0, 2]).unwrap();
        assert_eq!((images.len(), images.inputs(), images.classes()), (2, 2, 3));
        assert_eq!((images.image(1), images.label(1)), (&[3, 4][..], 2));
        assert!(!images.is_empty());
    }

    #[test]
    fn refuses_what_does_not_fit_together() {
        let check = |rows, cols, pixels: usize, labels: &[u8], says: &str| {
            let error = Images::new(rows, cols, 10, vec![0; pixels], labels.to_vec()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        };
        check(2, 2, 7, &[1, 2], "7 pixels for 2 labels");
        check(2, 2, 9, &[1, 2], "9 pixels for 2 labels");
        check(2, 2, 8, &[1, 10], "label 1 is 10");
        check(0, 2, 0, &[1], "0 x 2");
        check(usize::MAX, 2, 0, &[1], "0 pixels");
    }
}
