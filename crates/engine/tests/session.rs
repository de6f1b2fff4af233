//! Sessions as a program uses them: settings that take effect, checkpoints, and refusals.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use paceline_data::{DataError, Digits, Examples, Images, SparseRows, TrainTest};
use paceline_engine::{
    CheckpointSettings, Divergence, Mode, NoteLevel, OnDivergence, Session, SessionReport, Sharing,
    Shuffle, Stop, TaskContext, TrainError, WireFormat,
};
use paceline_model::{Adam, Logistic, Model, Momentum, Sgd, Softmax};
use paceline_observe::{Recorder, RunStart, StepRecord, TestRecord};

fn digits() -> TrainTest<Images> {
    Digits::generate(240, 1)
}

fn softmax() -> Session {
    Session::new(Softmax::new(784, 10), digits()).optimizer(Sgd::new(0.1)).batch(20)
}

fn sparse() -> Session {
    let rows = (0..200u32).map(|i| ([i % 10, 10 + i % 7], [], u32::from(i % 10 < 5)));
    let rows = SparseRows::from_rows(20, rows).unwrap().hold_out(40, 1).unwrap();
    Session::sparse(Logistic::new(20), rows).optimizer(Sgd::new(0.1)).batch(10)
}

fn bits(report: &SessionReport) -> Vec<u32> {
    report.params.iter().map(|param| param.to_bits()).collect()
}

/// What a recorder has seen.
#[derive(Clone, Default)]
struct Seen {
    starts: Arc<Mutex<Vec<RunStart>>>,
    losses: Arc<Mutex<Vec<f32>>>,
    tests: Arc<Mutex<Vec<u64>>>,
}

impl Recorder for Seen {
    fn start(&mut self, start: RunStart) -> io::Result<()> {
        self.starts.lock().unwrap().push(start);
        Ok(())
    }

    fn step(&mut self, record: &StepRecord<'_>) -> io::Result<()> {
        self.losses.lock().unwrap().push(record.loss);
        Ok(())
    }

    fn test(&mut self, record: &TestRecord<'_>) -> io::Result<()> {
        self.tests.lock().unwrap().push(record.step);
        Ok(())
    }
}

fn refused(session: Session, says: &str) {
    match session.run() {
        Err(TrainError::Settings(text)) => assert!(text.contains(says), "{text}"),
        other => panic!("{says}: {:?}", other.map(|report| report.steps)),
    }
}

#[test]
fn a_builder_is_given_the_threads() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    for sharing in [Sharing::none(), Sharing::servers(1).workers(2), Sharing::mesh(2)] {
        let given = threads.clone();
        let build = move |sizing: paceline_engine::ModelSizing| {
            given.lock().unwrap().push(sizing.threads);
            Ok(Box::new(Softmax::new(784, 10)) as Box<dyn Model>)
        };
        let session = Session::with_builder(build, digits()).batch(20).threads(3);
        session.stop(Stop::steps(5)).share(sharing).run().unwrap();
        let given = std::mem::take(&mut *threads.lock().unwrap());
        let loops = given.iter().filter(|&&threads| threads == 3).count();
        assert!(loops >= if sharing == Sharing::none() { 1 } else { 2 }, "{sharing}: {given:?}");
    }
}

#[test]
fn threads_without_effect_are_refused() {
    refused(softmax().threads(2), "use Session::with_builder");
    refused(softmax().threads(0), "threads is 0");
    refused(sparse().threads(2).share(Sharing::servers(1)), "set more workers");
}

#[test]
fn several_threads_train_a_sparse_model_without_sharing() {
    let report = sparse().threads(2).stop(Stop::epochs(20)).run().unwrap();
    assert!(report.accuracy > 0.9, "{}", report.accuracy);
    assert_eq!(report.summary.examples, 20 * 160);
}

#[test]
fn tests_are_made_as_often_as_asked() {
    let seen = Seen::default();
    softmax().test_every(4).stop(Stop::steps(10)).recorder(seen.clone()).run().unwrap();
    assert_eq!(*seen.tests.lock().unwrap(), [4, 8, 10]);
}

#[test]
fn the_order_of_the_examples_depends_on_the_seed_only_if_they_are_shuffled() {
    let trained = |shuffle, seed| {
        let session = softmax().shuffle(shuffle).seed(seed).stop(Stop::epochs(2));
        bits(&session.run().unwrap())
    };
    assert_eq!(trained(Shuffle::None, 1), trained(Shuffle::None, 2));
    assert_ne!(trained(Shuffle::Full, 1), trained(Shuffle::Full, 2));
    assert_ne!(trained(Shuffle::Full, 1), trained(Shuffle::None, 1));
    assert_ne!(trained(Shuffle::Within(40), 1), trained(Shuffle::Full, 1));
}

