//! Chooses the connection that is closed to make room for others.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// Connections, grouped by the address that they come from. A connection is an address and a `T`
/// that tells it from the others and rises in the order of arrival. Thousands of strangers may come
/// in a second, so the one to close is found without a search through all of them.
pub struct AddressCrowds<T> {
    by_address: HashMap<IpAddr, BTreeSet<T>>,
    /// The addresses, ordered by the number of connections from each, and then by the first of
    /// those.
    crowds: BTreeSet<(usize, Reverse<T>, IpAddr)>,
}

impl<T> Default for AddressCrowds<T> {
    fn default() -> Self {
        Self { by_address: HashMap::new(), crowds: BTreeSet::new() }
    }
}

impl<T: Ord + Copy> AddressCrowds<T> {
    /// A connection has come.
    pub fn enter(&mut self, address: IpAddr, own: T) {
        self.change(address, |connections| connections.insert(own));
    }

    /// A connection is gone.
    pub fn leave(&mut self, address: IpAddr, own: T) {
        self.change(address, |connections| connections.remove(&own));
    }

    /// The connection to close when room is needed: the first one of the address with the most
    /// connections.
    pub fn surplus(&self) -> Option<T> {
        self.crowds.last().map(|(_, Reverse(first), _)| *first)
    }

    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut BTreeSet<T>) -> bool) {
        let connections = self.by_address.entry(address).or_default();
        let crowd = |connections: &BTreeSet<T>| {
            let first = *connections.first()?;
            Some((connections.len(), Reverse(first), address))
        };
        let before = crowd(connections);
        change(connections);
        let after = crowd(connections);
        before.map(|crowd| self.crowds.remove(&crowd));
        match after {
            Some(crowd) => drop(self.crowds.insert(crowd)),
            None => drop(self.by_address.remove(&address)),
        }
    }
}

/// Which of these connections to close when room is needed, as [`AddressCrowds`] finds it.
pub fn surplus_connection<T: Ord + Copy>(waiting: impl Iterator<Item = (IpAddr, T)>) -> Option<T> {
    let mut crowds = AddressCrowds::default();
    waiting.for_each(|(address, own)| crowds.enter(address, own));
    crowds.surplus()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    /// The rule, word for word.
    fn searched(waiting: &[(IpAddr, u32)]) -> Option<u32> {
        let count = |address| waiting.iter().filter(|(other, _)| *other == address).count();
        let most = waiting.iter().map(|(address, _)| count(*address)).max()?;
        let crowded = waiting.iter().filter(|(address, _)| count(*address) == most);
        crowded.map(|(_, own)| *own).min()
    }

    proptest! {
        #[test]
        fn the_first_of_the_largest_crowd_makes_room(moves: Vec<(u8, bool, u8)>) {
            let (mut crowds, mut waiting) = (AddressCrowds::default(), Vec::new());
            for (number, (last, enters, which)) in (0..).zip(moves) {
                if enters || waiting.is_empty() {
                    let address = IpAddr::from(Ipv4Addr::new(127, 0, 0, last % 5));
                    crowds.enter(address, number);
                    waiting.push((address, number));
                } else {
                    let (address, own) = waiting.remove(usize::from(which) % waiting.len());
                    crowds.leave(address, own);
                }
                prop_assert_eq!(crowds.surplus(), searched(&waiting));
                prop_assert_eq!(surplus_connection(waiting.iter().copied()), searched(&waiting));
            }
            waiting.iter().for_each(|&(address, own)| crowds.leave(address, own));
            prop_assert!(crowds.by_address.is_empty() && crowds.crowds.is_empty());
        }
    }
}
