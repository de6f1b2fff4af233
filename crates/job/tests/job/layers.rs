//! `model.layers`: lists of layers, what is said about those that do not fit, and their text.

use std::path::Path;

use paceline_job::{ModelKind, Plan, RawJob};
use paceline_model::{Architecture, LayerKind, Windows};

/// A job of this text, after these `--set`s.
fn job(toml: &str, settings: &[&str]) -> RawJob {
    let mut job = RawJob::parse(toml, Path::new("job")).unwrap();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

/// What is wrong with a job, a line for each problem.
fn problems(toml: &str, settings: &[&str]) -> Vec<String> {
    let problems = job(toml, settings).check().err().map(|problems| problems.to_string());
    problems.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// The job must be refused with exactly these problems.
#[track_caller]
fn check(toml: &str, expected: &[&str]) {
    assert_eq!(problems(toml, &[]), expected, "{toml}");
}

/// The layers must be refused with exactly this problem.
#[track_caller]
fn check_layers(layers: &str, expected: &str) {
    let start = r#"[model]
        kind = "network"
        layers = ["#;
    check(&format!("{start}\n{layers}\n]"), &[expected]);
}

#[track_caller]
fn plan(job: &RawJob) -> Plan {
    job.check().unwrap_or_else(|problems| panic!("{problems}"))
}

/// The network of a plan, for its own data.
#[track_caller]
fn architecture(job: &RawJob) -> Architecture {
    let plan = plan(job);
    let planes = plan.data.kind.planes().unwrap_or([1, 28, 28]);
    job.check_network(&plan, planes, plan.data.kind.classes()).unwrap().unwrap()
}

#[test]
fn a_size_beyond_all_numbers_is_one_problem() {
    check_layers(
        r#"{ kind = "flatten" },
{ kind = "dense", size = 9223372036854775808 }"#,
        "job:5: model.layers.1.size 9223372036854775808 is out of range: whole numbers end at \
         9223372036854775807",
    );
}

const PERCEPTRON: &str = r#"[model]
kind = "network"
layers = [{ kind = "flatten" },
  { kind = "dense", size = 128 }, { kind = "relu" },
  { kind = "dense", size = "classes" }]
"#;

#[test]
fn layers_may_be_tables_or_a_list_or_a_setting() {
    let tables = r#"
        [[model.layers]]
        kind = "flatten"
        [[model.layers]]
        kind = "dense"
        size = 128
        [[model.layers]]
        kind = "relu"
        [[model.layers]]
        kind = "dense"
        size = 10
    "#;
    let setting = concat!(
        r#"model.layers=[{kind="flatten"},{kind="dense",size=128},"#,
        r#"{kind="relu"},{kind="dense",size="classes"}]"#,
    );
    let list = architecture(&job(PERCEPTRON, &[]));
    assert_eq!(list, architecture(&job(tables, &[])));
    assert_eq!(list, architecture(&job("", &[setting])));
    let mut built_in = RawJob::built_in();
    built_in.set(setting);
    assert_eq!(list, architecture(&built_in));
    assert_eq!(plan(&built_in).cluster.workers, 1, "it is another job than the built-in one");
    let names: Vec<_> = list.layout().tensors().iter().map(|tensor| &tensor.name[..]).collect();
    assert_eq!(names, ["1.weight", "1.bias", "3.weight", "3.bias"]);
    let small = architecture(&job(PERCEPTRON, &["model.layers.1.size=7"]));
    assert_eq!(small.layout().len(), 784 * 7 + 7 + 70 + 10);
    let longer = [r#"model.layers.4={kind="tanh"}"#];
    assert_eq!(architecture(&job(PERCEPTRON, &longer)).layers().len(), 5);
}

#[test]
fn every_kind_of_layer_has_its_keys_and_defaults() {
    let toml = r#"
        [model]
        layers = [
            { kind = "conv", channels = 6, size = 5, padding = 2, name = "first" },
            { kind = "max-pool", size = 2 },
            { kind = "conv", channels = 12, size = 3, stride = 2, padding = 1, groups = 3 },
            { kind = "tanh" },
            { kind = "average-pool", size = 3, stride = 1, padding = 1 },
            { kind = "adaptive-average-pool", size = 4 },
            { kind = "flatten" },
            { kind = "dropout" },
            { kind = "dropout", rate = 0.25 },
            { kind = "relu" },
            { kind = "dense", size = "classes" },
        ]
    "#;
    let network = architecture(&job(toml, &[]));
    let kinds: Vec<_> = network.layers().iter().map(|layer| layer.kind).collect();
    let windows = |kernel, stride, padding| Windows {
        kernel: [kernel; 2],
        stride: [stride; 2],
        padding: [padding; 2],
    };
    let conv = |outputs, Windows { kernel, stride, padding }, groups| LayerKind::Conv {
        outputs,
        kernel,
        stride,
        padding,
        groups,
    };
    let expected = [
        conv(6, windows(5, 1, 2), 1),
        LayerKind::MaxPool(windows(2, 2, 0)),
        conv(12, windows(3, 2, 1), 3),
        LayerKind::Tanh,
        LayerKind::AveragePool(windows(3, 1, 1)),
        LayerKind::AdaptiveAveragePool { to: [4; 2] },
        LayerKind::Flatten,
        LayerKind::Dropout { rate: 0.5 },
        LayerKind::Dropout { rate: 0.25 },
        LayerKind::Relu,
        LayerKind::Dense { outputs: 10 },
    ];
    assert_eq!(kinds, expected);
    assert_eq!(network.layers()[0].name, "first");
    assert_eq!(network.layers()[2].name, "2");
}

#[test]
fn shapes_that_do_not_fit_name_the_layer_its_line_and_the_sizes() {
    check_layers(
        r#"{ kind = "max-pool", size = 9 },
           { kind = "conv", channels = 4, size = 5, name = "c" },"#,
        "job:5: model.layers.1 (c, convolution), given 1x3x3: has a kernel of 5x5, larger than \
         the image of 3x3 with its padding of 0x0; use a kernel of at most 3x3, or let the layers \
         before it shrink the image less",
    );
    check_layers(
        r#"{ kind = "dense", size = "classes" },"#,
        "job:4: model.layers.0 (dense), given 1x28x28: takes a flat row: put a flatten layer \
         before it",
    );
    check_layers(
        r#"{ kind = "conv", channels = 4, size = 5, groups = 2 },"#,
        "job:4: model.layers.0 (convolution), given 1x28x28: has 2 groups, which do not divide \
         its 1 input channels; use a number that divides 1 and 4",
    );
    check_layers(
        r#"{ kind = "conv", channels = 4, size = 3, padding = 3 },"#,
        "job:4: model.layers.0 (convolution), given 1x28x28: pads by 3x3, so that windows of its \
         kernel of 3x3 see nothing but padding; pad by less than the kernel's size",
    );
    check_layers(
        r#"{ kind = "average-pool", size = 3, padding = 2 },"#,
        "job:4: model.layers.0 (average pooling), given 1x28x28: pads by 2x2, more than half of \
         its windows of 3x3; pad by less",
    );
    check_layers(
        r#"{ kind = "conv", channels = 4, size = 3 },"#,
        "job:4: model.layers.0 ends the network with 4x26x26, not with a flat row of scores; add \
         a flatten layer and a dense layer with size = \"classes\"",
    );
    check_layers(
        r#"{ kind = "flatten" },
           { kind = "dense", size = 7 },"#,
        "job:5: model.layers.1.size is 7, but the data has 10 classes, and the last layer has an \
         output for each; use 10 or \"classes\"",
    );
    check_layers(
        r#"{ kind = "flatten" },
           { kind = "dense", size = 7 },
           { kind = "relu" },"#,
        "job:6: model.layers.2 ends the network with 7 values, but the data has 10 classes; add a \
         dense layer with size = \"classes\"",
    );
    check_layers(
        r#"{ kind = "flatten" },"#,
        "job:4: model.layers has no layer with parameters to train; add a dense layer with size = \
         \"classes\"",
    );
}

#[test]
fn huge_sizes_are_refused_with_the_memory_they_would_need() {
    check_layers(
        r#"{ kind = "flatten" },
           { kind = "dense", size = 4294967295 },
           { kind = "dense", size = 10 },"#,
        "job:5: model.layers.1 (dense), given 784: is too large: up to this layer the network \
         needs 13 TB for its parameters and 17 GB for each example; use smaller sizes",
    );
    let (max, less) = (i64::MAX, i64::MAX - 1);
    let sizes = format!("channels = {max}, size = {max}, padding = {less}, stride = {max}");
    check_layers(
        &format!(r#"{{ kind = "conv", {sizes} }},"#),
        "job:4: model.layers.0 (convolution), given 1x28x28: is too large: up to this layer the \
         network needs more than 1000 PB for its parameters and more than 1000 PB for each \
         example; use smaller sizes",
    );
    let size = "a whole number from 1 up";
    for (layer, says) in [
        (r#""dense", size = 0"#, format!("size must be {size}, or \"classes\", not 0")),
        (r#""conv", size = 3, channels = 0"#, format!("channels must be {size}, not 0")),
        (r#""conv", channels = 3, size = -1"#, format!("size must be {size}, not -1")),
        (r#""conv", channels = 3, size = 3, stride = 0"#, format!("stride must be {size}, not 0")),
        (r#""conv", channels = 3, size = 3, groups = 0"#, format!("groups must be {size}, not 0")),
        (r#""max-pool", size = 2.5"#, format!("size must be {size}, not 2.5")),
    ] {
        let layer = format!("{{ kind = {layer} }}");
        check_layers(&layer, &format!("job:4: model.layers.0.{says}"));
    }
    for rate in ["1.0", "-0.1", "1.5"] {
        check_layers(
            &format!(r#"{{ kind = "dropout", rate = {rate} }}"#),
            &format!(
                "job:4: model.layers.0.rate must be a number from 0 up to, but not including, 1, \
                 not {rate}"
            ),
        );
    }
}

#[test]
fn unknown_kinds_and_keys_suggest_the_nearest() {
    let kinds = concat!(
        r#""dense", "conv", "max-pool", "average-pool", "adaptive-average-pool", "#,
        r#""flatten", "relu", "tanh" or "dropout""#,
    );
    for (wrong, meant) in
        [("Conv2d", "conv"), ("maxpool", "max-pool"), ("avg-pool", "average-pool")]
    {
        check_layers(
            &format!(r#"{{ kind = "{wrong}" }}"#),
            &format!(
                "job:4: model.layers.0.kind must be {kinds}, not the text \"{wrong}\"; did you \
                 mean \"{meant}\"?"
            ),
        );
    }
    check_layers(
        r#"{ kind = "xyz" }"#,
        &format!("job:4: model.layers.0.kind must be {kinds}, not the text \"xyz\""),
    );
    check_layers(
        r#"{ kind = "Linear", size = 3 }"#,
        "job:4: model.layers.0.kind is \"Linear\", which is not a layer here; write \"dense\"",
    );
    assert!(
        problems("", &[r#"model.layers=[{kind="batch_norm"}]"#])[0].contains("no-batch-norm.md"),
        "batch norm is refused with its reason"
    );
    check_layers(
        r#"{ kind = "flatten" },
           { kind = "dense", size = 10, siz = 3 }"#,
        "job:5: model.layers.1.siz is not a key; did you mean model.layers.1.size?",
    );
    check_layers(
        r#"{ kind = "relu", size = 3 },
           { kind = "flatten" },
           { kind = "dense", size = 10 }"#,
        "job:4: model.layers.0.size applies only with model.layers.0.kind = \"dense\", \"conv\", \
         \"max-pool\", \"average-pool\" or \"adaptive-average-pool\", but model.layers.0.kind is \
         \"relu\" (job:4); set model.layers.0.kind too, or leave model.layers.0.size out",
    );
    check(
        r#"[[model.layer]]
           kind = "relu""#,
        &["job:1: model.layer is not a key; did you mean model.layers?"],
    );
}

#[test]
fn lists_that_are_no_layers_are_refused() {
    let network = r#"[model]
                     kind = "network""#;
    check(
        network,
        &["job:2: model.kind is \"network\", which needs layers: list them in model.layers, or \
           use lenet or alexnet"],
    );
    check(
        &format!("{network}\nlayers = []"),
        &["job:3: model.layers is empty, but a network needs layers"],
    );
    check(
        r#"[model.layers]
           kind = "relu""#,
        &["job:1: model.layers is a list: write [[model.layers]] before each layer"],
    );
    check("model.layers = 3", &["job:1: model.layers is a list of layers, not an integer"]);
    check(
        &format!("{network}\nlayers = [3]"),
        &["job:3: model.layers.0 is a section of keys, not an integer"],
    );
    let no_kind = "job:4: model.layers.0 has no kind, such as kind = \"dense\"";
    check_layers("{ },", no_kind);
    check_layers("{ size = 3 },", no_kind);
    check_layers(
        r#"{ kind = "dense" },"#,
        "job:4: model.layers.0 (dense) has no size, which it needs",
    );
    check_layers(
        r#"{ kind = "conv", size = "classes", channels = 3 },"#,
        "job:4: model.layers.0.size is \"classes\", which only a dense layer takes; use a number",
    );
    for layer in [r#"kind = "conv", size = 0, channels = 3"#, r#"kind = "max-pool", size = 0"#] {
        let error = "job:4: model.layers.0.size must be a whole number from 1 up, not 0";
        check_layers(&format!("{{ {layer} }},"), error);
    }
    check_layers(
        r#"{ kind = "dense", size = 0 },"#,
        "job:4: model.layers.0.size must be a whole number from 1 up, or \"classes\", not 0",
    );
    let many = format!("{network}\nlayers = [{}]", r#"{kind="relu"},"#.repeat(1001));
    check(&many, &["job:3: model.layers has 1001 layers; at most 1000 are allowed"]);
    assert_eq!(
        problems(PERCEPTRON, &["model.layers.6.kind=relu"]),
        ["--set model.layers.6.kind=relu: model.layers.6 is set, but there is no model.layers.4 \
          before it"]
    );
    assert_eq!(
        problems("", &["model.layers.5.size=10"]),
        ["--set model.layers.5.size=10: model.layers.5 is set, but there is no model.layers.0 \
          before it"]
    );
    assert_eq!(
        problems(PERCEPTRON, &["model.layers.01.size=3"]),
        ["--set model.layers.01.size=3: model.layers.01.size is not a key; did you mean \
          model.layers.0.size?"]
    );
}

#[test]
fn names_are_unique_and_fit_a_file() {
    check_layers(
        r#"{ kind = "flatten" },
           { kind = "dense", size = 10, name = "a" },
           { kind = "dense", size = 10, name = "a" }"#,
        "job:6: model.layers.2.name is \"a\", as is the name of model.layers.1; use another",
    );
    check_layers(
        r#"{ kind = "flatten", name = "1" },
           { kind = "dense", size = 10 }"#,
        "job:4: model.layers.0.name is \"1\", which model.layers.1 is called by default; use \
         another",
    );
    check_layers(
        r#"{ kind = "flatten", name = "a/b" },"#,
        "job:4: model.layers.0.name must be a name of at most 100 letters, digits, '-', '_' and \
         '.', not the text \"a/b\"",
    );
}

#[test]
fn layers_of_a_model_that_is_no_network_are_refused_once() {
    let softmax = PERCEPTRON.replace(r#""network""#, r#""softmax""#);
    check(
        &softmax,
        &["job:3: model.layers applies only with model.kind = \"network\", but model.kind is \
           \"softmax\" (job:2); set model.kind = \"network\", or leave model.layers out"],
    );
    check(
        &format!("{PERCEPTRON}dropout = 0.3"),
        &["job:6: model.dropout applies only with model.kind = \"alexnet\", \"deepfm\" or \
           \"wide-deep\", but model.kind is \"network\" (job:2); set model.kind too, or leave \
           model.dropout out"],
    );
}

#[test]
fn the_explanation_of_layers_is_a_job_with_the_same_plan_and_digest() {
    for settings in [&[][..], &["model.layers.1.size=64"], &["data.kind=images", "data.path=x"]] {
        let job = job(PERCEPTRON, settings);
        let text = job.explain();
        let again = RawJob::parse(&text, Path::new("again")).unwrap();
        assert_eq!(format!("{:?}", plan(&again)), format!("{:?}", plan(&job)), "{text}");
        assert_eq!(again.digest(), job.digest(), "{text}");
    }
    let text = job(PERCEPTRON, &["model.layers.1.size=64"]).explain();
    let line = text.lines().find(|line| line.contains("64")).unwrap();
    assert_eq!(line, r#"  { kind = "dense", size = 64 }, # job:4, --set model.layers.1.size=64"#);
    let other = job(PERCEPTRON, &["model.layers.1.name=hidden"]);
    assert_ne!(other.digest(), job(PERCEPTRON, &[]).digest());
}

#[test]
fn built_in_networks_are_lists_of_layers_that_can_be_printed_and_read_again() {
    for settings in [
        &["model.kind=lenet"][..],
        &["model.kind=lenet", "model.init=he", "data.kind=mnist"],
        &["model.kind=alexnet", "model.dropout=0.25", "data.classes=7", "data.size=95"],
        &["model.kind=alexnet", "data.kind=images", "data.path=/pictures"],
    ] {
        let built_in = job("", settings);
        let text = built_in.with_layers().unwrap().explain();
        let again = RawJob::parse(&text, Path::new("again")).unwrap();
        assert_eq!(architecture(&again), architecture(&built_in), "{text}");
        let plans = [plan(&built_in), plan(&again)];
        let [ModelKind::Network(before), ModelKind::Network(after)] = plans.map(|plan| plan.model)
        else {
            panic!("both are networks")
        };
        assert_eq!((before.init, after.name), (after.init, "network"));
        let before = Plan { model: ModelKind::Softmax, ..plan(&built_in) };
        let after = Plan { model: ModelKind::Softmax, name: before.name.clone(), ..plan(&again) };
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{text}");
    }
    let text = job("", &["model.kind=lenet"]).with_layers().unwrap().explain();
    let conv = r#"{ kind = "conv", name = "conv1", channels = 6, size = 5, padding = 2 }"#;
    assert!(text.contains(&format!("  {conv}, # definition of lenet")), "{text}");
    let softmax = job("", &[]).with_layers().unwrap_err().to_string();
    assert!(softmax.contains("model.kind is \"softmax\", which has no layers"), "{softmax}");
}

#[test]
fn a_sweep_varies_the_sizes_of_layers_or_the_layers() {
    let sweep = |axis: &str| {
        let cells = job(&format!("{PERCEPTRON}\n[sweep]\n{axis}"), &[]).cells(false).unwrap();
        cells.iter().map(|cell| architecture(&cell.job).layout().len()).collect::<Vec<_>>()
    };
    assert_eq!(sweep(r#""model.layers.1.size" = [1, 2]"#), [784 + 1 + 20, 2 * 785 + 30]);
    let lists = r#""model.layers" = [
        [{kind="flatten"}, {kind="dense", size=10}],
        [{kind="flatten"}, {kind="dense", size=2}, {kind="dense", size=10}]]"#;
    assert_eq!(sweep(lists), [7850, 2 * 785 + 30]);
    // Cells whose model has no layers leave them unused, without a mistake.
    let kinds = r#""model.kind" = ["network", "softmax"]"#;
    let job = job(&format!("{PERCEPTRON}\n[sweep]\n{kinds}"), &[]);
    assert_eq!(job.cells(false).unwrap().len(), 2);
}