#[test]
fn all_recorders_of_a_session_record() {
    struct Recording(Seen);

    impl TaskContext for Recording {
        fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
            Ok(Box::new(self.0.clone()))
        }
    }

    let [first, second, third] = [(); 3].map(|()| Seen::default());
    let of_context = third.clone();
    softmax()
        .stop(Stop::steps(3))
        .recorder(first.clone())
        .contexts(move |_| Ok(Arc::new(Recording(of_context.clone()))))
        .recorder(second.clone())
        .run()
        .unwrap();
    for seen in [first, second, third] {
        assert_eq!(seen.losses.lock().unwrap().len(), 3);
        assert_eq!(*seen.starts.lock().unwrap(), [RunStart::New]);
    }
    let twice = softmax().contexts(|_| Ok(Arc::new(()))).contexts(|_| Ok(Arc::new(())));
    refused(twice, "record or contexts only once");
}

#[test]
fn a_session_describes_itself_to_its_contexts() {
    let tasks = Arc::new(Mutex::new(Vec::new()));
    let seen = tasks.clone();
    let session = softmax().name("mine").seed(7).stop(Stop::steps(4));
    let session = session.share(Sharing::servers(1).workers(2).mode(Mode::Async));
    session
        .contexts(move |task| {
            assert_eq!((&*task.session.name, &*task.session.model), ("mine", "Softmax"));
            assert_eq!((task.session.seed, task.session.batch), (7, 20));
            assert_eq!((task.session.workers, task.session.servers), (2, 1));
            assert_eq!(task.session.data, "images");
            seen.lock().unwrap().push(task.name.to_owned());
            Ok(Arc::new(()))
        })
        .run()
        .unwrap();
    let mut tasks = tasks.lock().unwrap().clone();
    tasks.sort();
    assert_eq!(tasks, ["ps:0", "worker:0", "worker:1"]);
}

/// Damages the checkpoint of `step` in a directory of checkpoints.
fn damage(dir: &Path, step: u64) {
    let place = dir.join(format!("step-{step:012}"));
    let mut files = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let shard = files.find(|path| path.extension().is_some_and(|is| is == "safetensors")).unwrap();
    let mut bytes = std::fs::read(&shard).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(shard, bytes).unwrap();
}

#[test]
fn a_session_resumes_with_the_same_bits_in_every_exact_mode() {
    let rounded = WireFormat::Bf16;
    for sharing in [
        Sharing::none(),
        Sharing::servers(2).workers(2),
        Sharing::servers(2).workers(2).wire(rounded),
        Sharing::mesh(2),
        Sharing::mesh(2).wire(rounded),
        Sharing::mesh(3).wire(rounded),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let session = |steps| {
            let session = softmax().share(sharing).stop(Stop::steps(steps));
            session.checkpoints(dir.path(), CheckpointSettings::steps(4))
        };
        let whole = softmax().share(sharing).stop(Stop::steps(10)).run().unwrap();
        session(6).run().unwrap();
        let resumed = session(10).resume().run().unwrap();
        assert_eq!(resumed.summary.resumed_from, Some(6), "{sharing}");
        assert_eq!(bits(&resumed), bits(&whole), "{sharing}");
        refused(session(10).resume(), "nothing left to do");
        refused(session(20), "call resume, or name a new directory");
    }
}

#[test]
fn a_damaged_checkpoint_is_reported_and_set_aside() {
    struct Noting(Arc<Mutex<Vec<String>>>);

    impl TaskContext for Noting {
        fn note(&self, level: NoteLevel, text: &str) {
            if level == NoteLevel::Warning {
                self.0.lock().unwrap().push(text.to_owned());
            }
        }
    }

    let dir = tempfile::tempdir().unwrap();
    let session = |steps| {
        let session = softmax().stop(Stop::steps(steps));
        session.checkpoints(dir.path(), CheckpointSettings::steps(4))
    };
    session(8).run().unwrap();
    damage(dir.path(), 8);
    let notes = Arc::new(Mutex::new(Vec::new()));
    let noted = notes.clone();
    let resumed = session(10).resume().contexts(move |_| Ok(Arc::new(Noting(noted.clone()))));
    let resumed = resumed.run().unwrap();
    assert_eq!(resumed.summary.resumed_from, Some(4));
    let notes = notes.lock().unwrap();
    assert!(notes[0].contains("skipped the checkpoint of step 8"), "{notes:?}");
    let names = std::fs::read_dir(dir.path()).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.any(|name| name.contains("aside")), "the damaged one is set aside");
}

#[test]
fn checkpoints_that_cannot_be_taken_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let session = |settings| softmax().checkpoints(dir.path(), settings);
    refused(session(CheckpointSettings::steps(0)), "every_steps is 0");
    for seconds in [0.0, -1.0, f64::NAN] {
        refused(session(CheckpointSettings::seconds(seconds)), "every_seconds must be above 0");
    }
    let never = CheckpointSettings { every_steps: None, every_seconds: None, keep: 1 };
    refused(session(never), "set every_steps or every_seconds");
    refused(session(CheckpointSettings { keep: 0, ..CheckpointSettings::steps(1) }), "keep is 0");
    refused(softmax().resume(), "resume needs checkpoints");
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    refused(softmax().batch(0), "batch is 0, but must be at least 1");
    refused(softmax().batch(241), "batch is 241, but there are 240 training examples");
    refused(softmax().stop(Stop::default()), "the run never stops");
    refused(softmax().share(Sharing::servers(0)), "needs a server");
    refused(softmax().share(Sharing::mesh(2).mode(Mode::Single)), "one worker");
    let rounded = WireFormat::Bf16;
    refused(softmax().share(Sharing::none().wire(rounded)), "sends nothing that could be rounded");
    let servers = Sharing::servers(1).workers(2);
    refused(sparse().share(servers.wire(rounded)), "bf16 is for dense models");
}

