//! What a worker remembers from one pass to the next.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use gantry_dataplane::Upstream;
use gantry_domain::{ModelId, Timestamp, model::Model};
use gantry_runtime::Found;
use gantry_store::LastRestore;
use tokio_util::sync::CancellationToken;

use crate::{Control, reconcile::mailbox::Mailbox};

/// How often a swap checks whether the old engine's requests have ended.
pub(super) const DRAINING_LOOK: Duration = Duration::from_millis(50);

pub(in crate::reconcile) struct Worker {
    pub(super) id: ModelId,
    pub(super) control: Arc<Control>,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) stop: CancellationToken,
    /// True until the first pass has ended since the gateway's start, or since a restore of the database.
    pub(super) boot: bool,
    pub(super) since: Timestamp,
    /// The restore that the record comes from, as it was read last; `None` until it was read.
    pub(super) restored: Option<LastRestore>,
    /// Whether the record comes from a restore, and is looked at for the first time.
    pub(super) is_new_record: bool,
    /// Number of probes in a row that got no good answer.
    pub(super) bad: u32,
    /// Whether the last of them was answered.
    pub(super) answers: bool,
    /// When the last pass ended; sightings from before are out of date.
    pub(super) looked_at: Option<Instant>,
    /// When the engine was probed last.
    pub(super) probed_at: Option<Instant>,
    /// The engines that a swap takes out of service.
    pub(super) draining: Option<Draining>,
}

impl Worker {
    pub(in crate::reconcile) fn new(
        id: ModelId,
        control: Arc<Control>,
        mailbox: Arc<Mailbox>,
        stop: CancellationToken,
    ) -> Self {
        let since = control.steady.now();
        Self {
            id,
            control,
            mailbox,
            stop,
            boot: true,
            since,
            restored: None,
            is_new_record: false,
            bad: 0,
            answers: false,
            looked_at: None,
            probed_at: None,
            draining: None,
        }
    }

    /// Begins anew if the database was restored since the record was read last: what is known of the model is of another
    /// record, and so may be its instance. Returns whether it was.
    pub(super) fn follow_restore(&mut self, restored: &LastRestore) -> bool {
        let before = self.restored.replace(restored.clone());
        if before.is_none_or(|it| it == *restored) {
            return false;
        }
        (self.boot, self.is_new_record, self.since) = (true, true, self.control.steady.now());
        (self.bad, self.answers, self.draining, self.probed_at) = (0, false, None, None);
        true
    }

    /// Whether an instance of the record's generation is nevertheless not the record's: a dump came from another machine, or
    /// from before it was started. While a gateway watches, an instance gets its name and generation from the record.
    pub(super) fn is_foreign(&self, model: &Model, found: &Found) -> bool {
        let known = model.phase.instance();
        self.boot
            && model.generation == found.instance.generation
            && known != Some(&found.instance.id)
            && (known.is_some() || self.is_new_record)
    }
}

/// Engines that get no new requests.
pub(super) struct Draining {
    pub(super) upstreams: Vec<Arc<Upstream>>,
    /// When they left the routes.
    pub(super) since: Instant,
}

impl Draining {
    /// Returns the number of requests that they still work on. Shortly after they left the routes it is at least one: a
    /// request may have chosen an engine and not be counted yet.
    pub(super) fn in_flight(&self) -> u32 {
        let n = self.upstreams.iter().map(|it| it.in_flight.load(Relaxed)).sum::<u32>();
        if self.since.elapsed() < DRAINING_LOOK { n.max(1) } else { n }
    }
}
