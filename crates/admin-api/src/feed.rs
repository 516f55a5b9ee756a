//! Changes of models as numbered events: a bounded ring from which late readers catch up, and a broadcast for readers
//! that are up to date.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use gantry_domain::{ModelId, deployment::Drill, job::Job};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, broadcast, watch};

use crate::{
    auth::own_model::OwnModel,
    events::message::{Message, ModelNow, OfModel, Pull, PullNow, PulledModel},
};

/// Number of past events that the ring keeps, or twice the number of models if that is more: one look may make an event
/// for each model and for its pull.
const RING: usize = 512;
/// Most events that wait in the broadcast. A reader that is further behind is served from the ring.
const BEHIND: usize = 256;
/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) n: u64,
    pub(crate) message: Message,
}

/// The ring of past events, and the broadcast of new ones.
pub struct Feed {
    /// The id of this process: event numbers of another process mean nothing here.
    pub(crate) boot: String,
    ring: Mutex<Ring>,
    live: broadcast::Sender<Arc<Event>>,
    /// Everything that can be called, as it was seen last, for readers of `/auth/events`.
    callable: watch::Sender<Arc<Vec<OwnModel>>>,
    /// Held while models are read and compared, so that an older reading can't follow a newer one.
    comparing: tokio::sync::Mutex<()>,
    /// Notified when a reader comes: models are looked at only while somebody reads.
    awake: Notify,
}

#[derive(Default)]
struct Ring {
    last: u64,
    events: VecDeque<Arc<Event>>,
    /// Models by id, as they were seen last.
    models: BTreeMap<ModelId, Seen>,
}

/// One model, as readers are shown it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) model: ModelNow,
    pub(crate) pull: Option<Pull>,
}

/// Where a reader begins.
#[derive(Debug)]
pub(crate) struct Begin {
    /// Number of the last event that is part of it.
    pub(crate) last: u64,
    pub(crate) what: Catch,
}

#[derive(Debug)]
pub(crate) enum Catch {
    /// All models as they are: a [`Message::Snapshot`] or a [`Message::Reset`].
    All(Message),
    /// The events that the reader missed.
    Missed(Vec<Arc<Event>>),
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            boot: uuid::Uuid::now_v7().simple().to_string(),
            ring: Mutex::default(),
            live: broadcast::Sender::new(BEHIND),
            callable: watch::Sender::default(),
            comparing: tokio::sync::Mutex::default(),
            awake: Notify::new(),
        }
    }
}

impl Feed {
    /// Returns where a reader begins, and a receiver for all events from there on. `seen` is the id of the last event
    /// that the reader got.
    pub(crate) fn begin(&self, seen: Option<&str>) -> (Begin, broadcast::Receiver<Arc<Event>>) {
        // Events are sent under the ring's lock, so none comes twice and none is missed.
        let ring = self.ring();
        let live = self.live.subscribe();
        self.awake.notify_one();
        let all = || {
            let view = |it: &Seen| PulledModel { model: it.model.clone(), pull: it.pull };
            ring.models.values().map(view).collect()
        };
        let what = match seen {
            None => Catch::All(Message::Snapshot(all())),
            Some(id) => {
                let n = id.strip_prefix(&self.boot).and_then(|it| it.strip_prefix('-')?.parse::<u64>().ok());
                n.and_then(|n| ring.since(n)).map_or_else(|| Catch::All(Message::Reset(all())), Catch::Missed)
            }
        };
        (Begin { last: ring.last, what }, live)
    }

    /// Returns the events after event `n`, or `None` if the ring does not have all of them any more.
    pub(crate) fn since(&self, n: u64) -> Option<Vec<Arc<Event>>> {
        self.ring().since(n)
    }

    /// The `id:` of an event.
    pub(crate) fn id(&self, n: u64) -> String {
        format!("{}-{n}", self.boot)
    }

    /// Compares the models with those of the last call, and sends events about what changed. `read` gives the models as
    /// they are; it begins when nobody else compares.
    pub(crate) async fn update<E>(
        &self,
        read: impl Future<Output = Result<BTreeMap<ModelId, Seen>, E>>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.comparing.lock().await;
        let now = read.await?;
        self.ring().update(now, &self.live);
        Ok(())
    }

    /// Tells that a model is deleted, unless a look has told it. Looks alone would miss a model that is made and deleted between
    /// two of them, and a page that has listed it meanwhile would show it for ever. Called once the deletion is committed.
    pub(crate) async fn deleted(&self, id: ModelId) {
        // A look that has read the models before the deletion ends first, and its reading is corrected.
        let _one_at_a_time = self.comparing.lock().await;
        self.ring().deleted(id, &self.live);
    }

    pub(crate) fn has_readers(&self) -> bool {
        self.live.receiver_count() > 0
    }

    /// Returns a receiver of everything that can be called.
    pub(crate) fn follow_callable(&self) -> watch::Receiver<Arc<Vec<OwnModel>>> {
        let callable = self.callable.subscribe();
        self.awake.notify_one();
        callable
    }

    /// Tells the followers what can be called now, if that changed. `read` begins when nobody else compares.
    pub(crate) async fn update_callable<E>(
        &self,
        read: impl Future<Output = Result<Vec<OwnModel>, E>>,
    ) -> Result<(), E> {
        let _one_at_a_time = self.comparing.lock().await;
        let now = read.await?;
        self.callable.send_if_modified(|before| {
            let is_new = **before != now;
            if is_new {
                *before = Arc::new(now);
            }
            is_new
        });
        Ok(())
    }

