//! What people see in a terminal: nothing is wider than it is, and no word is broken.

use std::ffi::OsStr;

use crate::support::{PACELINE, ProcessOutput, SMALL_DATA, Sandbox, assert_says, python};

/// The cache of programs in terminals.
const CACHE: &str = "cache";

/// Runs the program in a terminal of this many columns.
fn in_terminal(sandbox: &Sandbox, columns: usize, args: &[&str]) -> ProcessOutput {
    let (directory, columns) = (sandbox.path(""), columns.to_string());
    let cache = format!("PACELINE_CACHE={}", sandbox.path(CACHE).display());
    let first = [directory.to_str().unwrap(), &columns, "env", &cache, PACELINE];
    let words = [&first[..], args].concat();
    let words: Vec<_> = words.into_iter().map(OsStr::new).collect();
    python("python/in_terminal.py", &words)
}

/// The lines that stay on the screen, without colours.
fn lines_on_screen(shown: &str) -> Vec<String> {
    let without_colours = |line: &str| {
        let mut parts = line.split('\x1b');
        let first = parts.next().unwrap_or_default().to_owned();
        let visible =
            |part: &str| part.split_once(|c: char| c.is_ascii_alphabetic()).map(|p| p.1.to_owned());
        parts.fold(first, |line, part| line + &visible(part).unwrap_or_default())
    };
    let last =
        |line: &str| without_colours(line.trim_end_matches('\r').rsplit('\r').next().unwrap());
    shown.lines().map(last).collect()
}

/// Checks that no line is wider than the terminal, unless it is a single word such as a path.
#[track_caller]
fn check_width(sandbox: &Sandbox, columns: usize, args: &[&str]) -> String {
    let output = in_terminal(sandbox, columns, args);
    let lines = lines_on_screen(&output.stdout);
    let drawn = output.stdout.split(['\r', '\n', '\x1b']);
    let drawn = drawn.map(|text| text.trim().trim_start_matches("[2K"));
    let is_empty_bar = |text: &str| {
        text.contains('░') && (!text.contains(char::is_alphanumeric) || text.contains("░ ,"))
    };
    let empty = drawn.clone().find(|text| is_empty_bar(text));
    assert_eq!(empty, None, "a bar without a text: {args:?}");
    // The terminal writes `^C` behind a bar.
    let is_bar = |text: &str| text.contains(['░', '█']);
    let wide = drawn.filter(|text| is_bar(text)).find(|text| text.chars().count() + 2 > columns);
    assert_eq!(wide, None, "a bar without room for ^C: {args:?}");
    for line in &lines {
        let is_wide = line.chars().count() > columns && line.trim().contains(' ');
        assert!(!is_wide, "{columns} columns: {args:?}: {line:?} in\n{}", lines.join("\n"));
    }
    lines.join("\n")
}

