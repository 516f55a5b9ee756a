//! Decides which of several gateways on one Postgres database acts on the models' containers. Exactly one does, the
//! supervisor: it holds a lock of the database ([`gantry_store::Claim`]). The others serve requests and wait until it
//! is gone.
//!
//! When the supervisor is gone, another gateway takes over within seconds, but by itself only if it sees the same
//! containers: containers that it does not see may still run, and must be neither taken for stopped nor started a
//! second time. [`Supervision`] is also the [`Gate`] of the container runtime, so that a gateway that loses the lock in
//! the middle of an action does nothing more. See `docs/several-gateways.md`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use gantry_domain::{ModelId, host::Supervision as View};
use gantry_runtime::Gate;
use gantry_store::{Candidate, Claim, StoreError, StoreResult, Supervisor, Tx};
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, Notify, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{Control, reconcile};

/// How often the supervisor checks that it still holds the lock, and how often the others check whether there is a
/// supervisor.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the database's answer to such a check.
const ANSWER: Duration = Duration::from_secs(3);
/// If the supervisor sends no query for this long, the database gives the lock to another gateway. Must be longer than
/// the two above.
const SILENCE: Duration = Duration::from_secs(6);
/// Epoch of a gateway that does not supervise.
const NONE: i64 = -1;
/// Epoch of a gateway that shares its database with nobody.
const ALONE: i64 = 0;

/// Role of this gateway for the models' containers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Supervisor,
    /// Another gateway supervises.
    Follower,
    /// No gateway supervises, and this one must not: the engines are where it does not see them.
    Stranger,
    /// It is not known which gateway supervises.
    Unknown,
}

#[derive(Debug)]
struct Seen {
    standing: Standing,
    supervisor: Option<Supervisor>,
    runtime: Option<String>,
}

/// Whether this gateway supervises the models' containers, and what it last saw of the gateway that does.
#[derive(Debug)]
pub struct Supervision {
    /// `None` if this gateway shares its database with no other.
    me: Option<Candidate>,
    /// [`NONE`], [`ALONE`], or the epoch in which this gateway supervises.
    epoch: AtomicI64,
    /// Present while this gateway supervises. One task at a time queries it.
    claim: AsyncMutex<Option<Claim>>,
    lost: Notify,
    seen: Mutex<Seen>,
}

impl Supervision {
    /// Makes the supervision of a gateway whose database is its own.
    pub fn alone() -> Self {
        Self::new(None, ALONE, Standing::Supervisor)
    }

    /// Makes the supervision of a gateway that may share its database. `gateway` is the id of its data directory;
    /// `name` is shown to people.
    pub fn among_others(gateway: String, name: String) -> Self {
        let me = Candidate { gateway, name, runtime: None, machine: machine() };
        Self::new(Some(me), NONE, Standing::Unknown)
    }

    fn new(me: Option<Candidate>, epoch: i64, standing: Standing) -> Self {
        let seen = Seen { standing, supervisor: None, runtime: None };
        Self {
            me,
            epoch: AtomicI64::new(epoch),
            claim: AsyncMutex::default(),
            lost: Notify::new(),
            seen: Mutex::new(seen),
        }
    }

    /// Whether engines that `supervisor` runs can be reached from here: they listen on its loopback.
    pub(crate) fn reaches(&self, supervisor: &Supervisor) -> bool {
        match (&self.me, &supervisor.who) {
            (Some(me), Some(who)) => me.machine == who.machine,
            _ => true,
        }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.me.is_none()
    }

    /// Makes `tx` fail at its end if another gateway supervises by then.
    pub(crate) fn fence(&self, tx: &mut Tx) -> StoreResult<()> {
        match self.epoch.load(SeqCst) {
            ALONE => {}
            NONE => return Err(StoreError::Overtaken),
            epoch => tx.fence(epoch),
        }
        Ok(())
    }

    /// Checks that it is known which gateway supervises, and that one does.
    ///
    /// # Errors
    /// What is wrong, in one line that names no gateway.
    pub fn check(&self) -> Result<(), String> {
        let seen = self.seen.lock();
        match seen.standing {
            Standing::Supervisor | Standing::Follower => Ok(()),
            Standing::Stranger => Err(STRANGER.to_owned()),
            Standing::Unknown => Err("it is not known yet which gateway supervises the models".to_owned()),
        }
    }

