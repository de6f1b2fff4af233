//! The documentation: its commands work, and its tables match the program.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_job::reference_markdown;

use crate::support::{PACELINE, Sandbox, finish, start, workspace};

/// README.md and everything in docs/.
fn documents() -> Vec<PathBuf> {
    let mut documents = vec![workspace().join("README.md")];
    for entry in fs::read_dir(workspace().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
    documents.sort();
    documents
}

/// The commands in `console` blocks that start the program or compare files, with their line
/// numbers. A backslash at the end of a line continues the command on the next line.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            let mut command = command.to_owned();
            while let Some(start) = command.strip_suffix('\\') {
                command = format!("{start}{}", lines.next().map_or("", |(_, line)| line));
            }
            if command.starts_with("paceline ") || command.starts_with("cmp ") {
                found.push((at + 1, command));
            }
        }
    }
    found
}

#[test]
fn every_command_in_the_documentation_works() {
    let program = Path::new(PACELINE).parent().unwrap().to_str().unwrap();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap());
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        // Commands of one document may build on each other.
        let sandbox = Sandbox::new();
        let commands = commands(&text);
        if document.ends_with("README.md") {
            assert!(!commands.is_empty(), "the README shows how to start");
        }
        for (line, command) in commands {
            let output =
                finish(start(sandbox.program("sh").args(["-c", &command]).env("PATH", &path)));
            let at = format!("{}:{line}: {command}", document.display());
            assert_eq!(output.code, Some(0), "{at}: {output:?}");
        }
    }
}

/// The job files in the `toml` blocks of a document.
fn jobs(text: &str) -> Vec<&str> {
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| !block.contains("[dependencies]")).collect()
}

#[test]
fn every_job_in_the_documentation_is_valid() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let sandbox = Sandbox::new();
        for job in jobs(&text) {
            sandbox.write("job.toml", job);
            let is_sweep = job.contains("[sweep]");
            let args = if is_sweep { &["sweep", "--dry-run"][..] } else { &["explain"] };
            let output = sandbox.run(&[args, &["job.toml"]].concat());
            assert_eq!(output.code, Some(0), "{}: {job}: {output:?}", document.display());
        }
    }
}

#[test]
fn commands_are_found_in_console_blocks_only() {
    let text = "$ paceline a\n```console\n$ paceline train \\\n  --quiet\noutput\n$ cargo run\n\
                ```\n```sh\n$ paceline b\n```\n";
    assert_eq!(commands(text), [(3, "paceline train   --quiet".to_owned())]);
}

/// `every_command_in_the_documentation_works` runs them: `cmp` fails if two model files differ.
#[test]
fn the_claims_about_equal_bits_are_commands() {
    let text = fs::read_to_string(workspace().join("docs/job.md")).unwrap();
    let section = text.split("\n## Equal bits\n").nth(1).unwrap();
    let commands = commands(section.split("\n## ").next().unwrap());
    let compared = commands.iter().filter(|(_, command)| command.starts_with("cmp ")).count();
    assert_eq!((compared, commands.len()), (5, 13), "{commands:?}");
    for words in ["train.threads=2", "cluster.servers=2", "cluster.mode=mirrored", "--resume"] {
        assert!(commands.iter().any(|(_, command)| command.contains(words)), "{words}");
    }
}

/// The text of the built-in job is in the documentation, without its comment.
#[test]
fn the_built_in_job_is_documented() {
    let job = fs::read_to_string(workspace().join("crates/job/src/built_in.toml")).unwrap();
    let lines: Vec<_> = job.lines().filter(|line| !line.starts_with('#')).collect();
    let text = fs::read_to_string(workspace().join("docs/job.md")).unwrap();
    assert!(text.contains(&format!("```toml\n{}\n```", lines.join("\n"))), "{job}");
}

/// With `UPDATE_DOCS=1` in the environment the test rewrites the table.
#[test]
fn the_table_of_keys_matches_the_program() {
    const BEGIN: &str = "<!-- keys -->\n";
    const END: &str = "<!-- /keys -->";
    let path = workspace().join("docs/job.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("where the keys begin");
    let (keys, after) = rest.split_once(END).expect("where the keys end");
    let expected = reference_markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{expected}\n{END}{after}")).unwrap();
        return;
    }
    let hint = "docs/job.md is out of date: run this test with UPDATE_DOCS=1";
    assert_eq!(keys.trim(), expected.trim(), "{hint}");
}
