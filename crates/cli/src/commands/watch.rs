//! `paceline watch`: serves a page that shows runs, until Ctrl-C.

use std::thread;
use std::time::Duration;

use paceline_http::{HttpServer, Limits};
use paceline_lab::RunPage;
use paceline_place::{LauncherChannel, inherited_listener};

use super::run_path::check_dir;
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
    check_dir(&args.dir)?;
    let guard = guard(&args.page)?;
    let listener = match inherited_listener()? {
        Some(listener) => listener,
        None => open(&args.page, &guard)?,
    };
    let at = address(&listener)?;
    let pages = RunPage::new(&args.dir);
    let answer = move |request: &paceline_http::Request| pages.answer(request);
    let server = HttpServer::start(listener, guard, Limits::default(), answer);
    let _server =
        server.map_err(|source| Failure::Files { what: "cannot serve the page".into(), source })?;
    if channel.is_none() {
        write_line(&page_line(at, &args.page)?);
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
