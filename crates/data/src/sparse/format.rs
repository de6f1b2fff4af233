//! The formats of files of sparse rows.

/// The format of a file of sparse rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseFormat {
    /// LIBSVM text.
    Libsvm,
    /// LIBFFM text: LIBSVM text in which each entry has a field.
    Libffm,
    /// TFRecords of `tf.train.Example`.
    TfRecord,
    /// Tab-separated text, as Criteo's click logs have it.
    Criteo,
}
