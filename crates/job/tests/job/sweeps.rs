//! Valid and invalid sweeps, as data.

use std::fs;

use paceline_job::{CellJob, Problems, RawJob};
use paceline_lab::sweep_plan::ReferenceFigure;
use tempfile::TempDir;

fn cells_of(toml: &str, settings: &[&str], quick: bool) -> Result<Vec<CellJob>, Problems> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("job.toml");
    fs::write(&path, toml).unwrap();
    let mut job = RawJob::read(&path)?;
    settings.iter().for_each(|setting| job.set(setting));
    job.cells(quick)
}

/// The cells that a job asks for, each as its settings and seed.
#[track_caller]
fn check(toml: &str, expected: &[&str]) {
    check_quick(toml, false, expected);
}

#[track_caller]
fn check_quick(toml: &str, quick: bool, expected: &[&str]) {
    let cells = cells_of(toml, &[], quick).unwrap_or_else(|problems| panic!("{problems}"));
    let shown: Vec<_> = cells
        .iter()
        .map(|cell| {
            let words = cell.settings.iter().map(|(key, value)| format!("{key}={value} "));
            format!("{}seed={}", words.collect::<String>(), cell.seed)
        })
        .collect();
    assert_eq!(shown, expected, "{toml}");
}

/// The sweep must be refused with problems that end like this.
#[track_caller]
fn check_refused(toml: &str, settings: &[&str], expected: &[&str]) {
    let Err(problems) = cells_of(toml, settings, false) else { panic!("{toml} is accepted") };
    let text = problems.to_string();
    assert_eq!(text.lines().count(), expected.len(), "{text}");
    for (line, end) in text.lines().zip(expected) {
        // The job's directory is a new one each time.
        let line = line.split(' ').map(|word| match word.split_once("/job.toml:") {
            Some((before, after)) if before.starts_with('(') => format!("(JOB:{after}"),
            _ => word.to_owned(),
        });
        let line = line.collect::<Vec<_>>().join(" ");
        assert!(line.ends_with(end), "{line}");
    }
}

#[test]
fn the_matrix_of_all_lists_is_run_the_last_changing_fastest() {
    let toml = "[sweep]\n\"train.batch\" = [10, 30]\n\"cluster.mode\" = [\"sync\", 'async']";
    check(
        toml,
        &[
            "train.batch=10 cluster.mode=sync seed=1",
            "train.batch=10 cluster.mode=async seed=1",
            "train.batch=30 cluster.mode=sync seed=1",
            "train.batch=30 cluster.mode=async seed=1",
        ],
    );
}

#[test]
fn repeats_come_after_each_other_with_the_next_seeds() {
    let toml = "seed = 7\n[sweep]\nrepeats = 2\n\"train.batch\" = [10, 30]";
    let expected = ["train.batch=10 seed=7", "train.batch=30 seed=7"];
    let again = ["train.batch=10 seed=8", "train.batch=30 seed=8"];
    check(toml, &[expected, again].concat());
    check("[sweep]\nseeds = [5, 3]", &["seed=5", "seed=3"]);
}

#[test]
fn settings_of_a_case_belong_together() {
    let toml = "[train]\nstop = { epochs = 9 }\n[sweep]\n\"train.batch\" = [10]\n\
                [[sweep.case]]\n\"cluster.mode\" = \"single\"\n\
                [[sweep.case]]\n\"cluster.mode\" = \"sync\"\n\"train.stop\" = { steps = 5 }";
    let expected = [
        "cluster.mode=single train.batch=10 seed=1",
        "cluster.mode=sync train.stop={ steps = 5 } train.batch=10 seed=1",
    ];
    check(toml, &expected);
    // A section that a case sets replaces the job's whole section.
    let stop = cells_of(toml, &[], false).unwrap()[1].job.check().unwrap().stop;
    assert_eq!((stop.epochs, stop.steps), (None, Some(5)));
}

#[test]
fn combinations_that_give_the_same_run_run_once() {
    let toml = "[sweep]\n\"cluster.mode\" = [\"single\", \"sync\"]\n\"cluster.workers\" = [2, 3]";
    let expected = [
        "cluster.mode=single seed=1",
        "cluster.mode=sync cluster.workers=2 seed=1",
        "cluster.mode=sync cluster.workers=3 seed=1",
    ];
    check(toml, &expected);
}

#[test]
fn quick_shortens_every_cell() {
    let toml = "[train]\nbatch = 7\n[sweep]\n\"train.stop\" = [{ epochs = 20 }, { epochs = 30 }]\n\
                quick = { \"train.stop\" = { steps = 3 } }";
    check_quick(toml, true, &["train.stop={ steps = 3 } seed=1"]);
    check(toml, &["train.stop={ epochs = 20 } seed=1", "train.stop={ epochs = 30 } seed=1"]);
}

#[test]
fn references_belong_to_the_cells_with_their_settings() {
    let toml = "cluster.mode = \"async\"\n[sweep]\n\"train.batch\" = [10, 30]\n\
                [[reference]]\nwhen = { \"train.batch\" = 10, \"cluster.mode\" = \"async\" }\n\
                seconds = 291.9\nexamples_per_second = 5\nfrom = \"R0\"\n\
                [[reference]]\nwhen = { \"train.batch\" = 99 }\nseconds = 1\n";
    let of = |quick| -> Vec<_> {
        let cells = cells_of(toml, &[], quick).unwrap();
        cells.iter().map(|cell| cell.references.clone()).collect()
    };
    let figure = |figure: &str, value| ReferenceFigure {
        figure: figure.to_owned(),
        value,
        from: "R0".to_owned(),
    };
    let (seconds, rate) = (figure("seconds", 291.9), figure("examples_per_second", 5.0));
    assert_eq!(of(false), [vec![seconds, rate.clone()], vec![]]);
    // A shortened run takes less time, but its rate is the same.
    assert_eq!(of(true), [vec![rate], vec![]]);
}

