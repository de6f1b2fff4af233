//! A bounded room for connections.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::address_crowds::surplus_connection;

/// A bounded room for connections, such as those that have not proved that they belong to the run.
/// When it is full, it closes the connection that has waited longest among those of the address
/// with the most connections. A task that proves itself, or asks for something, at once is never
/// closed, and no address can take the places of all others. `C` closes a connection when it is
/// called.
pub struct ConnectionRoom<C> {
    most: usize,
    waiting: Mutex<Waiting<C>>,
}

struct Waiting<C> {
    /// The number of the next place.
    next: u64,
    /// By number, the one that has waited longest first.
    connections: VecDeque<WaitingConnection<C>>,
    is_closed: bool,
}

struct WaitingConnection<C> {
    number: u64,
    address: IpAddr,
    close: C,
}

/// The place of a connection in a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionPlace(u64);

impl<C: FnOnce()> ConnectionRoom<C> {
    /// A room for this many connections.
    pub fn new(most: usize) -> Self {
        let waiting = Waiting { next: 0, connections: VecDeque::new(), is_closed: false };
        Self { most, waiting: Mutex::new(waiting) }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a connection from an address, and closes one if the room is full. A closed room
    /// closes every connection at once.
    pub fn enter(&self, address: IpAddr, close: C) -> ConnectionPlace {
        let mut waiting = self.waiting();
        let number = waiting.take_number();
        waiting.connections.push_back(WaitingConnection { number, address, close });
        let leaver = if waiting.is_closed {
            waiting.connections.pop_back()
        } else if waiting.connections.len() > self.most {
            waiting.remove_surplus()
        } else {
            None
        };
        drop(waiting);
        if let Some(leaver) = leaver {
            (leaver.close)();
        }
        ConnectionPlace(number)
    }

    /// Closes all connections that are there, and those that come later.
    pub fn close(&self) {
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let connections = std::mem::take(&mut waiting.connections);
        drop(waiting);
        connections.into_iter().for_each(|connection| (connection.close)());
    }

    /// Removes a connection, which has proved itself or is gone, without closing it.
    pub fn leave(&self, place: ConnectionPlace) {
        let mut waiting = self.waiting();
        if let Some(at) = waiting.find(place) {
            waiting.connections.remove(at);
        }
    }

    /// Counts a connection as just arrived, because it has been of use. Returns its new place; the
    /// same one if it has left.
    pub fn wait_anew(&self, place: ConnectionPlace) -> ConnectionPlace {
        let mut waiting = self.waiting();
        let Some(at) = waiting.find(place) else { return place };
        let Some(connection) = waiting.connections.remove(at) else { return place };
        let number = waiting.take_number();
        waiting.connections.push_back(WaitingConnection { number, ..connection });
        ConnectionPlace(number)
    }
}

impl<C> Waiting<C> {
    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn find(&self, place: ConnectionPlace) -> Option<usize> {
        self.connections.binary_search_by_key(&place.0, |connection| connection.number).ok()
    }

    /// Removes the connection that has waited longest among those of the address with the most
    /// connections.
    fn remove_surplus(&mut self) -> Option<WaitingConnection<C>> {
        let addresses = self.connections.iter().map(|connection| connection.address);
        let at = surplus_connection(addresses.zip(0..))?;
        self.connections.remove(at)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    /// A connection that notes its name when it is closed.
    fn close_as<'a>(
        name: &'static str,
        closed: &'a RefCell<Vec<&'static str>>,
    ) -> impl FnOnce() + 'a {
        move || closed.borrow_mut().push(name)
    }

    #[test]
    fn the_one_that_has_waited_longest_is_closed_and_one_that_left_is_not() {
        let closed = RefCell::new(Vec::new());
        let room = ConnectionRoom::new(2);
        let close = |name| close_as(name, &closed);
        let first = room.enter(HERE, close("first"));
        room.enter(HERE, close("second"));
        room.leave(first);
        let third = room.enter(HERE, close("third"));
        assert!(closed.borrow().is_empty());
        room.enter(HERE, close("fourth"));
        room.enter(HERE, close("fifth"));
        assert_eq!(*closed.borrow(), ["second", "third"]);
        room.leave(third);
        room.leave(first);
        closed.borrow_mut().clear();
        room.close();
        room.enter(HERE, close("late"));
        assert_eq!(*closed.borrow(), ["fourth", "fifth", "late"]);
    }

    #[test]
    fn a_flood_from_one_address_closes_none_of_another() {
        let closed = RefCell::new(Vec::new());
        let room = ConnectionRoom::new(4);
        let close = |name| close_as(name, &closed);
        room.enter(HERE, close("task"));
        for _ in 0..1_000 {
            room.enter(THERE, close("stranger"));
        }
        assert_eq!(closed.borrow().len(), 1_000 - 3);
        assert!(!closed.borrow().contains(&"task"));
    }

    #[test]
    fn one_that_was_of_use_has_waited_least() {
        let closed = RefCell::new(Vec::new());
        let room = ConnectionRoom::new(2);
        let close = |name| close_as(name, &closed);
        let first = room.enter(HERE, close("first"));
        room.enter(HERE, close("second"));
        let first = room.wait_anew(first);
        room.enter(HERE, close("third"));
        assert_eq!(*closed.borrow(), ["second"]);
        room.leave(first);
        assert_eq!(room.wait_anew(first), first, "it has left");
        room.enter(HERE, close("fourth"));
        assert_eq!(closed.borrow().len(), 1);
    }
}
