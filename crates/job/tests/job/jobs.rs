//! Valid and invalid jobs, as data.

use std::fs;
use std::path::Path;

use paceline_engine::{Mode, Stop};
use paceline_job::{DataKind, Plan, RawJob};
use paceline_model::{AdaGrad, Schedule};
use tempfile::TempDir;

/// Reads a job file of this text under this name, then applies these `--set`s.
fn read(dir: &TempDir, name: &str, toml: &str, settings: &[&str]) -> RawJob {
    let path = dir.path().join(name);
    fs::write(&path, toml).unwrap();
    let mut job = RawJob::read(&path).unwrap();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

/// What is wrong with a job, line by line, without the directory it is in.
pub(crate) fn problems(toml: &str, settings: &[&str]) -> Vec<String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("job.toml");
    fs::write(&path, toml).unwrap();
    let checked = RawJob::read(&path).and_then(|mut job| {
        settings.iter().for_each(|setting| job.set(setting));
        job.check()
    });
    let Err(problems) = checked else { return Vec::new() };
    let place = format!("{}/job.toml", dir.path().display());
    problems.to_string().lines().map(|line| line.replace(&place, "job")).collect()
}

/// The job file must be refused with exactly these problems.
#[track_caller]
fn check(toml: &str, expected: &[&str]) {
    assert_eq!(problems(toml, &[]), expected, "{toml}");
}

/// The built-in job with these settings must be refused with exactly these problems.
#[track_caller]
fn check_set(settings: &[&str], expected: &[&str]) {
    assert_eq!(problems("", settings), expected, "{settings:?}");
}

/// The plan of a valid job.
#[track_caller]
fn plan(toml: &str, settings: &[&str]) -> Plan {
    let dir = TempDir::new().unwrap();
    let job = read(&dir, "job.toml", toml, settings);
    job.check().unwrap_or_else(|problems| panic!("{toml} {settings:?}: {problems}"))
}

#[test]
fn an_empty_file_is_the_built_in_job_in_one_process() {
    let plan = plan("", &[]);
    let built_in = RawJob::built_in().check().unwrap();
    let tasks = |plan: &Plan| (plan.cluster.mode, plan.cluster.workers, plan.cluster.servers);
    assert_eq!(tasks(&plan), (Mode::Single, 1, 0));
    assert_eq!(tasks(&built_in), (Mode::Async, 2, 1));
    let (name, cluster) = (built_in.name.clone(), built_in.cluster.clone());
    assert_eq!(format!("{:?}", Plan { name, cluster, ..plan }), format!("{built_in:?}"));
    assert_eq!((built_in.name.as_str(), built_in.seed, built_in.batch), ("digits-softmax", 1, 60));
    assert_eq!(built_in.stop, Stop { epochs: Some(6), ..Stop::default() });
    let digits = DataKind::Digits { train_examples: 60_000, test_examples: 10_000 };
    assert_eq!(built_in.data.kind, digits);
    assert_eq!(built_in.optimizer.weights.rate, Schedule::Constant { rate: 0.15 });
    assert!(built_in.data.shuffle);
}

#[test]
fn unknown_keys_are_found_at_every_level_and_the_nearest_is_named() {
    check("sed = 1", &["job:1: sed is not a key; did you mean seed?"]);
    check("[model]\nkin = \"x\"", &["job:2: model.kin is not a key; did you mean model.kind?"]);
    check(
        "[train.optimizer.biases]\nrte = 1",
        &["job:2: train.optimizer.biases.rte is not a key; did you mean \
             train.optimizer.biases.rate?"],
    );
    check(
        "train = { stop = { step = 1 } }",
        &["job:1: train.stop.step is not a key; did you mean train.stop.steps?"],
    );
    check("train.bach = 1", &["job:1: train.bach is not a key; did you mean train.batch?"]);
    // The right name in the wrong place.
    check("batch = 10", &["job:1: batch is not a key; did you mean train.batch?"]);
    check(
        "[train]\nrate = 1",
        &["job:2: train.rate is not a key; did you mean train.optimizer.rate?"],
    );
    check("[model]\nseed = 1", &["job:2: model.seed is not a key; did you mean seed?"]);
    // A key of a layer is not meant by one that names no layer.
    check("rate = 1", &["job:1: rate is not a key; did you mean train.optimizer.rate?"]);
    // No similar key.
    let lost = "docs/job.md lists all keys, `paceline explain` those in use";
    check("xyzzy = 1", &[&format!("job:1: xyzzy is not a key; {lost}")]);
}

