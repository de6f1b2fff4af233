//! Notices panics on threads that a target does not join.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Panics if a thread of this process has.
pub(crate) fn check_threads() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            HAS_PANICKED.store(true, Ordering::Relaxed);
            before(about);
        }));
    });
    assert!(!HAS_PANICKED.load(Ordering::Relaxed), "a thread behind the socket has panicked");
}
