//! Makes the parts of the gateway, and their configurations, from the settings.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::Context;
use gantry_admin_api::{
    Answers, App, Refresh,
    app::{Accounts, Bounds, Config, Files, Headers, Parts, Signals},
    changes::Changes,
    feed::Feed,
    seats::Seats,
    session_uses::SessionUses,
    tokens::uses::TokenUses,
};
use gantry_connect::HttpUrl;
use gantry_control::{
    Control, deployment::drill::Drills, hub, jobs, machine::Machine, publish, shared_limits::SharedLimits,
    supervise::Supervision, upstreams, versions,
};
use gantry_dataplane::{
    Media, Shared, breaker,
    limits::{GatewayLink, Limiter},
};
use gantry_domain::{
    Clock, ModelId, engine::Host, image::AllowedImages, model::PerEngine, runtime::Traits,
    setting::SettingView, web::Web,
};
use gantry_settings::{Entry, Settings};
use http::HeaderValue;
use secrecy::SecretString;
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::{
    adapters,
    deployment::Packages,
    descriptors,
    engine_runtime::{self, EngineRuntime},
    memory_budget::MemoryBudget,
    monitor::Watch,
    runtime_health::RuntimeHealth,
    storage::Storage,
};

/// Time at shutdown in which answers ask clients to close their connections, before idle connections are closed. A
/// client that sends a request just as its idle connection closes would find it gone.
const LEAVE_GRACE: Duration = Duration::from_millis(250);
/// Folder of the usage spool in the data directory.
pub(crate) const SPOOL: &str = "spool";
/// Most data-plane threads that are chosen automatically. More only help machines that do nothing else.
const MAX_AUTO_THREADS: usize = 8;

/// Returns the limiter of the data plane, and the task that shares its limits with other gateways, if `REDIS_URL` is
/// set.
pub(crate) fn limiter(
    settings: &Settings,
    storage: &Storage,
) -> anyhow::Result<(Limiter, Option<SharedLimits>)> {
    let Some(url) = &settings.limits.redis_url else { return Ok((Limiter::default(), None)) };
    let (link, changes) = GatewayLink::new();
    let patience = Duration::from_millis(settings.limits.redis_timeout_ms.get().into());
    let share = SharedLimits::new(url.expose(), &storage.instance, patience, changes)
        .context("REDIS_URL can't be used")?;
    Ok((Limiter { link: Some(link), ..Limiter::default() }, Some(share)))
}

pub(crate) fn control(
    settings: &Settings,
    storage: &Storage,
    shared: &Arc<Shared>,
    machine: Arc<Machine>,
    engines: EngineRuntime,
    versions: versions::Versions,
    supervision: Arc<Supervision>,
) -> anyhow::Result<Control> {
    let breaker = breaker::Settings {
        failures: settings.supervision.breaker_failures.get(),
        cooldown: settings.supervision.breaker_cooldown_sec,
    };
    let (phases, _) = broadcast::channel(256);
    let listeners = engines.runtime.listeners();
    let endpoint = settings.engines.hub_endpoint.as_deref().map(|it| {
        HttpUrl::parse(it).context("HUB_ENDPOINT can't be used: it is not of the form https://host[:port]")
    });
    Ok(Control {
        config: control_config(settings, storage, &engines),
        store: storage.store.clone(),
        clock: storage.clock.clone(),
        steady: Clock::steady(),
        boot: gantry_runtime::boot_id(),
        prober: Arc::new(gantry_control::probe::HttpProber {
            internal_key: storage.internal_key.clone(),
            listeners: listeners.clone(),
        }),
        listeners: listeners.map(Arc::new),
        runtime: engines.runtime,
        versions,
        shared: Arc::clone(shared),
        runtime_status: Arc::default(),
        images: gantry_control::preview::Images::default(),
        orphans_stopped: AtomicU64::new(0),
        restarts: gantry_control::restarts::Restarts::default(),
        jobs: jobs::Jobs::new(storage.store.clone(), storage.clock.clone(), storage.home.clone()),
        machine,
        samples: Arc::default(),
        upstreams: upstreams::Upstreams::default(),
        hub: hub::Hub::new(endpoint.transpose()?, settings.engines.offline_mode),
        publisher: publish::Publisher::new(breaker).with_stall_floor(settings.supervision.stall_floor_sec),
        supervision,
        changed_elsewhere: tokio::sync::Notify::new(),
        drills: Arc::new(Drills::new(
            settings.data.restore_drill.period(),
            &storage.home,
            storage.clock.now(),
        )),
        restores: tokio::sync::watch::Sender::default(),
        new_budgets: tokio::sync::Notify::new(),
        phases,
    })
}

/// What callers may take of the gateway.
fn bounds(settings: &Settings) -> Bounds {
    let memory = MemoryBudget::of(settings);
    Bounds {
        changes: Changes::default(),
        seats: Seats::new(settings.listening.event_streams_max),
        body_room: gantry_admin_api::BodyRoom::of_requests(memory.bodies),
        answer_room: gantry_admin_api::BodyRoom::of_answers(memory.answers),
        long_reads: gantry_admin_api::LongReads::default(),
    }
}

