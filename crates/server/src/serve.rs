//! `gantry serve`: builds everything in dependency order, runs it, and shuts it down again.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use gantry_admin_api::{App, events, tokens::keep::keep};
use gantry_control::{
    Control, budgets,
    deployment::drill,
    jobs,
    machine::Machine,
    publish, sample, ship,
    supervise::{self, Supervision},
    upkeep, upstreams, versions,
};
use gantry_dataplane::{Catalog, DataPlane, Shared, access::AccessLog, spool::Reader};
use gantry_domain::{ModelId, deployment::Drill, job::Job};
use gantry_settings::{Entry, LogFormat, Settings};
use gantry_store::{DatabaseKind, Store};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sd_notify::NotifyState;
use secrecy::{ExposeSecret, SecretString};
use tokio::{
    runtime::Handle,
    sync::{broadcast, mpsc},
};
use tracing::{error, info, warn};

use crate::{
    account,
    activation::Sockets,
    adapters, demo, door, engine_runtime, instance_id, metrics, notify, otlp,
    outlet::{self, Outlet},
    secrets,
    shutdown::{End, Signals},
    storage::Storage,
    supervisor::Supervisor,
    telemetry, ui,
    wiring::{self, SPOOL},
};

/// Longest wait for the database connections to close at shutdown. Without a limit, a database that hangs would block
/// the exit for ever, because a connection closes only when its statement ends.
const CLOSE: Duration = Duration::from_secs(5);

/// Runs the gateway until it is stopped. `entries` say where each setting comes from.
pub(crate) fn run(
    mut settings: Settings,
    entries: &[Entry],
    demo: Option<demo::Demo>,
) -> anyhow::Result<ExitCode> {
    account::stays_root(&settings)?;
    // Done while the process has one thread; the log has another one.
    let sockets = Sockets::take()?;
    sockets.apply(&mut settings)?;
    let log = telemetry::init(&settings)?;
    let code = match serve(settings, entries, demo, sockets, &log) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            log.put(telemetry::complaint(&error).as_bytes());
            ExitCode::FAILURE
        }
    };
    log.finish();
    Ok(code)
}

/// Returns whether all was as it should be.
fn serve(
    settings: Settings,
    entries: &[Entry],
    demo: Option<demo::Demo>,
    sockets: Sockets,
    log: &Arc<Outlet>,
) -> anyhow::Result<bool> {
    // The process's memory and environment hold secrets, so core dumps are off and other programs of this user, such
    // as engines, can't read its memory. Child processes are not affected.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "other programs of this user can read the memory of the gateway");
    }
    let (access, writer) = telemetry::access(&settings, log)?.unzip();
    // The data plane has its own threads; this runtime is for SQL, containers and the admin API.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .enable_all()
        .build()
        .context("can't start the control runtime")?;
    let clean = runtime.block_on(async {
        let gateway = Gateway::start(settings, entries, sockets, access).await?;
        gateway.run(demo).await
    })?;
    // Blocking work that hangs must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(1));
    if let Some(writer) = writer {
        writer.finish();
    }
    Ok(clean)
}

/// A gateway that serves requests, and all that has to be ended with it.
struct Gateway {
    settings: Settings,
    storage: Storage,
    control: Arc<Control>,
    plane: DataPlane,
    app: App,
    setup_token: SecretString,
    supervisor: Supervisor,
    /// Tasks that outlive the last request.
    shipping: Supervisor,
}

