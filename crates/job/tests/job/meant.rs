//! What was probably meant: words of other programs, and files whose names say what they are.

use paceline_job::RawJob;

use crate::jobs::problems;

#[test]
fn words_of_other_programs_name_what_means_the_same_here() {
    for (key, here) in [
        ("train.lr", "train.optimizer.rate"),
        ("train.optimizer.learning_rate", "train.optimizer.rate"),
        ("train.batch_size", "train.batch"),
        ("data.label", "data.columns.NAME = \"label\""),
        ("checkpoint.every", "checkpoint.every_steps or checkpoint.every_seconds"),
    ] {
        let error = format!("job:1: {key} is not a key; did you mean {here}?");
        assert_eq!(problems(&format!("{key} = 1"), &[]), [error]);
    }
    for (value, here) in [("csv", "table"), ("svmlight", "libsvm")] {
        let found = problems(&format!("data.kind = \"{value}\""), &[]);
        let end = format!("not the text {value:?}; did you mean {here:?}?");
        assert!(found.iter().any(|error| error.ends_with(&end)), "{found:?}");
    }
}

#[test]
fn the_ending_of_a_file_says_what_it_is() {
    for (path, kind) in [
        ("a.csv.gz", "table"),
        ("a.svm", "libsvm"),
        ("A.LIBSVM", "libsvm"),
        ("a.ffm", "libffm"),
        ("a.npz", "numpy"),
        ("a.tfrecord", "tfrecord"),
    ] {
        let mut job = RawJob::built_in();
        job.set(&format!("data.path={path}"));
        let job = job.explain();
        assert!(job.contains(&format!("kind = {kind:?}")), "{path}: {job}");
    }
}
