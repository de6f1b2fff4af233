//! A bounded room for connections that have not proved that they belong to the run.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bounded room for connections that have not proved that they belong to the run. When it is
/// full, the one that has waited longest leaves: a task of the run proves itself at once, and is
/// never the one. `C` closes a connection when it is called.
pub struct StrangerRoom<C> {
    most: usize,
    waiting: Mutex<Waiting<C>>,
}

struct Waiting<C> {
    /// The number of the next connection.
    next: u64,
    /// By number, the oldest first.
    strangers: VecDeque<(u64, C)>,
    is_closed: bool,
}

/// The place of a connection in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangerPlace(u64);

impl<C: FnOnce()> StrangerRoom<C> {
    /// A room for this many connections.
    pub fn new(most: usize) -> Self {
        let waiting = Waiting { next: 0, strangers: VecDeque::new(), is_closed: false };
        Self { most, waiting: Mutex::new(waiting) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a connection, and closes the oldest if the room is full. In a closed room that is
    /// every one.
    pub fn enter(&self, close: C) -> StrangerPlace {
        let mut waiting = self.waiting();
        let place = StrangerPlace(waiting.next);
        waiting.next += 1;
        waiting.strangers.push_back((place.0, close));
        let is_full = waiting.is_closed || waiting.strangers.len() > self.most;
        let oldest = is_full.then(|| waiting.strangers.pop_front()).flatten();
        drop(waiting);
        if let Some((_, close)) = oldest {
            close();
        }
        place
    }

    /// Closes all connections that are there, and those that come later.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let strangers = std::mem::take(&mut waiting.strangers);
        drop(waiting);
        strangers.into_iter().for_each(|(_, close)| close());
    }

    /// A connection has proved itself, or is gone. It is not closed.
    pub fn leave(&self, place: StrangerPlace) {
        let mut waiting = self.waiting();
        if let Ok(at) = waiting.strangers.binary_search_by_key(&place.0, |(number, _)| *number) {
            waiting.strangers.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_one_that_has_waited_longest_is_closed_and_one_that_left_is_not() {
        let closed = RefCell::new(Vec::new());
        let room = StrangerRoom::new(2);
        let close = |name: &'static str| {
            let closed = &closed;
            move || closed.borrow_mut().push(name)
        };
        let first = room.enter(close("first"));
        room.enter(close("second"));
        room.leave(first);
        let third = room.enter(close("third"));
        assert!(closed.borrow().is_empty());
        room.enter(close("fourth"));
        room.enter(close("fifth"));
        assert_eq!(*closed.borrow(), ["second", "third"]);
        room.leave(third);
        room.leave(first);
        closed.borrow_mut().clear();
        room.close();
        room.enter(close("late"));
        assert_eq!(*closed.borrow(), ["fourth", "fifth", "late"]);
    }
}
