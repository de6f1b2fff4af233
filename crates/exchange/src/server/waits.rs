//! Every wait has a limit and an owner, and says whom it waits for.
//!
//! Once a second the longest wait is looked at. If somebody has waited a second or more, the
//! log and the chief are told for whom; if it has gone on for `stall_ms`, the run fails and
//! names them. Lost workers are given up here too, when their time to come back is over.

use super::Server;
use crate::members::Standing;
use crate::{FrameKind, Host, Level, OnLoss};

/// How often the waits are looked at, and the shortest that is worth a word.
const LOOK_MS: u64 = 1_000;

impl Server {
    /// Gives up the workers whose time to come back is over.
    pub(super) fn give_up_the_lost(&mut self, now_ms: u64, host: &mut impl Host) {
        for slot in 0..self.members.len() {
            let vacant_ms = self.members[slot].vacant_since_ms.map(|at| now_ms.saturating_sub(at));
            if vacant_ms.is_some_and(|vacant_ms| vacant_ms >= self.config.stall_ms) {
                let text = format!("slot {slot} was given back, and nobody has taken it");
                return self.fail(&text, host);
            }
            let Some(away) = &self.members[slot].away else { continue };
            if now_ms.saturating_sub(away.since_ms) < self.config.rejoin_ms {
                continue;
            }
            let text = format!("{} was lost: {}", self.members[slot].name, away.why);
            if slot == 0 {
                return self.fail(&format!("{text}; it is the chief, so the run ends"), host);
            }
            if self.config.on_loss == OnLoss::Fail {
                return self.fail(&text, host);
            }
            host.note(Level::Warning, &format!("{text}; the run goes on without it"));
            self.members[slot].standing = Standing::Gone;
            self.members[slot].away = None;
            self.chunks.iter_mut().for_each(|chunk| chunk.slots[slot].pending_keys.forget());
            self.settle_all(host);
            self.answer_collect(host);
        }
    }

    /// Tells whom the run waits for, or ends a wait that has gone on for too long.
    pub(super) fn look_at_waits(&mut self, now_ms: u64, host: &mut impl Host) {
        if now_ms < self.next_look_ms {
            return;
        }
        self.next_look_ms = now_ms.saturating_add(LOOK_MS);
        let Some((since_ms, what)) = self.longest_wait() else { return };
        let waited_ms = now_ms.saturating_sub(since_ms);
        if waited_ms < LOOK_MS {
            return;
        }
        let text = format!("{what} ({} s)", waited_ms / 1000);
        if waited_ms >= self.config.stall_ms {
            return self.fail(&text, host);
        }
        host.note(Level::Warning, &text);
        if let Some(chief) = self.members[0].conn {
            self.say(chief, FrameKind::Notice, text.as_bytes(), host);
        }
    }

    /// The longest wait: since when, and for whom.
    fn longest_wait(&self) -> Option<(u64, String)> {
        if !self.started {
            return None;
        }
        let longest = (0..self.chunks.len()).filter_map(|index| {
            let slots = &self.chunks[index].slots;
            slots.iter().filter_map(|state| Some((state.awaiting_reply?.since_ms, index))).min()
        });
        if let Some((since_ms, index)) = longest.min() {
            let view = self.view();
            let awaited = (0..self.members.len()).filter(|&s| self.gate.awaits(view, index, s));
            let names = self.members.names(awaited);
            let step = self.chunks[index].version;
            return Some((since_ms, format!("step {step} waits for {names}")));
        }
        if let Some(since_ms) = self.collect_since_ms {
            let names = self.members.names(self.members.live());
            return Some((since_ms, format!("the end waits for {names} to leave")));
        }
        let chief = &self.members[0];
        let is_chiefs_turn = self.members.all_out() && chief.conn.is_some();
        is_chiefs_turn.then(|| (chief.heard_ms, "the end waits for worker:0, the chief".into()))
    }
}
