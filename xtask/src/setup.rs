//! What the tests need beside a Rust toolchain, installed through the ordinary clients.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Done, root, run};

/// Something that must be on the machine, how to see it, and the Debian package that has it.
struct Need {
    package: &'static str,
    is_there: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need { package: "python3-venv", is_there: || succeeds("python3", &["-c", "import ensurepip"]) },
    Need { package: "chromium", is_there: || succeeds("chromium", &["--version"]) },
    Need { package: "npm", is_there: || succeeds("npm", &["--version"]) },
    Need {
        package: "dataset-fashion-mnist",
        is_there: || Path::new("/usr/share/datasets/fashion-mnist").is_dir(),
    },
];

/// Installs what is missing and returns the Python interpreter that the tests use.
pub(crate) fn install() -> Result<PathBuf, String> {
    let missing: Vec<_> =
        NEEDS.iter().filter(|need| !(need.is_there)()).map(|need| need.package).collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let root = root();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    make_python(&root.join("tests/python/requirements.txt"), &root.join(target).join("python"))
}

fn install_packages(packages: &[&str]) -> Done {
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

/// A virtual environment with the pinned packages, made again when the pins change.
fn make_python(requirements: &Path, environment: &Path) -> Result<PathBuf, String> {
    let python = environment.join("bin/python");
    let stamp = environment.join("requirements.txt");
    let read = |path: &Path| std::fs::read_to_string(path);
    let wanted = read(requirements).map_err(|e| format!("{}: {e}", requirements.display()))?;
    if read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(&python).args(pip).arg(requirements))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet =
        Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}