#[test]
fn a_reference_that_no_cell_fits_is_pointed_out() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("job.toml");
    let toml = "[sweep]\n\"train.batch\" = [1]\n\
                [[reference]]\nwhen = { \"train.batch\" = 2 }\nseconds = 1";
    fs::write(&path, toml).unwrap();
    let job = RawJob::read(&path).unwrap();
    let idle = job.idle_references(&job.cells(false).unwrap());
    assert!(idle.len() == 1 && idle[0].ends_with("job.toml:4"), "{idle:?}");
}

#[test]
fn every_problem_of_every_cell_is_reported_once_with_its_origin() {
    check_refused(
        "[sweep]\n\"train.batch\" = [10, 0, -0]\n\"train.bach\" = [1, 2]\n",
        &[],
        &[
            "job.toml:2: train.batch must be a whole number from 1 up, not 0",
            "job.toml:3: train.bach is not a key; did you mean train.batch?",
        ],
    );
    let quote = "write keys with dots in quotes, such as \"train.batch\"";
    check_refused("[sweep]\ntrain.batch = [10]", &[], &[quote]);
    check_refused("[[sweep.case]]\ntrain.batch = 10", &[], &[quote]);
    check_refused(
        "[sweep]\n\"train.batch\" = 10",
        &[],
        &["must be a list of values, not an integer"],
    );
    check_refused(
        "[sweep]\n\"train.batch\" = []",
        &[],
        &["sweep.train.batch is an empty list; give it values, or leave it out"],
    );
    check_refused("[sweep]\nrepeats = 0", &[], &["sweep.repeats must be from 1 to 1000"]);
    check_refused(
        "[sweep]\nrepeats = 2\nseeds = [1]",
        &[],
        &["both repeats and seeds; leave out one"],
    );
    check_refused("sweep = 1", &[], &["sweep is a section of keys, each with a list of values"]);
    check_refused(
        "[[reference]]\nsecnds = 1\nseconds = 0",
        &[],
        &[
            "peak_cpu_percent, cpu_seconds, peak_rss_bytes",
            "reference has no figure, such as seconds = 291.9",
            "reference.seconds must be a number above 0",
        ],
    );
}

#[test]
fn a_key_that_some_cells_use_is_fine_and_one_that_no_cell_uses_is_a_problem() {
    let toml = "[train.optimizer]\nmomentum = 0.8\n[cluster]\nworkers = 3\n[sweep]\n\
                \"cluster.mode\" = [\"single\", \"sync\"]\n\
                \"train.optimizer.kind\" = [\"sgd\", \"momentum\"]\n";
    let cells = cells_of(toml, &[], false).unwrap();
    assert_eq!(cells.len(), 4);
    for cell in &cells {
        // The cell's own job has only what its run uses, so it can be run as a job.
        cell.job.check().unwrap();
        let text = cell.job.explain();
        assert_eq!(text.contains("\nworkers = 3"), text.contains("mode = \"sync\""), "{text}");
        assert_eq!(text.contains("momentum = 0.8"), text.contains("kind = \"momentum\""), "{text}");
    }
    let unused = toml.replace(", \"sync\"]", "]");
    check_refused(
        &unused,
        &["checkpoint.keep=2"],
        &[
            "cluster.workers applies only with cluster.mode = \"async\", \"sync\", \"bounded\" or \
             \"mirrored\", but cluster.mode is \"single\" (JOB:6); set cluster.mode too, or leave \
             cluster.workers out",
            "--set checkpoint.keep=2: checkpoint.keep applies only with checkpoint.every_steps or \
             checkpoint.every_seconds, but neither is set; set checkpoint.every_steps too, or \
             leave checkpoint.keep out",
        ],
    );
}

#[test]
fn setting_a_swept_key_on_the_command_line_is_refused() {
    let toml = "[sweep]\n\"train.batch\" = [10, 30]";
    check_refused(
        toml,
        &["train.batch=5"],
        &["train.batch is set by [sweep] too; change it there"],
    );
}

#[test]
fn too_many_runs_are_a_mistake() {
    let axis = |key: &str| format!("\"{key}\" = {:?}\n", (1..=100).collect::<Vec<_>>());
    let keys = ["train.batch", "train.stop.epochs", "train.evaluate.every", "cluster.workers"];
    let toml = format!("[sweep]\n{}", keys.map(axis).concat());
    check_refused(&toml, &[], &["sweep has 100000000 runs; at most 10000 are allowed"]);
}

#[test]
fn a_single_run_of_a_sweep_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("job.toml");
    fs::write(&path, "[sweep]\n\"train.batch\" = [1]\n").unwrap();
    let problems = RawJob::read(&path).unwrap().check().unwrap_err().to_string();
    assert!(problems.ends_with("job.toml:1: sweep asks for many runs: use `paceline sweep`"));
}
