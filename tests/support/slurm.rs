//! A real Slurm with three nodes on this machine, and a real Open MPI. `cargo xtask setup` installs
//! both.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::files::workspace;
use super::process::{ProcessOutput, finish, start};
use super::sandbox::Sandbox;
use super::tf_config::free_ports;
use super::wait::wait_until;

/// How often Slurm is asked for a job's state. The controller starts no jobs while it answers.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// How long a job may stay in the queue until its time to start is set again.
const START_WITHIN: Duration = Duration::from_secs(6);

/// The controller and the daemons of three nodes, `n1` to `n3`. All tests share them.
pub(crate) struct Slurm {
    dir: PathBuf,
    /// Ends the daemons when its standard input closes: when the test process ends.
    _keeper: Child,
}

impl Slurm {
    /// The Slurm of this test process, started at the first call.
    pub(crate) fn get() -> &'static Self {
        static SHARED: OnceLock<Slurm> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        assert_installed("slurmctld", "slurm-wlm", "slurmctld -V");
        // Below the system's folder for temporary files, because sockets have short paths only.
        let dir = std::env::temp_dir().join(format!("paceline-slurm-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut command = Command::new(workspace().join("tests/slurm/start.sh"));
        command.arg(&dir).args(free_ports::<4>().map(|port| port.to_string()));
        let errors = fs::File::create(dir.join("start.txt")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut keeper = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "Slurm does not start; see {}", dir.display());
        Self { dir, _keeper: keeper }
    }

    /// A client of Slurm, ready to start in a test's directory.
    pub(crate) fn client(&self, sandbox: &Sandbox, program: &str) -> Command {
        let mut command = sandbox.program(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    /// Runs a client of Slurm, which must succeed, and returns what it prints.
    #[track_caller]
    pub(crate) fn ask(&self, sandbox: &Sandbox, program: &str, args: &[&str]) -> String {
        let output = finish(start(self.client(sandbox, program).args(args)));
        assert_eq!(output.code, Some(0), "{program} {args:?}: {output:?}");
        output.stdout
    }

    /// Submits a batch script with these options, and returns its job.
    #[track_caller]
    pub(crate) fn submit<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        options: &[&str],
        script: &str,
    ) -> SlurmJob<'a> {
        let script = sandbox.write("train.sbatch", script);
        let fixed = ["--parsable", "--output=output.txt", "--open-mode=append"];
        let args = [&fixed, options, &[script.to_str().unwrap()]].concat();
        let id = self.ask(sandbox, "sbatch", &args).trim().to_owned();
        SlurmJob { slurm: self, sandbox, id }
    }
}

/// A job that was submitted with a batch script.
pub(crate) struct SlurmJob<'a> {
    slurm: &'a Slurm,
    sandbox: &'a Sandbox,
    pub(crate) id: String,
}

impl SlurmJob<'_> {
    /// What the job has printed so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(self.sandbox.path("output.txt")).unwrap_or_default()
    }

    /// Puts the job back into the queue, from which it starts within seconds. Slurm would wait for
    /// two minutes.
    #[track_caller]
    pub(crate) fn requeue(&self) {
        let before = restarts(&self.state());
        self.slurm.ask(self.sandbox, "scontrol", &["requeue", &self.id]);
        let id = format!("JobId={}", self.id);
        let mut asked: Option<Instant> = None;
        let has_started = wait_until(|| {
            let state = self.state();
            let is = |name: &str| state.contains(&format!("JobState={name} "));
            if restarts(&state) > before && !is("PENDING") && !is("COMPLETING") {
                return true;
            }
            // Slurm sets its own time when everything of the job has ended, perhaps after this
            // request, so the request is repeated. A node refuses a job that starts in the second
            // in which the node ended it.
            if is("PENDING") && asked.is_none_or(|asked| asked.elapsed() > START_WITHIN) {
                let args = ["update", &id, "StartTime=now+2"];
                let _ = self.slurm.client(self.sandbox, "scontrol").args(args).output();
                asked = Some(Instant::now());
            }
            thread::sleep(ASK_EVERY);
            false
        });
        assert!(has_started, "{}: {}", self.state(), self.output());
    }

    /// What Slurm says of the job.
    #[track_caller]
    pub(crate) fn state(&self) -> String {
        self.slurm.ask(self.sandbox, "scontrol", &["--oneliner", "show", "job", &self.id])
    }

    /// Waits until Slurm says this of the job.
    #[track_caller]
    pub(crate) fn wait_for_state(&self, text: &str) {
        let is_there = wait_until(|| {
            let is_there = self.state().contains(text);
            if !is_there {
                thread::sleep(ASK_EVERY);
            }
            is_there
        });
        assert!(is_there, "{text} is not in {}: {}", self.state(), self.output());
    }

    /// Waits until the job has printed this.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, text: &str) {
        let is_there = wait_until(|| self.output().contains(text));
        assert!(is_there, "{text:?} was not printed, but {:?}", self.output());
    }
}

impl Drop for SlurmJob<'_> {
    fn drop(&mut self) {
        let mut cancel = self.slurm.client(self.sandbox, "scancel");
        let _ = cancel.args(["--quiet", "--signal=KILL", "--full", &self.id]).output();
    }
}

/// How often Slurm started the job again whose state this is.
fn restarts(state: &str) -> u32 {
    let (_, count) = state.split_once("Restarts=").unwrap_or_default();
    count.split_whitespace().next().map_or(0, |count| count.parse().unwrap())
}

/// Runs `mpirun` with this many processes of a command.
pub(crate) fn mpirun(sandbox: &Sandbox, processes: usize) -> Command {
    assert_installed("mpirun", "openmpi-bin", "mpirun --version");
    let mut command = sandbox.program("mpirun");
    // Open MPI refuses root and more processes than cores unless it is asked not to.
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &processes.to_string()]);
    command
}

/// Waits for a client such as `srun`, which must exit with this code.
#[track_caller]
pub(crate) fn ends_with(code: i32, command: &mut Command) -> ProcessOutput {
    let output = finish(start(command));
    assert_eq!(output.code, Some(code), "{output:?}");
    output
}

fn assert_installed(program: &str, package: &str, version: &str) {
    let quiet = Command::new("sh").args(["-c", version]).output();
    assert!(
        quiet.is_ok_and(|output| output.status.success()),
        "{program} does not start: run `cargo xtask setup`, or install the package {package}"
    );
}
