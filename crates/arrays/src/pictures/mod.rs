//! Colour pictures in files: JPEG and PNG, in a directory for each class or in a list file.
//!
//! Opening a collection reads only names. A picture is read when an example is filled: it is
//! decoded, scaled so that its shorter side has [`PictureOptions::resize`] pixels, cropped to a
//! square, possibly mirrored, and normalised channel by channel. In the training set, the square is
//! drawn from (seed, epoch, picture); in the test set it is the central one. Memory is bounded: one
//! picture for each thread, and a cache with a limit.
//!
//! `listing.rs` finds the files, `decode.rs` and `resize.rs` turn them into pixels, and `cache.rs`
//! keeps scaled pictures in memory.

mod cache;
mod decode;
mod listing;
mod resize;
#[cfg(test)]
mod tests;

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use paceline_data::{
    ChosenExamples, DataError, Examples, HoldOut, OpenObserver, Random, TrainTest, ignore_reports,
};
use paceline_filemap::open_regular;

use cache::PictureCache;
use decode::decode;
use listing::{Listing, Listings};
use resize::{Crop, Planes, crop, resize};

/// The mean of red, green and blue over ImageNet, on a scale from 0 to 1.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];

/// The standard deviation of red, green and blue over ImageNet, on the same scale.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The largest file of a picture, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Keys that keep the random streams for different purposes apart.
const CROP_STREAM: u64 = 0x7069_6374_6372_6f70;
const HOLD_OUT_STREAM: u64 = 0x7069_6374_7465_7374;

/// How pictures are read.
#[derive(Clone, Debug)]
pub struct PictureOptions {
    /// Height and width of an example, in pixels.
    pub size: usize,
    /// The length of the shorter side before cropping, in pixels; at least `size`.
    pub resize: usize,
    /// The seed of crops, flips and held-out pictures.
    pub seed: u64,
    /// The number of pictures to hold out as a test set, if the collection has none.
    pub test_examples: usize,
    /// Which pictures are held out.
    pub split: HoldOut,
    /// Subtracted from each channel, on a scale from 0 to 1.
    pub mean: [f32; 3],
    /// The divisor of each channel after the subtraction.
    pub std: [f32; 3],
    /// The size of the cache of scaled pictures, training and test set together, in bytes.
    pub cache_bytes: usize,
    /// The largest picture, in pixels; a larger one is rejected before it is decoded. Decoding a
    /// JPEG takes up to 9 bytes a pixel.
    pub max_pixels: usize,
}

impl PictureOptions {
    /// The usual options: a shorter side of 8/7 of the size (256 for 224), ImageNet's mean and
    /// standard deviation, a cache of 256 MiB, and at most 2^26 pixels a picture.
    pub fn new(size: usize, seed: u64) -> Self {
        Self {
            size,
            resize: size * 8 / 7,
            seed,
            test_examples: 0,
            split: HoldOut::Stratified,
            mean: IMAGENET_MEAN,
            std: IMAGENET_STD,
            cache_bytes: 256 << 20,
            max_pixels: 1 << 26,
        }
    }
}

/// Moves randomly drawn pictures from the training set to a test set.
fn hold_out(
    path: &Path,
    train: &mut Listing,
    options: &PictureOptions,
) -> Result<Listing, DataError> {
    let (all, wanted) = (train.files.len(), options.test_examples);
    if wanted >= all {
        let what = format!(
            "{wanted} of {all} pictures cannot be held out to test on; set data.hold_out to fewer"
        );
        return Err(DataError::Pictures { path: path.into(), what });
    }
    let labels = train.labels.iter().copied();
    let chosen = match options.split {
        HoldOut::Stratified => HoldOut::Stratified.choose(labels, wanted, options.seed),
        HoldOut::Plain => drawn(all, wanted, options.seed),
    };
    let select = |which: &[u32]| Listing {
        files: which.iter().map(|&example| train.files[example as usize].clone()).collect(),
        labels: which.iter().map(|&example| train.labels[example as usize]).collect(),
        ..train.clone()
    };
    let test = select(&chosen.test);
    *train = select(&chosen.rest);
    Ok(test)
}

