//! `paceline watch`: serves a page that shows runs, until Ctrl-C.

use std::path::Path;
use std::thread;
use std::time::Duration;

use paceline_http::{HttpServer, Limits};
use paceline_lab::RunPage;
use paceline_place::{LauncherChannel, inherited_listener};

use crate::Failure;
use crate::cli::WatchArgs;
use crate::interrupt::Interrupt;
use crate::progress::write_line;
use crate::watch::{PageProcess, address, guard, open, page_line};

/// How often the command checks whether to end.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Serves the page of a directory.
pub(super) fn watch(args: &WatchArgs) -> Result<(), Failure> {
    // Started by `paceline train`, the page ignores signals: it ends when that process does.
    let channel = LauncherChannel::open(|| ()).map_err(Failure::signals)?;
    let interrupt = if channel.is_some() { Interrupt::ignore() } else { Interrupt::listen() };
    let interrupt = interrupt?;
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
        write_line(&page_line(at, has_token));
    }
    while interrupt.signal().is_none() {
        thread::sleep(CHECK_EVERY);
    }
    Ok(())
}

/// Keeps the page of a finished run until Ctrl-C.
pub(super) fn wait_for_end(page: &PageProcess, interrupt: &Interrupt) {
    if page.is_shown() {
        write_line("the page stays until Ctrl-C");
    }
    while interrupt.signal().is_none() && page.is_shown() {
        thread::sleep(CHECK_EVERY);
    }
}

/// Refuses a path that is not a directory, and suggests a similar one.
fn check(dir: &Path) -> Result<(), Failure> {
    if dir.is_dir() {
        return Ok(());
    }
    let shown = dir.display();
    if dir.exists() {
        return Err(Failure::Usage(format!(
            "{shown}: this is a file; name the directory of a run, or one that contains runs"
        )));
    }
    let near = nearest(dir).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    Err(Failure::Usage(format!(
        "{shown}: there is no such directory{near}; `paceline train` creates runs under runs/"
    )))
}

/// The sibling directory with the most similar name.
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
