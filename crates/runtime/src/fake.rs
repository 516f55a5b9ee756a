//! A container runtime in memory, for simulations and tests. It does what [`Runtime`] promises, and fails on request.
//!
//! Nothing runs in its containers. A test says how one ends ([`Fake::kill`], [`Script`]) and which call fails
//! ([`Fake::fail_next`]). Ids, ports and the order of everything are the same in each run.

mod archive;
mod world;

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream, stream::BoxStream};
use gantry_domain::{
    Clock, LogWindow, ModelId,
    engine::{EngineAddress, Launch},
    listeners::Listeners,
    model::lifecycle::{Instance, InstanceId, InstanceStatus},
    runtime::Traits,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::broadcast::error::RecvError, task::yield_now};

use self::world::World;
pub use self::world::{Action, Script};
use crate::{
    ContainerSpec, Docker, Found, ImageInfo, ImageProbe, Owner, Progress, Runtime, RuntimeError, RuntimeInfo,
    RuntimeResult,
};

/// Bytes of an archive that come at a time.
const PIECE: usize = 1000;

/// One gateway's view of an imaginary machine. Clones are the same view; [`Fake::seen_by`] is another gateway's.
#[derive(Clone)]
pub struct Fake {
    owner: Owner,
    clock: Clock,
    world: Arc<Mutex<World>>,
}

impl Fake {
    /// A machine with nothing on it.
    pub fn new(owner: Owner, clock: Clock) -> Self {
        Self { owner, clock, world: Arc::default() }
    }

    /// Returns the same machine, as the gateway of another database sees it.
    #[must_use]
    pub fn seen_by(&self, owner: Owner) -> Self {
        Self { owner, ..self.clone() }
    }

    /// Puts an image on the machine.
    pub fn add_image(&self, reference: &str) {
        self.world().add_image(reference);
    }

    /// Puts an image with this description on the machine.
    pub fn set_image(&self, reference: &str, info: ImageInfo) {
        self.world().images.insert(reference.to_owned(), info);
    }

    /// Takes an image away.
    pub fn remove_image(&self, reference: &str) {
        self.world().images.remove(reference);
    }

    /// Sets what a program of this image prints when its last argument is `last` (`None`: it runs for ever).
    pub fn set_probe(&self, reference: &str, last: &str, prints: Option<&str>) {
        let key = (reference.to_owned(), last.to_owned());
        self.world().probes.insert(key, prints.map(str::to_owned));
    }

    /// Sets how containers of this name behave from their next start on.
    pub fn script(&self, name: &str, script: Script) {
        self.world().scripts.insert(name.to_owned(), script);
    }

    /// Makes the next call fail and do nothing.
    pub fn fail_next(&self, action: Action, error: RuntimeError) {
        self.fail_nth(action, 1, error);
    }

    /// Makes the `n`th call from now on (1 is the next) fail and do nothing.
    pub fn fail_nth(&self, action: Action, n: usize, error: RuntimeError) {
        self.world().add_fault(action, n, error, false);
    }

    /// Makes the next call do its work, but return this error: its answer is lost.
    pub fn lose_next(&self, action: Action, error: RuntimeError) {
        self.world().add_fault(action, 1, error, true);
    }

    /// While an error is set, every call fails with it, and event streams end. `None`: the engine is back.
    pub fn set_down(&self, error: Option<RuntimeError>) {
        self.world().set_down(error);
    }

    /// Lets the container end by itself with this code.
    pub fn kill(&self, name: &str, code: i64) {
        self.world().end(name, code);
    }

    /// Restarts the container as if by hand: it runs, on another port.
    pub fn restart(&self, name: &str) {
        self.world().start(name, self.clock.now());
    }

    /// Removes the container as if by hand.
    pub fn vanish(&self, name: &str) {
        self.world().remove(name);
    }

    /// Sets the running container's address from now on.
    pub fn set_address(&self, name: &str, address: Option<EngineAddress>) {
        self.world().set_status(name, InstanceStatus::Running { address });
    }

