//! Connects layers that do not know each other: gives the admin API its view of engines on top of the control plane,
//! and puts the admin API behind the data plane's listener.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use axum::{
    Router,
    body::{Body, HttpBody},
};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture, stream};
use gantry_admin_api::ports::{
    self, Allowances, Checks, DataPlane, EngineLog, Engines, Hub, HubFile, HubRepository, Image, Images,
    LimitHolder, Live, LiveRoute, LoadedImages, LogStream, Preview, PreviousLog, Spent, TestReport, TestType,
};
use gantry_control::{Control, hub, jobs::image_load, runtime_status::Drift};
use gantry_dataplane::{
    Other,
    limits::{Moment, Subject},
};
use gantry_domain::{
    ApiError, ErrorCode, LogWindow, ModelId, Timestamp,
    engine_metrics::EngineMetrics,
    host::RouteHealth,
    limit::{Limits, Standing, period::Period},
    model::{EngineKind, Model, Wanted, lifecycle::InstanceStatus},
};
use gantry_runtime::RuntimeError;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use secrecy::{ExposeSecret, SecretString};
use tokio::{runtime::Handle, sync::mpsc};
use tower::ServiceExt;

use crate::runtime_health::RuntimeHealth;

/// What the control plane and the data plane tell the admin API; see [`gantry_admin_api::ports`].
pub(crate) struct Adapter {
    pub(crate) control: Arc<Control>,
    pub(crate) spool: Arc<SpoolCheck>,
    pub(crate) runtime: RuntimeHealth,
}

/// Checks whether usage can be recorded. After a failed write, usage counts as unrecordable until a write works again.
/// This check makes a test write, because a gateway that gets no more requests makes no other writes.
pub(crate) struct SpoolCheck {
    dir: PathBuf,
    /// The spool's error count when a test write last worked: these errors are over.
    over: AtomicU64,
}

const UNRECORDED: &str = "usage can't be recorded";
const NO_SPACE: &str = "usage can't be recorded: no space is left on the disk of DATA_DIR";

impl SpoolCheck {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, over: AtomicU64::new(0) }
    }

    /// Returns whether usage can be recorded, or why not. `errors` is the number of write errors so far. Blocks if it has
    /// to make a test write.
    fn ok(&self, errors: u64) -> Result<(), &'static str> {
        if self.over.load(Relaxed) == errors {
            return Ok(());
        }
        self.try_write().map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => NO_SPACE,
            _ => UNRECORDED,
        })?;
        self.over.store(errors, Relaxed);
        Ok(())
    }

    /// Writes one block of a file system or more, because a usage record needs a block too.
    fn try_write(&self) -> io::Result<()> {
        let path = self.dir.join("write-check");
        let write = |mut file: File| {
            file.write_all(&[0; 4096])?;
            file.sync_data()
        };
        let result = File::create(&path).and_then(write);
        // Ignored: another check may have removed the file already.
        let _ = fs::remove_file(&path);
        result
    }
}

impl Allowances for Adapter {
    fn defaults(&self) -> Limits {
        self.control.config.limits.for_keys()
    }

    fn spent(&self, holder: LimitHolder) -> Option<Spent> {
        let catalog = self.control.shared.catalog.load();
        let account = catalog.accounts.get(&of(holder))?;
        let spent = |period| account.state.spendings.spent(period, self.control.clock.now());
        Some(Spent { day: spent(Period::Day), month: spent(Period::Month) })
    }

    fn standing(&self, holder: LimitHolder) -> Standing {
        let shared = &self.control.shared;
        let now = Moment::new(Instant::now(), self.control.clock.now());
        let catalog = shared.catalog.load();
        catalog
            .accounts
            .get(&of(holder))
            .map_or_else(Standing::default, |it| it.standing(&shared.limiter, now))
    }
}

fn of(holder: LimitHolder) -> Subject {
    match holder {
        LimitHolder::Key(id) => Subject::Key(id),
        LimitHolder::User(id) => Subject::User(id),
        LimitHolder::Org(id) => Subject::Org(id),
    }
}

impl Engines for Adapter {
    fn logs(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<EngineLog, ApiError>> {
        let (control, model) = (Arc::clone(&self.control), model.clone());
        async move {
            Ok(match control.logs(&model, window).await? {
                None => EngineLog::default(),
                Some((text, instance)) => {
                    let (exit_code, out_of_memory) = match instance.status {
                        InstanceStatus::Exited { code, out_of_memory } => (Some(code), out_of_memory),
                        _ => (None, false),
                    };
                    // The log is of an earlier start if the generations differ. A stop counts as a command too, but
                    // makes no new engine.
                    let earlier = model.wanted == Wanted::Running && instance.generation != model.generation;
                    EngineLog { text, exit_code, out_of_memory, earlier, watch: control.watch_of(&model) }
                }
            })
        }
        .boxed()
    }

    fn previous_log(&self, model: ModelId) -> BoxFuture<'static, Result<Option<PreviousLog>, ApiError>> {
        let control = Arc::clone(&self.control);
        async move {
            let found = control.previous_log(model).await?;
            Ok(found.map(|it| PreviousLog { text: it.text, until: it.until }))
        }
        .boxed()
    }

