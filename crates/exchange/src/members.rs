//! The slots of a run, and the processes that fill them.
//!
//! A slot outlives the process in it. A gate asks only whether other workers still wait for a
//! slot. They do not if its worker left or was given up; they do if it merely lost its connection,
//! for as long as it may return.

use crate::{ConnId, ServerConfig};

/// The state of a slot in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// No process has filled it yet.
    Absent,
    /// It takes part.
    Active,
    /// Its worker said `Leave`.
    Left,
    /// Its worker was lost, and the run continued without it.
    Lost,
}

/// One slot.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) state: MemberState,
    /// The connection of the process that fills it.
    pub(crate) conn: Option<ConnId>,
    /// The newest process that has filled it.
    pub(crate) incarnation: Option<u64>,
    /// Why the last process that wanted to fill it was refused.
    pub(crate) refusal: Option<String>,
    /// Set while it has no connection, once the run has started.
    pub(crate) absence: Option<LostConnection>,
    /// When its last frame arrived.
    pub(crate) heard_ms: u64,
    /// Pending gradients on all chunks.
    pub(crate) pending: usize,
    /// The process that fills it, or filled it last; 0 for one that is on no roster.
    pub(crate) process: u64,
    /// The display name of that process; empty if it has none.
    pub(crate) process_name: String,
    /// When its process gave it back, until another fills it.
    pub(crate) vacant_since_ms: Option<u64>,
    /// The process that it is offered to.
    pub(crate) offer: Option<SlotOffer>,
    /// A newer process of the task that fills it.
    pub(crate) superseded_by: Option<u64>,
}

/// An offer of a slot to a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotOffer {
    pub(crate) process: u64,
    pub(crate) since_ms: u64,
}

/// A lost connection.
#[derive(Clone, Debug)]
pub(crate) struct LostConnection {
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
            state: MemberState::Absent,
            conn: None,
            incarnation: None,
            refusal: None,
            absence: None,
            heard_ms: 0,
            pending: 0,
            process: 0,
            process_name: String::new(),
            vacant_since_ms: None,
            offer: None,
            superseded_by: None,
        };
        Self { slots: (0..config.workers).map(member).collect() }
    }

    /// Whether other workers wait for this slot's pushes.
    pub(crate) fn is_live(&self, slot: usize) -> bool {
        matches!(self.slots[slot].state, MemberState::Absent | MemberState::Active)
    }

    /// The slots that other workers wait for, in order.
    pub(crate) fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|&slot| self.is_live(slot))
    }

    pub(crate) fn all_connected(&self) -> bool {
        self.slots.iter().all(|member| member.conn.is_some())
    }

    /// Whether every slot has left or was given up.
    pub(crate) fn all_out(&self) -> bool {
        self.live().next().is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The names of slots for a message, with the reason why one has no connection.
    pub(crate) fn names(&self, slots: impl Iterator<Item = usize>) -> String {
        let name = |slot: usize| match &self.slots[slot] {
            Member { name, absence: Some(absence), .. } => {
                format!("{name} (lost: {})", absence.why)
            }
            Member { name, refusal: Some(why), conn: None, .. } => format!("{name} ({why})"),
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