    /// Sets the container's state from now on.
    pub fn set_status(&self, name: &str, status: InstanceStatus) {
        self.world().set_status(name, status);
    }

    /// Lets the container print a line.
    pub fn print(&self, name: &str, line: &str) {
        self.world().print(name, line);
    }

    /// Lets another program take this container name.
    pub fn occupy(&self, name: &str) {
        self.world().foreign.insert(name.to_owned());
    }

    /// Returns the number of launches that made a container, of all gateways.
    pub fn launches(&self) -> usize {
        self.world().launches
    }

    /// Returns the launches that replaced a running container: its generation and that of the new one. If a runtime
    /// allowed a name more than once, there would have been two engines.
    pub fn replaced_while_running(&self) -> Vec<(i64, i64)> {
        self.world().replaced_while_running.clone()
    }

    /// Removes the faults that are not due yet.
    pub fn clear_faults(&self) {
        self.world().clear_faults();
    }

    /// Returns how often an action was called, failed calls included.
    pub fn calls(&self, action: Action) -> usize {
        self.world().calls.get(&action).copied().unwrap_or(0)
    }

    /// Returns every container on the machine that some gateway made, by name, with its state.
    pub fn containers(&self) -> BTreeMap<String, InstanceStatus> {
        let world = self.world();
        world.containers.iter().map(|(name, it)| (name.clone(), it.found.instance.status.clone())).collect()
    }

    /// Returns the same containers with their ids and generations.
    pub fn instances(&self) -> BTreeMap<String, Instance> {
        let world = self.world();
        world.containers.iter().map(|(name, it)| (name.clone(), it.found.instance.clone())).collect()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Counts the call, applies the fault that is due, and does the work. Dropping the future between its two awaits
    /// simulates a crash before or after the work.
    async fn call<T>(
        &self,
        action: Action,
        work: impl FnOnce(&mut World) -> RuntimeResult<T>,
    ) -> RuntimeResult<T> {
        yield_now().await;
        let done = self.now(action, work);
        yield_now().await;
        done
    }

    fn now<T>(&self, action: Action, work: impl FnOnce(&mut World) -> RuntimeResult<T>) -> RuntimeResult<T> {
        let mut world = self.world();
        match world.enter(action)? {
            None => work(&mut world),
            Some(lost) => {
                // The answer is lost, even if it is an error.
                let _ = work(&mut world);
                Err(lost)
            }
        }
    }
}

impl Runtime for Fake {
    fn traits(&self) -> Traits {
        Traits { name: "fake", ..Docker::TRAITS }
    }

    fn info(&self) -> BoxFuture<'_, RuntimeResult<RuntimeInfo>> {
        async {
            self.call(Action::Info, |_| {
                Ok(RuntimeInfo {
                    name: self.traits().name,
                    version: "1".to_owned(),
                    api_version: Some("1".to_owned()),
                })
            })
            .await
        }
        .boxed()
    }

