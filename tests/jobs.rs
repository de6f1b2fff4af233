//! Bad input: each mistake gives exit code 2 before anything starts, and names its place.

use std::fs;

use crate::support::{IDX_FILES, SMALL, Sandbox, assert_says};

/// Checks that training fails with exit code 2 and these messages, and creates no file.
#[track_caller]
fn check_in(sandbox: &Sandbox, args: &[&str], says: &[&str]) {
    let before = sandbox.tree();
    let printed = sandbox.fails(2, &[&["train"], args].concat());
    assert_says(&printed, says);
    let is_message = |line: &str| line.starts_with("error: ") || line.starts_with("  ");
    assert!(printed.lines().all(is_message), "{printed}");
    assert_eq!(sandbox.tree(), before, "something was left behind by {args:?}");
}

/// Checks that `train` and `explain` refuse a job file with this text, with these messages.
#[track_caller]
fn check(toml: &str, says: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", toml);
    check_in(&sandbox, &["job.toml"], says);
    assert_says(&sandbox.fails(2, &["explain", "job.toml"]), says);
}

/// Checks that the built-in job with these settings is refused with these messages.
#[track_caller]
fn check_set(settings: &[&str], says: &[&str]) {
    let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    check_in(&Sandbox::new(), &[&SMALL[..], &settings].concat(), says);
}

#[test]
fn unknown_keys_at_every_level_are_named_with_their_line_and_the_nearest_key() {
    check("sead = 1", &["job.toml:1: sead is not a key; did you mean seed?"]);
    check("\n[model]\nkynd = \"softmax\"", &["job.toml:3: model.kynd", "did you mean model.kind?"]);
    check("[trian]\nbatch = 1", &["job.toml:1: trian is not a section; did you mean train?"]);
    check(
        "[train]\nbach = 1\n[train.optimizer.biases]\nrat = 1",
        &["job.toml:2: train.bach", "train.batch?", "job.toml:4:", "train.optimizer.biases.rate?"],
    );
    check(
        "[train]\nstop = { epoch = 3 }",
        &["job.toml:2: train.stop.epoch is not a key; did you mean train.stop.epochs?"],
    );
    check("\"train.batch\" = 3", &["job.toml:1: \"train.batch\" is not a key", "train.batch?"]);
    check_set(&["train.bach=3"], &["--set train.bach=3: train.bach is not a key", "train.batch?"]);
}

#[test]
fn values_out_of_range_are_named_with_their_line_and_the_range() {
    check(
        "[train]\nbatch = 0",
        &["job.toml:2: train.batch must be a whole number from 1 up, not 0"],
    );
    check(
        "[train.optimizer]\nrate = -0.1",
        &["job.toml:2: train.optimizer.rate", "above 0", "-0.1"],
    );
    check("[train.optimizer]\nrate = nan", &["job.toml:2: train.optimizer.rate", "NaN"]);
    check("[data]\nkind = \"mnits\"", &["job.toml:2: data.kind must be \"digits\", \"mnist\""]);
    check("[data]\ntrain_examples = 4000000000", &["job.toml:2: data.train_examples", "10000000"]);
    check_set(&["train.batch=0"], &["--set train.batch=0: train.batch must be a whole number"]);
    check_set(&["train.stop={steps=0}"], &["train.stop.steps must be a whole number from 1 up"]);
    check_set(&["train.stop={steps=1"], &["train.stop has a value that is not valid TOML"]);
    check_set(&["train.batch"], &["--set train.batch: is not of the form key=value"]);
}

#[test]
fn a_batch_larger_than_the_data_is_refused() {
    check_set(&["train.batch=601"], &["--set train.batch=601: train.batch is 601", "only 600"]);
    let sandbox = Sandbox::new();
    sandbox.idx_set("set", 12, 3);
    sandbox.write("job.toml", "[data]\nkind = \"mnist\"\npath = \"set\"\n[train]\nbatch = 13\n");
    check_in(
        &sandbox,
        &["job.toml"],
        &["job.toml:5: train.batch is 13", "only 12 training examples"],
    );
    // The default batch is checked too.
    sandbox.write("job.toml", "[data]\nkind = \"mnist\"\npath = \"set\"\n");
    check_in(
        &sandbox,
        &["job.toml"],
        &["train.batch is 60 by default", "only 12 training examples"],
    );
}

#[test]
fn a_path_that_is_no_job_file_is_named() {
    let sandbox = Sandbox::new();
    check_in(
        &sandbox,
        &["nowhere.toml"],
        &["nowhere.toml: cannot read the job file: No such file"],
    );
    fs::create_dir(sandbox.path("dir.toml")).unwrap();
    check_in(&sandbox, &["dir.toml"], &["dir.toml: cannot read the job file", "not a file"]);
    sandbox.write("bytes.toml", b"name = \"\xff\"");
    check_in(&sandbox, &["bytes.toml"], &["bytes.toml: cannot read the job file", "UTF-8"]);
    sandbox.write("large.toml", vec![b'#'; (1 << 20) + 1]);
    check_in(&sandbox, &["large.toml"], &["large.toml: cannot read the job file", "larger than"]);
}

#[test]
fn data_and_runs_in_place_of_a_job_file_are_recognised() {
    let sandbox = Sandbox::new();
    sandbox.write("people.csv", "age,income,label\n31,20000,1\n44,30000,0\n");
    let says = [
        "people.csv: this is not a job file: it looks like a table",
        "use --set data.kind=table --set data.path=people.csv",
    ];
    check_in(&sandbox, &["people.csv"], &says);
    sandbox.write("rows", "1 1:1 7:0.5\n0 2:1\n");
    check_in(&sandbox, &["rows"], &["rows: this is not a job file", "data.kind=libsvm"]);
    sandbox.write("run/job.toml", "seed = 1\n");
    let says = ["run: this is the directory of a run", "name run/job.toml", "--resume run"];
    check_in(&sandbox, &["run"], &says);
    // A job file with a mistake is still one.
    sandbox.write("job.toml", "a,b\n1,2\n");
    check_in(&sandbox, &["job.toml"], &["job.toml:1: "]);
}

