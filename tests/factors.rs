//! Models with vectors of features: what they learn, what they refuse, and that servers change
//! nothing.

use std::fs;

use serde_json::Value;

use crate::support::{RunFolder, Sandbox, assert_says, events, points};

/// Clicks of which pairs of values explain a third, which a linear model cannot learn.
const CLICKS: [&str; 6] = [
    "data.features=2000",
    "data.interactions=0.3",
    "data.train_examples=20000",
    "data.test_examples=4000",
    "train.batch=50",
    "train.stop={epochs=3}",
];

#[test]
fn one_worker_gives_the_bits_of_a_single_process_for_every_model_of_pairs() {
    for model in ["fm", "ffm", "deepfm", "wide-deep"] {
        let sandbox = Sandbox::new();
        let kind = format!("model.kind={model}");
        let mut common = [&CLICKS[..5], &[&kind, "model.rank=2", "train.stop={steps=60}"]].concat();
        if ["deepfm", "wide-deep"].contains(&model) {
            common.push("model.dropout=0.3");
        }
        let single = sandbox.train("single", &common);
        let shared = ["cluster.workers=1", "cluster.servers=2"];
        let sync = sandbox.train_cluster("sync", "sync", &[&common[..], &shared].concat());
        assert!(single.model() == sync.model(), "{model}: the bytes differ");
    }
}

#[test]
fn entries_that_are_updated_with_their_row_have_the_bits_of_whole_batches() {
    let sandbox = Sandbox::new();
    let wide = ["model.kind=ffm", "model.rank=2", "train.stop={steps=50}"];
    let common = [&CLICKS[..5], &wide].concat();
    let optimizer = "train.optimizer={kind=\"ftrl\", rate=0.05}";
    let ways: [&[&str]; 3] = [
        &[optimizer, "data.features=20000"],
        &["model.min_count=2", "model.evict_after=10"],
        &["observe.histograms=7"],
    ];
    for (at, way) in ways.iter().enumerate() {
        let settings = [&common[..], way].concat();
        let single = sandbox.train(&format!("single{at}"), &settings);
        let cluster = [&settings[..], &["cluster.workers=1", "cluster.servers=1"]].concat();
        let sync = sandbox.train_cluster(&format!("sync{at}"), "sync", &cluster);
        assert!(single.model() == sync.model(), "{way:?}: the bytes differ");
    }
}

#[test]
fn entries_in_memory_and_bytes_of_keys_are_in_the_curves_the_summary_and_the_report() {
    let sandbox = Sandbox::new();
    let common = [&CLICKS[..5], &["model.kind=fm", "model.rank=3"]].concat();
    let steps = [&common[..], &["train.stop={steps=40}"]].concat();
    let alone = [&steps[..], &["cluster.workers=1"]].concat();
    let entries = |run: &RunFolder| -> u64 {
        let tasks = run.summary()["tasks"].as_array().unwrap().clone();
        tasks.iter().filter_map(|task| task["entries"].as_u64()).sum()
    };
    let single = sandbox.train("one/single", &steps);
    let servers = [&alone[..], &["cluster.servers=2"]].concat();
    let sync = sandbox.train_cluster("one/sync", "sync", &servers);
    let mirrored = sandbox.train_cluster("one/mirrored", "mirrored", &alone);
    let known = entries(&single);
    assert!(known > 100 && entries(&sync) == known && entries(&mirrored) == known, "{known}");
    // Each entry has four numbers with a state each, and each possible key a place in the index.
    let task = single.task("worker:0");
    assert_eq!(task["entry_bytes"].as_u64(), Some(4 * 2_001 + 4 * 8 * known), "{task}");
    let (one, two) = (single.task("worker:0"), sync.task("worker:0"));
    let figure = |task: &Value, name: &str| task[name].as_u64().unwrap();
    assert_eq!(figure(&one, "keys"), figure(&two, "keys"));
    assert_eq!(figure(&one, "key_bytes"), 4 * figure(&one, "keys"));
    assert!(figure(&two, "key_bytes") < figure(&one, "key_bytes"), "the gaps of keys are sent");
    assert_eq!(figure(&two, "value_bytes"), 16 * figure(&two, "keys"));

    let lasting = [
        "train.stop={seconds=1}",
        "train.evaluate.every=20",
        "observe.sample_ms=20",
        "cluster.servers=2",
    ];
    let run = sandbox.train_cluster("one/lasting", "async", &[&common[..], &lasting].concat());
    let recorded = events(&run.file(""));
    for server in ["ps_0", "ps_1"] {
        let curve = points(&recorded["runs"][server], "work_sparse/entries");
        assert!(curve.len() > 1 && curve.is_sorted_by_key(|point| point.1 as u64), "{curve:?}");
    }
    sandbox.ok(&["report", "one", "--to", "report"]);
    let page = fs::read_to_string(sandbox.path("report/report.html")).unwrap();
    let text = fs::read_to_string(sandbox.path("report/report.md")).unwrap();
    assert_says(&text, &["keys/step", "keys kB/step", "values kB/step", "entries", "entries MB"]);
    assert_says(&page, &["Keys and entries", "Entries in memory", "Keys per step", "Test AUC"]);
}