#[test]
fn a_value_for_a_section_names_the_key_it_was_probably_meant_for() {
    let section = "is a section of keys, not";
    let optimizer = format!("train.optimizer {section} a string; set train.optimizer.kind=adam");
    check_set(&["train.optimizer=adam"], &[&format!("--set train.optimizer=adam: {optimizer}")]);
    let model = format!("model {section} a string; set model.kind=softmax");
    check_set(&["model=softmax"], &[&format!("--set model=softmax: {model}")]);
    let stop = format!("train.stop {section} an integer; set train.stop.epochs=5");
    check_set(&["train.stop=5"], &[&format!("--set train.stop=5: {stop}")]);
}

#[test]
fn unknown_sections_are_named_once() {
    check("\n[trian]\nbatch = 1\nx = 2", &["job:2: trian is not a section; did you mean train?"]);
    check(
        "[train.optimiser]\nrate = 1",
        &["job:1: train.optimiser is not a section; did you mean train.optimizer?"],
    );
    check(
        "[optimizer]\nrate = 1",
        &["job:1: optimizer is not a section; did you mean train.optimizer?"],
    );
}

#[test]
fn a_quoted_name_with_a_dot_is_not_a_path() {
    check("\"seed\" = 0", &[]);
    check(
        "\"train.batch\" = 1",
        &["job:1: \"train.batch\" is not a key; did you mean train.batch?"],
    );
    let lost = "docs/job.md lists all keys, `paceline explain` those in use";
    check("\"\" = 1", &[&format!("job:1: \"\" is not a key; {lost}")]);
    check("\"a\\nb\" = 1", &[&format!("job:1: \"a\\nb\" is not a key; {lost}")]);
}

#[test]
fn values_of_the_wrong_kind_are_refused() {
    check(
        "name = 5",
        &["job:1: name must be a name of at most 100 letters, digits, '-', '_' and '.', not 5"],
    );
    check("seed = \"1\"", &["job:1: seed must be a whole number from 0 up, not the text \"1\""]);
    check("seed = 1.5", &["job:1: seed must be a whole number from 0 up, not 1.5"]);
    let says = "not 1000.0; write 1000, without a point or an exponent";
    let batch = format!("job:1: train.batch must be a whole number from 1 up, {says}");
    check("train.batch = 1e3", &[&batch]);
    let says = "not 30000000000; the greatest is 4294967295";
    let features = format!("job:1: data.features must be a whole number from 1 up, {says}");
    check("data = { kind = \"clicks\", features = 30000000000 }", &[&features]);
    check("seed = 2026-01-01", &["job:1: seed takes one value, not a datetime"]);
    check("data.shuffle = 1", &["job:1: data.shuffle must be true or false, not 1"]);
    check(
        "cluster = { mode = \"sync\", on_worker_loss = true }",
        &["job:1: cluster.on_worker_loss must be \"fail\", \"continue\" or \"wait\", not true"],
    );
    check("data = { kind = \"mnist\", path = 3 }", &["job:1: data.path must be a path, not 3"]);
    check(
        "data = { kind = \"mnist\", path = \"\" }",
        &["job:1: data.path must be a path, not the text \"\""],
    );
    check(
        "train.optimizer.rate = \"fast\"",
        &["job:1: train.optimizer.rate must be a number above 0, not the text \"fast\""],
    );
}

#[test]
fn tables_and_values_are_not_interchangeable() {
    check("train = 5", &["job:1: train is a section of keys, not an integer"]);
    check("[train]\nstop = \"late\"", &["job:2: train.stop is a section of keys, not a string"]);
    check("[[data]]\nkind = \"digits\"", &["job:1: data is a section of keys, not an array"]);
    check("[model.kind]\nname = 1", &["job:1: model.kind takes one value, not a table"]);
    check("[train]\nbatch = [1, 2]", &["job:2: train.batch takes one value, not an array"]);
}