impl Gateway {
    async fn start(
        mut settings: Settings,
        entries: &[Entry],
        sockets: Sockets,
        access: Option<AccessLog>,
    ) -> anyhow::Result<Self> {
        let machine = Machine::new(settings.engines.gpu_inventory_file.as_deref());
        let machine = Arc::new(machine.context("GPU_INVENTORY_FILE can't be used")?);
        let traced = otlp::Counts::default();
        let (spans, exporter) = otlp::open(&settings, &traced)?.unzip();
        let storage = Storage::open(&settings, entries).await?;
        // The bootstrap password is no longer needed.
        settings.sign_in.admin_bootstrap_password = None;
        let (limiter, share) = wiring::limiter(&settings, &storage)?;
        let shared = Arc::new(Shared::new(Catalog::default(), storage.clock.clone()).with_limiter(limiter));
        let supervision = Arc::new(supervision(&storage));
        let gate = Arc::clone(&supervision) as _;
        let engines = engine_runtime::choose(&settings, &storage, gate, &machine).await?;
        let traits = engines.runtime.traits();
        let (versions, questions) = versions::Versions::new();
        let control = wiring::control(&settings, &storage, &shared, machine, engines, versions, supervision)?;
        let control = published(control).await?;

        let (wake, hints) = mpsc::channel(1024);
        let (refresh, requests) = mpsc::channel(1024);
        let setup_token = secrets::random();
        let app = wiring::app(&settings, &storage, &control, traits, wake, refresh, &setup_token);
        let spool_dir = storage.data_dir.join(SPOOL);
        secrets::private_dir(&spool_dir)?;
        let reader = ship::open(spool_dir.clone()).await.context("can't open the usage spool")?;
        let access_dropped = access.as_ref().map(|it| Arc::clone(&it.dropped)).unwrap_or_default();
        let config = wiring::plane_config(&settings, &storage, spool_dir)?;
        let config = gantry_dataplane::Config { listeners: sockets.gateway, access, spans, ..config };
        let router = gantry_admin_api::router(app.clone(), ui::assets());
        let other = adapters::other(router, Handle::current());
        let plane = DataPlane::start(config, Arc::clone(&shared), other)
            .with_context(|| format!("can't listen on {}", settings.listening.gateway_listen))?;
        let metrics = metrics::listener(sockets.metrics, settings.listening.metrics_listen).await?;

        let supervisor = Supervisor::default();
        work(&supervisor, &control, hints, requests, questions);
        follow(&supervisor, &app, &control);
        if let Some(share) = share {
            supervisor.spawn("limits", |stop| share.run(Arc::clone(&shared), stop));
        }
        let source = metrics::Source {
            control: Arc::clone(&control),
            access_dropped,
            spans: traced,
            started: storage.clock.now().0 as f64 / 1000.0,
            web: wiring::web(&settings),
        };
        info!(addr = %metrics.local_addr().context("METRICS_LISTEN")?, "metrics");
        supervisor.spawn("metrics", |stop| metrics::serve(metrics, source, stop));
        observe(&supervisor, &control);
        let shipping = deliveries(&control, reader, exporter);
        let door = door::open(door::Told::new(entries, plane.addr(), &storage.data_dir, traits.name));
        supervisor.spawn("door", |stop| door::serve(door, stop));
        Ok(Self { settings, storage, control, plane, app, setup_token, supervisor, shipping })
    }

    /// Serves until a signal comes or a task fails, and ends in order. Returns whether all was as it should be.
    async fn run(self, demo: Option<demo::Demo>) -> anyhow::Result<bool> {
        let Self { settings, storage, control, plane, app, setup_token, supervisor, shipping } = self;
        // From here on a signal starts an orderly shutdown. Before this point it kills the process, which does no harm.
        let mut signals = Signals::listen()?;
        announce(&settings, &storage.store, &plane, &setup_token).await?;
        notify::send(&NotifyState::Ready);
        let answers = app.answers.clone();
        if let Some(demo) = demo {
            let (addr, docker_host) = (plane.addr(), settings.engines.container_host.clone());
            supervisor.spawn("demo", move |stop| demo::run(app, demo, addr, docker_host, stop));
        }
        let told = until_the_end(&mut signals, &supervisor, &shipping).await;
        notify::send(&NotifyState::Stopping);
        let end =
            End { settings: &settings, plane: &plane, control: &control, supervisor, shipping, answers };
        let clean = end.run(&mut signals).await;
        control.supervision.give_back().await;
        close(&storage.store).await;
        Ok(clean && told)
    }
}

/// Starts the tasks that maintain the admin API's state: the feed of events, and when tokens were used last.
fn follow(supervisor: &Supervisor, app: &App, control: &Control) {
    let (watched, used, answers) = (app.clone(), app.clone(), app.answers.clone());
    let progress = show_jobs(app.clone(), control.jobs.updates());
    let drills = show_drills(app.clone(), control.drills.updates());
    supervisor.spawn("drill events", |stop| async move {
        stop.run_until_cancelled(drills).await;
    });
    // The data plane has cut what still ran by then. What came of it is stored.
    supervisor.spawn("answers", |stop| async move {
        stop.cancelled().await;
        answers.settled().await;
    });
    supervisor.spawn("job events", |stop| async move {
        stop.run_until_cancelled(progress).await;
    });
    supervisor.spawn("events", |stop| events::watch(watched, async move { stop.cancelled().await }));
    supervisor.spawn("tokens", |stop| keep(used, async move { stop.cancelled().await }));
}

