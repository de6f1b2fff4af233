//! Keys that are set but not used, and defaults with their reasons.

use std::path::Path;

use paceline_engine::Mode;
use paceline_job::RawJob;
use paceline_place::{Cluster, PlaceFlags, Placement};

/// A job of this text, after these `--set`s.
fn job(toml: &str, settings: &[&str]) -> RawJob {
    let mut job = RawJob::parse(toml, Path::new("job.toml")).unwrap();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

/// The built-in job after these `--set`s.
fn built_in(settings: &[&str]) -> RawJob {
    let mut job = RawJob::built_in();
    settings.iter().for_each(|setting| job.set(setting));
    job
}

/// What is wrong with a job.
fn problems(job: &RawJob) -> String {
    job.check().err().map(|problems| problems.to_string()).unwrap_or_default()
}

/// The line of the explanation that begins like this.
#[track_caller]
fn explained(job: &RawJob, start: &str) -> String {
    job.check().unwrap_or_else(|problems| panic!("{problems}"));
    let text = job.explain();
    let line = text.lines().find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("{start} is not in {text}")).to_owned()
}

/// The job is refused if it has this setting, unless it has the other settings too.
#[track_caller]
fn check(setting: &str, makes_it_apply: &[&str], says: &str) {
    let key = setting.split('=').next().unwrap();
    let refused = problems(&job("", &[setting]));
    let start = format!("--set {setting}: {key} applies only {says}");
    assert!(refused.starts_with(&start) && refused.lines().count() == 1, "{refused}");
    assert!(refused.ends_with(&format!("leave {key} out")), "{refused}");
    let applies = job("", &[makes_it_apply, &[setting]].concat());
    assert_eq!(problems(&applies), "", "{setting} with {makes_it_apply:?}");
    let name = key.rsplit('.').next().unwrap();
    assert!(applies.explain().contains(&format!("\n{name} = ")), "{}", applies.explain());
}

#[test]
fn every_key_that_the_run_does_not_use_is_refused_with_what_makes_it_apply() {
    let digits = ", but data.kind is \"digits\" (default); correct the path, at which there is";
    let with_path =
        "with data.kind = \"mnist\", \"fashion-mnist\", \"libsvm\", \"libffm\", \"tfrecord\"";
    check("data.path=people.txt", &["data.kind=libsvm"], with_path);
    assert!(problems(&job("", &["data.path=people.txt"])).contains(digits));
    let rows = ["data.kind=libsvm", "data.path=x"];
    check("data.test_path=x", &rows, "with data.kind = ");
    check("data.hold_out=5", &rows, "with data.kind = ");
    check("data.size=70", &["data.kind=fake-images"], "with data.kind = ");
    check("data.classes=5", &["data.kind=fake-images"], "with data.kind = \"fake-images\", but");
    check("data.features=5", &["data.kind=clicks"], "with data.kind = ");
    check("data.index_base=one", &rows, "with data.kind = \"libsvm\", but");
    check("data.on_bad=skip", &rows, "with data.kind = ");
    check("data.shuffle_buffer=5", &["data.kind=clicks"], "with data.kind = ");
    check("model.dropout=0.1", &["model.kind=alexnet"], "with model.kind = \"alexnet\", ");
    check("model.dense=true", &["model.kind=logistic"], "with model.kind = \"logistic\", but");
    for (key, kind) in [
        ("momentum=0.8", "momentum"),
        ("beta1=0.8", "adam"),
        ("beta2=0.8", "adam"),
        ("epsilon=0.1", "adagrad"),
        ("initial=0.1", "adagrad"),
        ("beta=0.1", "ftrl"),
    ] {
        let kind = format!("train.optimizer.kind={kind}");
        check(&format!("train.optimizer.{key}"), &[&kind], "with train.optimizer.kind = ");
    }
    check("train.stop.min_gain=0.1", &["train.stop.patience=3"], "with train.stop.patience");
    check("train.metric=accuracy", &["train.stop.patience=3"], "with train.stop.patience, or with");
    check("train.metric=accuracy", &["train.keep_best=true"], "with train.stop.patience, or with");
    check("data.test=0.2", &rows, "with data.kind = ");
    check("data.negatives=0.1", &["data.kind=clicks"], "with data.kind = ");
    for owner in ["train.optimizer", "train.optimizer.weights", "train.optimizer.biases"] {
        for (key, kind) in [
            ("factor=0.5", "exponential"),
            ("every=5", "exponential"),
            ("fall=5", "staircase"),
            ("stairs=5", "staircase"),
            ("end=0.1", "polynomial"),
            ("over=5", "polynomial"),
            ("power=2", "polynomial"),
            ("over=5", "cosine"),
        ] {
            let says = format!("with {owner}.schedule.kind = ");
            let kind = format!("{owner}.schedule.kind={kind}");
            check(&format!("{owner}.schedule.{key}"), &[&kind], &says);
        }
    }
}