#[test]
fn values_out_of_range_are_refused() {
    let batch = "train.batch must be a whole number from 1 up";
    check("train.batch = 0", &[&format!("job:1: {batch}, not 0")]);
    check("train.batch = -3", &[&format!("job:1: {batch}, not -3")]);
    let most = "not 4294967296; the greatest is 4294967295";
    check("train.batch = 4294967296", &[&format!("job:1: {batch}, {most}")]);
    check(
        "train.batch = 99999999999999999999",
        &["job:1: train.batch 99999999999999999999 is out of range: whole numbers end at \
           9223372036854775807"],
    );
    check("seed = -1", &["job:1: seed must be a whole number from 0 up, not -1"]);
    let digits = "data.train_examples asks for more than 10000000 digits, which are held in memory";
    check("data.train_examples = 10000001", &[&format!("job:1: {digits}")]);
    let rate = "train.optimizer.rate must be a number above 0";
    for (wrong, shown) in
        [("-0.1", "-0.1"), ("0", "0"), ("0.0", "0.0"), ("nan", "NaN"), ("inf", "inf")]
    {
        check(
            &format!("train.optimizer.rate = {wrong}"),
            &[&format!("job:1: {rate}, not {shown}")],
        );
    }
    let comma = format!("{rate}, not the text \"0,15\"; write 0.15, with a point");
    check("train.optimizer.rate = \"0,15\"", &[&format!("job:1: {comma}")]);
    check("train.optimizer.rate = \"a,b\"", &[&format!("job:1: {rate}, not the text \"a,b\"")]);
    // A number that becomes 0 or infinite in 32 bits is out of range too.
    assert_eq!(problems("train.optimizer.rate = 1e-60", &[]).len(), 1);
    assert_eq!(problems("train.optimizer.rate = 1e60", &[]).len(), 1);
    let momentum = "train.optimizer.momentum must be a number from 0 up to, but not including, 1";
    check(
        "train.optimizer = { kind = \"momentum\", momentum = 1 }",
        &[&format!("job:1: {momentum}, not 1")],
    );
    check(
        "train.optimizer.decay = -1",
        &["job:1: train.optimizer.decay must be a number from 0 up, not -1"],
    );
    check("train.stop.seconds = 0", &["job:1: train.stop.seconds must be a number above 0, not 0"]);
    check(
        "train.evaluate.every = 0",
        &["job:1: train.evaluate.every must be a whole number from 1 up, or \"auto\", not 0"],
    );
}

#[test]
fn unknown_words_are_refused() {
    check(
        "cluster.mode = \"sink\"",
        &["job:1: cluster.mode must be \"single\", \"async\", \"sync\", \"bounded\" or \
             \"mirrored\", not the text \"sink\""],
    );
    let kinds = "\"sgd\", \"momentum\", \"adagrad\", \"adam\" or \"ftrl\"";
    let problem = format!(
        "job:1: train.optimizer.kind must be {kinds}, not the text \"SGD\"; did you mean \"sgd\"?"
    );
    check("train.optimizer.kind = \"SGD\"", &[&problem]);
}

#[test]
fn everything_is_reported_at_once_in_the_order_of_the_file() {
    let toml = "sed = 1\n[train]\nbatch = 0\n[data]\nkind = 7\nshufle = true\n";
    let lines = problems(toml, &["observe.every=0", "x=1"]);
    let starts: Vec<_> = lines.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(starts, ["job:1", "job:3", "job:5", "job:6", "--set x=1", "--set observe.every=0"]);
}

#[test]
fn invalid_toml_is_refused_with_its_line() {
    assert!(problems("seed = 1\nseed = 2", &[])[0].starts_with("job:2: seed is there twice"));
    assert!(problems("seed = 1\n\n[train", &[])[0].starts_with("job:3: "));
    assert!(problems("seed = ", &[])[0].starts_with("job:1: "));
}

#[test]
fn a_file_that_cannot_be_read_is_named_without_a_line() {
    let dir = TempDir::new().unwrap();
    let error = |name: &str| RawJob::read(&dir.path().join(name)).unwrap_err().to_string();
    assert!(error("none.toml").contains("none.toml: cannot read the job file: No such file"));
    assert!(error("").contains(": cannot read the job file: it is a directory, not a file; name"));
    std::fs::write(dir.path().join("model.toml"), [0xff, 0x00]).unwrap();
    assert!(error("model.toml").contains("model.toml: cannot read the job file: it is not text"));
}

#[test]
fn the_start_of_ada_grads_sums_is_set_for_single_examples() {
    let initial = |settings: &[&str]| {
        let spec = plan("", &[&["model.kind=fm", "train.batch=50"], settings].concat()).optimizer;
        spec.downcast::<AdaGrad>().unwrap().initial
    };
    assert_eq!(initial(&[]), 100.0 / 2_500.0);
    assert_eq!(initial(&["train.optimizer.initial=1"]), 1.0 / 2_500.0);
    // A step of two workers has the gradient of 100 examples, one without a gate that of 50.
    let workers = "cluster.workers=2";
    assert_eq!(initial(&["cluster.mode=sync", workers]), 100.0 / 10_000.0);
    assert_eq!(initial(&["cluster.mode=async", workers]), 100.0 / 2_500.0);
}

