//! What can be wrong with the content of an IDX file.

/// The greatest height or width of an image, in pixels; a greater one is taken for damage.
pub(crate) const MAX_SIDE: u32 = 4096;

/// The longest content of a file, in bytes: forty times MNIST.
pub(crate) const MAX_BYTES: u64 = 2 << 30;

/// What is wrong with the content of an IDX file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdxFault {
    /// The file ends within the header.
    #[error("not an IDX file: only {got} of the {need} bytes of its header are there")]
    NoHeader {
        /// The length of the content, in bytes.
        got: usize,
        /// The length of a header, in bytes.
        need: usize,
    },
    /// The first four bytes are not those of an IDX file of images or labels.
    #[error("not an IDX file: it begins with {found:#010x}, not with {expected:#010x}")]
    Magic {
        /// The first four bytes.
        found: u32,
        /// What they should be.
        expected: u32,
    },
    /// A file of labels in place of images.
    #[error("this is a labels file, and images were expected; are two file names swapped?")]
    LabelsNotImages,
    /// A file of images in place of labels.
    #[error("this is an images file, and labels were expected; are two file names swapped?")]
    ImagesNotLabels,
    /// A header with impossible sizes.
    #[error(
        "its header claims {count} images of {rows} x {cols}; expected at least one, of 1 to \
         {MAX_SIDE} pixels a side and {MAX_BYTES} bytes in all"
    )]
    Shape {
        /// The claimed number of images.
        count: u32,
        /// The claimed height.
        rows: u32,
        /// The claimed width.
        cols: u32,
    },
    /// A file of labels without labels.
    #[error("its header claims no labels at all")]
    NoLabels,
    /// The file ends before its header says.
    #[error(
        "cut short: {got} of {expected} bytes are there after the header; copy or fetch it again"
    )]
    Short {
        /// Bytes after the header.
        got: u64,
        /// Bytes that the header claims.
        expected: u64,
    },
    /// The file continues where it should end.
    #[error("too long: more than the {expected} bytes its header claims; fetch it again")]
    Long {
        /// Bytes that the header claims.
        expected: u64,
    },
    /// The gzip wrapping is damaged or cut short.
    #[error("damaged gzip ({what}); copy or fetch it again")]
    Gzip {
        /// The decoder's message.
        what: String,
    },
    /// A label that is not below the number of classes.
    #[error("label {index} is {value}, but labels run from 0 to {}", classes.saturating_sub(1))]
    Label {
        /// The index of the label, from 0.
        index: usize,
        /// The label.
        value: u8,
        /// The number of classes.
        classes: usize,
    },
}
