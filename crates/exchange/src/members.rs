//! Who takes part: the slots, the processes that fill them, and who still counts.
//!
//! A slot outlives the process in it. Gates ask one question only: is this slot still waited
//! for? A worker that left or was given up is not; one that merely lost its connection is, for
//! as long as it may come back.

use crate::{ConnId, ServerConfig};

/// Where a slot stands in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No process has filled it yet.
    Absent,
    /// It takes part.
    In,
    /// It said `Leave`.
    Left,
    /// It was lost, and the run went on without it.
    Gone,
}

/// One slot.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    /// The present connection of the process that fills it.
    pub(crate) conn: Option<ConnId>,
    /// The newest process that has filled it.
    pub(crate) incarnation: Option<u64>,
    /// Since when it has no connection, once the run has started, and why.
    pub(crate) away: Option<Away>,
    /// When the last frame of it arrived.
    pub(crate) heard_ms: u64,
    /// How many of its gradients are held.
    pub(crate) pending: usize,
    /// The process that fills it, or did last; 0 for one that is on no roster.
    pub(crate) process: u64,
    /// What people call that process.
    pub(crate) holder: String,
    /// Since when nobody fills it, because its process gave it back.
    pub(crate) vacant_since_ms: Option<u64>,
    /// Which process is asked to fill it.
    pub(crate) offer: Option<Offer>,
    /// A newer process of the task that fills it.
    pub(crate) superseded_by: Option<u64>,
}

/// A slot that a process is asked to fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) process: u64,
    pub(crate) since_ms: u64,
}

/// A connection that was lost.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    pub(crate) since_ms: u64,
    pub(crate) why: String,
}

/// All slots of a run.
#[derive(Debug)]
pub(crate) struct Members {
    slots: Vec<Member>,
}

impl Members {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let member = |slot: usize| Member {
            name: config.names[slot].clone(),
            standing: Standing::Absent,
            conn: None,
            incarnation: None,
            away: None,
            heard_ms: 0,
            pending: 0,
            process: 0,
            holder: String::new(),
            vacant_since_ms: None,
            offer: None,
            superseded_by: None,
        };
        Self { slots: (0..config.workers).map(member).collect() }
    }

    /// Whether others wait for this slot's pushes.
    pub(crate) fn is_live(&self, slot: usize) -> bool {
        matches!(self.slots[slot].standing, Standing::Absent | Standing::In)
    }

    /// The slots that others wait for, in order.
    pub(crate) fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|&slot| self.is_live(slot))
    }

    /// Whether every slot has a process with a connection.
    pub(crate) fn all_here(&self) -> bool {
        self.slots.iter().all(|member| member.conn.is_some())
    }

    /// Whether every slot has left or was given up.
    pub(crate) fn all_out(&self) -> bool {
        self.live().next().is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slots as people read them, with what is known of those without a connection.
    pub(crate) fn names(&self, slots: impl Iterator<Item = usize>) -> String {
        let name = |slot: usize| match &self.slots[slot] {
            Member { name, away: Some(away), .. } => format!("{name} (lost: {})", away.why),
            Member { vacant_since_ms: Some(_), .. } => format!("slot {slot} (given back)"),
            Member { name, .. } => name.clone(),
        };
        slots.map(name).collect::<Vec<_>>().join(", ")
    }
}

impl std::ops::Index<usize> for Members {
    type Output = Member;
    fn index(&self, slot: usize) -> &Member {
        &self.slots[slot]
    }
}

impl std::ops::IndexMut<usize> for Members {
    fn index_mut(&mut self, slot: usize) -> &mut Member {
        &mut self.slots[slot]
    }
}