    pub(crate) fn has_callable_readers(&self) -> bool {
        self.callable.receiver_count() > 0
    }

    /// Returns when a reader has come.
    pub(crate) async fn reader_came(&self) {
        self.awake.notified().await;
    }

    /// Sends an event about the progress of a job.
    pub fn drill(&self, drill: &Drill) {
        self.ring().tell(Message::RestoreDrill(drill.into()), &self.live);
    }

    /// Tells about a job.
    pub fn job(&self, job: &Job) {
        self.ring().tell(Message::Job(job.into()), &self.live);
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
}

impl Ring {
    fn since(&self, n: u64) -> Option<Vec<Arc<Event>>> {
        let oldest = self.last + 1 - self.events.len() as u64;
        let known = n <= self.last && n + 1 >= oldest;
        known.then(|| self.events.iter().filter(|it| it.n > n).cloned().collect())
    }

    fn update(&mut self, now: BTreeMap<ModelId, Seen>, live: &broadcast::Sender<Arc<Event>>) {
        let before = std::mem::replace(&mut self.models, now.clone());
        for id in before.keys().copied().filter(|it| !now.contains_key(it)) {
            self.tell(Message::ModelDeleted(OfModel { id }), live);
        }
        for (id, seen) in now {
            let old = before.get(&id);
            if old.is_none_or(|it| it.model != seen.model) {
                self.tell(Message::Model(seen.model), live);
            }
            if old.and_then(|it| it.pull) != seen.pull {
                self.tell(Message::Pull(PullNow { id, pull: seen.pull }), live);
            }
        }
    }

    fn deleted(&mut self, id: ModelId, live: &broadcast::Sender<Arc<Event>>) {
        let told = |it: &Arc<Event>| matches!(&it.message, Message::ModelDeleted(of) if of.id == id);
        if self.models.remove(&id).is_some() || !self.events.iter().any(told) {
            self.tell(Message::ModelDeleted(OfModel { id }), live);
        }
    }

    fn tell(&mut self, message: Message, live: &broadcast::Sender<Arc<Event>>) {
        self.last += 1;
        let event = Arc::new(Event { n: self.last, message });
        let room = RING.max(2 * self.models.len());
        while self.events.len() >= room {
            self.events.pop_front();
        }
        self.events.push_back(Arc::clone(&event));
        // Nobody may be listening.
        let _ = live.send(event);
    }
}

#[cfg(test)]
mod tests {
    use gantry_domain::model::State;

    use super::*;

    fn models(states: &[(i64, &str)]) -> BTreeMap<ModelId, Seen> {
        let seen = |id: i64, state: &str| {
            let model = ModelNow {
                id: ModelId(id),
                served_name: "m".to_owned(),
                state: State::parse(state).unwrap(),
                state_reason: None,
                needs_apply: false,
                archived: false,
                diagnosis: None,
            };
            (ModelId(id), Seen { model, pull: None })
        };
        states.iter().map(|(id, state)| seen(*id, state)).collect()
    }

    fn update(feed: &Feed, states: &[(i64, &str)]) {
        feed.ring().update(models(states), &feed.live);
    }

    fn kinds(catch: Catch) -> Vec<&'static str> {
        match catch {
            Catch::All(message) => vec![message.kind()],
            Catch::Missed(events) => events.iter().map(|it| it.message.kind()).collect(),
        }
    }

    #[tokio::test]
    async fn every_deleted_model_is_told_once() {
        let feed = Feed::default();
        update(&feed, &[(1, "stopped"), (2, "stopped")]);
        let start = feed.id(feed.begin(None).0.last);
        update(&feed, &[(1, "stopped")]);
        feed.deleted(ModelId(2)).await;
        assert_eq!(kinds(feed.begin(Some(&start)).0.what), ["model_deleted"], "a look had told it");
        feed.deleted(ModelId(1)).await;
        update(&feed, &[]);
        assert_eq!(kinds(feed.begin(Some(&start)).0.what), ["model_deleted"; 2], "no look had told it");
        feed.deleted(ModelId(3)).await;
        assert_eq!(kinds(feed.begin(Some(&start)).0.what), ["model_deleted"; 3], "no look had seen it");
    }

    #[test]
    fn who_was_away_gets_what_he_missed_or_everything() {
        let feed = Feed::default();
        update(&feed, &[(1, "stopped"), (2, "stopped")]);
        let (begin, _) = feed.begin(None);
        assert_eq!(begin.last, 2);
        let id = feed.id(begin.last);
        assert_eq!(kinds(feed.begin(Some(&id)).0.what), [""; 0]);
        update(&feed, &[(1, "running")]);
        assert_eq!(kinds(feed.begin(Some(&id)).0.what), ["model_deleted", "model"]);
        update(&feed, &[(1, "running")]);
        assert_eq!(feed.begin(None).0.last, 4, "nothing changed");
        let another = Feed::default().id(4);
        for unknown in ["", "4", "x-4", &feed.id(5), &another] {
            assert_eq!(kinds(feed.begin(Some(unknown)).0.what), ["reset"], "{unknown}");
        }
        // The ring holds 512 events: a reader that saw the event before the oldest one misses nothing; a reader that is
        // one event further behind does.
        for n in 0..RING {
            update(&feed, &[(1, if n % 2 == 0 { "loading" } else { "running" })]);
        }
        let last = feed.begin(None).0.last;
        let of = |missed: u64| kinds(feed.begin(Some(&feed.id(last - missed))).0.what);
        assert_eq!(of(512).len(), 512);
        assert_eq!(of(513), ["reset"]);
    }
}
