//! Folders and lists of pictures, from the files to the values of an example.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_arrays::pictures::{IMAGENET_MEAN, IMAGENET_STD};
use paceline_arrays::{PictureOptions, Pictures};
use paceline_data::{DataError, Examples, OpenReport, TrainTest};
use tempfile::TempDir;

/// A collection that a test builds.
struct Collection {
    dir: TempDir,
}

impl Collection {
    fn new(files: &[&str]) -> Self {
        let collection = Collection { dir: TempDir::new().expect("a temporary directory") };
        files.iter().for_each(|file| collection.picture(file));
        collection
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().expect("a parent")).expect("writable");
        fs::write(&path, bytes).expect("writable");
        path
    }

    fn picture(&self, file: &str) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let name = if file.ends_with("png") { "colour.png" } else { "baseline.jpg" };
        self.write(file, fs::read(golden.join(name)).expect("a golden file"));
    }

    fn open(&self, options: &PictureOptions) -> Result<TrainTest<Pictures>, DataError> {
        Pictures::open(self.root(), options)
    }
}

#[test]
fn listing_says_how_far_it_has_got_and_can_be_stopped() {
    let collection = Collection::new(&["a/1.png", "a/2.png", "b/1.png", "list.png"]);
    collection.write("list.txt", "a/1.png x\nb/1.png y\n");
    for (path, action) in [(collection.root().into(), "listing"), ("list.txt".into(), "reading")] {
        let path: PathBuf = collection.root().join::<PathBuf>(path);
        let mut seen = Vec::new();
        let mut look = |report: OpenReport<'_>| {
            if let OpenReport::Progress(progress) = report {
                seen.push(progress.action);
            }
            ControlFlow::Continue(())
        };
        Pictures::open_observed(&path, &options(), &mut look).expect("good pictures");
        assert_eq!(seen.first(), Some(&action));
        let mut stop = |_: OpenReport<'_>| ControlFlow::Break(());
        let stopped = Pictures::open_observed(&path, &options(), &mut stop);
        assert!(matches!(stopped, Err(DataError::Interrupted)), "{stopped:?}");
    }
}

fn options() -> PictureOptions {
    PictureOptions::new(14, 1)
}

fn files(pictures: &Pictures, root: &Path) -> Vec<(String, u32)> {
    let name =
        |path: PathBuf| path.strip_prefix(root).expect("inside").to_string_lossy().into_owned();
    (0..pictures.len() as u32).map(|i| (name(pictures.path(i)), pictures.label(i))).collect()
}

fn fill(pictures: &Pictures, example: u32, epoch: u64) -> Vec<f32> {
    let mut out = vec![f32::NAN; pictures.inputs()];
    let label = pictures.fill(example, epoch, &mut out).expect("a good picture");
    assert_eq!(label, pictures.label(example));
    out
}

#[test]
fn a_folder_is_a_class_and_files_are_sorted() {
    let collection = Collection::new(&["b/2.PNG.png", "b/1.JPEG", "a/x.jpg", "b/.hidden.jpg"]);
    collection.write("a/notes.txt", "not a picture");
    collection.write("loose.jpg", "in no class");
    collection.picture(".git/z.jpg");
    let set = collection.open(&options()).unwrap();
    assert_eq!(set.train.class_names(), ["a", "b"]);
    let expect = [("a/x.jpg", 0), ("b/1.JPEG", 1), ("b/2.PNG.png", 1)];
    assert_eq!(files(&set.train, collection.root()), expect.map(|(f, c)| (f.to_owned(), c)));
    assert_eq!((set.train.classes(), set.train.shape()), (2, [3, 14, 14]));
    assert!(set.test.is_empty());
}

