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
        ("train.stop.accuracy", "train.stop.test_loss"),
        ("cluster.bound", "cluster.staleness"),
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

#[test]
fn keys_in_capitals_name_the_key() {
    assert_eq!(
        problems("", &["TRAIN.BATCH=3"]),
        ["--set TRAIN.BATCH=3: TRAIN.BATCH is not a key; did you mean train.batch?"]
    );
}

#[test]
fn a_job_in_another_language_is_recognised() {
    for (text, language) in [
        ("{\"data\": {\"kind\": \"digits\"}}", "JSON"),
        ("# a job\ndata:\n  kind: digits\n", "YAML"),
        ("---\nname: x\n", "YAML"),
        ("\0\u{1}", "binary data"),
    ] {
        let error = &problems(text, &[])[0];
        let says = format!("this looks like {language}, but a job is a TOML file");
        assert!(error.contains(&says), "{error}");
    }
}

#[test]
fn what_a_file_has_twice_is_named() {
    let twice = |text: &str| problems(text, &[]);
    let key = "job:3: batch is there twice; remove one of them";
    assert_eq!(twice("[train]\nbatch = 10\nbatch = 20"), [key]);
    let section = "job:3: data is there twice; remove one of them";
    assert_eq!(twice("[data]\nkind = \"digits\"\n[data]\nshuffle = true"), [section]);
}

#[test]
fn a_value_that_is_none_says_what_to_write() {
    for (value, says) in [
        ("ten", "ten is not a value in TOML; text needs quotes: \"ten\""),
        ("a/b.csv # rows", "a/b.csv is not a value in TOML; text needs quotes: \"a/b.csv\""),
        ("True", "True is not a value in TOML; write true"),
        ("0,1", "0,1 is not a value in TOML; a number has a point: 0.1"),
        ("10,", "10, is not a value in TOML; leave out the comma: 10"),
        ("", "there is no value after the ="),
    ] {
        let text = format!("[train]\nbatch = {value}\n");
        assert_eq!(problems(&text, &[]), [format!("job:2: {says}")]);
    }
    let open = problems("name = \"x\n", &[]);
    assert!(open[0].starts_with("job:1: invalid basic string"), "{open:?}");
}

#[test]
fn a_value_for_a_section_names_the_key_it_is_probably_for() {
    for (setting, member) in [
        ("cluster=sync", "cluster.mode=sync"),
        ("data=mnist", "data.kind=mnist"),
        ("train.stop=epochs=3", "train.stop.epochs=3"),
        ("train.stop=3", "train.stop.epochs=3"),
        ("data.columns=income", "data.columns.income=label"),
        ("checkpoint=true", "checkpoint.every_steps=1000"),
        ("checkpoint=50", "checkpoint.every_steps=50"),
        ("observe.trace=true", "observe.trace={from=100, steps=10}"),
    ] {
        let found = problems("", &[setting]);
        assert!(found[0].ends_with(&format!("; set {member}")), "{found:?}");
    }
}

#[test]
fn a_job_is_a_file_of_this_machine() {
    let error = |path: &str| RawJob::read(path.as_ref()).unwrap_err().to_string();
    let address = "https://example.com/job.toml: cannot read the job file: this is an address; \
                   fetch the file first, and give its path";
    assert_eq!(error("https://example.com/job.toml"), address);
    assert!(error("-").ends_with("a job is read from a file, not from standard input"));
}

#[test]
fn paths_of_data_are_neither_addresses_nor_unreplaced() {
    let address = problems("", &["data.path=https://example.com/a.csv"]);
    let says = "data.path must be a path, not the text \"https://example.com/a.csv\"; fetch the \
                file first, and give its path";
    assert!(address[0].ends_with(says), "{address:?}");
    let home = std::env::var("HOME").unwrap();
    let tilde = problems("", &["data.path=~/a.csv"]);
    let says = format!("; the shell has not replaced the ~: write {home}/a.csv");
    assert!(tilde[0].ends_with(&says), "{tilde:?}");
}
