//! The project's chores. `cargo xtask ci` is everything that must hold before a change lands.

mod chaos;
mod ci;
mod cycles;
mod deps;
mod fuzz;
mod metadata;
mod process;
mod rust;
mod setup;
mod source_tree;
mod test_run;
mod tidy;

use std::process::ExitCode;

use process::root;

const USAGE: &str = "\
cargo xtask ci      format, dependencies, cycles, tidy, lints, documentation and all tests;
                    installs what they need on a Debian machine
cargo xtask setup   only install what the tests need; then plain `cargo test` works
cargo xtask deps    only check the dependencies
cargo xtask cycles  only check that no modules import each other in a circle
cargo xtask tidy [lines|files|functions|words|types|sizes|packages]...
                    only check the style: the lengths of lines, files and functions, words that
                    read badly, type names defined twice, the sizes of crates, and that every
                    crate can be packaged
cargo xtask chaos [--tls] [--release] [--seeds FIRST..END]
                    runs whose tasks are killed, stopped and cut off at random, with seeds 0..100 of
                    each mode or with others; all encrypted with --tls; with --release the program
                    is built as users have it
cargo xtask fuzz --minutes N | --inputs N [--seed N] [--from N] [TARGET]...
                    random and mutated input for everything that reads bytes from elsewhere: all
                    targets together take N minutes, or each gets N inputs
cargo xtask deny [--advisories]
                    licences, bans and sources of all dependencies, and known vulnerabilities
";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match args.first().map_or("", String::as_str) {
        "ci" => ci::ci(),
        "setup" => setup::install(),
        "deps" => deps::check(&root()),
        "cycles" => cycles::check(&root()),
        "tidy" => tidy::check(&root(), &args[1..]),
        "chaos" => chaos::chaos(&args[1..]),
        "fuzz" => fuzz::fuzz(&args[1..]),
        "deny" => fuzz::deny(&args[1..]),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