#[test]
fn a_job_file_that_is_not_toml_is_named_with_the_line() {
    check("seed = 1\n[train\nbatch = 1", &["job.toml:2: "]);
    check("seed = 1\nseed = 2", &["job.toml:2: seed is there twice"]);
    check(&format!("x = {}", "[".repeat(100_000)), &["job.toml:1: "]);
    check(&format!("{}x = 1", "a.".repeat(100_000)), &["job.toml: recursion limit"]);
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", "sead = 1\n[train]\nbatch = 0\n[data]\nkind = 3\n");
    let printed = sandbox.fails(2, &["train", "job.toml", "--set", "observe.every=0"]);
    let places: Vec<_> = printed.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(places, ["job.toml:1", "job.toml:3", "job.toml:5", "--set observe.every=0"]);
}

#[test]
fn a_run_directory_with_something_in_it_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("run/summary.json", "precious");
    let args = [&["--run-dir", "run"], &SMALL[..]].concat();
    check_in(&sandbox, &args, &["run directory run: it is not empty"]);
    assert_eq!(fs::read(sandbox.path("run/summary.json")).unwrap(), b"precious");
    sandbox.write("file", "precious");
    let args = [&["--run-dir", "file"], &SMALL[..]].concat();
    check_in(&sandbox, &args, &["run directory file: this is a file"]);
    // An empty directory may be used.
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.ok(&[&["train", "--quiet", "--run-dir", "empty"], &SMALL[..]].concat());
    assert!(sandbox.path("empty/summary.json").is_file());
}

#[test]
fn missing_data_is_an_error_that_says_what_to_do() {
    let sandbox = Sandbox::new();
    let mnist = ["--set", "data.kind=mnist"];
    check_in(&sandbox, &mnist, &["mnist is not on this machine", "`paceline data get mnist`"]);
    let path = |path: &'static str| [&mnist[..], &["--set", path]].concat();
    check_in(&sandbox, &path("data.path=nowhere"), &["nowhere", "there is no such directory"]);
    sandbox.write("file", "");
    check_in(&sandbox, &path("data.path=file"), &["file is not a mnist directory: it is a file"]);
    sandbox.idx_set("set", 4, 4);
    fs::remove_file(sandbox.path("set").join(IDX_FILES[3])).unwrap();
    check_in(&sandbox, &path("data.path=set"), &["set is not", "it lacks t10k-labels-idx1-ubyte"]);
}

/// Checks that training fails and names the file if this file of an IDX set has this content.
#[track_caller]
fn check_idx(file: &str, content: &[u8], says: &str) {
    let sandbox = Sandbox::new();
    let set = sandbox.idx_set("set", 4, 4);
    fs::write(set.join(file), content).unwrap();
    let args = ["--set", "data.kind=mnist", "--set", "data.path=set", "--set", "train.batch=2"];
    check_in(&sandbox, &args, &[&format!("set/{file}"), says]);
}

#[test]
fn a_damaged_idx_file_is_named_with_what_is_wrong_with_it() {
    let [images, labels, test_images, test_labels] = IDX_FILES;
    let good = [&[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 2][..], &[9; 24]].concat();
    let named = [&[0, 0, 8, 1, 0, 0, 0, 4][..], &[9; 4]].concat();
    check_idx(images, b"\x89PNG\r\n\x1a\n", "not an IDX file: it begins with 0x89504e47");
    check_idx(images, &named, "this is a labels file");
    check_idx(labels, &good, "this is an images file");
    check_idx(labels, &[], "not an IDX file: only 0 of the 8 bytes");
    check_idx(images, &good[..39], "cut short: 23 of 24 bytes");
    check_idx(images, &[&good[..], &[0]].concat(), "too long");
    check_idx(test_labels, &named[..11], "cut short: 3 of 4 bytes");
    check_idx(
        labels,
        &[0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 10, 3],
        "label 2 is 10, but labels run from 0 to 9",
    );
    check_idx(labels, &[0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3], "4 images and 3 labels");
    check_idx(labels, &[0, 0, 8, 1, 0, 0, 0, 0], "no labels at all");
    check_idx(images, &good[..16], "cut short: 0 of 24 bytes");
    check_idx(
        images,
        &[0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 0, 28, 0, 0, 0, 28],
        "claims 4294967295",
    );
    check_idx(images, &[0x1f, 0x8b, 8, 0, 1, 2, 3, 4], "damaged gzip");
    let square = [&[0, 0, 8, 3, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 2][..], &[9; 16]].concat();
    check_idx(test_images, &square, "images of 3 x 2 and of 2 x 2 pixels");
}

#[test]
fn a_directory_in_place_of_an_idx_file_is_named() {
    let sandbox = Sandbox::new();
    let file = sandbox.idx_set("set", 4, 4).join(IDX_FILES[0]);
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let args = ["--set", "data.kind=mnist", "--set", "data.path=set"];
    check_in(&sandbox, &args, &["set", IDX_FILES[0]]);
}

#[test]
fn a_wrong_command_line_has_exit_code_2_and_a_hint() {
    let sandbox = Sandbox::new();
    for args in [&["trian"][..], &["train", "--batch=3"], &["data", "get", "mnits"], &[]] {
        let output = sandbox.run(args);
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        assert!(output.stderr.contains("Usage") || output.stderr.contains("--help"), "{output:?}");
    }
}