    fn identity(&self) -> BoxFuture<'_, RuntimeResult<String>> {
        async { Ok("fake".to_owned()) }.boxed()
    }

    fn listeners(&self) -> Option<Listeners> {
        None
    }

    fn list(&self) -> BoxFuture<'_, RuntimeResult<Vec<Found>>> {
        async { self.call(Action::List, |world| Ok(world.owned(&self.owner))).await }.boxed()
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, RuntimeResult<Option<Found>>> {
        async move {
            self.call(Action::Find, |world| {
                let container = world.containers.get(name).filter(|it| it.owner == self.owner);
                Ok(container.map(|it| it.found.clone()))
            })
            .await
        }
        .boxed()
    }

    fn launch<'a>(&'a self, spec: &'a ContainerSpec<'a>) -> BoxFuture<'a, RuntimeResult<InstanceId>> {
        async move {
            self.call(Action::Launch, |world| world.launch(spec, &self.owner, self.clock.now())).await
        }
        .boxed()
    }

    fn refused_variable<'a>(&self, _launch: &'a Launch) -> Option<&'a str> {
        None
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            let stubborn = self.call(Action::Stop, |world| Ok(world.stop(id))).await?;
            if let Some(name) = stubborn {
                tokio::time::sleep(grace).await;
                let mut world = self.world();
                // By now the name may be another container's.
                if world.name_of(id).is_some() {
                    world.end(&name, 137);
                }
            }
            Ok(())
        }
        .boxed()
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            self.call(Action::Remove, |world| {
                if let Some(name) = world.name_of(id) {
                    world.remove(&name);
                }
                Ok(())
            })
            .await
        }
        .boxed()
    }

    fn logs<'a>(&'a self, id: &'a InstanceId, window: LogWindow) -> BoxFuture<'a, RuntimeResult<String>> {
        async move {
            self.call(Action::Logs, |world| {
                Ok(world.tail(id, window.tail).into_iter().map(|line| line + "\n").collect())
            })
            .await
        }
        .boxed()
    }

    fn follow_logs<'a>(
        &'a self,
        id: &'a InstanceId,
        window: LogWindow,
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, String>>> {
        async move {
            self.call(Action::FollowLogs, |world| {
                let past = stream::iter(world.tail(id, window.tail));
                Ok(match world.follow(id) {
                    Some(future) => past.chain(received(future)).boxed(),
                    None => past.boxed(),
                })
            })
            .await
        }
        .boxed()
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, RuntimeResult<Option<ImageInfo>>> {
        async move { self.call(Action::Image, |world| Ok(world.images.get(reference).cloned())).await }
            .boxed()
    }

    fn pull<'a>(
        &'a self,
        reference: &'a str,
        _timeout: Duration,
        progress: Progress,
    ) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            self.call(Action::Pull, |world| {
                world.add_image(reference);
                Ok(())
            })
            .await?;
            progress(500, 1000);
            progress(1000, 1000);
            Ok(())
        }
        .boxed()
    }

    fn save<'a>(
        &'a self,
        references: &'a [String],
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, RuntimeResult<Bytes>>>> {
        async move {
            let archive = self.call(Action::Save, |world| world.save(references)).await?;
            let pieces: Vec<_> = archive.chunks(PIECE).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
            Ok(stream::iter(pieces).boxed())
        }
        .boxed()
    }

    fn load(
        &self,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> BoxFuture<'_, RuntimeResult<Vec<String>>> {
        async move {
            let pieces: Result<Vec<Bytes>, io::Error> = archive.try_collect().await;
            let archive =
                pieces.map_err(|error| RuntimeError::Archive { detail: error.to_string() })?.concat();
            self.call(Action::Load, |world| world.load(&archive)).await
        }
        .boxed()
    }

    fn probe<'a>(
        &'a self,
        probe: &'a ImageProbe<'a>,
        limit: Duration,
    ) -> BoxFuture<'a, RuntimeResult<String>> {
        async move {
            let printed = self.call(Action::Probe, |world| world.probe(probe)).await?;
            if let Some(text) = printed {
                return Ok(text);
            }
            tokio::time::sleep(limit).await;
            Err(RuntimeError::Timeout { action: "ask the image" })
        }
        .boxed()
    }

    fn events(&self) -> BoxFuture<'_, RuntimeResult<BoxStream<'static, ModelId>>> {
        async {
            let events = self.call(Action::Events, |world| Ok(world.events())).await?;
            let owner = self.owner.clone();
            let ours = received(events)
                .filter_map(move |(from, model)| std::future::ready((from == owner).then_some(model)));
            Ok(ours.boxed())
        }
        .boxed()
    }
}

/// Streams what a receiver gets until its sender is gone. Lost messages don't end it.
fn received<T: Clone + Send + 'static>(
    receiver: tokio::sync::broadcast::Receiver<T>,
) -> BoxStream<'static, T> {
    stream::unfold(receiver, async |mut it| {
        loop {
            match it.recv().await {
                Ok(message) => return Some((message, it)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    })
    .boxed()
}