/// Draws `wanted` pictures whatever their class, in order.
fn drawn(all: usize, wanted: usize, seed: u64) -> ChosenExamples {
    let mut order: Vec<u32> = (0..all as u32).collect();
    Random::keyed(&[seed, HOLD_OUT_STREAM]).shuffle(&mut order);
    let mut rest = order.split_off(wanted);
    order.sort_unstable();
    rest.sort_unstable();
    ChosenExamples { rest, test: order }
}

/// The training set or the test set of a collection of pictures. An example is three planes of
/// `size` x `size` normalised values; the [module's documentation](self) says how it is made.
#[derive(Debug)]
pub struct Pictures {
    listing: Listing,
    options: PictureOptions,
    /// Whether crops and flips are random.
    random_crops: bool,
    cache: PictureCache,
}

impl Pictures {
    /// Finds the pictures of a directory or list file. See `docs/formats.md` for what may be
    /// there.
    ///
    /// The training set is read at random crops, the test set at centre crops. The test set may
    /// be empty.
    ///
    /// # Errors
    /// If there is no picture, or a class or line cannot be understood.
    ///
    /// # Panics
    /// If a size in the options is zero, or `resize` is below `size`.
    pub fn open(path: &Path, options: &PictureOptions) -> Result<TrainTest<Self>, DataError> {
        Self::open_observed(path, options, &mut ignore_reports())
    }

    /// As [`open`](Self::open); `observer` follows how far it has got, and may stop it.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if the observer stops it.
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub fn open_observed(
        path: &Path,
        options: &PictureOptions,
        observer: &mut dyn OpenObserver,
    ) -> Result<TrainTest<Self>, DataError> {
        assert!(
            0 < options.size && options.size <= options.resize,
            "the crop must fit into the resized picture"
        );
        let Listings { mut train, test } = listing::list(path, observer)?;
        let test = match test {
            Some(test) => test,
            None => hold_out(path, &mut train, options)?,
        };
        let [trained, tested] = [&train, &test].map(|listing| listing.files.len());
        let origin = format!("{} ({trained} + {tested} pictures)", path.display());
        let left_bytes = Arc::new(AtomicUsize::new(options.cache_bytes));
        let train = Pictures::new(train, options, true, left_bytes.clone());
        let test = Pictures::new(test, options, false, left_bytes);
        Ok(TrainTest { origin, ..TrainTest::new(train, test) })
    }

    fn new(
        listing: Listing,
        options: &PictureOptions,
        random_crops: bool,
        left_bytes: Arc<AtomicUsize>,
    ) -> Self {
        let cache = PictureCache::new(listing.files.len(), left_bytes);
        Self { listing, options: options.clone(), random_crops, cache }
    }

    /// Pictures in these files, at centre crops, without classes: every label is 0. For
    /// predictions.
    ///
    /// # Panics
    /// If a size in the options is zero, or `resize` is below `size`.
    pub fn of_files(files: Vec<PathBuf>, options: &PictureOptions) -> Self {
        assert!(0 < options.size && options.size <= options.resize, "the crop must fit");
        let labels = vec![0; files.len()];
        let files = files.into_iter().map(PathBuf::into_boxed_path).collect();
        let listing = Listing { root: PathBuf::new(), files, labels, names: Vec::new() };
        // Every picture is read once, so none is cached.
        Self::new(listing, options, false, Arc::new(AtomicUsize::new(0)))
    }

    /// The file of a picture.
    ///
    /// # Panics
    /// If `example` is not below the number of pictures.
    pub fn path(&self, example: u32) -> PathBuf {
        self.listing.root.join(&self.listing.files[example as usize])
    }

