//! A directory for each test, and the program in it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use paceline_data::idx::{write_images, write_labels};
use tempfile::TempDir;

use super::files::tree;
use super::process::{ProcessOutput, RunningProcess, finish, start};
use super::run_folder::RunFolder;
use super::settings::{SMALL_DATA, environment_for};

/// The program under test.
pub(crate) const PACELINE: &str = env!("CARGO_BIN_EXE_paceline");

/// The files of an IDX data set: training images and labels, test images and labels.
pub(crate) const IDX_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// An empty working directory for one test, with an empty data cache beside it.
pub(crate) struct Sandbox {
    dir: TempDir,
    cache: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Sandbox { dir: TempDir::new().unwrap(), cache: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write_secret(&self, name: &str, content: &str) -> PathBuf {
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Everything in the directory, as sorted relative paths.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(self.dir.path())
    }

    /// The program, ready to start in the directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(PACELINE);
        command.args(args);
        command
    }

    /// Any program, ready to start in the directory.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("PACELINE_CACHE", self.cache.path());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> ProcessOutput {
        finish(start(&mut self.command(args)))
    }

    /// Runs the program, which must exit with code 0.
    pub(crate) fn ok(&self, args: &[&str]) -> ProcessOutput {
        let output = self.run(args);
        assert_eq!(output.code, Some(0), "{args:?}: {output:?}");
        output
    }

    /// Runs the program, which must exit with this code and print an error. Returns standard error.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, Some(code), "{args:?}: {output:?}");
        assert!(output.stderr.contains("error: "), "{args:?} prints no error: {output:?}");
        output.stderr
    }

    /// Trains the small job in one process with these settings, into the run directory `name`.
    pub(crate) fn train(&self, name: &str, settings: &[&str]) -> RunFolder {
        let mut args = vec!["train", "--quiet", "--run-dir", name, "--set", "cluster.mode=single"];
        args.extend(small_data(settings).into_iter().flat_map(|setting| ["--set", setting]));
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        self.ok(&args);
        RunFolder { path: self.path(name) }
    }

    /// A run of several tasks on small data into the run directory `name`, ready to start.
    pub(crate) fn cluster(&self, name: &str, mode: &str, settings: &[&str]) -> Command {
        let dir = self.path(name);
        let mode = format!("cluster.mode={mode}");
        let mut command = self.command(&["train", "--run-dir", dir.to_str().unwrap()]);
        let own = [mode.as_str()].into_iter().chain(settings.iter().copied());
        for setting in small_data(settings).into_iter().chain(own) {
            command.args(["--set", setting]);
        }
        command.envs(environment_for(settings.iter().copied()));
        command
    }

    /// Starts a run of several tasks.
    pub(crate) fn launch(&self, name: &str, mode: &str, settings: &[&str]) -> RunningProcess {
        RunningProcess::start(&mut self.cluster(name, mode, settings), self.path(name))
    }

    /// Starts the run `run` of several tasks, whose steps take longer by a factor, and waits until
    /// it makes steps. The tasks sleep most of the time, so a test can disturb the run for long
    /// although it has few steps.
    pub(crate) fn launch_slow(&self, mode: &str, factor: u32, settings: &[&str]) -> RunningProcess {
        let mut command = self.cluster("run", mode, settings);
        command.env("PACELINE_TEST_SLOW", format!("*:{factor}"));
        let mut launched = RunningProcess::start(&mut command, self.path("run"));
        launched.wait_for_steps();
        launched
    }

    /// Starts the run `run` of 3 workers and 2 servers with slow steps, and waits until it makes
    /// some.
    pub(crate) fn launch_five_tasks(&self, mode: &str, settings: &[&str]) -> RunningProcess {
        let settings = [&["cluster.workers=3", "cluster.servers=2"], settings].concat();
        self.launch_slow(mode, 20, &settings)
    }

    /// Makes a run of several tasks, which must succeed and leave no process behind.
    pub(crate) fn train_cluster(&self, name: &str, mode: &str, settings: &[&str]) -> RunFolder {
        let output = self.launch(name, mode, settings).finish();
        assert_eq!(output.code, Some(0), "{mode} {settings:?}: {output:?}");
        self.run_folder(name)
    }

    /// Checks that a run of 40 steps, and one that stops after 25 and is resumed, have equal bits.
    pub(crate) fn resumes_with_the_same_bits(&self, mode: &str, settings: &[&str]) {
        let until = |stop| [settings, &["checkpoint.every_steps=10", stop]].concat();
        let whole = self.train_cluster("whole", mode, &until("train.stop={steps=40}"));
        self.train_cluster("cut", mode, &until("train.stop={steps=25}"));
        let run = self.path("cut");
        let run = run.to_str().unwrap();
        self.ok(&["train", "--resume", run, "--set", "train.stop={steps=40}", "--quiet"]);
        assert!(whole.model() == self.run_folder("cut").model(), "{settings:?}: the bytes differ");
    }

    pub(crate) fn run_folder(&self, name: &str) -> RunFolder {
        RunFolder { path: self.path(name) }
    }

    /// All run directories below `runs/`.
    pub(crate) fn runs(&self) -> Vec<RunFolder> {
        let entries = fs::read_dir(self.path("runs")).into_iter().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| RunFolder { path }).collect()
    }

    /// The only run under `runs/`.
    #[track_caller]
    pub(crate) fn only_run(&self) -> RunFolder {
        let runs = self.runs();
        let names: Vec<_> = runs.iter().map(RunFolder::str).collect();
        assert_eq!(runs.len(), 1, "{names:?}");
        self.runs().remove(0)
    }

    /// Writes an IDX data set of `train` and `test` images of 3 x 2 pixels into `name`.
    pub(crate) fn idx_set(&self, name: &str, train: usize, test: usize) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        for (count, files) in [(train, &IDX_FILES[..2]), (test, &IDX_FILES[2..])] {
            let pixels: Vec<u8> = (0..count * 6).map(|p| (p * 37) as u8).collect();
            let labels: Vec<u8> = (0..count).map(|i| (i % 10) as u8).collect();
            write_images(&dir.join(files[0]), 3, 2, &pixels).unwrap();
            write_labels(&dir.join(files[1]), &labels).unwrap();
        }
        dir
    }
}

/// The settings that keep generated data small. Data from files has a size of its own.
fn small_data<'a>(settings: &[&str]) -> Vec<&'a str> {
    let is_read = settings.iter().any(|setting| setting.starts_with("data.path="));
    if is_read { Vec::new() } else { SMALL_DATA.to_vec() }
}