pub(crate) fn app(
    settings: &Settings,
    storage: &Storage,
    control: &Arc<Control>,
    runtime: Traits,
    wake: mpsc::Sender<ModelId>,
    refresh: mpsc::Sender<oneshot::Sender<()>>,
    setup_token: &SecretString,
) -> App {
    let spool = Arc::new(adapters::SpoolCheck::new(storage.data_dir.join(SPOOL)));
    let runtime_health = RuntimeHealth::new(Arc::clone(&control.runtime));
    let adapter =
        Arc::new(adapters::Adapter { control: Arc::clone(control), spool, runtime: runtime_health });
    let signals =
        Signals { refresh: Refresh(refresh), wake, phases: control.phases.clone(), feed: Feed::default() };
    let files = Files {
        models_dir: storage.models_dir.clone(),
        models_dir_rules: storage.models_dir_rules.clone(),
        headers: Headers::default(),
        disk: gantry_admin_api::Disk::default(),
        hub_cache_dir: storage.hub_cache_dir.clone(),
        export_dirs: settings.export_dirs(),
    };
    let config = Config {
        runtime,
        org_users_max: settings.sign_in.org_users_max.get(),
        images: control.config.images.clone(),
        offline: settings.engines.offline_mode,
        startup_timeouts: settings.engines.startup_timeouts(),
        trusted_proxies: settings.listening.trusted_proxies.clone(),
        web: web(settings),
        settings: storage.settings.iter().map(setting_view).collect(),
    };
    App::new(Parts {
        store: storage.store.clone(),
        clock: storage.clock.clone(),
        steady: control.steady.clone(),
        engines: Arc::clone(&adapter) as _,
        engine_images: Arc::clone(&adapter) as _,
        hub: Arc::clone(&adapter) as _,
        deployment: Arc::new(Packages(Arc::clone(control))),
        data_plane: Arc::clone(&adapter) as _,
        checks: Arc::clone(&adapter) as _,
        inference: Arc::clone(&adapter) as _,
        answers: Answers::default(),
        allowances: adapter,
        monitor: Arc::new(Watch(Arc::clone(control))),
        accounts: accounts(storage, setup_token),
        signals,
        bounds: bounds(settings),
        files,
        config,
    })
}

fn accounts(storage: &Storage, setup_token: &SecretString) -> Accounts {
    Accounts {
        passwords: storage.passwords.clone(),
        cookies: storage.cookies.clone(),
        throttle: gantry_admin_api::Throttle::default(),
        guesses: gantry_admin_api::Guesses::default(),
        session_uses: SessionUses::default(),
        token_uses: TokenUses::default(),
        setup_token: setup_token.clone(),
    }
}

fn setting_view(entry: &Entry) -> SettingView {
    SettingView {
        name: entry.name.clone(),
        group: entry.group.to_owned(),
        doc: entry.doc.to_owned(),
        allowed: entry.allowed.to_owned(),
        default: entry.default.to_owned(),
        value: entry.value.clone(),
        source: entry.origin.to_string(),
    }
}

fn control_config(settings: &Settings, storage: &Storage, engines: &EngineRuntime) -> gantry_control::Config {
    gantry_control::Config {
        engines: settings.engines.clone(),
        supervision: settings.supervision.clone(),
        limits: settings.limits.clone(),
        models_dir: storage.models_dir.clone(),
        models_dir_rules: storage.models_dir_rules.clone(),
        hub_cache_dir: storage.hub_cache_dir.clone(),
        data_dir: storage.data_dir.clone(),
        images: AllowedImages {
            defaults: settings.engines.default_images(),
            simulators: PerEngine::of(|it| engine_runtime::flavour(it).default_tag()),
            listed: settings.engines.engine_image_allowlist.0.clone(),
        },
        programs: engines.programs.clone(),
        internal_key: storage.internal_key.clone(),
        media_hosts: settings.listening.media_url_hosts.0.clone(),
        drain: settings.listening.drain_timeout_sec,
        host: Host { cpus: cpus(), gpus: engines.gpus.clone() },
        public_settings: storage.settings.iter().map(Entry::to_json).collect(),
        usage_retention_days: settings.data.usage_retention_days,
        audit_retention_days: settings.data.audit_retention_days,
    }
}

pub(crate) fn web(settings: &Settings) -> Web {
    Web::new(settings.listening.allowed_hosts.0.clone(), settings.listening.cors_allow_origins.0.clone())
        .with_hsts(settings.sign_in.hsts_max_age_sec)
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub(crate) fn plane_config(
    settings: &Settings,
    storage: &Storage,
    spool_dir: PathBuf,
) -> anyhow::Result<gantry_dataplane::Config> {
    let threads = match settings.listening.dataplane_threads {
        0 => cpus().min(MAX_AUTO_THREADS),
        n => n,
    };
    let cookies = storage.cookies.clone();
    // The `Via` value names the database, not the gateway: all gateways on one database share one registry, so a
    // request loop could go through any of them.
    let via = HeaderValue::try_from(format!("1.1 gantry-{}", storage.instance))
        .context("the id of the database is no word")?;
    Ok(gantry_dataplane::Config {
        listen: settings.listening.gateway_listen,
        threads,
        max_body: settings.listening.request_max_body_bytes.get(),
        body_memory: MemoryBudget::of(settings).inference,
        media: Media {
            hosts: settings.listening.media_url_hosts.0.clone(),
            tensors: settings.listening.request_tensors,
        },
        max_connections: match settings.listening.connections_max {
            0 => descriptors::connections(descriptors::raised()),
            n => n,
        },
        max_connections_per_address: settings.listening.connections_per_address_max,
        idle_timeout: settings.listening.connection_idle_sec,
        trusted_proxies: settings.listening.trusted_proxies.clone(),
        web: web(settings),
        session: Arc::new(move |cookie| cookies.verify(cookie)),
        allow_all_keys: settings.sign_in.gateway_dev_allow_all_keys,
        spool_dir,
        trace_sampled: settings.tracing.trace_sampled,
        leave_grace: Duration::from_secs(settings.listening.shutdown_delay_sec.into()).max(LEAVE_GRACE),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        via,
        ..gantry_dataplane::Config::default()
    })
}