#[test]
fn keys_of_clusters_checkpoints_and_emulated_hosts_need_their_condition() {
    for (setting, mode) in [
        ("cluster.workers=8", "mirrored"),
        ("cluster.servers=2", "async"),
        ("cluster.slots=4", "bounded"),
        ("cluster.quorum=1", "sync"),
        ("cluster.staleness=1", "bounded"),
        ("cluster.on_worker_loss=wait", "mirrored"),
        ("cluster.on_server_loss=fail", "sync"),
        ("cluster.start_timeout_s=5", "async"),
        ("cluster.stall_timeout_s=5", "async"),
        ("cluster.emulate.hosts=2", "sync"),
    ] {
        check(setting, &[&format!("cluster.mode={mode}")], "with cluster.mode = ");
    }
    let network = ["cluster.mode=mirrored", "model.kind=lenet"];
    check("cluster.factors=never", &network, "with cluster.mode = ");
    let dense = problems(&job("", &["cluster.mode=mirrored", "cluster.factors=never"]));
    assert!(dense.contains("cluster.factors applies only with model.kind = \"lenet\""), "{dense}");
    check("cluster.token_file=x", &["observe.http=127.0.0.1:0"], "with cluster.mode = ");
    check("cluster.token_file=x", &["cluster.mode=sync"], "with cluster.mode = ");
    let (sync, wait) = ("cluster.mode=sync", "cluster.on_worker_loss=wait");
    for setting in ["cluster.restarts=5", "cluster.rejoin_timeout_s=5"] {
        check(setting, &[sync, wait], "with cluster.mode = ");
        let ends = "if the run waits for lost tasks (cluster.on_worker_loss or \
                    cluster.on_server_loss), but this run ends when it loses a task";
        assert!(problems(&job("", &[sync, setting])).contains(ends));
        assert_eq!(problems(&job("", &[sync, setting, "checkpoint.every_steps=5"])), "");
        let mirrored = ["cluster.mode=mirrored", setting, "checkpoint.every_steps=5"];
        assert!(problems(&job("", &mirrored)).contains(ends));
    }
    let hosts = [sync, "cluster.emulate.hosts=3"];
    for setting in ["link=1gbit", "delay_ms=1", "cpus=1"] {
        let setting = format!("cluster.emulate.{setting}");
        check(&setting, &hosts, "with cluster.emulate.hosts, but cluster.emulate.hosts is not set");
    }
    check("cluster.emulate.server=own", &hosts, "with cluster.mode = ");
    check("checkpoint.keep=2", &["checkpoint.every_seconds=5"], "with checkpoint.every_steps or ");
}

