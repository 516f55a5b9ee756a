//! Streams hints at what happened: starts and removals as this gateway makes them, ends as the kernel reports them.

use std::{collections::HashSet, os::fd::OwnedFd, time::Duration};

use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered},
};
use gantry_domain::ModelId;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::broadcast::{Receiver, error::RecvError},
};

use super::{record::Dir, system};

/// How often the lock is checked if the kernel reports nothing (before Linux 5.3, or in a sandbox).
const LOOK: Duration = Duration::from_millis(250);

/// Something that this gateway did.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) model: ModelId,
    /// The engine that runs since then, and the process id of its supervisor.
    pub(super) started: Option<(Dir, i32)>,
}

/// Returns when the supervisor `pid` of `dir` has ended; at once if it does not exist.
pub(super) async fn ended(dir: &Dir, pid: i32) {
    let handle = system::open(pid);
    // The process id may have been reused before the handle was made, but then the lock is free.
    if !held(dir).await {
        return;
    }
    match handle.and_then(watch) {
        // The handle becomes readable once the process has ended.
        Some(handle) => drop(handle.readable().await),
        None => {
            while held(dir).await {
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its danger is a type that changes its descriptor; `OwnedFd` does not, and the replacement is `unsafe`"
)]
fn watch(handle: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE).ok()
}

async fn held(dir: &Dir) -> bool {
    let dir = dir.clone();
    tokio::task::spawn_blocking(move || dir.is_held().unwrap_or(false)).await.unwrap_or(false)
}

/// Streams the hints until the runtime itself ends. `running`: the engines that run now.
pub(super) fn stream(
    changes: Receiver<Change>,
    running: Vec<(ModelId, Dir, i32)>,
) -> BoxStream<'static, ModelId> {
    let mut watched = Watched::default();
    for (model, dir, pid) in running {
        watched.add(model, dir, pid);
    }
    stream::unfold((changes, watched), async |(mut changes, mut watched)| {
        let model = next(&mut changes, &mut watched).await?;
        Some((model, (changes, watched)))
    })
    .boxed()
}

/// Returns the model that something happened to next; `None` if the runtime itself has ended.
async fn next(changes: &mut Receiver<Change>, watched: &mut Watched) -> Option<ModelId> {
    loop {
        let change = tokio::select! {
            change = changes.recv() => change,
            Some((model, pid)) = watched.ends.next() => {
                watched.pids.remove(&pid);
                return Some(model);
            }
        };
        match change {
            Ok(Change { model, started }) => {
                if let Some((dir, pid)) = started {
                    watched.add(model, dir, pid);
                }
                return Some(model);
            }
            // The next look of the reconciler finds what was missed.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

#[derive(Default)]
struct Watched {
    ends: FuturesUnordered<BoxFuture<'static, (ModelId, i32)>>,
    /// Supervisors that are watched, so that an engine that was both listed and reported is watched once.
    pids: HashSet<i32>,
}

impl Watched {
    fn add(&mut self, model: ModelId, dir: Dir, pid: i32) {
        if self.pids.insert(pid) {
            let end = async move {
                ended(&dir, pid).await;
                (model, pid)
            };
            self.ends.push(end.boxed());
        }
    }
}
