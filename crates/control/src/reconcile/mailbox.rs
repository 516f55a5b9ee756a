//! How the reconciler wakes the worker of a model, and what it hands over.

use std::time::Instant;

use gantry_runtime::Found;
use gantry_store::ModelToReconcile;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// One model as a tick saw it.
pub(super) struct Sighting {
    /// Time before anything was read: what a worker did later is not in it.
    pub(super) at: Instant,
    pub(super) record: ModelToReconcile,
    /// Its container, if it has one.
    pub(super) found: Option<Found>,
}

/// Makes a worker look. Hints are merged: only that there was one matters.
#[derive(Default)]
pub(super) struct Mailbox {
    pub(super) wake: Notify,
    mail: Mutex<Mail>,
}

#[derive(Default)]
pub(super) struct Mail {
    /// Something happened, or the operator gave a command.
    pub(super) hinted: bool,
    pub(super) sighting: Option<Sighting>,
}

impl Mailbox {
    pub(super) fn put(&self, sighting: Option<Sighting>) {
        let mut mail = self.mail.lock();
        match sighting {
            Some(sighting) => mail.sighting = Some(sighting),
            None => mail.hinted = true,
        }
        drop(mail);
        self.wake.notify_one();
    }

    pub(super) fn take(&self) -> Mail {
        let mut mail = std::mem::take(&mut *self.mail.lock());
        if mail.hinted {
            // The sighting is dropped: it is not known whether the tick read the record before the command was stored.
            mail.sighting = None;
        }
        mail
    }
}

#[cfg(test)]
mod tests {
    use gantry_domain::{
        ModelId, Timestamp,
        model::{EngineKind, Model, ModelConfig, ModelDraft, Task},
    };

    use super::*;

    fn sighting() -> Sighting {
        let draft = ModelDraft {
            name: "m".into(),
            served_name: "m".into(),
            task: Task::Generate,
            engine: EngineKind::Vllm,
            config: ModelConfig::default(),
            hub_token: None,
            sealed_hub_token: None,
            archived: false,
        };
        let model = Model::new(ModelId(1), draft, Timestamp(0));
        let record =
            ModelToReconcile { model, deleting: false, restored: gantry_store::LastRestore::default() };
        Sighting { at: Instant::now(), record, found: None }
    }

    #[test]
    fn a_command_is_never_answered_by_what_a_tick_saw_before_it() {
        let mailbox = Mailbox::default();
        for mails in [[None, Some(sighting())], [Some(sighting()), None]] {
            for mail in mails {
                mailbox.put(mail);
            }
            let mail = mailbox.take();
            assert!(mail.hinted && mail.sighting.is_none());
        }
        mailbox.put(Some(sighting()));
        assert!(mailbox.take().sighting.is_some());
    }
}