#[test]
fn servers_share_the_bytes_of_a_perceptron_as_they_share_features() {
    let sandbox = Sandbox::new();
    let model = ["model.kind=deepfm", "model.rank=2", "model.hidden=[256, 64]"];
    let shared = ["train.stop={steps=40}", "cluster.workers=1", "cluster.servers=2"];
    let settings = [&CLICKS[..5], &model, &shared].concat();
    let run = sandbox.train_cluster("run", "sync", &settings);
    let received = ["ps:0", "ps:1"].map(|task| run.task(task)["received_bytes"].as_f64().unwrap());
    let entries = ["ps:0", "ps:1"].map(|task| run.task(task)["entries"].as_f64().unwrap());
    for [first, second] in [received, entries] {
        let apart = (first - second).abs() / (first + second);
        assert!(apart < 0.15, "{received:?} bytes, {entries:?} entries");
    }
}

#[test]
fn a_factorization_machine_closes_most_of_the_gap_between_a_linear_model_and_the_true_odds() {
    let sandbox = Sandbox::new();
    // Four million rows of weaker pairs close 80 % (docs/models.md); these take seconds.
    let data = [
        "data.kind=clicks",
        "data.features=20000",
        "data.interactions=0.6",
        "data.train_examples=200000",
        "data.test_examples=20000",
        "train.stop={epochs=2}",
    ];
    let loss = |model: &str| {
        let kind = format!("model.kind={model}");
        let run = sandbox.train(model, &[&data[..], &[&kind]].concat());
        run.summary()["test_loss"].as_f64().unwrap()
    };
    let (linear, machine) = (loss("logistic"), loss("fm"));
    let settings = data[..5].iter().flat_map(|setting| ["--set", setting]);
    let printed = sandbox.ok(&["explain"].into_iter().chain(settings).collect::<Vec<_>>()).stdout;
    let (_, bound) = printed.split_once("the true odds have a test loss of ").unwrap();
    let truth: f64 = bound.split(',').next().unwrap().parse().unwrap();
    let closed = (linear - machine) / (linear - truth);
    assert!(closed > 0.6, "logistic {linear}, fm {machine}, the true odds {truth}: {closed}");
}

/// LIBSVM text of four classes, each with features of its own, among 200,000.
fn rows_of_classes(rows: usize) -> String {
    let row = |at: usize| {
        let class = [-1, 3, 7, 20][at % 4];
        let own = 1 + at % 4 * 50_000 + at * 7 % 40;
        format!("{class} {own}:1 {}:0.5\n", 49_000 + at % 4 * 50_000 + at * 11 % 900)
    };
    (0..rows).map(row).collect()
}

