//! `paceline explain` with a `TF_CONFIG`.

use serde_json::{Value, json};

use crate::support::{ManualRun, RunningProcess, Sandbox, assert_says, cluster_of, free_ports};

/// The output of `explain` with this `TF_CONFIG`.
fn explain(config: &Value, settings: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["explain"]);
    command.args(settings.iter().flat_map(|setting| ["--set", setting]));
    command.env("TF_CONFIG", config.to_string());
    let output = RunningProcess::start(&mut command, sandbox.path("")).finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(sandbox.tree(), [""; 0], "explain has written files");
    output.stdout
}

/// The rows of the table of tasks, split into words.
fn rows(explained: &str) -> Vec<Vec<&str>> {
    let tasks = explained.lines().filter_map(|line| line.strip_prefix("# "));
    let tasks = tasks.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_task = |word: &&str| word.contains(':') && !word.ends_with(':');
    tasks.filter(|words| words.first().is_some_and(is_task)).collect()
}

#[test]
fn explain_shows_the_tasks_and_what_was_read_from_where() {
    let config = json!({
        "cluster": {
            "master": ["m.svc:2222"],
            "worker": {"0": "w0.svc:2222", "1": "w1.svc"},
            "ps": ["p0.svc:2222"],
            "evaluator": ["e.svc:2222"],
            "reserve": ["r.svc:2222"],
        },
        "task": {"type": "worker", "index": "1"},
    });
    let printed = explain(&config, &["cluster.workers=3"]);
    assert_eq!(
        rows(&printed),
        [
            vec!["chief:0", "0", "m.svc:2222"],
            vec!["worker:0", "1", "w0.svc:2222"],
            vec!["worker:1", "2", "w1.svc:2222", "this", "process"],
            vec!["ps:0", "-", "p0.svc:2222"],
            vec!["evaluator:0", "-", "e.svc:2222"],
        ]
    );
    assert_says(
        &printed,
        &[
            "# tasks, from TF_CONFIG",
            "master means chief",
            "the chief is listed: it is slot 0",
            "cluster.worker is a sparse map",
            "cluster.reserve is not a known role and is ignored",
            "the evaluator is listed in the cluster; no task waits for it",
        ],
    );
    assert!(!printed.contains("are used"), "nothing is inconsistent: {printed}");
}

#[test]
fn explain_names_what_does_not_fit_the_job() {
    let config = json!({
        "cluster": cluster_of(3, &[2222, 2223]),
        "task": {"type": "worker", "index": 0},
    });
    let printed = explain(&config, &[]);
    assert_says(
        &printed,
        &[
            "no chief is listed: worker:0 is the chief",
            "cluster.workers is 2, but TF_CONFIG lists 3: 3 are used",
            "cluster.servers is 1, but TF_CONFIG lists 2: 2 are used",
        ],
    );
    // The output is still a valid job file.
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", &printed);
    let alone = sandbox.ok(&["explain", "job.toml"]).stdout;
    assert_says(&alone, &["2 workers and 1 server, which `paceline train` starts here"]);
    // `TF_CONFIG` decides what trains.
    let [first, second] = free_ports();
    let manual_run = ManualRun::new(cluster_of(3, &[first, second]), &["train.stop={steps=20}"]);
    let servers = (0..2).map(|index| manual_run.start("ps", index));
    manual_run.all_end_well(
        servers.chain((0..3).map(|index| manual_run.start("worker", index))).collect(),
    );
    let summary = manual_run.run().summary();
    assert_eq!((&summary["workers"], &summary["servers"]), (&3.into(), &2.into()));
}