#[test]
fn optimizers_that_move_untouched_parameters_are_refused_for_sparse_models() {
    let refused_by_all = |session: &dyn Fn() -> Session| {
        for sharing in [Sharing::none(), Sharing::servers(1), Sharing::mesh(2)] {
            refused(session().share(sharing), "use sgd, adagrad or ftrl");
        }
    };
    refused_by_all(&|| sparse().optimizer(Momentum::new(0.1, 0.9)));
    refused_by_all(&|| sparse().optimizer(Adam::new(0.1)));
}

#[test]
fn labels_beyond_the_classes_of_a_model_or_of_the_data_are_refused_before_the_start() {
    let few = || Session::new(Softmax::new(784, 7), digits());
    refused(few(), "the model tells 7 classes apart, but the data has 10");
    refused(few().share(Sharing::servers(1)), "the model tells 7 classes apart");

    /// Examples whose classes are known, but one too few.
    struct TooHigh;

    impl Examples for TooHigh {
        fn len(&self) -> usize {
            200
        }

        fn shape(&self) -> [usize; 3] {
            [1, 1, 2]
        }

        fn classes(&self) -> usize {
            4
        }

        fn class_of(&self, example: u32) -> Option<u32> {
            Some(example % 5)
        }

        fn fill(&self, _: u32, _: u64, _: &mut [f32]) -> Result<u32, DataError> {
            unreachable!("a session reads no example before its checks")
        }
    }

    let session = Session::new(Softmax::new(2, 4), TrainTest::new(TooHigh, TooHigh));
    refused(session, "the label of example 4 is 4, but there are only 4 classes");
}

#[test]
fn examples_of_another_size_than_the_model_takes_are_refused() {
    let narrow = || Session::new(Softmax::new(1, 10), digits());
    refused(narrow(), "the model takes 1 value per example, but the data has 784");
    refused(narrow().share(Sharing::mesh(2)), "the model takes 1 value per example");
    let rows = SparseRows::from_rows(20, (0..90u32).map(|i| ([i % 20], [], i % 2))).unwrap();
    let session = |features| {
        let data = rows.hold_out(40, 1).unwrap();
        Session::sparse(Logistic::new(features), data).stop(Stop::epochs(1))
    };
    refused(session(8), "the model takes 8 values per example, but the data has 20");
    session(30).run().unwrap();
}

#[test]
fn learning_rates_that_cannot_be_used_are_refused() {
    refused(softmax().optimizer(Sgd::new(-0.1)), "the learning rate is -0.1");
    refused(softmax().optimizer(Sgd::new(f64::NAN)), "the learning rate is NaN");
    refused(softmax().optimizer(Sgd::new(0.1).bias_rate(-2.0)), "the learning rate is -2");
}

#[test]
fn a_run_of_no_steps_tests_the_model_it_starts_from() {
    let servers = Sharing::servers(1).workers(2);
    let (behind, bounded) = (servers.mode(Mode::Async), Mode::Bounded { staleness: 3 });
    for sharing in [Sharing::none(), servers, behind, servers.mode(bounded), Sharing::mesh(2)] {
        for stop in [Stop::steps(0), Stop::epochs(0), Stop::epochs(2).or(Stop::steps(0))] {
            let report = softmax().stop(stop).share(sharing).run().unwrap();
            assert_eq!(report.steps, 0, "{sharing}");
            assert!(
                (report.test_loss - 10f64.ln()).abs() < 1e-3,
                "{sharing}: {}",
                report.test_loss
            );
        }
    }
    assert_eq!(sparse().threads(2).stop(Stop::steps(0)).run().unwrap().steps, 0);
}

#[test]
fn a_session_that_diverges_ends_with_a_clear_error_unless_it_may_continue() {
    for sharing in [Sharing::none(), Sharing::servers(1).workers(2), Sharing::mesh(2)] {
        let fast = || softmax().optimizer(Sgd::new(1e25)).stop(Stop::steps(10)).share(sharing);
        let error = fast().run().map(|report| report.steps).unwrap_err();
        let TrainError::Diverged(Divergence { loss, start: Some(start), .. }) = error else {
            panic!("{sharing}: {error}");
        };
        assert!(loss > 10.0 * start, "{sharing}: {error}");
        assert!(error.to_string().ends_with("diverged; try a smaller learning rate"), "{error}");
        let report = fast().on_divergence(OnDivergence::Continue).run().unwrap();
        assert!(report.test_loss > 10.0 * start, "{sharing}: {}", report.test_loss);
    }
}