#[test]
fn keys_that_another_key_replaces_are_refused() {
    for (settings, says) in [
        (
            &["train.batch=5", "train.global_batch=6"][..],
            "train.batch applies only without train.global_batch, but train.global_batch is 6",
        ),
        (
            &["data.kind=libsvm", "data.path=x", "data.test_path=y", "data.hold_out=5"],
            "data.hold_out applies only without data.test_path, but data.test_path is",
        ),
        (
            &["data.kind=clicks", "data.shuffle=false", "data.shuffle_buffer=5"],
            "data.shuffle_buffer applies only with data.shuffle = true, but data.shuffle is false",
        ),
        (
            &[
                "train.optimizer.rate=1",
                "train.optimizer.weights.rate=2",
                "train.optimizer.biases.rate=3",
            ],
            "train.optimizer.rate applies only without both weights.rate and biases.rate, but both",
        ),
    ] {
        let found = problems(&job("", settings));
        assert!(found.contains(says) && found.lines().count() == 1, "{found}");
        assert_eq!(problems(&job("", &settings[..settings.len() - 1])), "", "{settings:?}");
    }
}

#[test]
fn a_wrong_word_does_not_make_the_keys_that_depend_on_it_wrong_too() {
    let found = problems(&job("", &["data.kind=mnits", "data.path=x"]));
    assert!(found.contains("data.kind must be") && found.lines().count() == 1, "{found}");
}

#[test]
fn a_line_that_the_command_line_makes_unused_is_named_with_a_way_to_replace_its_section() {
    let toml = "[cluster]\nmode = \"sync\"\nquorum = 2\n";
    assert_eq!(problems(&job(toml, &[])), "");
    assert_eq!(
        problems(&job(toml, &["cluster.mode=async"])),
        "job.toml:3: cluster.quorum applies only with cluster.mode = \"sync\", but cluster.mode \
         is \"async\" (--set cluster.mode=async); set cluster.mode = \"sync\", or leave \
         cluster.quorum out: --set 'cluster={mode=\"async\"}' replaces the whole section"
    );
    assert_eq!(problems(&job(toml, &["cluster={mode=\"async\"}"])), "");
}

#[test]
fn the_built_in_jobs_cluster_belongs_to_the_built_in_job_only() {
    let mode = |settings: &[&str]| built_in(settings).check().unwrap().cluster.mode;
    assert_eq!(mode(&[]), Mode::Async);
    assert_eq!(mode(&["data.train_examples=600", "train.batch=5"]), Mode::Async);
    assert_eq!(built_in(&["cluster.workers=3"]).check().unwrap().cluster.workers, 3);
    assert!(explained(&built_in(&[]), "mode = ").ends_with("# default of the built-in job"));
    for setting in ["model.kind=lenet", "data.kind=mnist", "data.kind=clicks"] {
        assert_eq!(mode(&[setting]), Mode::Single, "{setting}");
        let key = setting.split('=').next().unwrap();
        let why = format!("# default: --set {key} replaces the built-in job's [cluster]");
        assert!(explained(&built_in(&[setting]), "mode = ").ends_with(&why), "{why}");
    }
    let alone = problems(&built_in(&["cluster.quorum=1"]));
    assert!(alone.contains("cluster.mode is \"async\" (default of the built-in job)"), "{alone}");
    let changed = problems(&built_in(&["model.kind=lenet", "cluster.workers=3"]));
    assert!(changed.contains("cluster.mode is \"single\" (default: --set model.kind"), "{changed}");
    let replaced = problems(&built_in(&["cluster={workers=3}"]));
    assert!(replaced.contains("set cluster.mode too"), "{replaced}");
}

#[test]
fn explain_says_why_a_default_applies() {
    let ends = |job: &RawJob, start: &str, end: &str| {
        let line = explained(job, start);
        assert!(line.ends_with(&format!("# default: {end}")), "{line}");
    };
    ends(&job("", &[]), "mode = \"single\"", "no cluster.mode, no TF_CONFIG");
    ends(&job("", &[]), "epochs = ", "no stop condition is set");
    ends(&job("", &[]), "name = ", "the job file's name");
    let tests = "at most 5 % of the processor time";
    ends(&job("", &[]), "every = \"auto\"", tests);
    ends(&built_in(&[]), "name = ", "the data and the model");
    ends(&job("", &["model.kind=logistic"]), "kind = \"clicks\"", "model.kind is logistic");
    ends(&job("", &["data.kind=clicks"]), "kind = \"logistic\"", "data.kind is clicks");
}