    fn follow(&self, model: &Model, window: LogWindow) -> BoxFuture<'static, Result<LogStream, ApiError>> {
        let (control, model) = (Arc::clone(&self.control), model.clone());
        async move { control.follow(&model, window).await }.boxed()
    }

    fn test(&self, model: &Model) -> BoxFuture<'static, TestReport> {
        let (control, model) = (Arc::clone(&self.control), model.clone());
        async move {
            let timestamp = control.clock.now().rfc3339();
            let tested = control.test(&model).await;
            let test_type = match tested.path {
                "/v1/chat/completions" => TestType::Chat,
                "/v1/completions" => TestType::Completion,
                "/v1/rerank" => TestType::Rerank,
                _ => TestType::Embedding,
            };
            TestReport {
                success: tested.error.is_none(),
                test_type,
                request: tested.request,
                response: tested.response,
                error: tested.error,
                latency_ms: u64::try_from(tested.latency.as_millis()).unwrap_or(u64::MAX),
                timestamp,
            }
        }
        .boxed()
    }

    fn metrics(&self, model: &Model) -> BoxFuture<'static, Result<EngineMetrics, String>> {
        let (control, model) = (Arc::clone(&self.control), model.clone());
        async move { control.metrics(&model).await }.boxed()
    }

    fn preview(&self, model: &Model) -> BoxFuture<'static, Preview> {
        let (control, model) = (Arc::clone(&self.control), model.clone());
        async move {
            let preview = control.preview(&model).await;
            let launch = preview.launch;
            let env = |(name, value): (String, SecretString)| (name, value.expose_secret().to_owned());
            Preview {
                image: launch.image,
                image_cached: preview.image_cached,
                image_refused: preview.image_refused,
                simulator: preview.simulator,
                version: preview.version,
                version_pending: preview.version_pending,
                command: launch.entrypoint.unwrap_or_default().into_iter().chain(launch.args).collect(),
                env: launch.env.into_iter().map(env).collect(),
                unsupported: launch.warnings,
                is_process: preview.is_process,
                refused_variable: preview.refused_variable,
                known_gpus: control.machine.refresh().await.gpus.len(),
                gpus: launch.gpus,
            }
        }
        .boxed()
    }

    fn is_simulated(&self, model: &Model) -> bool {
        self.control.config.is_simulated(model)
    }

    fn live(&self, model: ModelId) -> Live {
        let seen = self.control.runtime_status.of(model);
        Live {
            drift: seen.drift.map(|it| match it {
                Drift::Launch => ports::Drift::Launch,
                Drift::InternalKey => ports::Drift::InternalKey,
            }),
            pull: seen.pull.map(|it| (it.done, it.known)),
        }
    }
}

impl Images for Adapter {
    fn image_of(&self, engine: EngineKind, wished: Option<&str>) -> String {
        self.control.config.image_of(engine, wished).to_owned()
    }

    fn image(&self, reference: &str) -> BoxFuture<'static, Result<Option<Image>, ApiError>> {
        let (runtime, reference) = (Arc::clone(&self.control.runtime), reference.to_owned());
        async move {
            let info = runtime.image(&reference).await.map_err(|it| unavailable(&it))?;
            Ok(info.map(|it| Image {
                size_bytes: it.size_bytes,
                created: it.created,
                simulator: it.simulator,
            }))
        }
        .boxed()
    }

    fn load_images(
        &self,
        archive: PathBuf,
        path: String,
        did: LoadedImages,
    ) -> BoxFuture<'static, Result<Vec<String>, ApiError>> {
        let control = Arc::clone(&self.control);
        async move { image_load::load_images(&control, archive, &path, did).await }.boxed()
    }
}

impl Hub for Adapter {
    fn repository(
        &self,
        repo_id: &str,
        token: Option<SecretString>,
    ) -> BoxFuture<'static, Result<HubRepository, ApiError>> {
        let (control, repo_id) = (Arc::clone(&self.control), repo_id.to_owned());
        async move {
            let found = control.hub.repository(&repo_id, token.as_ref()).await?;
            let file = |it: hub::File| HubFile { path: it.path, size_bytes: it.size };
            let files = found.files.map(|it| it.into_iter().map(file).collect());
            Ok(HubRepository { config: found.config, files })
        }
        .boxed()
    }
}

