//! `cargo xtask setup`: installs what the tests need besides a Rust toolchain, by `apt-get` and
//! `pip`.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::{ChoreResult, root, run};

/// Something that must be on the machine: how to see it, and the Debian package that has it.
struct SystemNeed {
    package: &'static str,
    is_there: fn() -> bool,
}

const NEEDS: &[SystemNeed] = &[
    SystemNeed {
        package: "python3-venv",
        is_there: || succeeds("python3", &["-c", "import ensurepip"]),
    },
    SystemNeed { package: "chromium", is_there: || succeeds("chromium", &["--version"]) },
    SystemNeed { package: "npm", is_there: || succeeds("npm", &["--version"]) },
    SystemNeed { package: "slurm-wlm", is_there: || succeeds("slurmctld", &["-V"]) },
    SystemNeed { package: "openmpi-bin", is_there: || succeeds("mpirun", &["--version"]) },
    SystemNeed {
        package: "dataset-fashion-mnist",
        is_there: || Path::new("/usr/share/datasets/fashion-mnist").is_dir(),
    },
];

/// The virtual environment's folder, from the workspace's root. `tests/support/interpreter.rs`
/// looks for it there.
const ENVIRONMENT: &str = ".venv";

/// Installs what is missing.
pub(crate) fn install() -> ChoreResult {
    let missing: Vec<_> =
        NEEDS.iter().filter(|need| !(need.is_there)()).map(|need| need.package).collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let root = root();
    make_environment(&root.join("tests/python/requirements.txt"), &root.join(ENVIRONMENT))
}

fn install_packages(packages: &[&str]) -> ChoreResult {
    println!("installing {}", packages.join(", "));
    let apt = |args: &[&str]| {
        let mut command = if succeeds("sudo", &["-n", "true"]) {
            let mut sudo = Command::new("sudo");
            sudo.arg("apt-get");
            sudo
        } else {
            Command::new("apt-get")
        };
        run(command.env("DEBIAN_FRONTEND", "noninteractive").args(args).stdout(Stdio::null()))
    };
    let done = apt(&["update"])
        .and_then(|()| apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat()));
    done.map_err(|why| format!("{why}\ninstall by hand: {}", packages.join(" ")))
}

/// Makes a virtual environment with the pinned packages, again whenever the pins change.
fn make_environment(requirements: &Path, environment: &Path) -> ChoreResult {
    let python = environment.join("bin/python");
    let stamp = environment.join("requirements.txt");
    let read = |path: &Path| std::fs::read_to_string(path);
    let wanted = read(requirements).map_err(|e| format!("{}: {e}", requirements.display()))?;
    if read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(pip).arg(requirements))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}