#[test]
fn softmax_over_sparse_rows_tells_many_classes_apart_with_servers_and_without() {
    let sandbox = Sandbox::new();
    sandbox.write("train.svm", rows_of_classes(2_000));
    let data = ["data.kind=libsvm", "data.path=train.svm", "data.features=200000"];
    let model = ["model.kind=sparse-softmax", "train.batch=20", "train.stop={epochs=3}"];
    let settings = [&data[..], &model].concat();
    let single = sandbox.train("single", &settings);
    let shared = ["cluster.workers=1", "cluster.servers=2"];
    let sync = sandbox.train_cluster("sync", "sync", &[&settings[..], &shared].concat());
    assert!(single.model() == sync.model(), "the bytes differ");
    assert!(single.summary()["test_accuracy"].as_f64().unwrap() > 0.99);
    sandbox.write("new.svm", "20 150022:1\n3 50008:1\n");
    let printed = sandbox.ok(&["predict", "single", "new.svm"]).stdout;
    let likely = |line: &str| {
        let chances: Vec<f64> = line.split(',').skip(1).map(|p| p.parse().unwrap()).collect();
        chances.iter().position(|&chance| chance > 0.5)
    };
    // The columns are those of the labels -1, 3, 7 and 20.
    let classes: Vec<Option<usize>> = printed.lines().skip(1).map(likely).collect();
    assert_eq!(classes, [Some(3), Some(1)], "{printed}");
    let printed = sandbox.ok(&["evaluate", "single", "new.svm"]).stdout;
    assert_says(&printed, &["100"]);
}