impl DataPlane for Adapter {
    fn session_known(&self, id_hash: &[u8; 32]) -> bool {
        let now = self.control.clock.now();
        self.control.shared.catalog.load().sessions.get(id_hash).is_some_and(|it| it.is_current(now))
    }

    fn route_health(&self, served_name: &str) -> Option<RouteHealth> {
        self.control.route_health(served_name)
    }

    fn live_routes(&self) -> Vec<LiveRoute> {
        let catalog = self.control.shared.catalog.load();
        let mut routes: Vec<_> = catalog
            .routes
            .values()
            .filter_map(|route| {
                let upstream = route.target.upstreams().first()?;
                let reported = || self.control.reported_context(&route.served_name);
                Some(LiveRoute {
                    served_name: route.served_name.clone(),
                    url: upstream.url().to_owned(),
                    task: route.task,
                    engine: route.engine,
                    max_model_len: route.max_model_len.or_else(reported),
                })
            })
            .collect();
        routes.sort_by(|a, b| a.served_name.cmp(&b.served_name));
        routes
    }
}

impl Checks for Adapter {
    fn runtime_ok(&self) -> BoxFuture<'static, Result<(), &'static str>> {
        self.runtime.ok()
    }

    fn supervision_ok(&self) -> Result<(), String> {
        self.control.supervision.check()
    }

    fn catalog_ok(&self) -> Result<(), String> {
        self.control.publisher.check()
    }

    fn drill_ok(&self) -> Option<Result<(), String>> {
        let drills = &self.control.drills;
        drills.are_on().then(|| drills.check(self.control.clock.now()))
    }

    fn last_proven(&self) -> Option<Timestamp> {
        self.control.drills.last().and_then(|it| it.proven_at)
    }

    fn spool_ok(&self) -> BoxFuture<'static, Result<(), &'static str>> {
        let counters = &self.control.shared.counters;
        if counters.spool_away.load(Relaxed) > 0 {
            return std::future::ready(Err(UNRECORDED)).boxed();
        }
        let errors = counters.spool_errors.load(Relaxed);
        let spool = Arc::clone(&self.spool);
        async move { tokio::task::spawn_blocking(move || spool.ok(errors)).await.unwrap_or(Err(UNRECORDED)) }
            .boxed()
    }
}

fn unavailable(error: &RuntimeError) -> ApiError {
    ApiError::new(ErrorCode::RuntimeUnavailable, error.to_string())
}

/// Most parts of a streamed answer that may wait for the client.
const PARTS_AHEAD: usize = 2;

/// Returns the admin API for the data plane's listener. Its handlers and the bodies of its answers run on `control`,
/// so that they can't block a data-plane thread.
pub(crate) fn other(router: Router, control: Handle) -> Other {
    Arc::new(move |request, peer| {
        let router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(gantry_admin_api::Peer(peer.addr));
        if request.extensions().get::<gantry_dataplane::Leaving>().is_some() {
            request.extensions_mut().insert(gantry_admin_api::Leaving);
        }
        let id = request.headers().get("x-request-id").and_then(|it| it.to_str().ok()).map(str::to_owned);
        let work = control.spawn(router.oneshot(request));
        let control = control.clone();
        async move {
            let response = match work.await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => failed(&id.unwrap_or_default()),
            };
            let mut response = response;
            if response.extensions().get::<gantry_admin_api::HasEnd>().is_some() {
                response.extensions_mut().insert(gantry_dataplane::HasEnd);
            }
            response.map(|body| {
                // A body of known size is in memory already.
                if body.size_hint().exact().is_some() {
                    return body.map_err(Into::into).boxed_unsync();
                }
                pumped(&control, body).map_err(Into::into).boxed_unsync()
            })
        }
        .boxed()
    })
}

/// Produces the body on `control`, a few parts ahead of the client, and stops when the client goes away.
fn pumped(control: &Handle, mut body: Body) -> impl HttpBody<Data = Bytes, Error = axum::Error> + use<> {
    let (send, receive) = mpsc::channel(PARTS_AHEAD);
    control.spawn(async move {
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = send.closed() => return,
            };
            let Some(frame) = frame else { return };
            if send.send(frame).await.is_err() {
                return;
            }
        }
    });
    StreamBody::new(stream::unfold(receive, async |mut receive| Some((receive.recv().await?, receive))))
}

/// Answers a request whose task was cancelled because the process is stopping.
fn failed(request_id: &str) -> Response<Body> {
    let error = ApiError::new(ErrorCode::ShuttingDown, "the gateway is shutting down");
    let mut response = Response::new(Body::from(error.body(request_id).to_string()));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}