/// Shows the progress of jobs in the feed of events.
async fn show_jobs(app: App, mut updates: broadcast::Receiver<Job>) {
    loop {
        match updates.recv().await {
            Ok(job) => app.signals.feed.job(&job),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Shows restore drills in the feed of events.
async fn show_drills(app: App, mut updates: broadcast::Receiver<Drill>) {
    loop {
        match updates.recv().await {
            Ok(drill) => app.signals.feed.drill(&drill),
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Waits until the gateway has to stop. Returns `true` after a signal. Returns `false` if a task ended by itself: that
/// is a fault, after which the service manager should restart the gateway.
async fn until_the_end(signals: &mut Signals, work: &Supervisor, shipping: &Supervisor) -> bool {
    tokio::select! {
        () = signals.next() => return true,
        () = work.stopped() => {}
        () = shipping.stopped() => {}
    }
    error!("a background task ended; the gateway stops");
    false
}

async fn close(store: &Store) {
    if tokio::time::timeout(CLOSE, store.close()).await.is_err() {
        warn!("the database does not answer: its connections are left to it");
    }
}

/// Returns how this gateway supervises models: alone on SQLite, whose database belongs to one gateway, or among others
/// on Postgres.
fn supervision(storage: &Storage) -> Supervision {
    match storage.store.kind() {
        DatabaseKind::Sqlite => Supervision::alone(),
        DatabaseKind::Postgres => {
            Supervision::among_others(storage.home.clone(), instance_id::readable_name(&storage.data_dir))
        }
    }
}

/// Starts the tasks that carry out commands and changes.
fn work(
    supervisor: &Supervisor,
    control: &Arc<Control>,
    hints: mpsc::Receiver<ModelId>,
    requests: publish::Requests,
    questions: versions::Requests,
) {
    let [publisher, reconciler, keeper, asking, treasurer] = std::array::from_fn(|_| Arc::clone(control));
    supervisor.spawn("versions", |stop| versions::run(asking, questions, stop));
    supervisor.spawn("publisher", |stop| publish::run(publisher, requests, stop));
    supervisor.spawn("reconciler", |stop| supervise::run(reconciler, hints, stop));
    supervisor.spawn("jobs", |stop| jobs::run(Arc::clone(&control.jobs), stop));
    supervisor.spawn("upkeep", |stop| upkeep::run(keeper, stop));
    supervisor.spawn("budgets", |stop| budgets::run(treasurer, stop));
    supervisor.spawn("drills", |stop| drill::run(Arc::clone(control), stop));
}

/// Starts the tasks that only observe.
fn observe(supervisor: &Supervisor, control: &Arc<Control>) {
    let (sampler, prober) = (Arc::clone(control), Arc::clone(control));
    supervisor.spawn("samples", |stop| sample::run(sampler, stop));
    supervisor.spawn("upstreams", |stop| upstreams::run(prober, stop));
    supervisor.spawn("watchdog", notify::feed_watchdog);
}

/// Starts the tasks that deliver usage records and spans of requests. They must outlive the last request, so they stop
/// after the other tasks.
fn deliveries(control: &Arc<Control>, reader: Reader, exporter: Option<otlp::Exporter>) -> Supervisor {
    let shipping = Supervisor::default();
    let shipper = Arc::clone(control);
    shipping.spawn("usage", |stop| ship::run(shipper, reader, stop));
    if let Some(exporter) = exporter {
        shipping.spawn("spans", |stop| exporter.run(stop));
    }
    shipping
}

/// Publishes the first catalog, with what was spent of budgets.
async fn published(control: Control) -> anyhow::Result<Arc<Control>> {
    let control = Arc::new(control);
    control.publisher.publish(&control).await.context("can't read the database")?;
    budgets::correct(&control).await.context("can't read what was spent of budgets")?;
    Ok(control)
}

/// Prints for the operator where to go next.
async fn announce(
    settings: &Settings,
    store: &Store,
    plane: &DataPlane,
    setup_token: &SecretString,
) -> anyhow::Result<()> {
    let addr = plane.addr();
    info!(%addr, version = env!("CARGO_PKG_VERSION"), database = store.kind().as_str(), "ready");
    if settings.sign_in.gateway_dev_allow_all_keys {
        warn!("GATEWAY_DEV_ALLOW_ALL_KEYS is on: anybody who reaches {addr} may use every model");
    }
    // The gateway may listen on every address (such as 0.0.0.0), which a browser can't open.
    let shown = crate::commands::doctor::reachable(addr);
    let mut lines = vec![format!("  UI and API  http://{shown}/")];
    if shown != addr {
        lines.push(format!("              and at this machine's other addresses, port {}", addr.port()));
    }
    if !store.read().await?.any_owner().await? {
        let token = setup_token.expose_secret();
        lines.push(format!(
            "  Set-up      http://{shown}/ui/#setup={token}   (one time: makes the first owner)"
        ));
    }
    if settings.logging.log_format == LogFormat::Json {
        lines = lines.iter().map(|it| telemetry::json_line(it.trim())).collect();
    }
    outlet::say(&lines.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_signal_is_an_end_that_somebody_asked_for() {
        let mut signals = Signals::listen().unwrap();
        for broken in 0..2 {
            let tasks = [Supervisor::default(), Supervisor::default()];
            for (n, supervisor) in tasks.iter().enumerate() {
                supervisor.spawn("task", |stop| async move {
                    assert_ne!(n, broken, "it is the one that breaks");
                    stop.cancelled().await;
                });
            }
            assert!(!until_the_end(&mut signals, &tasks[0], &tasks[1]).await);
        }
        let calm = [Supervisor::default(), Supervisor::default()];
        let own = std::process::id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &own]).status().unwrap().success());
        assert!(until_the_end(&mut signals, &calm[0], &calm[1]).await);
    }
}
