//! What the tasks of a run must agree on, and how two of them compare it.

use crate::{Hello, JobIdentity, PeerRole, Refusal, RefuseCode, WireFormat};

/// What a task compares with the `Hello` of another one.
pub(crate) struct RunIdentity<'a> {
    /// This task's name.
    pub(crate) name: &'a str,
    /// The names of the workers, by slot.
    pub(crate) names: &'a [String],
    pub(crate) wire: WireFormat,
    pub(crate) job: &'a JobIdentity,
    pub(crate) layout_digest: &'a [u8; 32],
}

impl RunIdentity<'_> {
    /// Checks what every task of a run must agree on.
    pub(crate) fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        let (here, there) = (self.name, hello.sender(self.names));
        if hello.wire != self.wire {
            let (theirs, ours) = (hello.wire.name(), self.wire.name());
            let text = format!(
                "it sends gradients as {theirs}, but this run as {ours}: cluster.wire differs"
            );
            return Err(Refusal::new(RefuseCode::WrongWire, text));
        }
        if hello.job.digest != self.job.digest {
            let difference = self.job.difference(here, &hello.job, &there);
            let text = difference.unwrap_or_else(|| "it works for another job".into());
            return Err(Refusal::new(RefuseCode::WrongJob, text));
        }
        if hello.layout_digest != *self.layout_digest {
            let text = format!(
                "the parameters of {there} are laid out differently from those of {here}, for the \
                 same job; is the data the same?"
            );
            return Err(Refusal::new(RefuseCode::WrongLayout, text));
        }
        Ok(())
    }
}

impl Hello {
    /// The name of the task that says it, given those of the workers by slot.
    pub(crate) fn sender(&self, workers: &[String]) -> String {
        if !self.process.name.is_empty() {
            return self.process.name.clone();
        }
        match (self.role, workers.get(self.slot as usize)) {
            (PeerRole::Evaluator, _) => format!("evaluator:{}", self.slot),
            (PeerRole::Newcomer, _) | (_, None) => "another task".into(),
            (_, Some(name)) => name.clone(),
        }
    }
}
