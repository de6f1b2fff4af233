use super::*;

fn wrapped(line: &str, width: usize) -> String {
    wrap_line(line, "paceline", width)
}

#[test]
fn descriptions_stay_in_their_column() {
    let line = "      --set <KEY>  Set a key of the job; the value is TOML";
    assert_eq!(wrapped(line, 80), line);
    let broken = "      --set <KEY>  Set a key of the job; the\n                   value is TOML";
    assert_eq!(wrapped(line, 44), broken);
    let below = "      --set <KEY>\n          Set a key of the job;\n          the value is TOML";
    assert_eq!(wrapped(line, 32), below);
}

#[test]
fn commands_continue_with_a_backslash_and_texts_without() {
    let command = "  paceline train job.toml --set a=1 --run-dir runs/a";
    let broken = "  paceline train job.toml \\\n      --set a=1 --run-dir runs/a";
    assert_eq!(wrapped(command, 34), broken);
    // An option stays with its value.
    let broken = "  paceline train job.toml \\\n      --set a=1 \\\n      --run-dir runs/a";
    assert_eq!(wrapped(command, 29), broken);
    assert_eq!(wrapped("one two three", 8), "one two\nthree");
}
