use paceline_terminal::columns_of;

use super::*;

#[test]
fn no_help_is_wider_than_the_terminal() {
    let mut commands = vec![<Cli as clap::CommandFactory>::command()];
    while let Some(mut command) = commands.pop() {
        for width in [60, 80, 100] {
            let text = wrap_help(&command.render_long_help().ansi().to_string(), "paceline", width);
            let widest = text.lines().map(columns_of).max().unwrap_or(0);
            assert!(widest <= width, "{width}: {text}");
        }
        commands.extend(command.get_subcommands().cloned());
    }
}