    /// Describes who supervises, for people.
    pub fn view(&self) -> View {
        let seen = self.seen.lock();
        let (role, detail) = match seen.standing {
            Standing::Supervisor if self.me.is_none() => ("supervisor", "the database is this gateway's own"),
            Standing::Supervisor => ("supervisor", "this gateway starts, stops and watches the models"),
            Standing::Follower => ("follower", "another gateway starts, stops and watches the models"),
            Standing::Stranger => ("stranger", STRANGER),
            Standing::Unknown => ("unknown", "it is not known yet which gateway supervises the models"),
        };
        let who = seen.supervisor.as_ref().and_then(|it| it.who.as_ref());
        View {
            role,
            detail,
            gateway: self.me.as_ref().map(|it| it.name.clone()),
            runtime: seen.runtime.clone(),
            supervisor: who.map(|it| it.name.clone()),
            supervisor_runtime: who.and_then(|it| it.runtime.clone()),
            since: seen.supervisor.as_ref().and_then(|it| it.since).map(gantry_domain::Timestamp::rfc3339),
            reaches_engines: seen.supervisor.as_ref().is_none_or(|it| self.reaches(it)),
        }
    }

    /// Ends supervising in order, so that another one follows at once.
    pub async fn give_back(&self) {
        if self.me.is_some() {
            self.epoch.store(NONE, SeqCst);
        }
        let claim = self.claim.lock().await.take();
        if let Some(claim) = claim {
            // An error is ignored, because closing the connection frees the lock too, only later.
            let _ = timeout(ANSWER, claim.give_back()).await;
        }
    }

    /// Returns when this gateway no longer supervises, or when its container runtime, whose identity was unknown, has
    /// reported it.
    pub async fn keep(&self, control: &Control) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let is_known = self.seen.lock().runtime.is_some();
        let recognised = async {
            while is_known || control.runtime.identity().await.is_err() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::pin!(recognised);
        loop {
            tokio::select! {
                () = self.lost.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = &mut recognised => {
                    info!("the container runtime answers: looking anew who may supervise the models");
                    self.give_back().await;
                    return;
                }
            }
            if !self.ask().await {
                warn!(
                    "this gateway supervises the models no longer: the database gave its lock away, or is away"
                );
                return;
            }
        }
    }

    /// Tries to become the supervisor.
    async fn apply(&self, me: &Candidate, control: &Control) -> StoreResult<Seen> {
        let runtime = control.runtime.identity().await.ok();
        let mut me = Candidate { runtime: runtime.clone(), ..me.clone() };
        let seen = |standing, it| Seen { standing, supervisor: Some(it), runtime: runtime.clone() };
        let mut tx = control.store.read().await?;
        let (now, may) = judge(&mut tx, &me).await?;
        let is_claimed = tx.is_claimed().await?;
        drop(tx);
        if is_claimed || !may {
            return Ok(seen(if is_claimed { Standing::Follower } else { Standing::Stranger }, now));
        }
        let Some(mut claim) = control.store.claim(SILENCE).await? else {
            return Ok(seen(Standing::Unknown, now));
        };
        if !claim.take().await? || !claim.holds().await? {
            return Ok(seen(Standing::Follower, now));
        }
        // Judged once more, now that no other gateway can change it.
        let mut tx = control.store.write().await?;
        let (now, may) = judge(&mut tx, &me).await?;
        if !may {
            return Ok(seen(Standing::Stranger, now));
        }
        // If the runtime does not answer, the identity that was stored for it stays.
        me.runtime = me.runtime.or(now.who.and_then(|it| it.runtime));
        let epoch = tx.set_supervisor(&me, control.clock.now()).await?;
        let now = tx.supervisor().await?;
        tx.commit().await?;
        let mut held = self.claim.lock().await;
        *held = Some(claim);
        // The epoch is set while the claim is still locked. Otherwise `ask` could see the claim without its epoch, and
        // would drop it.
        self.epoch.store(epoch, SeqCst);
        drop(held);
        Ok(seen(Standing::Supervisor, now))
    }

