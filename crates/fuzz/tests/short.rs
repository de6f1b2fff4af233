//! Every target with its seeds and some thousand changed ones. `cargo xtask fuzz` takes longer.

use std::process::Command;

use paceline_fuzz::{DriveLimit, TARGETS, drive};

#[test]
fn no_target_panics_hangs_or_takes_much_memory() {
    for target in TARGETS {
        assert!(!(target.seeds)().is_empty(), "{} has no seeds", target.name);
        let done = drive(target, DriveLimit::Inputs(2_000), 7);
        assert_eq!(done.inputs, 2_000, "{}", target.name);
    }
}

/// Input 1234 of this seed had a group of rows without columns, whose rows had no end.
#[test]
fn a_parquet_file_whose_groups_lack_columns_is_given_up() {
    let parquet = TARGETS.iter().find(|target| target.name == "parquet").unwrap();
    assert_eq!(drive(parquet, DriveLimit::Inputs(1_235), 20).inputs, 1_235);
}

#[test]
fn help_names_every_option_and_target() {
    for flag in ["--help", "-h"] {
        let output = Command::new(env!("CARGO_BIN_EXE_paceline-fuzz")).arg(flag).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("--minutes N"), "{text}");
        assert!(TARGETS.iter().all(|target| text.contains(target.name)), "{text}");
    }
}
