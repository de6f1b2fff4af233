//! Networks that the job file defines: they learn with the defaults, are equal bit by bit wherever
//! built-in networks are, and are refused before the start if their layers do not fit.

use std::fs;

use serde_json::{Value, json};

use crate::support::{RunFolder, Sandbox, assert_says, finish, python_json, start, workspace};

/// Every kind of layer, with groups and names, in a small network.
const ALL_KINDS: &str = r#"
[model]
layers = [
  { kind = "conv", channels = 8, size = 5, stride = 2, padding = 2, name = "first" },
  { kind = "relu" },
  { kind = "conv", channels = 8, size = 3, padding = 1, groups = 4 },
  { kind = "tanh" },
  { kind = "max-pool", size = 3, stride = 2, padding = 1 },
  { kind = "average-pool", size = 2, stride = 1 },
  { kind = "adaptive-average-pool", size = 4 },
  { kind = "flatten" },
  { kind = "dropout", rate = 0.2 },
  { kind = "dense", size = 24 },
  { kind = "relu" },
  { kind = "dense", size = "classes", name = "scores" },
]
[data]
train_examples = 600
test_examples = 200
[train]
batch = 16
"#;

/// Trains a job file of the sandbox in this mode.
fn train(sandbox: &Sandbox, file: &str, run: &str, settings: &[&str]) -> RunFolder {
    let mut args = vec!["train", "--quiet", file, "--run-dir", run];
    args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    sandbox.ok(&args);
    sandbox.run_folder(run)
}