/// A cluster with this many workers and servers, seen from a task.
fn cluster(workers: usize, servers: usize, role: &str) -> Placement {
    let addresses = |count: usize| format!("{:?}", vec!["h:1"; count]);
    let text = format!(
        "{{\"cluster\": {{\"worker\": {}, \"ps\": {}}}, \"task\": {{\"type\": {role:?}}}}}",
        addresses(workers),
        addresses(servers)
    );
    Placement::Listed(Cluster::parse(&text).unwrap().unwrap())
}

/// The place of one of three processes of `torchrun`.
fn ranked() -> Placement {
    let variables = [("RANK", "1"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "a")];
    Placement::find(&PlaceFlags::default(), &variables.into_iter().collect(), 1).unwrap()
}

#[test]
fn the_environment_decides_how_workers_share_unless_the_job_does() {
    for (workers, servers, role, mode) in [
        (2, 1, "worker", "async"),
        (2, 1, "ps", "async"),
        (1, 1, "worker", "async"),
        (2, 0, "worker", "mirrored"),
        (1, 0, "worker", "single"),
        (0, 0, "evaluator", "mirrored"),
    ] {
        let cluster = cluster(workers, servers, role);
        for job in [built_in(&[]), job("", &[])] {
            let line = explained(&job.placed_in(&cluster), "mode = ");
            assert!(line.starts_with(&format!("mode = {mode:?}")), "{line}");
            assert!(line.contains("# default: TF_CONFIG lists "), "{line}");
        }
        let own = job("cluster.mode = \"sync\"", &[]).placed_in(&cluster);
        assert!(explained(&own, "mode = ").ends_with("# job.toml:1"));
    }
    let two = cluster(2, 1, "worker");
    let found = problems(&job("", &["cluster.workers=8"]).placed_in(&two));
    assert_eq!(
        found,
        "--set cluster.workers=8: cluster.workers is 8, but TF_CONFIG lists 2; leave \
         cluster.workers out, or correct it"
    );
    assert_eq!(problems(&job("", &["cluster.workers=2"]).placed_in(&two)), "");
}

#[test]
fn every_process_of_a_launcher_is_a_worker_unless_servers_have_ranks_of_their_own() {
    for (settings, mode, workers) in [
        (&[][..], "mirrored", 3),
        (&["cluster.servers=1"], "async", 3),
        (&["cluster.mode=sync"], "sync", 3),
        (&["cluster.mode=sync", "cluster.layout=dedicated"], "sync", 2),
        (&["cluster.servers=2", "cluster.layout=dedicated"], "async", 1),
    ] {
        let placed = job("", settings).placed_in(&ranked());
        let plan = placed.check().unwrap();
        assert_eq!(plan.cluster.workers, workers, "{settings:?}");
        assert!(explained(&placed, "mode = ").starts_with(&format!("mode = {mode:?}")));
        let line = explained(&placed, "workers = ");
        assert!(line.ends_with("# default: torchrun starts the processes"), "{line}");
        // The saved job is the same job to a process that TF_CONFIG places.
        let saved = job(&placed.explain(), &[]);
        assert_eq!(saved.shared_keys(), placed.shared_keys());
        assert_eq!(saved.digest(), placed.digest());
    }
    let found = problems(&job("", &["cluster.workers=8"]).placed_in(&ranked()));
    assert!(found.contains("is 8, but torchrun starts 3; leave cluster.workers out"), "{found}");
}

