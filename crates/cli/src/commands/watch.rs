//! `paceline watch`: runs on a page, until Ctrl-C.

use std::path::Path;
use std::thread;
use std::time::Duration;

use paceline_http::{HttpServer, Limits};
use paceline_lab::RunPage;
use paceline_place::{LauncherChannel, inherited_listener};

use crate::Failure;
use crate::cli::Watch;
use crate::interrupt::Interrupt;
use crate::progress::write_line;
use crate::watch::{PageProcess, address, guard, open, told};

/// How often is looked whether somebody wants the page to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Serves the page of a directory.
pub(super) fn watch(args: &Watch) -> Result<(), Failure> {
    let deaf = |error| Failure::Training(format!("cannot listen for signals: {error}"));
    // Beside a training it is that which gets the signals, and whose end is this one's.
    let channel = LauncherChannel::open().map_err(deaf)?;
    let interrupt = if channel.is_some() { Interrupt::ignore() } else { Interrupt::listen() };
    let interrupt = interrupt.map_err(deaf)?;
    check(&args.dir)?;
    let guard = guard(&args.page)?;
    let listener = match inherited_listener()? {
        Some(listener) => listener,
        None => open(&args.page, &guard)?,
    };
    let at = address(&listener)?;
    let has_token = guard.has_token();
    let pages = RunPage::new(&args.dir);
    let answer = move |request: &paceline_http::Request| pages.answer(request);
    let server = HttpServer::start(listener, guard, Limits::default(), answer);
    let _server =
        server.map_err(|source| Failure::Files { what: "cannot serve the page".into(), source })?;
    if channel.is_none() {
        write_line(&told(at, has_token));
    }
    while interrupt.signal().is_none() {
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// Keeps the page of a run that is over until somebody has seen enough.
pub(super) fn linger(watching: &PageProcess, interrupt: &Interrupt) {
    if watching.is_shown() {
        write_line("the page stays until Ctrl-C");
    }
    while interrupt.signal().is_none() && watching.is_shown() {
        thread::sleep(LOOK_EVERY);
    }
}

/// Refuses what is no directory, with what may have been meant.
fn check(dir: &Path) -> Result<(), Failure> {
    if dir.is_dir() {
        return Ok(());
    }
    let shown = dir.display();
    if dir.exists() {
        return Err(Failure::Usage(format!(
            "{shown}: this is a file; name a run's directory, or one that runs lie in"
        )));
    }
    let near = nearest(dir).map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(Failure::Usage(format!(
        "{shown}: there is no such directory{near} `paceline train` makes a run under runs/"
    )))
}

/// The directory beside this one whose name is most like it.
fn nearest(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        entry.path().is_dir().then_some(name)
    });
    let alike = |other: &String| (1e6 * strsim::jaro_winkler(name, other)) as u64;
    let best = names.max_by_key(alike).filter(|best| alike(best) > 700_000)?;
    Some(dir.with_file_name(best).display().to_string())
}
