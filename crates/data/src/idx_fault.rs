//! What can be wrong with the content of an IDX file.

/// The greatest height or width of an image, in pixels; a greater one is taken for damage.
pub(crate) const MAX_SIDE: u32 = 4096;

/// The longest content of a file, in bytes: forty times MNIST.
pub(crate) const MAX_BYTES: u64 = 2 << 30;

/// What is wrong with the content of an IDX file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdxFault {
    /// It ends within the header.
    #[error("not an IDX file: only {got} of the {need} bytes of its header are there")]
    NoHeader {
        /// The length of the content, in bytes.
        got: usize,
        /// The length of a header, in bytes.
        need: usize,
    },
    /// It begins with something else altogether.
    #[error("not an IDX file: it begins with {found:#010x}, not with {expected:#010x}")]
    Magic {
        /// Its first four bytes.
        found: u32,
        /// What they should be.
        expected: u32,
    },
    /// Labels where images should be.
    #[error("this is a labels file, and images were expected; are two file names swapped?")]
    LabelsNotImages,
    /// Images where labels should be.
    #[error("this is an images file, and labels were expected; are two file names swapped?")]
    ImagesNotLabels,
    /// A header that no image set has.
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
    /// A labels file without labels.
    #[error("its header claims no labels at all")]
    NoLabels,
    /// The file stops early.
    #[error(
        "cut short: {got} of {expected} bytes are there after the header; copy or fetch it again"
    )]
    Short {
        /// How many bytes follow the header.
        got: u64,
        /// How many the header promised.
        expected: u64,
    },
    /// The file goes on where it should end.
    #[error("too long: more than the {expected} bytes its header promises; fetch it again")]
    Long {
        /// How many bytes the header promised.
        expected: u64,
    },
    /// The gzip wrapping is damaged or cut short.
    #[error("damaged gzip ({what}); copy or fetch it again")]
    Gzip {
        /// What the unpacker said.
        what: String,
    },
    /// A label that no class has.
    #[error("label {index} is {value}, but labels run from 0 to {}", classes.saturating_sub(1))]
    Label {
        /// Which label, counted from zero.
        index: usize,
        /// What it is.
        value: u8,
        /// How many classes there are.
        classes: usize,
    },
}