#[test]
fn a_saved_job_keeps_its_defaults_as_defaults() {
    let saved = built_in(&["checkpoint.every_steps=5", "train.batch=7"]).explain();
    assert_eq!(problems(&job(&saved, &[])), "");
    // Saved again, a default is still one.
    let again = job(&saved, &[]).explain();
    assert!(again.lines().any(|line| line.starts_with("keep = 3") && line.ends_with("# default")));
    let lines = |text: &str| text.lines().filter(|line| line.contains("# default")).count();
    assert_eq!(lines(&again), lines(&saved));
    // Defaults that a setting makes unused are no mistake; what the user set is.
    assert_eq!(problems(&job(&again, &["cluster.mode=single"])), "");
    assert_eq!(problems(&job(&again, &["train.global_batch=6"])).lines().count(), 1);
    // Jobs that earlier versions saved have defaults that do not apply.
    let old = "[cluster]\nmode = \"single\" # --set cluster.mode=single\n\
               [checkpoint]\nkeep = 3                         # default\n";
    assert_eq!(problems(&job(old, &[])), "");
    let set = "[checkpoint]\nkeep = 3 # I like three\n";
    assert!(problems(&job(set, &[])).starts_with("job.toml:2: checkpoint.keep applies only"));
}

#[test]
fn a_test_accepts_a_job_file_for_training_but_no_setting_without_effect() {
    let toml = "data.train_examples = 600\n[cluster]\nmode = \"sync\"\nquorum = 1\n";
    let test = |settings: &[&str]| match job(toml, settings).check_for_test() {
        Ok(_) => String::new(),
        Err(problems) => problems.to_string(),
    };
    assert_eq!(test(&["data.kind=mnist", "data.path=x", "train.threads=1"]), "");
    assert!(test(&["data.path=x"]).contains("data.path applies only with data.kind"));
    let idle = "--set train.batch=5: train.batch is not used by a test; leave it out";
    assert_eq!(test(&["train.batch=5"]), idle);
}

#[test]
fn a_sparse_model_that_shall_be_rounded_names_only_a_remedy_that_it_has() {
    for (model, has_dense) in [("logistic", true), ("fm", false)] {
        let settings = ["cluster.mode=sync", "cluster.wire=bf16", &format!("model.kind={model}")];
        let refused = problems(&job("", &settings));
        assert!(refused.contains("is \"bf16\", which is for dense models"), "{refused}");
        assert_eq!(refused.contains("or set model.dense = true"), has_dense, "{refused}");
    }
}

#[test]
fn factors_of_a_network_without_dense_layers_are_refused() {
    let layers = "[{kind=\"conv\", channels=10, size=28}, {kind=\"flatten\"}]";
    let layers = format!("model.layers={layers}");
    let of =
        |more: &[&str]| problems(&job("", &[&[&*layers, "cluster.mode=mirrored"], more].concat()));
    assert_eq!(of(&[]), "");
    for choice in ["always", "never"] {
        assert_eq!(
            of(&[&format!("cluster.factors={choice}")]),
            format!(
                "--set cluster.factors={choice}: cluster.factors is \"{choice}\", but the network \
                 has no dense layer, and only the gradient of a dense layer has factors; leave \
                 cluster.factors out"
            )
        );
    }
}

#[test]
fn factors_of_a_batch_in_several_blocks_are_refused_with_the_largest_batch() {
    let refused = |batch: &str| {
        let factors = ["cluster.mode=mirrored", "cluster.factors=always", "model.kind=lenet"];
        problems(&job("", &[&factors[..], &[batch]].concat()))
    };
    assert_eq!(refused("train.batch=128"), "");
    assert_eq!(refused("train.global_batch=256"), "");
    assert_eq!(
        refused("train.batch=129"),
        "--set cluster.factors=always: cluster.factors is \"always\", but a batch of 129 is \
         computed in blocks of 128, and only a batch of one block has factors; use a batch of at \
         most 128 for each worker, or leave cluster.factors out"
    );
}
