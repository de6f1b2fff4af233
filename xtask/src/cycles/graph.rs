//! Cycles in a graph of numbered nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which nodes each node leads to. Edges to oneself are not kept.
#[derive(Debug, Default)]
pub(crate) struct ImportGraph {
    edges: BTreeMap<usize, BTreeSet<usize>>,
}

impl ImportGraph {
    pub(crate) fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.edges.entry(from).or_default().insert(to);
        }
    }

    fn next(&self, node: usize) -> impl Iterator<Item = usize> {
        self.edges.get(&node).into_iter().flatten().copied()
    }

    /// The nodes that are on cycles, in groups whose members all lead to each other.
    pub(crate) fn knots(&self) -> Vec<BTreeSet<usize>> {
        let reached: BTreeMap<usize, BTreeSet<usize>> =
            self.edges.keys().map(|&node| (node, self.reached_from(node))).collect();
        let mut knots: Vec<BTreeSet<usize>> = Vec::new();
        for (&node, targets) in &reached {
            if !targets.contains(&node) || knots.iter().any(|knot| knot.contains(&node)) {
                continue;
            }
            let leads_back =
                |other: &&usize| reached.get(*other).is_some_and(|t| t.contains(&node));
            knots.push(targets.iter().filter(leads_back).copied().collect());
        }
        knots
    }

    fn reached_from(&self, node: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<_> = self.next(node).collect();
        while let Some(next) = open.pop() {
            if reached.insert(next) {
                open.extend(self.next(next));
            }
        }
        reached
    }

    /// A few shortest cycles that together cover all nodes of a knot. The first node of a cycle is
    /// not repeated at its end.
    pub(crate) fn covering_cycles(&self, knot: &BTreeSet<usize>) -> Vec<Vec<usize>> {
        let mut cycles = Vec::new();
        let mut covered = BTreeSet::<usize>::new();
        for &node in knot {
            if !covered.contains(&node) {
                let cycle = self.shortest_cycle(node);
                covered.extend(&cycle);
                cycles.push(cycle);
            }
        }
        cycles
    }

    fn shortest_cycle(&self, start: usize) -> Vec<usize> {
        let mut came_from = BTreeMap::new();
        let mut open = VecDeque::from([start]);
        while let Some(node) = open.pop_front() {
            for next in self.next(node) {
                if next == start {
                    return path_to(node, start, &came_from);
                }
                came_from.entry(next).or_insert_with(|| {
                    open.push_back(next);
                    node
                });
            }
        }
        Vec::new()
    }
}

fn path_to(end: usize, start: usize, came_from: &BTreeMap<usize, usize>) -> Vec<usize> {
    let mut path = vec![end];
    while let Some(&before) =
        path.last().filter(|node| **node != start).and_then(|n| came_from.get(n))
    {
        path.push(before);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(usize, usize)]) -> ImportGraph {
        let mut graph = ImportGraph::default();
        for &(from, to) in edges {
            graph.add(from, to);
        }
        graph
    }

    #[test]
    fn a_tree_and_an_edge_to_oneself_have_no_cycle() {
        assert!(graph(&[(0, 1), (0, 2), (1, 2), (2, 2)]).knots().is_empty());
    }

    #[test]
    fn knots_are_apart_and_their_nodes_are_all_on_a_printed_cycle() {
        let graph = graph(&[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (4, 5), (1, 0)]);
        let knots = graph.knots();
        assert_eq!(knots, [BTreeSet::from([0, 1, 2]), BTreeSet::from([3, 4])]);
        assert_eq!(graph.covering_cycles(&knots[0]), [vec![0, 1], vec![2, 0, 1]]);
        assert_eq!(graph.covering_cycles(&knots[1]), [[3, 4]]);
    }
}