#[test]
fn a_collection_may_have_a_test_set() {
    for test in ["val", "validation", "test"] {
        let collection = Collection::new(&["train/a/1.jpg", "train/b/1.jpg"]);
        collection.picture(&format!("{test}/b/9.jpg"));
        let set = collection.open(&options()).unwrap();
        assert_eq!((set.train.len(), set.test.len()), (2, 1));
        // Class b has number 1 here too, although the test set has no class a.
        assert_eq!((set.test.label(0), set.test.classes()), (1, 2));
    }
    let collection = Collection::new(&["train/a/1.jpg", "val/c/1.jpg"]);
    let error = collection.open(&options()).unwrap_err().to_string();
    assert!(error.contains("class \"c\" is not in the training set"), "{error}");
}

#[test]
fn a_pipe_among_the_pictures_is_a_bad_picture_and_is_not_waited_for() {
    let collection = Collection::new(&["a/1.png"]);
    let pipe = collection.root().join("a/2.png");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let set = Pictures::of_files(vec![pipe], &options());
    let error = set.fill(0, 0, &mut vec![0.0; set.inputs()]).unwrap_err();
    assert!(
        error.is_bad_example() && error.to_string().contains("a/2.png: it is a pipe"),
        "{error}"
    );
}

#[test]
fn a_class_may_be_called_train() {
    let collection = Collection::new(&["train/1.jpg", "bus/1.jpg", "test/1.jpg"]);
    assert_eq!(collection.open(&options()).unwrap().train.class_names(), ["bus", "test", "train"]);
}

#[test]
fn a_list_names_classes_by_number_or_by_name() {
    let collection = Collection::new(&["x/my rose.jpg", "x/2.jpg"]);
    let check = |text: &str, labels: &[u32], names: &[&str]| {
        let list = collection.write("list.txt", text);
        let set = Pictures::open(&list, &options()).unwrap();
        let found = files(&set.train, collection.root());
        assert_eq!(found.iter().map(|(_, label)| *label).collect::<Vec<_>>(), labels);
        assert_eq!(set.train.class_names(), names);
        assert_eq!(found[0].0, "x/my rose.jpg");
        fill(&set.train, 0, 0);
    };
    check("x/my rose.jpg 2\r\n\n# none\n x/2.jpg\t0", &[2, 0], &["0", "1", "2"]);
    check("x/my rose.jpg  rose\nx/2.jpg daisy\nx/2.jpg rose\n", &[1, 0, 1], &["daisy", "rose"]);

    collection.write("train.txt", "x/2.jpg rose\nx/2.jpg daisy\n");
    collection.write("val.txt", "x/2.jpg rose\n");
    let set = collection.open(&options()).unwrap();
    assert_eq!((set.train.len(), set.test.len(), set.test.label(0)), (2, 1, 1));
}