#[cfg(not(feature = "bench"))]
#[test]
fn a_program_without_benches_says_how_to_build_them() {
    let output = Sandbox::new().run(&["bench", "layers", "--batch", "32"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("`--features bench`"), "{output:?}");
}

#[test]
fn help_data_and_jobs_fit_the_terminal() {
    let sandbox = Sandbox::new();
    // A set that lacks all of its files.
    std::fs::create_dir_all(sandbox.path(CACHE).join("mnist")).unwrap();
    let commands: [&[&str]; 12] = [
        &["--help"],
        &["train", "--help"],
        &["worker", "--help"],
        &["data", "make", "clicks", "--help"],
        &["bench", "--help"],
        &["data", "list"],
        &["explain"],
        &["explain", "--set", "model.kind=lenet"],
        &["explain", "--set", "model.kind=alexnet", "--set", "cluster.mode=mirrored"],
        &["explain", "--set", "cluster.quorum=3"],
        &["train", "nowhere.toml"],
        &["train", "--unknown-option", "with", "a", "long", "list", "of", "further", "arguments"],
    ];
    for columns in [60, 80, 100, 200] {
        for command in commands {
            check_width(&sandbox, columns, command);
        }
    }
}

#[test]
fn results_fit_the_terminal() {
    let sandbox = Sandbox::new();
    let job = "name = \"narrow\"\n[data]\ntrain_examples = 600\ntest_examples = 100\n[train]\n\
               stop = { steps = 20 }\n[sweep]\n\"train.batch\" = [10, 100]\n\
               \"train.optimizer.rate\" = [0.01, 0.1]\n";
    sandbox.write("sweep.toml", job);
    let few = SMALL_DATA.iter().flat_map(|setting| ["--set", setting]);
    let traced = ["--set", "train.stop={steps=40}", "--set", "checkpoint.every_steps=20"];
    let traced = traced.into_iter().chain(["--set", "observe.trace={from=10, steps=10}"]);
    let settings: Vec<_> = few.chain(traced).collect();
    let clicks = "data={kind=\"clicks\", train_examples=300, test_examples=100, features=1000}";
    sandbox.ok(&["train", "--quiet", "--run-dir", "clicks", "--set", clicks]);
    let people = "age,years in the same occupation,bought\n";
    let people = (0..40).fold(people.to_owned(), |all, row| format!("{all}{row},{},no\n", row % 7));
    sandbox.write("people.csv", people.replace("5,no", "5,yes"));
    for columns in [60, 80, 100, 200] {
        let run = format!("run-{columns}");
        let train = [&["train", "--run-dir", &run], &settings[..]].concat();
        let shown = check_width(&sandbox, columns, &train);
        assert_says(&shown, &["stopped by   steps", "worker:1", "ps:0"]);
        let shown = check_width(&sandbox, columns, &["evaluate", &run]);
        assert!(shown.contains("accuracy") && !shown.contains("\n %"), "{shown}");
        check_width(&sandbox, columns, &["evaluate", "clicks"]);
        check_width(&sandbox, columns, &["data", "describe", "people.csv"]);
        check_width(&sandbox, columns, &["data", "clean", "--dry-run"]);
        check_width(&sandbox, columns, &["checkpoint", "list", &run]);
        check_width(&sandbox, columns, &["checkpoint", "verify", &run]);
        check_width(&sandbox, columns, &["trace", "summary", &run]);
        let shown = check_width(&sandbox, columns, &["sweep", "sweep.toml"]);
        assert_says(&shown, &["[4/4] batch=100 rate=0.1: ", "4 of 4 runs"]);
        assert!(!shown.contains(" 0 s left"), "{shown}");
    }
}

#[test]
fn paths_that_are_not_there_are_named_first() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", "[train]\nbach = 3\n");
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    let absent: [&[&str]; 7] = [
        &["evaluate", "nowhere"],
        &["report", "nowhere"],
        &["watch", "nowhere"],
        &["checkpoint", "list", "nowhere"],
        &["trace", "summary", "nowhere"],
        &["trace", "merge", "nowhere"],
        &["train", "--resume", "nowhere"],
    ];
    for command in absent {
        assert_says(&sandbox.fails(2, command), &["error: nowhere: there is no such "]);
    }
    let printed = sandbox.fails(2, &["worker", "--join", "nowhere"]);
    assert_says(
        &printed,
        &["--join nowhere: this is neither the directory of a run nor an address"],
    );
    assert_says(
        &sandbox.fails(2, &["evaluate", "empty"]),
        &["error: empty: this is not the directory of a run"],
    );
    std::os::unix::fs::symlink("model.safetensors", sandbox.path("empty/model.safetensors"))
        .unwrap();
    let unreadable = sandbox.run(&["evaluate", "empty"]).stderr;
    assert_says(&unreadable, &["error: cannot read empty/model.safetensors: Too many levels"]);
    let clicks = ["data", "make", "clicks", "--format", "libsvm", "--rows", "5", "job.toml"];
    assert_says(&sandbox.fails(2, &clicks), &["job.toml: there is such a file already"]);
}
