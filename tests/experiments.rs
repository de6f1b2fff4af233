//! The sweeps in `experiments/`, and the generated list of them.

use std::fs;

use paceline_lab::report::GENERATED_NOTICE;

use crate::emulate::without_root;
use crate::support::{Sandbox, assert_says, finish, start, workspace};

/// The name and text of each job file.
fn experiments() -> Vec<(String, String)> {
    let entries = fs::read_dir(workspace().join("experiments")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let jobs = paths.filter(|path| path.extension() == Some("toml".as_ref()));
    let mut jobs: Vec<_> = jobs
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    jobs.sort();
    jobs
}

#[test]
fn every_experiment_can_be_run() {
    let sandbox = Sandbox::new();
    let experiments = workspace().join("experiments");
    for form in [&[][..], &["--quick"]] {
        let args = [&["sweep", "--dry-run", experiments.to_str().unwrap()], form].concat();
        let listed = sandbox.ok(&args).stdout;
        assert!(listed.matches("# ").count() >= 15, "{listed}");
    }
}

/// `paceline report SWEEPS --index experiments/README.md` generates the list. Its figures may be
/// old, but every experiment and finding must be in it.
#[test]
fn the_list_of_experiments_is_complete() {
    let list = fs::read_to_string(workspace().join("experiments/README.md")).unwrap();
    assert!(list.starts_with(GENERATED_NOTICE), "experiments/README.md is not the generated list");
    for (name, job) in experiments() {
        let section = list.split(&format!("\n## {name}\n")).nth(1);
        let section =
            section.unwrap_or_else(|| panic!("{name} is not in the list: generate it again"));
        let section = section.split("\n## ").next().unwrap();
        assert_says(section, &[&format!("`paceline sweep experiments/{name}.toml")]);
        let says = job.lines().filter_map(|line| line.strip_prefix("says = \"")?.strip_suffix('"'));
        for says in says {
            assert!(
                section.contains(says),
                "{name}: {says:?} is not in the list: generate it again"
            );
        }
    }
}

/// Runs three of the experiments, made shorter than their quick form.
#[test]
fn a_directory_of_experiments_is_swept_and_listed() {
    let sandbox = Sandbox::new();
    for (name, job) in experiments() {
        if ["softmax-r0", "softmax-r1-emulated", "criteo-r3"].contains(&name.as_str()) {
            let job =
                job.replace("\"data.train_examples\" = 6000", "\"data.train_examples\" = 600");
            let job =
                job.replace("\"data.train_examples\" = 20000", "\"data.train_examples\" = 2000");
            let job =
                job.replace("\"train.stop\" = { steps = 100 }", "\"train.stop\" = { steps = 10 }");
            let job =
                job.replace("\"train.stop\" = { steps = 600 }", "\"train.stop\" = { steps = 40 }");
            sandbox.write(&format!("jobs/{name}.toml"), job);
        }
    }
    // Without root the emulated experiment is skipped.
    let mut command = without_root(&sandbox);
    command.args(["sweep", "--quick", "jobs", "--repeats", "1", "--sweep-dir", "all"]);
    let output = finish(start(&mut command));
    assert_eq!(output.code, Some(0), "{output:?}");
    let left_out = "softmax-r1-emulated.toml is skipped: it emulates hosts, which needs root";
    assert_says(&output.stderr, &[left_out, "8 of 8 runs", "4 of 4 runs"]);

    sandbox.ok(&["report", "all", "--index", "README.md"]);
    let list = fs::read_to_string(sandbox.path("README.md")).unwrap();
    assert!(list.starts_with(GENERATED_NOTICE));
    assert_says(
        &list,
        &[
            "| [softmax-r0](softmax-r0.toml) | 8 | 8 |",
            "## criteo-r3\n\nReport R3, sparse",
            "`paceline sweep softmax-r0.toml --quick`: 8 runs in ",
            "| sync workers do equal steps and end together | yes | in 4 of 4: ",
            "| steps/s | 1.4 |",
        ],
    );
    let page = fs::read_to_string(sandbox.path("all/softmax-r0/report.html")).unwrap();
    assert_says(&page, &["Published findings", "holds here"]);
    assert_says(
        &sandbox.fails(2, &["report", "jobs", "--index", "x.md"]),
        &["it contains no sweeps"],
    );
}
