//! Every target with its seeds and some thousand changed ones. `cargo xtask fuzz` takes longer.

use paceline_fuzz::{DriveLimit, TARGETS, drive};

#[test]
fn no_target_panics_hangs_or_takes_much_memory() {
    for target in TARGETS {
        let done = drive(target, DriveLimit::Inputs(2_000), 7);
        assert_eq!(done.inputs, 2_000, "{}", target.name);
    }
}
