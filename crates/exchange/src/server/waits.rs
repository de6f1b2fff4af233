//! Limits on waits: every wait has a limit and an owner, and names the workers it waits for.
//!
//! Once a second the server looks at the longest wait. If that lasts a second or more, the server
//! names the missing workers in the log and to the coordinator, unless that is the one it waits
//! for; if it lasts `stall_ms`, the run fails and names them. The server also gives up lost
//! workers whose time to return is over.

use super::host::{Host, Level};
use super::state::Server;
use crate::members::MemberState;
use crate::{FrameKind, OnLoss};

/// How often the waits are checked, and the shortest wait that is reported.
const CHECK_MS: u64 = 1_000;

struct LongestWait {
    since_ms: u64,
    event: AwaitedEvent,
    /// The missing workers.
    slots: Vec<usize>,
}

enum AwaitedEvent {
    Step(u64),
    Leaving,
    Coordinator,
}

impl Server {
    /// Gives up the workers whose time to return is over.
    pub(super) fn give_up_lost_workers(&mut self, now_ms: u64, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let vacant_ms = self.members[slot].vacant_since_ms.map(|at| now_ms.saturating_sub(at));
            if vacant_ms.is_some_and(|vacant_ms| vacant_ms >= self.config.stall_ms) {
                let text = format!("slot {slot} was given back, and no process has taken it");
                return self.fail(&text, host);
            }
            let Some(absence) = &self.members[slot].absence else { continue };
            if now_ms.saturating_sub(absence.since_ms) < self.config.rejoin_ms {
                continue;
            }
            let text = format!("{} was lost: {}", self.members[slot].name, absence.why);
            if slot == 0 {
                return self.fail(&format!("{text}; it is the coordinator, so the run ends"), host);
            }
            if self.config.on_loss == OnLoss::Fail {
                return self.fail(&text, host);
            }
            host.note(Level::Warning, &format!("{text}; the run continues without it"));
            self.members[slot].state = MemberState::Lost;
            self.members[slot].absence = None;
            self.chunks.iter_mut().for_each(|chunk| chunk.slots[slot].pending_keys.clear());
            self.settle_all(host);
            self.answer_collect(host);
        }
    }

    /// Reports the longest wait, or fails the run if it has reached its limit.
    pub(super) fn check_waits(&mut self, now_ms: u64, host: &mut impl Host) {
        if now_ms < self.next_wait_check_ms {
            return;
        }
        self.next_wait_check_ms = now_ms.saturating_add(CHECK_MS);
        let Some(wait) = self.longest_wait() else { return };
        let waited_ms = now_ms.saturating_sub(wait.since_ms);
        if waited_ms < CHECK_MS {
            return;
        }
        let text = self.describe_wait(&wait.event, &wait.slots, waited_ms);
        if waited_ms >= self.config.stall_ms {
            return self.fail(&text, host);
        }
        // The coordinator shows it to people.
        host.note(Level::Info, &text);
        // A task is not told that it waits for itself.
        let others: Vec<_> = wait.slots.into_iter().filter(|&slot| slot != 0).collect();
        if let Some(coordinator) = self.members[0].conn.filter(|_| !others.is_empty()) {
            let text = self.describe_wait(&wait.event, &others, waited_ms);
            self.send_control(coordinator, FrameKind::Notice, text.as_bytes(), host);
        }
    }

    fn describe_wait(&self, event: &AwaitedEvent, slots: &[usize], waited_ms: u64) -> String {
        let names = self.members.names(slots.iter().copied());
        let seconds = waited_ms / 1000;
        match event {
            AwaitedEvent::Step(step) => format!("step {step} waits for {names} ({seconds} s)"),
            AwaitedEvent::Leaving => format!("the end waits for {names} to leave ({seconds} s)"),
            AwaitedEvent::Coordinator => {
                format!("the end waits for {names}, the coordinator ({seconds} s)")
            }
        }
    }

    fn longest_wait(&self) -> Option<LongestWait> {
        if !self.started {
            return None;
        }
        let longest = (0..self.chunks.len()).filter_map(|index| {
            let slots = &self.chunks[index].slots;
            slots.iter().filter_map(|state| Some((state.awaiting_reply?.since_ms, index))).min()
        });
        if let Some((since_ms, index)) = longest.min() {
            let view = self.gate_view();
            let awaited = (0..self.members.len()).filter(|&s| self.gate.awaits(view, index, s));
            let event = AwaitedEvent::Step(self.chunks[index].version);
            return Some(LongestWait { since_ms, event, slots: awaited.collect() });
        }
        if let Some(since_ms) = self.collect_since_ms {
            let slots = self.members.live().collect();
            return Some(LongestWait { since_ms, event: AwaitedEvent::Leaving, slots });
        }
        let coordinator = &self.members[0];
        let is_its_turn = self.members.all_out() && coordinator.conn.is_some();
        is_its_turn.then(|| LongestWait {
            since_ms: coordinator.heard_ms,
            event: AwaitedEvent::Coordinator,
            slots: vec![0],
        })
    }
}