#[test]
fn set_takes_toml_and_bare_words() {
    let set = |settings: &[&str]| plan("", settings);
    assert_eq!(set(&["train.batch=1_000"]).batch, 1_000);
    assert_eq!(set(&["train.batch = 0x10"]).batch, 16);
    assert_eq!(set(&["name=evening"]).name, "evening");
    assert_eq!(set(&["name=\"evening\""]).name, "evening");
    assert_eq!(
        set(&["train.optimizer.kind=adagrad"]).optimizer.downcast(),
        Some(&AdaGrad { epsilon: 1e-8, initial: 0.0 })
    );
    assert!(!set(&["data.shuffle=false"]).data.shuffle);
    let path = set(&["data={kind=\"mnist\", path=\"/a=b\"}"]).data.kind;
    assert_eq!(path, DataKind::Mnist { path: Some("/a=b".into()) });
    assert_eq!(set(&["data.kind=mnist", "data.path=/a=b"]).data.kind, path);
    assert_eq!(set(&["seed=1", "seed=2"]).seed, 2, "the last one counts");
}

#[test]
fn set_replaces_the_key_and_all_below_it() {
    let file =
        "train.stop = { epochs = 3, test_loss = 0.5 }\ntrain.optimizer = { rate = 2, decay = 1 }";
    let stop = |settings: &[&str]| plan(file, settings).stop;
    let both = Stop { epochs: Some(3), test_loss: Some(0.5), ..Stop::default() };
    assert_eq!(stop(&[]), both);
    assert_eq!(stop(&["train.stop={steps=9}"]), Stop { steps: Some(9), ..Stop::default() });
    assert_eq!(stop(&["train.stop.steps=9"]), Stop { steps: Some(9), ..both });
    assert_eq!(stop(&["train.stop={}"]), Stop { epochs: Some(6), ..Stop::default() });
    let weights = plan(file, &["train.optimizer={decay=0.5}"]).optimizer.weights;
    assert_eq!(weights.rate, Schedule::Constant { rate: 0.15 }, "the rate is the default again");
    assert_eq!(weights.decay, 0.5);
}

#[test]
fn a_set_corrects_a_wrong_value_of_the_file_but_not_an_unknown_key() {
    assert_eq!(plan("train.batch = 0", &["train.batch=1"]).batch, 1);
    let unknown = problems("train.bach = 0", &["train.batch=1"]);
    assert_eq!(unknown, ["job:1: train.bach is not a key; did you mean train.batch?"]);
}

#[test]
fn a_bad_set_is_named_as_it_was_typed() {
    check_set(&["train.batch"], &["--set train.batch: is not of the form key=value"]);
    let lost = "docs/job.md lists all keys, `paceline explain` those in use";
    check_set(&["=5"], &[&format!("--set =5: \"\" is not a key; {lost}")]);
    check_set(
        &["train.bach=5"],
        &["--set train.bach=5: train.bach is not a key; did you mean train.batch?"],
    );
    check_set(
        &["train.batch=many"],
        &["--set train.batch=many: train.batch must be a whole number from 1 up, not the text \
             \"many\""],
    );
    check_set(
        &["train.batch="],
        &["--set train.batch=: train.batch must be a whole number from 1 up, not the text \"\""],
    );
    check_set(&["train=5"], &["--set train=5: train is a section of keys, not an integer"]);
    check_set(&["seed={a=1}"], &["--set seed={a=1}: seed takes one value, not a table"]);
    for unsound in ["train.stop={steps=1", "train.stop=[1", "name=\"a", "name='a"] {
        let [problem] = &problems("", &[unsound])[..] else { panic!("{unsound}") };
        assert!(problem.contains("has a value that is not valid TOML: "), "{problem}");
    }
    assert!(problems("", &["name=a\nb"])[0].starts_with("--set name=a\\nb: name must be"));
}