    /// The class of a picture, without reading it.
    ///
    /// # Panics
    /// If `example` is not below the number of pictures.
    pub fn label(&self, example: u32) -> u32 {
        self.listing.labels[example as usize]
    }

    /// Reads a picture and scales it.
    fn read(&self, example: u32) -> Result<Planes, DataError> {
        let path = self.path(example);
        let bytes = read_file(&path)?;
        match decode(&bytes, self.options.max_pixels) {
            Ok(rgb) => Ok(resize(&rgb, self.options.resize)),
            Err(what) => Err(DataError::Picture { path, what }),
        }
    }

    fn crop_into(&self, picture: &Planes, example: u32, epoch: u64, out: &mut [f32]) {
        let draw = self.random_crops.then_some(CropDraw { example, epoch });
        self.options.crop_into(picture, draw, out);
    }
}

/// What a random crop depends on besides the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropDraw {
    /// The number of the picture.
    pub example: u32,
    /// The number of the epoch.
    pub epoch: u64,
}

impl PictureOptions {
    /// Decodes a JPEG or PNG picture, scales and crops it, and writes its values to `out`: three
    /// planes of `size` x `size`. Without a draw, the crop is the middle of the picture.
    ///
    /// # Errors
    /// A clause that says what is wrong with the picture.
    ///
    /// # Panics
    /// If `out` does not hold exactly one picture.
    pub fn read_encoded(
        &self,
        encoded: &[u8],
        draw: Option<CropDraw>,
        out: &mut [f32],
    ) -> Result<(), String> {
        let picture = resize(&decode(encoded, self.max_pixels)?, self.resize);
        self.crop_into(&picture, draw, out);
        Ok(())
    }

    /// The square to crop from a scaled picture.
    fn choose_crop(&self, picture: &Planes, draw: Option<CropDraw>) -> Crop {
        let size = self.size;
        let (down, right) = (picture.rows - size, picture.cols - size);
        let Some(CropDraw { example, epoch }) = draw else {
            return Crop { top: down / 2, left: right / 2, size, flip: false };
        };
        let mut random = Random::keyed(&[self.seed, CROP_STREAM, epoch, u64::from(example)]);
        Crop {
            top: random.range(down as u64 + 1) as usize,
            left: random.range(right as u64 + 1) as usize,
            size,
            flip: random.range(2) == 1,
        }
    }

    fn crop_into(&self, picture: &Planes, draw: Option<CropDraw>, out: &mut [f32]) {
        let PictureOptions { mean, std, .. } = self;
        let scale = std.map(|std| 1.0 / (255.0 * std));
        let offset = std::array::from_fn(|channel| -mean[channel] / std[channel]);
        crop(picture, self.choose_crop(picture, draw), scale, offset, out);
    }
}

impl Examples for Pictures {
    fn len(&self) -> usize {
        self.listing.files.len()
    }

    fn shape(&self) -> [usize; 3] {
        [3, self.options.size, self.options.size]
    }

    fn classes(&self) -> usize {
        self.listing.names.len()
    }

    fn class_names(&self) -> &[String] {
        &self.listing.names
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        Some(self.label(example))
    }

    fn fill(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        if let Some(picture) = self.cache.get(example as usize) {
            self.crop_into(picture, example, epoch, out);
        } else {
            match self.cache.insert(example as usize, self.read(example)?) {
                Ok(picture) => self.crop_into(picture, example, epoch, out),
                Err(picture) => self.crop_into(&picture, example, epoch, out),
            }
        }
        Ok(self.label(example))
    }
}

/// Reads a file of limited size.
fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = open_regular(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            DataError::Picture { path: path.into(), what: error.to_string() }
        }
        _ => DataError::io("open", path)(error),
    })?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(DataError::io("read", path))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let what = format!("a file of more than {MAX_FILE_BYTES} bytes");
        return Err(DataError::Picture { path: path.into(), what });
    }
    Ok(bytes)
}