    fn note(&self, new: Seen) {
        let mut seen = self.seen.lock();
        if seen.standing != new.standing {
            let name = new.supervisor.as_ref().and_then(|it| Some(it.who.as_ref()?.name.as_str()));
            match new.standing {
                Standing::Supervisor => info!("this gateway supervises the models"),
                Standing::Follower => info!(supervisor = name, "another gateway supervises the models"),
                Standing::Stranger => warn!(last = name, "{STRANGER}"),
                Standing::Unknown => {}
            }
        }
        *seen = new;
    }

    fn forget(&self) {
        let mut seen = self.seen.lock();
        seen.standing = Standing::Unknown;
    }
}

const STRANGER: &str = "no gateway supervises the models: their engines were started by one that is away, in a container \
                        runtime that this gateway does not see; start that one again, or, when they are certain to be \
                        gone, run `gantry supervisor release`";

/// Returns which gateway supervises or did so last, and whether `me` may take over from it.
async fn judge(tx: &mut Tx, me: &Candidate) -> StoreResult<(Supervisor, bool)> {
    let now = tx.supervisor().await?;
    let may = match &now.who {
        None => true,
        Some(who) if me.runtime.is_some() && me.runtime == who.runtime => true,
        // This is the same gateway as before. It does not know (yet) which runtime it sees, or has no engines there
        // that could be lost.
        Some(who) if me.gateway == who.gateway => {
            me.runtime.is_none() || who.runtime.is_none() || !any_active(tx).await?
        }
        Some(_) => false,
    };
    Ok((now, may))
}

async fn any_active(tx: &mut Tx) -> StoreResult<bool> {
    let models = tx.models_for_reconcile().await?;
    // A model whose record can't be read may be running.
    Ok(!models.bad.is_empty()
        || models.rows.iter().any(|it| it.model.state().0.is_active() || it.model.phase.instance().is_some()))
}

impl Gate for Supervision {
    fn is_open(&self) -> bool {
        self.epoch.load(SeqCst) != NONE
    }

    fn ask(&self) -> BoxFuture<'_, bool> {
        async {
            if self.is_alone() {
                return true;
            }
            let mut claim = self.claim.lock().await;
            let holds = match claim.as_mut() {
                Some(claim) if self.is_open() => matches!(timeout(ANSWER, claim.holds()).await, Ok(Ok(true))),
                _ => false,
            };
            if !holds {
                self.epoch.store(NONE, SeqCst);
                *claim = None;
                self.lost.notify_one();
            }
            holds
        }
        .boxed()
    }
}

/// Reconciles while this gateway supervises. Runs until `stop`. Containers keep running after that, and the lock is
/// held until [`Supervision::give_back`].
pub async fn run(control: Arc<Control>, mut hints: mpsc::Receiver<ModelId>, stop: CancellationToken) {
    let it = Arc::clone(&control.supervision);
    let Some(me) = &it.me else { return reconcile::run(control, &mut hints, stop).await };
    loop {
        // Boxed: the futures of database transactions are large.
        let tried = Box::pin(it.apply(me, &control));
        let tried = tokio::select! {
            () = stop.cancelled() => return,
            tried = tried => tried,
        };
        match tried {
            Ok(seen) => it.note(seen),
            Err(error) => {
                it.forget();
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not look who supervises the models; it is repeated"
                );
            }
        }
        if it.is_open() {
            let over = stop.child_token();
            let work = reconcile::run(Arc::clone(&control), &mut hints, over.clone());
            tokio::pin!(work);
            tokio::select! {
                () = &mut work => return,
                () = it.keep(&control) => it.forget(),
            }
            // Work in progress ends at its next change, which the gate refuses. It is awaited, because a transaction
            // that is dropped while it begins would stay open in the pool.
            over.cancel();
            work.await;
        }
        let pause = tokio::time::sleep(LOOK_EVERY);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = &mut pause => break,
                // Hints are dropped: the gateway that supervises finds in the database what is to be done.
                hint = hints.recv() => if hint.is_none() { return },
            }
        }
    }
}

/// Identifies the loopback interface that this gateway uses, by the running kernel (its boot id) and the network
/// namespace.
fn machine() -> String {
    let boot = gantry_runtime::boot_id();
    let namespace = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{boot} {}", namespace.display())
}
