//! Any target of `crates/fuzz`, by the variable `PACELINE_FUZZ_TARGET`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use paceline_fuzz::{FuzzTarget, TARGETS};

static TARGET: LazyLock<&FuzzTarget> = LazyLock::new(|| {
    let name = std::env::var("PACELINE_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("PACELINE_FUZZ_TARGET is {name:?}, which is no target"))
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