#[test]
fn the_name_is_the_job_files_name_if_it_is_valid_in_a_directory() {
    let dir = TempDir::new().unwrap();
    let name = |file: &str, toml: &str| read(&dir, file, toml, &[]).check().unwrap().name;
    assert_eq!(name("evening.toml", ""), "evening");
    assert_eq!(name("evening.toml", "name = \"morning\""), "morning");
    assert_eq!(name("a.b.toml", ""), "a.b");
    assert_eq!(name("my job (2).toml", ""), "my-job--2-");
    assert_eq!(name(".toml", ""), "toml");
    assert_eq!(name("…", ""), "-");
    assert_eq!(name(&"x".repeat(200), "").len(), 100);
    for bad in ["", ".hidden", "a/b", "..", "ü", &"x".repeat(101)] {
        assert_eq!(problems(&format!("name = {bad:?}"), &[]).len(), 1, "{bad:?}");
    }
}

#[test]
fn paths_become_absolute_from_where_they_were_written() {
    let dir = TempDir::new().unwrap();
    let toml = "data = { kind = \"mnist\", path = \"set\" }";
    let kind =
        |settings: &[&str]| read(&dir, "job.toml", toml, settings).check().unwrap().data.kind;
    assert_eq!(kind(&[]), DataKind::Mnist { path: Some(dir.path().join("set")) });
    let here = std::env::current_dir().unwrap().join("set");
    assert_eq!(kind(&["data.path=set"]), DataKind::Mnist { path: Some(here) });
    let absolute = DataKind::Mnist { path: Some(Path::new("/set").into()) };
    assert_eq!(kind(&["data.path=/set"]), absolute);
}

#[test]
fn a_group_inherits_the_settings_it_does_not_set() {
    let toml = "[train.optimizer]\nrate = 0.5\ndecay = 0.1\n\
                schedule = { kind = \"exponential\", every = 10 }\n\
                [train.optimizer.biases]\nrate = 2\n\
                [train.optimizer.weights]\nschedule = { kind = \"constant\" }\ndecay = 0\n";
    let optimizer = plan(toml, &[]).optimizer;
    let falling = Schedule::Exponential { rate: 2.0, factor: 0.5, every: 10 };
    assert_eq!((optimizer.biases.rate, optimizer.biases.decay), (falling, 0.1));
    let constant = Schedule::Constant { rate: 0.5 };
    assert_eq!((optimizer.weights.rate, optimizer.weights.decay), (constant, 0.0));
}

/// The output of explain must be a job file with the same plan and the same explanation.
#[track_caller]
fn check_explained(toml: &str, settings: &[&str]) {
    let dir = TempDir::new().unwrap();
    let first = read(&dir, "job.toml", toml, settings);
    let second = read(&dir, "again.toml", &first.explain(), &[]);
    let plans = [&first, &second].map(|job| format!("{:?}", job.check().unwrap()));
    assert_eq!(plans[0], plans[1], "{}", first.explain());
    let third = read(&dir, "again.toml", &second.explain(), &[]);
    assert_eq!(second.explain(), third.explain());
}

#[test]
fn the_output_of_explain_is_the_same_job() {
    check_explained("", &[]);
    check_explained("name = \"a\"\nseed = 9223372036854775807", &[]);
    check_explained("", &["train.optimizer={kind=\"adam\", rate=1e-30, epsilon=1.5e-12}"]);
    check_explained(
        "",
        &["train.stop={epochs=1, steps=2, seconds=1e-3, test_loss=3.14159265358979}"],
    );
    check_explained(
        "train.optimizer.biases = { rate = 2, schedule = { kind = \"polynomial\" } }",
        &[],
    );
    check_explained("train.optimizer.schedule = { kind = \"staircase\", stairs = 3 }", &[]);
    check_explained(
        "data = { kind = \"mnist\", path = \"a \\\"b\\\" # c\" }",
        &["train.evaluate.examples=5"],
    );
    // A line break must not end a comment or a value.
    check_explained("", &["data.kind=mnist", "data.path=/a\nb\t\u{7f}"]);
}

#[test]
fn explain_shows_the_origin_of_each_value() {
    let dir = TempDir::new().unwrap();
    let text = read(&dir, "job.toml", "\nseed = 4", &["train.batch=5"]).explain();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
    assert!(line("seed = 4 ").ends_with("job.toml:2"), "{text}");
    assert!(line("batch = 5 ").ends_with("# --set train.batch=5"), "{text}");
    assert!(line("decay = 0.0 ").ends_with("# default"), "{text}");
    let reason = "# default: model.kind is softmax and train.optimizer.kind is sgd";
    assert!(line("rate = 0.15 ").ends_with(reason), "{text}");
}