#[test]
fn what_a_model_of_pairs_cannot_do_is_refused_before_anything_starts() {
    let sandbox = Sandbox::new();
    let check = |settings: &[&str], says: &[&str]| {
        let mut args = vec!["train"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        assert_says(&sandbox.fails(2, &args), says);
    };
    for rank in ["model.rank=0", "model.rank=10000"] {
        check(&["model.kind=fm", rank], &["model.rank must be a whole number from 1 to 1024"]);
    }
    check(&["model.kind=logistic", "model.rank=4"], &["model.rank applies only with"]);
    check(&["model.kind=deepfm", "model.hidden=[8, 0]"], &["whole numbers from 1 to 65536"]);
    check(
        &["model.kind=ffm", "data.kind=libsvm", "data.path=rows.svm"],
        &["data.kind is \"libsvm\", but model.kind is \"ffm\", which takes clicks, libffm"],
    );
    check(&["model.kind=fm", "train.optimizer.kind=momentum"], &["use sgd, adagrad, adam or ftrl"]);
    check(&["model.kind=fm", "cluster.memory=5"], &["cluster.memory must be", "\"8gb\""]);
    check(&["model.kind=softmax", "cluster.memory=5gb"], &["cluster.memory applies only with"]);
    check(&["model.kind=logistic", "model.min_count=2"], &["model.min_count applies only with"]);
    check(&["model.kind=fm", "model.min_count=0"], &["a whole number from 1 to 65535"]);
}

#[test]
fn a_checkpoint_of_another_rank_is_refused_with_both_shapes() {
    let sandbox = Sandbox::new();
    let own = ["model.kind=fm", "model.rank=3", "checkpoint.every_steps=20"];
    sandbox.train("run", &[&CLICKS[..5], &own, &["train.stop={steps=20}"]].concat());
    let run = sandbox.path("run");
    let args = ["train", "--resume", run.to_str().unwrap(), "--set", "model.rank=4"];
    let more = ["--set", "train.stop.steps=40"];
    let printed = sandbox.fails(2, &[&args[..], &more].concat());
    assert_says(&printed, &["another model", "[2000, 4]", "[2000, 5]"]);
}

#[test]
fn explain_predicts_the_memory_of_the_table() {
    let sandbox = Sandbox::new();
    let printed = sandbox.ok(&["explain", "--set", "model.kind=fm"]).stdout;
    let text = |printed: String| {
        printed.replace("\n# ", " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let index = "in this process for the index of 33,762,579 keys, and 72 bytes for each that";
    assert_says(&text(printed), &[index, "about 30 MB more in each task"]);
    let checkpoints = ["--set", "model.kind=fm", "--set", "checkpoint.every_steps=9"];
    let printed = sandbox.ok(&[&["explain"], &checkpoints[..]].concat()).stdout;
    assert_says(&text(printed), &["up to twice the bytes of its entries"]);
    let limited = ["--set", "model.kind=ffm", "--set", "data.features=1000000"];
    let shared = ["--set", "cluster.mode=sync", "--set", "cluster.memory=3mb"];
    let printed = sandbox.ok(&[&["explain"], &limited[..], &shared].concat()).stdout;
    let says = ["in each server for the index of 1,000,001 keys", "too much", "3.0 MB"];
    assert_says(&text(printed), &says);
}

/// Settings under which keys are counted, and entries evicted and created again.
const FREQUENCY: [&str; 2] = ["model.min_count=2", "model.evict_after=7"];

#[test]
fn mirrored_has_the_bits_of_sync_for_sparse_models() {
    for (model, more) in [
        ("logistic", &["train.optimizer={kind=\"sgd\", rate=0.1, decay=0.01}"][..]),
        ("ffm", &[]),
        ("deepfm", &FREQUENCY),
        ("sparse-softmax", &FREQUENCY),
    ] {
        let sandbox = Sandbox::new();
        let kind = format!("model.kind={model}");
        let has_rank = ["ffm", "deepfm"].contains(&model);
        let rank = if has_rank { &["model.rank=2"][..] } else { &[] };
        let common = [&CLICKS[..2], &CLICKS[3..4], &[&kind], rank, more].concat();
        // The last step has no rows for the third worker.
        let rows = ["data.train_examples=1021", "train.batch=20", "train.stop={epochs=1}"];
        let settings = [&common[..], &rows, &["cluster.workers=3"]].concat();
        let servers = [&settings[..], &["cluster.servers=2"]].concat();
        let sync = sandbox.train_cluster("sync", "sync", &servers);
        let mirrored = sandbox.train_cluster("mirrored", "mirrored", &settings);
        assert!(sync.model() == mirrored.model(), "{model}: the bytes differ");
        for figure in ["global_steps", "examples", "test_loss"] {
            assert_eq!(sync.summary()[figure], mirrored.summary()[figure], "{model}: {figure}");
        }
    }
}

#[test]
fn a_table_beyond_the_memory_of_the_job_ends_the_run_with_its_number_of_keys() {
    let sandbox = Sandbox::new();
    let settings = |limit: &str| {
        let own = ["model.kind=fm", "data.features=300000", "data.interactions=0"];
        let rows = ["data.train_examples=20000", "train.stop={epochs=1}"];
        let own = own.iter().chain(&rows).map(|setting| (*setting).to_owned());
        own.chain([format!("cluster.memory={limit}")]).collect::<Vec<_>>()
    };
    let fails = |mode: &str, limit: &str| {
        let settings = settings(limit);
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        let output = sandbox.launch(&format!("{mode}-{limit}"), mode, &settings).finish();
        assert_ne!(output.code, Some(0), "{output:?}");
        output.stderr
    };
    let before = "the index of 300001 keys takes 1.2 MB, and cluster.memory is 1.0 MB";
    for mode in ["single", "sync", "mirrored"] {
        let printed = fails(mode, "1mb");
        assert_says(&printed, &["error: --set cluster.memory=1mb", before]);
        assert!(!sandbox.path(&format!("{mode}-1mb")).exists(), "{mode} has started: {printed}");
        let printed = fails(mode, "2mb");
        assert_says(&printed, &["of 300001 keys", "cluster.memory has no room", "min_count"]);
    }
}
