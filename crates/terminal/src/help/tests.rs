use super::*;

#[test]
fn descriptions_stay_in_their_column() {
    let line = "      --set <KEY>  Set a key of the job; the value is TOML";
    assert_eq!(wrap_line(line, 80), line);
    let broken = "      --set <KEY>  Set a key of the job; the\n                   value is TOML";
    assert_eq!(wrap_line(line, 44), broken);
    let below = "      --set <KEY>\n          Set a key of the job;\n          the value is TOML";
    assert_eq!(wrap_line(line, 32), below);
}

#[test]
fn commands_continue_with_a_backslash_and_texts_without() {
    let command = "  paceline train job.toml --set a=1 --run-dir runs/a";
    let broken = "  paceline train job.toml \\\n      --set a=1 --run-dir runs/a";
    assert_eq!(wrap_line(command, 34), broken);
    // An option stays with its value.
    let broken = "  paceline train job.toml \\\n      --set a=1 \\\n      --run-dir runs/a";
    assert_eq!(wrap_line(command, 29), broken);
    assert_eq!(wrap_line("one two three", 8), "one two\nthree");
}

#[test]
fn no_help_is_wider_than_the_terminal() {
    let mut commands = vec![<Cli as clap::CommandFactory>::command()];
    while let Some(mut command) = commands.pop() {
        for width in [60, 80, 100] {
            let text = wrap_help(&command.render_long_help().ansi().to_string(), width);
            let widest = text.lines().map(columns_of).max().unwrap_or(0);
            assert!(widest <= width, "{width}: {text}");
        }
        commands.extend(command.get_subcommands().cloned());
    }
}