#[test]
fn an_error_in_a_list_names_the_line() {
    let collection = Collection::new(&[]);
    for (text, says) in [
        (
            "a.jpg 1\nb.jpg\n",
            "list, line 2: \"b.jpg\" is not a picture and its class; a line is the path of",
        ),
        ("a.jpg 1\nb.jpg rose\n", "line 2: class \"rose\": some classes are numbers"),
        ("a.jpg rose\nb.jpg 1\n", "line 2: class \"1\": some classes are numbers"),
        ("a.jpg 99999999999\n", "more than 100000 classes"),
        ("# nothing\n", "no picture in it"),
    ] {
        let list = collection.write("list", text);
        let error = Pictures::open(&list, &options()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_directory_that_is_not_a_collection_is_an_error() {
    let says = |collection: &Collection, options: &PictureOptions, says: &str| {
        let error = collection.open(options).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    says(&Collection::new(&["loose.jpg"]), &options(), "no folder in it; data.path must be");
    let collection = Collection::new(&["a/1.jpg"]);
    says(
        &collection,
        &PictureOptions { test_examples: 1, ..options() },
        "1 of 1 pictures cannot be held out",
    );
    collection.write("b/readme", "");
    says(&collection, &options(), "b: no picture in this folder");
    let nowhere = collection.root().join("nowhere");
    let error = Pictures::open(&nowhere, &options()).unwrap_err().to_string();
    assert!(error.contains("cannot open") && error.contains("nowhere"), "{error}");
}

#[test]
fn held_out_pictures_depend_on_the_seed_and_are_not_in_the_training_set() {
    let names: Vec<String> = (0..20).map(|i| format!("{}/{i:02}.jpg", i % 2)).collect();
    let collection = Collection::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let open = |seed| {
        let options = PictureOptions { test_examples: 6, ..PictureOptions::new(14, seed) };
        let set = collection.open(&options).unwrap();
        (files(&set.train, collection.root()), files(&set.test, collection.root()))
    };
    let (train, test) = open(1);
    assert_eq!((train.len(), test.len()), (14, 6));
    assert!(test.iter().all(|file| !train.contains(file)));
    assert_eq!(open(1), (train, test.clone()));
    assert_ne!(open(2).1, test);
}

#[test]
fn test_pictures_are_normalised_centre_crops() {
    let collection = Collection::new(&["train/a/1.png", "val/a/1.png"]);
    // The picture is 39 x 26: with a shorter side of 26 nothing is scaled.
    let options = PictureOptions { size: 20, resize: 26, ..options() };
    let set = collection.open(&options).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/colour_png.rgb");
    let pixels = fs::read(golden).unwrap();
    let out = fill(&set.test, 0, 3);
    for (at, value) in out.iter().enumerate() {
        let (channel, row, col) = (at / 400, at / 20 % 20, at % 20);
        let byte = pixels[((row + 3) * 39 + col + 9) * 3 + channel];
        let expect = (f32::from(byte) / 255.0 - IMAGENET_MEAN[channel]) / IMAGENET_STD[channel];
        assert!((value - expect).abs() < 1e-5, "{at}: {value} and {expect}");
    }
}

#[test]
fn crops_and_flips_depend_on_seed_draw_and_picture_alone() {
    let collection = Collection::new(&["a/1.png", "a/2.png"]);
    let open = |seed, cache_bytes| {
        let options = PictureOptions { cache_bytes, ..PictureOptions::new(14, seed) };
        collection.open(&options).unwrap().train
    };
    let (cached, uncached, other) = (open(1, 1 << 20), open(1, 0), open(2, 1 << 20));
    let draws: Vec<_> = (0..8).map(|epoch| fill(&cached, 0, epoch)).collect();
    for (epoch, values) in draws.iter().enumerate().rev() {
        assert_eq!(&fill(&cached, 0, epoch as u64), values);
        assert_eq!(&fill(&uncached, 0, epoch as u64), values);
    }
    assert!(draws.iter().any(|values| *values != draws[0]));
    let differs = |source: &Pictures, example| {
        (0..8).any(|epoch| fill(source, example, epoch) != draws[epoch as usize])
    };
    assert!(differs(&other, 0) && differs(&cached, 1));
}

#[test]
fn a_cached_picture_is_not_read_again() {
    let collection = Collection::new(&["a/1.jpg"]);
    let set = collection.open(&options()).unwrap();
    let first = fill(&set.train, 0, 0);
    fs::remove_file(set.train.path(0)).unwrap();
    assert_eq!(fill(&set.train, 0, 0), first);
}

#[test]
fn a_damaged_picture_is_an_error_that_names_it() {
    let collection = Collection::new(&["a/1.jpg", "a/2.jpg"]);
    let whole = fs::read(collection.root().join("a/1.jpg")).unwrap();
    collection.write("a/1.jpg", &whole[..whole.len() / 2]);
    fs::remove_file(collection.root().join("a/2.jpg")).unwrap();
    collection.picture("a/3.jpg");
    let train = collection.open(&options()).unwrap().train;
    let mut out = vec![0.0; train.inputs()];
    let error = train.fill(0, 0, &mut out).unwrap_err();
    assert!(error.is_bad_example());
    let says = error.to_string();
    assert!(says.contains("1.jpg: damaged JPEG") && says.contains("on_bad"), "{says}");

    fs::remove_file(train.path(1)).unwrap();
    let error = train.fill(1, 0, &mut out).unwrap_err();
    assert!(!error.is_bad_example() && error.to_string().contains("3.jpg"), "{error}");
}
