//! Files that predictions and models are not written to, and streams that are not text.

use std::fs;

use crate::predict::clicks_run;
use crate::support::{Sandbox, assert_says, finish, start};

#[test]
fn a_file_with_the_ending_of_another_format_is_refused_before_anything_is_written() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    let known = "end the name with .csv, .jsonl (or .ndjson, .json) or .parquet";
    for name in ["x.docx", "x.csv.gz", "x.TXT"] {
        let printed = sandbox.fails(2, &["predict", "run", "rows.svm", "-o", name]);
        assert_says(&printed, &[name, known, "--format"]);
    }
    let printed = sandbox.fails(2, &["export", "run", "-o", "x.pt"]);
    assert_says(&printed, &["x.pt", "exported as ONNX, not as .pt; end the name with .onnx"]);
    assert!(!sandbox.tree().iter().any(|file| file.starts_with("x.")), "nothing is written");
    let expected = sandbox.ok(&["predict", "run", "rows.svm"]).stdout;
    for args in [&["-o", "x.CSV"][..], &["-o", "answers"], &["-o", "x.txt", "--format", "csv"]] {
        sandbox.ok(&[&["predict", "run", "rows.svm"], args].concat());
        assert_eq!(fs::read_to_string(sandbox.path(args[1])).unwrap(), expected);
    }
}

#[test]
fn standard_input_that_is_not_text_is_named_and_none_of_its_bytes_are_shown() {
    let sandbox = Sandbox::new();
    clicks_run(&sandbox);
    for (content, says) in [
        (&b"PAR1\x15\x04\x15\x10\x15\x14 some rows \xff\n"[..], "a Parquet file"),
        (&b"\x93NUMPY\x01\x00v\0 some rows \n"[..], "a numpy array"),
        (&b"\x7fELF\x02\x01\x01\0\0\0 some rows \n"[..], "a binary file"),
    ] {
        let file = sandbox.write("input", content);
        for command in ["predict", "evaluate"] {
            let mut command = sandbox.command(&[command, "run", "-"]);
            let output = finish(start(command.stdin(fs::File::open(&file).unwrap())));
            assert_eq!(output.code, Some(2), "{output:?}");
            assert_says(&output.stderr, &["standard input", says, "name the file instead of -"]);
            assert!(!output.stderr.contains("some rows"), "{output:?}");
            // The header may come before the first line.
            assert!(output.stdout.lines().count() <= 1, "{output:?}");
        }
    }
}