/// The five lines of the README that define a perceptron.
fn perceptron() -> String {
    let text = fs::read_to_string(workspace().join("README.md")).unwrap();
    let blocks = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let found: Vec<_> = blocks.filter(|block| block.contains(r#""network""#)).collect();
    assert_eq!(found.len(), 1, "one network in the README");
    assert_eq!(found[0].lines().count(), 5, "{}", found[0]);
    found[0].to_owned()
}

#[test]
fn the_perceptron_of_the_readme_learns_with_its_defaults() {
    let sandbox = Sandbox::new();
    sandbox.write("perceptron.toml", perceptron());
    let data = ["data.train_examples=20000", "data.test_examples=2000"];
    let run = train(&sandbox, "perceptron.toml", "run", &data);
    let accuracy = run.summary()["test_accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
}

#[test]
fn sync_and_mirrored_give_the_same_bits_and_follow_single() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", ALL_KINDS);
    let stop = "train.stop={steps=25}";
    let shared = |mode: &str, workers: &str| {
        let settings = [format!("cluster.mode={mode}"), format!("cluster.workers={workers}")];
        let run = format!("{mode}-{workers}");
        train(&sandbox, "job.toml", &run, &[stop, &settings[0], &settings[1]])
    };
    for workers in ["1", "2", "3"] {
        let [sync, mirrored] = ["sync", "mirrored"].map(|mode| shared(mode, workers).model());
        assert!(sync == mirrored, "{workers} workers: the bytes differ");
    }
    let single = train(&sandbox, "job.toml", "single", &[stop, "train.batch=32"]);
    let sync = sandbox.run_folder("sync-2");
    let loss = |run: &RunFolder| run.summary()["test_loss"].as_f64().unwrap();
    assert!((loss(&single) - loss(&sync)).abs() < 1e-3, "{} {}", loss(&single), loss(&sync));
    for threads in ["train.threads=1", "train.threads=3"] {
        let run = train(&sandbox, "job.toml", threads, &[stop, "train.batch=32", threads]);
        assert!(run.model() == single.model(), "{threads}: the bytes differ");
    }
}

#[test]
fn a_resumed_run_ends_with_the_same_bits_and_evaluate_gives_the_summary() {
    for mode in ["single", "sync", "mirrored"] {
        let sandbox = Sandbox::new();
        sandbox.write("job.toml", ALL_KINDS);
        let settings = [&format!("cluster.mode={mode}")[..], "checkpoint.every_steps=10"];
        let whole = train(
            &sandbox,
            "job.toml",
            "whole",
            &[&settings[..], &["train.stop={steps=30}"]].concat(),
        );
        train(&sandbox, "job.toml", "run", &[&settings[..], &["train.stop={steps=10}"]].concat());
        // The run's own job.toml has the layers.
        sandbox.ok(&["train", "--quiet", "--resume", "run", "--set", "train.stop={steps=30}"]);
        let resumed = sandbox.run_folder("run");
        assert_eq!(resumed.summary()["resumed_from"], 10);
        assert!(resumed.model() == whole.model(), "{mode}: the bytes differ");
        let printed = sandbox.ok(&["evaluate", "--json", "run"]).stdout;
        let figures: Value = serde_json::from_str(&printed).unwrap();
        for figure in ["test_loss", "test_accuracy"] {
            assert_eq!(figures[figure], whole.summary()[figure], "{mode} {figure}");
        }
    }
}

#[test]
fn a_built_in_network_has_the_bits_of_its_printed_layers() {
    let lenet = ["model.kind=lenet", "data.train_examples=600", "data.test_examples=100"];
    let alexnet = [
        "model.kind=alexnet",
        "data.size=64",
        "data.train_examples=32",
        "data.test_examples=8",
        "train.batch=4",
    ];
    for (settings, steps) in [(&lenet[..], "12"), (&alexnet[..], "3")] {
        let sandbox = Sandbox::new();
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let settings: Vec<_> = settings.collect();
        let layers = sandbox.ok(&[&["explain", "--layers"], &settings[..]].concat()).stdout;
        sandbox.write("layers.toml", &layers);
        let stop = format!("train.stop={{steps={steps}}}");
        let stop = ["--quiet", "--set", &stop, "--run-dir"];
        sandbox.ok(&[&["train"], &stop[..], &["built-in"], &settings[..]].concat());
        sandbox.ok(&[&["train", "layers.toml"], &stop[..], &["printed"]].concat());
        let [built_in, printed] = ["built-in", "printed"].map(|run| sandbox.run_folder(run));
        let numbers = [&built_in, &printed].map(|run| {
            let file = run.model();
            let (length, rest) = file.split_first_chunk().unwrap();
            rest[u64::from_le_bytes(*length) as usize..].to_vec()
        });
        assert!(numbers[0] == numbers[1], "{settings:?}: the bytes differ");
        assert!(fs::read_to_string(printed.file("job.toml")).unwrap().contains(r#""network""#));
    }
}

#[test]
fn tensors_have_the_names_and_shapes_of_a_torch_sequential() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", ALL_KINDS);
    let run = train(&sandbox, "job.toml", "run", &["train.stop={steps=1}"]);
    let tensors = python_json("python/read_model.py", &[run.file("model.safetensors").as_os_str()]);
    let shapes: Vec<_> = tensors.as_object().unwrap().iter().collect();
    let shapes = shapes.iter().map(|(name, tensor)| (name.as_str(), tensor["shape"].clone()));
    let mut shapes: Vec<_> = shapes.collect();
    shapes.sort_by_key(|(name, _)| name.to_string());
    // Of nn.Sequential(OrderedDict([("first", nn.Conv2d(1, 8, 5, 2, 2)), ("1", nn.ReLU()),
    // ("2", nn.Conv2d(8, 8, 3, padding=1, groups=4)), ...])).state_dict()
    let expected = [
        ("2.bias", json!([8])),
        ("2.weight", json!([8, 2, 3, 3])),
        ("9.bias", json!([24])),
        ("9.weight", json!([24, 128])),
        ("first.bias", json!([8])),
        ("first.weight", json!([8, 1, 5, 5])),
        ("scores.bias", json!([10])),
        ("scores.weight", json!([10, 24])),
    ];
    assert_eq!(shapes, expected);
}

#[test]
fn explain_prints_a_table_of_layers() {
    let sandbox = Sandbox::new();
    sandbox.write("job.toml", ALL_KINDS);
    let text = sandbox.ok(&["explain", "job.toml"]).stdout;
    let row = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{start}: {text}"));
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_says(&text, &["# layers, for examples of 1x28x28 and 10 classes"]);
    assert_eq!(row("# layer "), "layer name kind output parameters MFLOP forward backward");
    assert_eq!(row("# 0 "), "0 first convolution 8x14x14 208 0.078 0.078");
    assert_eq!(row("# 2 "), "2 2 convolution 8x14x14 152 0.056 0.113");
    assert_eq!(row("# 7 "), "7 7 flatten 128 0 0.000 0.000");
    assert_eq!(row("# 11 "), "11 scores dense 10 250 0.000 0.001");
    assert!(row("# all ").starts_with("all 3,706 "), "{text}");
    assert_says(&text, &["# memory: 15 kB for the parameters"]);
    // The explanation is a job with the same explanation.
    sandbox.write("again.toml", &text);
    let again = sandbox.ok(&["explain", "again.toml"]).stdout;
    let table = |text: &str| text.split("# layers, for").nth(1).unwrap().to_owned();
    assert_eq!(table(&again), table(&text));
    let lenet = sandbox.ok(&["explain", "--set", "model.kind=lenet"]).stdout;
    assert_says(&lenet, &["# 7", "fc1", "48,120", "61,706"]);
    let absent = ["--set", r#"data={kind="mnist", path="nowhere"}"#];
    let absent = sandbox.ok(&[&["explain", "job.toml"], &absent[..]].concat());
    assert_says(&absent.stdout, &["# layers: their shapes depend on data that is not here: "]);
    let table = ["--set", r#"data={kind="table", path="people.csv"}"#];
    let table = sandbox.ok(&[&["explain", "job.toml"], &table[..]].concat());
    let says = "# layers: their shapes depend on the data, which is not read here";
    assert_says(&table.stdout, &[says]);
}

#[test]
fn layers_that_do_not_fit_are_refused_with_their_line_and_exit_code_2() {
    for (layers, says) in [
        (
            r#"{ kind = "max-pool", size = 9 },
               { kind = "conv", channels = 4, size = 5 },"#,
            &["job.toml:4: model.layers.1 (convolution), given 1x3x3", "a kernel of 5x5"][..],
        ),
        (r#"{ kind = "dense", size = 10 },"#, &["job.toml:3: model.layers.0 (dense)", "flatten"]),
        (r#"{ kind = "dense", size = 0 },"#, &["job.toml:3: model.layers.0.size must be"]),
        (r#"{ kind = "conv", channels = 4, size = 3, stride = 0 },"#, &["stride must be"]),
        (r#"{ kind = "conv", channels = 4, size = 3, padding = 3 },"#, &["pads by 3x3"]),
        (r#"{ kind = "conv", channels = 4, size = 3, groups = 3 },"#, &["3 groups", "1 input"]),
        (r#"{ kind = "dropout", rate = 1.0 },"#, &["rate must be a number from 0"]),
        (r#"{ kind = "densse", size = 10 },"#, &["did you mean \"dense\"?"]),
        (r#"{ kind = "relu" },"#, &["no layer with parameters to train"]),
        ("", &["job.toml:2: model.layers is empty"]),
        (
            r#"{ kind = "flatten" },
               { kind = "dense", size = 9 },"#,
            &["job.toml:4: model.layers.1.size is 9, but the data has 10 classes"],
        ),
        (
            r#"{ kind = "flatten", name = "a" },
               { kind = "dense", size = 10, name = "a" },"#,
            &["job.toml:4: model.layers.1.name is \"a\""],
        ),
        // More than the program would ever try.
        (
            r#"{ kind = "flatten" },
               { kind = "dense", size = 4000000000 },
               { kind = "dense", size = 10 },"#,
            &["job.toml:4: model.layers.1 (dense), given 784: is too large", "13 TB"],
        ),
        // More than a machine has.
        (
            r#"{ kind = "flatten" },
               { kind = "dense", size = 1000000000 },
               { kind = "dense", size = 10 },"#,
            &["job.toml:4: model.layers.1 is the largest layer", "3.2 TB", "of memory"],
        ),
    ] {
        let sandbox = Sandbox::new();
        let end = r#"kind = "network""#;
        sandbox.write("job.toml", format!("[model]\nlayers = [\n{layers}\n]\n{end}\n"));
        for more in [&[][..], &["--set", "cluster.mode=sync"]] {
            let stderr = sandbox.fails(2, &[&["train", "job.toml"], more].concat());
            assert_says(&stderr, says);
        }
        assert_eq!(sandbox.tree(), ["job.toml"], "nothing has started");
    }
}

#[test]
fn explain_says_that_train_refuses_a_network_beyond_the_memory() {
    let sandbox = Sandbox::new();
    let layers = r#"{ kind = "flatten" },
                    { kind = "dense", size = 1000000000 },
                    { kind = "dense", size = "classes" }"#;
    sandbox.write("job.toml", format!("[model]\nkind = \"network\"\nlayers = [{layers}]\n"));
    for mode in ["cluster.mode=single", "cluster.mode=sync", "cluster.mode=mirrored"] {
        let set = ["--set", mode];
        let refusal = sandbox.fails(2, &[&["train", "job.toml"], &set[..]].concat());
        let (_, refusal) = refusal.split_once("job.toml:4: ").unwrap();
        assert_says(refusal, &["model.layers.1 is the largest layer", "3.2 TB", "of memory"]);
        // Explained lines are wrapped and have a mark before them.
        let plain = |text: &str| {
            let words = text.split_whitespace().filter(|word| *word != "#");
            words.collect::<Vec<_>>().join(" ")
        };
        let explained = plain(&sandbox.ok(&[&["explain", "job.toml"], &set[..]].concat()).stdout);
        let expected = "train refuses this network on this machine: job.toml:4: ";
        assert_says(&explained, &[&format!("{expected}{}", plain(refusal))]);
    }
}

#[test]
fn the_shape_of_mnist_is_read_from_its_files_before_the_start() {
    let sandbox = Sandbox::new();
    let path = format!("data.path={}", sandbox.idx_set("idx", 40, 10).display());
    let layers = |size: usize| {
        format!(
            r#"[data]
               kind = "mnist"
               [train]
               batch = 4
               [[model.layers]]
               kind = "conv"
               size = {size}
               channels = 3
               [[model.layers]]
               kind = "flatten"
               [[model.layers]]
               kind = "dense"
               size = "classes"
            "#
        )
    };
    sandbox.write("fits.toml", layers(2));
    sandbox.write("large.toml", layers(3));
    for mode in ["cluster.mode=single", "cluster.mode=sync"] {
        train(&sandbox, "fits.toml", mode, &[&path, mode]);
        let args = ["train", "large.toml", "--run-dir", "large", "--set", &path, "--set", mode];
        let says = "large.toml:6: model.layers.0 (convolution), given 1x3x2: has a kernel of 3x3";
        assert_says(&sandbox.fails(2, &args), &[says]);
        assert!(!sandbox.path("large").exists(), "nothing has started");
    }
    let lenet = ["train", "--set", "model.kind=lenet", "--set", "data.kind=mnist", "--set", &path];
    let says = ["model.kind = \"lenet\": layer 3 (conv2, convolution), given 6: has a kernel"];
    assert_says(&sandbox.fails(2, &lenet), &says);
}

#[test]
fn a_network_trains_on_pictures_and_has_an_output_for_each_folder() {
    let sandbox = Sandbox::new();
    let golden = workspace().join("crates/arrays/tests/golden");
    let pictures = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path());
    let picture = pictures.filter(|path| path.extension().is_some_and(|e| e == "png")).min();
    let picture = fs::read(picture.unwrap()).unwrap();
    for (index, class) in ["a", "b", "c"].iter().cycle().take(24).enumerate() {
        sandbox.write(&format!("pictures/{class}/{index}.png"), &picture);
    }
    sandbox.write("job.toml", ALL_KINDS.replace("train_examples = 600\ntest_examples = 200", ""));
    let data = ["data.kind=images", "data.path=pictures", "data.size=24", "train.batch=4"];
    let stop = "train.stop={steps=3}";
    for mode in ["single", "sync", "mirrored"] {
        let mode_key = format!("cluster.mode={mode}");
        let run = train(&sandbox, "job.toml", mode, &[&data[..], &[stop, &mode_key]].concat());
        let bytes = run.model();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(tensors.tensor("scores.weight").unwrap().shape(), [3, 24], "{mode}");
    }
    let mut command = sandbox.command(&["train", "job.toml", "--set", "model.layers.11.size=5"]);
    command.args(data.iter().flat_map(|setting| ["--set", setting]));
    let output = finish(start(&mut command));
    assert_eq!(output.code, Some(2), "{output:?}");
    assert_says(&output.stderr, &["model.layers.11.size is 5, but the data has 3 classes"]);
}
