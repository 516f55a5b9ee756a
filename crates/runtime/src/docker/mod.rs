//! The runtime for a Docker engine (API 1.41 or newer). This is the only module that names `bollard`.
//!
//! bollard writes requests and answers to its log at `debug`, environments included. So the logging setup must keep the
//! target `bollard` at `info`.

mod archive;
mod create;
mod error;
mod found;
mod image;
mod launch;
mod network;
mod probe;
mod pull;
mod streams;

use std::{
    collections::HashMap,
    future::Future,
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bollard::{
    API_DEFAULT_VERSION, Docker as Client,
    errors::Error,
    query_parameters::{
        CreateImageOptionsBuilder, InspectContainerOptions, ListContainersOptionsBuilder,
        RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt, future::BoxFuture, stream, stream::BoxStream};
use gantry_domain::{
    LogWindow, ModelId,
    engine::Launch,
    listeners::Listeners,
    model::lifecycle::InstanceId,
    net::SubnetRange,
    runtime::{DOCKER, Traits},
};
use tokio::{
    sync::{Mutex, RwLock},
    time::{Instant, sleep, timeout},
};

use self::error::{meaning, status};
use crate::{
    ContainerSpec, Found, Gate, ImageInfo, ImageProbe, Open, Owner, Progress, Runtime, RuntimeError,
    RuntimeInfo, RuntimeResult, gate::pass,
};

/// The socket of a local engine.
pub const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Deadline of every call that only asks.
const ASK: Duration = Duration::from_secs(5);
const REMOVE: Duration = Duration::from_secs(30);
/// Time that a stop gets beyond its grace.
const STOP_MARGIN: Duration = Duration::from_secs(10);
const LOGS: Duration = Duration::from_secs(30);
/// bollard's own limit: longer than any deadline here, so that only those count.
const NEVER_S: u64 = 24 * 3600;
const INSPECTS_AT_ONCE: usize = 4;

/// The port on which the engine listens inside its container, in Docker's notation. A test checks that it equals
/// [`gantry_domain::engine::PORT`].
const ENGINE_PORT: &str = "8000/tcp";

/// The labels of our containers.
mod label {
    pub(super) const INSTANCE: &str = "gantry.instance";
    pub(super) const MODEL_ID: &str = "gantry.model_id";
    /// Which of the model's instances it is. Containers that older versions of the gateway made do not have it.
    pub(super) const NUMBER: &str = "gantry.instance_number";
    pub(super) const GENERATION: &str = "gantry.generation";
    pub(super) const SPEC_HASH: &str = "gantry.spec_hash";
    pub(super) const KEY_FINGERPRINT: &str = "gantry.key_fingerprint";
    /// On containers that exist only for a probe.
    pub(super) const PROBE: &str = "gantry.probe";
    /// On images, as the next one.
    pub(super) const SIMULATOR: &str = "gantry.simulator";
    pub(super) const VERSION: &str = "org.opencontainers.image.version";
}

/// A Docker engine, reached through its socket.
#[derive(Debug)]
pub struct Docker {
    host: String,
    owner: Owner,
    gate: Arc<dyn Gate>,
    /// The user that engines run as, if the operator sets one.
    user: Option<String>,
    /// The addresses of the engines' networks; `None` leaves the choice to the engine.
    range: Option<SubnetRange>,
    /// Held while a network is looked for and made, or removed.
    networks: Mutex<()>,
    /// Read by each launch from before it looks for its network until its container is there; networks are removed only
    /// while nobody reads.
    launches: RwLock<()>,
    client: OnceLock<Client>,
}

/// Returns the Docker engine at `host`, written like `DOCKER_HOST` (`unix:///path` or `tcp://host:port`, without TLS);
/// `None` is the socket of a local engine. Connects at the first call, and again after any failure.
pub fn docker(host: Option<&str>, owner: Owner) -> RuntimeResult<Docker> {
    let host = host.unwrap_or(DEFAULT_HOST);
    if !["unix://", "tcp://", "http://"].iter().any(|it| host.starts_with(it)) {
        let detail = "`DOCKER_HOST` must start with `unix://` or `tcp://`".to_owned();
        return Err(RuntimeError::Refused { action: "connect", detail });
    }
    Ok(Docker {
        host: host.to_owned(),
        owner,
        gate: Arc::new(Open),
        user: None,
        range: None,
        networks: Mutex::default(),
        launches: RwLock::default(),
        client: OnceLock::new(),
    })
}

impl Docker {
    pub const TRAITS: Traits = Traits {
        name: DOCKER,
        instance: "container",
        runs_images: true,
        pulls_images: true,
        loads_archives: true,
        exports_images: true,
        shares_host_gpus: false,
        host_paths: false,
    };

    /// Changes containers only while `gate` is open.
    #[must_use]
    pub fn behind(self, gate: Arc<dyn Gate>) -> Self {
        Self { gate, ..self }
    }

    /// Runs engines as this user, `uid:gid`; `None` is the gateway's.
    #[must_use]
    pub fn with_user(self, user: Option<String>) -> Self {
        Self { user, ..self }
    }

    /// Takes the addresses of the engines' networks from this range.
    #[must_use]
    pub fn with_networks_of(self, range: SubnetRange) -> Self {
        Self { range: Some(range), ..self }
    }

    /// Returns the engine's own id, which is stored with its containers. Podman makes up a new one for each answer; for
    /// it, the folder of its containers is used instead.
    async fn engine_id(&self) -> RuntimeResult<String> {
        let ask = async || self.within("ask for its id", ASK, self.client().await?.info()).await;
        let (one, two) = (ask().await?, ask().await?);
        Ok(match one.id.filter(|id| !id.is_empty() && two.id.as_ref() == Some(id)) {
            Some(id) => format!("docker {id}"),
            None => format!("docker {} {}", text(one.name), text(one.docker_root_dir)),
        })
    }

    /// Returns the client. Its API version is negotiated by the first call that gets through.
    ///
    /// Calls before that each negotiate for themselves. If they waited for one of them, a caller that is no longer
    /// polled, such as a probe whose time is over, would hold up all others.
    async fn client(&self) -> RuntimeResult<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = if self.host.starts_with("unix://") {
            Client::connect_with_unix(&self.host, NEVER_S, API_DEFAULT_VERSION)
        } else {
            Client::connect_with_http(&self.host, NEVER_S, API_DEFAULT_VERSION)
        };
        let client = client.map_err(|error| self.meaning("connect", &error))?;
        let client = self.within("connect", ASK, client.negotiate_version()).await?;
        Ok(self.client.get_or_init(|| client))
    }

    fn meaning(&self, action: &'static str, error: &Error) -> RuntimeError {
        meaning(action, &self.host, error)
    }

    /// Does a call with its deadline, and translates its error.
    async fn within<T>(
        &self,
        action: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> RuntimeResult<T> {
        self.raw(action, limit, call).await?.map_err(|error| self.meaning(action, &error))
    }

    /// Does a call with its deadline. The caller judges the engine's answer.
    async fn raw<T>(
        &self,
        action: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> RuntimeResult<Result<T, Error>> {
        timeout(limit, call).await.map_err(|_| RuntimeError::Timeout { action })
    }

    /// Returns what is behind a name or id, ours or not.
    async fn look(&self, name: &str) -> RuntimeResult<Option<Seen>> {
        let call = self.client().await?.inspect_container(name, None::<InspectContainerOptions>);
        let answer = match self.raw("inspect", ASK, call).await? {
            Ok(answer) => answer,
            Err(error) if status(&error) == Some(404) => return Ok(None),
            Err(error) => return Err(self.meaning("inspect", &error)),
        };
        Ok(Some(found::found(answer, &self.owner).map_or(Seen::Foreign, Seen::Ours)))
    }

    async fn list_ours(&self) -> RuntimeResult<Vec<Found>> {
        let options = ListContainersOptionsBuilder::default().all(true).filters(&self.ours()).build();
        let call = self.client().await?.list_containers(Some(options));
        let summaries = self.within("list", ASK, call).await?;
        // Running containers are the common case, and the list has all that is needed of them. The others are inspected
        // one by one.
        let looks = summaries.into_iter().map(async |it| match found::running(&it, &self.owner) {
            Some(found) => Ok(Some(found)),
            None => match it.id {
                Some(id) => Ok(self.look(&id).await?.and_then(Seen::ours)),
                None => Ok(None),
            },
        });
        let mut found: Vec<Found> = stream::iter(looks)
            .buffer_unordered(INSPECTS_AT_ONCE)
            .try_filter_map(async |found| Ok(found))
            .try_collect()
            .await?;
        found.sort_by_key(|it| (it.model_id, it.number, it.instance.generation));
        Ok(found)
    }

    /// Returns the filter for containers that carry our label.
    fn ours(&self) -> HashMap<String, Vec<String>> {
        HashMap::from([("label".to_owned(), vec![format!("{}={}", label::INSTANCE, self.owner.instance)])])
    }

    async fn stop_container(&self, id: &str, grace: Duration) -> RuntimeResult<()> {
        pass(&*self.gate).await?;
        let seconds = i32::try_from(grace.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        let call = self.client().await?.stop_container(id, Some(options));
        match self.raw("stop the container", grace.saturating_add(STOP_MARGIN), call).await? {
            Err(error) if status(&error) != Some(404) => Err(self.meaning("stop the container", &error)),
            // bollard also returns success if it is stopped already.
            _ => Ok(()),
        }
    }

    async fn remove_container(&self, id: &str) -> RuntimeResult<()> {
        pass(&*self.gate).await?;
        let action = "remove the container";
        let deadline = Instant::now() + REMOVE;
        // Anonymous volumes of the image are removed with it.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let call = self.client().await?.remove_container(id, Some(options));
        match self.raw(action, REMOVE, call).await? {
            Ok(()) => Ok(()),
            Err(error) => match status(&error) {
                Some(404) => Ok(()),
                // Another caller is removing it just now; its name is free only when that is done.
                Some(409) => self.await_gone(id, deadline).await,
                _ => Err(self.meaning(action, &error)),
            },
        }
    }

    async fn await_gone(&self, id: &str, deadline: Instant) -> RuntimeResult<()> {
        while self.look(id).await?.is_some() {
            if Instant::now() >= deadline {
                return Err(RuntimeError::Timeout { action: "remove the container" });
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn pull_image(&self, reference: &str, progress: &Progress) -> RuntimeResult<()> {
        if !pull::is_reference(reference) {
            let detail = "that is no image reference".to_owned();
            return Err(RuntimeError::Refused { action: "pull the image", detail });
        }
        let options = CreateImageOptionsBuilder::default().from_image(&pull::with_tag(reference)).build();
        let mut messages = self.client().await?.create_image(Some(options), None, None);
        let mut layers = pull::Layers::default();
        while let Some(message) = messages.next().await {
            let message = message.map_err(|error| self.meaning("pull the image", &error))?;
            if let Some((done, known)) = layers.update(&message) {
                progress(done, known);
            }
        }
        Ok(())
    }
}

fn text(value: Option<String>) -> String {
    value.unwrap_or_default()
}

/// Whether a container is ours.
enum Seen {
    Ours(Found),
    Foreign,
}

impl Seen {
    fn ours(self) -> Option<Found> {
        match self {
            Self::Ours(found) => Some(found),
            Self::Foreign => None,
        }
    }
}

impl Runtime for Docker {
    fn traits(&self) -> Traits {
        Self::TRAITS
    }

    fn info(&self) -> BoxFuture<'_, RuntimeResult<RuntimeInfo>> {
        async {
            let answer = self.within("ask the version", ASK, self.client().await?.version()).await?;
            Ok(RuntimeInfo {
                name: Self::TRAITS.name,
                version: answer.version.unwrap_or_default(),
                api_version: answer.api_version,
            })
        }
        .boxed()
    }

    fn identity(&self) -> BoxFuture<'_, RuntimeResult<String>> {
        self.engine_id().boxed()
    }

    /// Docker's own proxy listens on a published port. It belongs to root, or to the user whose engine it is. If the
    /// kernel alone leads to the container, no process listens.
    fn listeners(&self) -> Option<Listeners> {
        // Inside a user namespace, all users that it does not map have one id.
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        if !map.split_whitespace().eq(["0", "0", "4294967295"]) {
            return None;
        }
        let engines = self.host.strip_prefix("unix://").and_then(|it| std::fs::metadata(it).ok());
        let mut users = vec![0, rustix::process::geteuid().as_raw()];
        users.extend(engines.map(|it| it.uid()));
        Some(Listeners { users, none: true })
    }

    fn list(&self) -> BoxFuture<'_, RuntimeResult<Vec<Found>>> {
        self.list_ours().boxed()
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, RuntimeResult<Option<Found>>> {
        // Docker accepts a prefix of an id as a name too.
        async move { Ok(self.look(name).await?.and_then(Seen::ours).filter(|it| it.name == name)) }.boxed()
    }

    fn launch<'a>(&'a self, spec: &'a ContainerSpec<'a>) -> BoxFuture<'a, RuntimeResult<InstanceId>> {
        self.launch_container(spec).boxed()
    }

    /// A variable affects the container alone.
    fn refused_variable<'a>(&self, _launch: &'a Launch) -> Option<&'a str> {
        None
    }

    fn stop<'a>(&'a self, id: &'a InstanceId, grace: Duration) -> BoxFuture<'a, RuntimeResult<()>> {
        self.stop_container(&id.0, grace).boxed()
    }

    fn remove<'a>(&'a self, id: &'a InstanceId) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            self.remove_container(&id.0).await?;
            self.remove_idle_networks().await;
            Ok(())
        }
        .boxed()
    }

    fn logs<'a>(&'a self, id: &'a InstanceId, window: LogWindow) -> BoxFuture<'a, RuntimeResult<String>> {
        self.read_logs(&id.0, window).boxed()
    }

    fn follow_logs<'a>(
        &'a self,
        id: &'a InstanceId,
        window: LogWindow,
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, String>>> {
        self.log_stream(&id.0, window).boxed()
    }

    fn image<'a>(&'a self, reference: &'a str) -> BoxFuture<'a, RuntimeResult<Option<ImageInfo>>> {
        self.inspect_image(reference).boxed()
    }

    fn pull<'a>(
        &'a self,
        reference: &'a str,
        limit: Duration,
        progress: Progress,
    ) -> BoxFuture<'a, RuntimeResult<()>> {
        async move {
            let pulled = timeout(limit, self.pull_image(reference, &progress)).await;
            pulled.unwrap_or(Err(RuntimeError::Timeout { action: "pull the image" }))
        }
        .boxed()
    }

    fn save<'a>(
        &'a self,
        references: &'a [String],
    ) -> BoxFuture<'a, RuntimeResult<BoxStream<'static, RuntimeResult<Bytes>>>> {
        self.save_images(references).boxed()
    }

    fn storage(&self) -> BoxFuture<'_, RuntimeResult<Option<PathBuf>>> {
        self.root_dir().boxed()
    }

    fn load(
        &self,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> BoxFuture<'_, RuntimeResult<Vec<String>>> {
        self.load_images(archive).boxed()
    }

    fn probe<'a>(
        &'a self,
        probe: &'a ImageProbe<'a>,
        limit: Duration,
    ) -> BoxFuture<'a, RuntimeResult<String>> {
        self.probe_image(probe, limit).boxed()
    }

    fn events(&self) -> BoxFuture<'_, RuntimeResult<BoxStream<'static, ModelId>>> {
        self.event_stream().boxed()
    }
}
