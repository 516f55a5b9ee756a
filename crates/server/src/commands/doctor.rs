//! `gantry doctor`: the checks that need the gateway's own parts, and all of them in order.

mod subject;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::ArgMatches;
use gantry_cli::{
    Exit,
    doctor::{self, Check, Service},
};
use gantry_domain::{
    model::{EngineKind, PerEngine},
    runtime::PROCESS,
};
use gantry_runtime::{Owner, Runtime, RuntimeError};
use gantry_settings::{ContainerRuntime, Entry, Settings, SettingsError};
use gantry_store::{Inspection, inspect};

pub(super) use self::subject::Subject;
use crate::{
    account::Refused,
    door::{self, Told},
    engine_runtime::{COMMANDS, Candidate, search_path, wanted},
};

const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn run(
    loaded: Result<(Settings, Vec<Entry>), SettingsError>,
    matches: &ArgMatches,
) -> anyhow::Result<Exit> {
    let (settings, entries) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => {
            let check = Check::fail(
                "settings",
                error.to_string(),
                "The gateway does not start, and nothing else can be checked.",
                "correct the variable, the flag or the line in .env; `gantry settings` prints what is in force",
            );
            return Ok(doctor::report(&[check], matches));
        }
    };
    let url = match gantry_cli::named_gateway(matches) {
        Ok(url) => url,
        Err(exit) => return Ok(exit),
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("can't start")?;
    // First, because root may give up its rights below, and who has the same rights as a program can read its environment.
    let (machine, service) = (doctor::machine(), doctor::service());
    let checks = runtime.block_on(async {
        let mut subject = match Subject::find(settings, &entries, url).await {
            Ok(subject) => subject,
            Err(refused) => return vec![not_root_s(&refused)],
        };
        let mut checks = std::mem::take(&mut subject.checks);
        checks.extend(all(&subject, service.as_ref()).await);
        checks.extend(machine);
        checks
    });
    Ok(doctor::report(&checks, matches))
}

/// Returns the check of files that root does not open.
fn not_root_s(refused: &Refused) -> Check {
    let means = "Root opens no files that another user can exchange, so nothing else was checked.";
    Check::fail("owner", refused.why.clone(), means, &refused.fix)
}

/// Runs every check except those of the settings and of the machine.
async fn all(subject: &Subject, service: Option<&Service>) -> Vec<Check> {
    let Subject { settings, url, .. } = subject;
    let (mut checks, runs) = doctor::gateway(
        url,
        settings.listening.gateway_listen,
        settings.listening.metrics_listen,
        &door::ports(),
        service,
    )
    .await;
    if let Some(fix) = subject.if_other.filter(|_| runs && doctor::local_port(url).is_some()) {
        checks.extend(doctor::in_use(&settings.data.data_dir, fix));
    }
    if subject.hides("DATABASE_URL") {
        checks.push(not_told("database", "DATABASE_URL"));
    } else if subject.shares_files || !settings.database().expose().starts_with("sqlite:") {
        checks.extend(database(settings).await);
    }
    if subject.hides("REDIS_URL") {
        checks.push(not_told("redis", "REDIS_URL"));
    } else {
        checks.extend(redis(settings).await);
    }
    checks.extend(engines(subject).await);
    if subject.shares_files {
        checks.extend(doctor::folders(settings));
    }
    checks.extend(doctor::limits(subject.limits()));
    checks
}

/// Returns the check of a service that can't be looked at from here: its address has a password, which the gateway
/// does not reveal.
fn not_told(name: &'static str, setting: &str) -> Check {
    Check::ok(
        name,
        format!(
            "only the gateway can check it: {setting} has a password, which the gateway does not reveal; see readiness"
        ),
    )
}

/// Returns the address that a client on this machine uses.
pub(crate) fn reachable(mut addr: std::net::SocketAddr) -> std::net::SocketAddr {
    if addr.ip().is_unspecified() {
        addr.set_ip(if addr.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    addr
}

/// Checks what the database is, and whether this user may write to its files.
async fn database(settings: &Settings) -> Vec<Check> {
    let url = settings.database();
    let Some(file) = url.expose().strip_prefix("sqlite://").map(Path::new) else {
        return vec![schema(settings).await];
    };
    match file.try_exists() {
        // Reported here, because SQLite would only say that it can't open the file.
        Err(error) => {
            let fix = match doctor::other_owner(file) {
                Some(owner) => doctor::as_owner(&owner, &settings.data.data_dir),
                None => "correct DATABASE_URL or DATA_DIR".to_owned(),
            };
            let means = "Whether there is a database, and what is in it, is not known.";
            vec![Check::fail("database", format!("{}: {error}", file.display()), means, &fix)]
        }
        Ok(false) => vec![schema(settings).await],
        Ok(true) => {
            let mut checks = vec![schema(settings).await];
            let dir = file.parent().unwrap_or(Path::new("/"));
            let beside = |end: &str| PathBuf::from(format!("{}{end}", file.display()));
            let files =
                vec![dir.to_owned(), file.to_owned(), beside("-wal"), beside("-shm"), beside(".lock")];
            checks.extend(doctor::writable("database_files", dir, files));
            checks
        }
    }
}

async fn schema(settings: &Settings) -> Check {
    const NAME: &str = "database";
    const GRANT: &str = "as the owner of the database: GRANT CREATE ON SCHEMA … TO …, or make the role the owner of its own database";
    match inspect(settings.database().expose()).await {
        Ok(Inspection { kind, version, newest, may_create: false })
            if version.is_none_or(|it| it < newest) =>
        {
            let now = version.map_or_else(|| "empty".to_owned(), |it| format!("schema version {it}"));
            Check::fail(
                NAME,
                format!(
                    "{}: {now}, and its role has no right to create tables (CREATE) in the schema",
                    kind.as_str()
                ),
                &format!("The gateway can't create schema version {newest}: it does not start."),
                GRANT,
            )
        }
        Ok(Inspection { kind, version: Some(version), newest, may_create: false }) if version == newest => {
            Check::warn(
                NAME,
                format!(
                    "{}: schema version {version}; its role has no right to create tables (CREATE) in the schema",
                    kind.as_str()
                ),
                "The next version of Gantry may not start.",
                GRANT,
            )
        }
        Ok(Inspection { kind, version: None, newest, .. }) => {
            Check::ok(NAME, format!("{}: empty; the gateway creates schema version {newest}", kind.as_str()))
        }
        Ok(Inspection { kind, version: Some(version), newest, .. }) if version > newest => Check::fail(
            NAME,
            format!("{}: schema version {version}, this program knows {newest}", kind.as_str()),
            "It was written by a newer Gantry: this one does not start on it.",
            "use the newer program, or restore a backup",
        ),
        Ok(Inspection { kind, version: Some(version), newest, .. }) if version < newest => Check::ok(
            NAME,
            format!("{}: schema version {version}; the next start updates it to {newest}", kind.as_str()),
        ),
        Ok(Inspection { kind, version: Some(version), .. }) => {
            Check::ok(NAME, format!("{}: schema version {version}", kind.as_str()))
        }
        Err(error) => {
            // The error's source names the reason and contains no addresses or passwords.
            let why =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Check::fail(
                NAME,
                why,
                "Without its database a gateway does not start; a running one serves inference and nothing else.",
                "start the database, or correct DATABASE_URL; for SQLite: restore the file from a backup",
            )
        }
    }
}

/// Checks the Redis server through which several gateways share their limits, if one is set.
async fn redis(settings: &Settings) -> Option<Check> {
    const NAME: &str = "redis";
    let url = settings.limits.redis_url.as_ref()?;
    Some(match gantry_control::shared_limits::check(url.expose()).await {
        Ok(()) => Check::ok(NAME, "it answers"),
        Err((why, true)) => Check::fail(
            NAME,
            why,
            "The gateway does not start with such an address.",
            "REDIS_URL has the form redis://[:password@]host:port or unix:///path; empty for one gateway alone",
        ),
        Err((why, false)) => Check::warn(
            NAME,
            why,
            "Several gateways enforce a share of each limit, each for itself, until it answers.",
            "start Redis or Valkey (on Debian: sudo systemctl start redis-server), or correct REDIS_URL",
        ),
    })
}

/// Checks Docker and the engine images, or the engine programs that are used without Docker.
async fn engines(subject: &Subject) -> Vec<Check> {
    let Subject { settings, running, .. } = subject;
    let (programs, any) = programs(settings, running.as_deref());
    // A running gateway chose its runtime at start, perhaps for reasons that no longer hold.
    let chosen = running.as_ref().map(|it| it.runtime.as_str());
    if settings.engines.container_runtime == ContainerRuntime::Process || chosen == Some(PROCESS) {
        return if subject.shares_files { programs } else { Vec::new() };
    }
    // This owner is no gateway, so that no container counts as its own: doctor only reads.
    let owner = Owner { instance: String::new() };
    // Same rule as the gateway's: if the settings name a Docker host, processes are not used instead.
    let instead = chosen.is_none()
        && settings.engines.container_runtime == ContainerRuntime::Auto
        && settings.engines.container_host.is_none();
    let docker = match gantry_runtime::docker(settings.engines.container_host.as_deref(), owner) {
        Ok(docker) => docker,
        Err(error) => return vec![refused(&error, false)],
    };
    let info = tokio::time::timeout(PATIENCE, docker.info()).await;
    match info.unwrap_or(Err(RuntimeError::Timeout { action: "info" })) {
        Ok(info) => {
            let version = info.api_version.as_deref().unwrap_or("unknown");
            let found = format!("{} {} (API {version})", info.name, info.version);
            let mut checks = vec![Check::ok("containers", found)];
            for (name, image) in [
                ("primary_image", &settings.engines.primary_engine_image.0),
                ("secondary_image", &settings.engines.secondary_engine_image.0),
            ] {
                checks.push(cached(&docker, name, image, settings).await);
            }
            checks
        }
        // The running gateway may have more rights than this user, such as the groups of its unit.
        Err(error @ RuntimeError::PermissionDenied { .. }) if running.is_some() => vec![Check::warn(
            "containers",
            error.to_string(),
            "The gateway itself may use it: see readiness. Which images are there is not known.",
            if subject.was_root { "see readiness, and `gantry images`" } else { "sudo gantry doctor" },
        )],
        Err(error) if instead => std::iter::once(refused(&error, any)).chain(programs).collect(),
        Err(error) => vec![refused(&error, false)],
    }
}

/// Returns the check for a container runtime that can't be used. `instead` means that engines run as processes without
/// it.
fn refused(error: &RuntimeError, instead: bool) -> Check {
    const NAME: &str = "containers";
    let fix = match error {
        RuntimeError::PermissionDenied { .. } => "sudo usermod -aG docker \"$(id -un)\", then sign in again",
        RuntimeError::Refused { action: "connect", .. } => {
            "set CONTAINER_HOST to unix:///path or tcp://host:port"
        }
        _ => {
            "sudo systemctl start docker (on Debian first: sudo apt-get install docker.io), or set CONTAINER_HOST"
        }
    };
    if instead {
        let means = "Engines run as processes on this machine: see the programs below.";
        let fix =
            format!("nothing, if that is intended (CONTAINER_RUNTIME=process says so); otherwise {fix}");
        return Check::warn(NAME, error.to_string(), means, &fix);
    }
    let means =
        "No model can be started in a container; models that are registered by address are still served.";
    Check::fail(NAME, error.to_string(), means, fix)
}

async fn cached(docker: &impl Runtime, name: &'static str, image: &str, settings: &Settings) -> Check {
    match docker.image(image).await {
        Ok(Some(info)) => {
            Check::ok(name, format!("{image} is on this machine ({} MiB)", info.size_bytes >> 20))
        }
        Ok(None) if settings.engines.offline_mode => Check::warn(
            name,
            format!("{image} is missing"),
            "OFFLINE_MODE is on: models of this engine can't start.",
            &format!(
                "on a machine with a network: docker pull {image} && docker save {image} -o image.tar; put the file into \
                 {} here, and then: gantry images load image.tar",
                settings
                    .export_dirs()
                    .iter()
                    .map(|it| it.display().to_string())
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
        ),
        Ok(None) => Check::warn(
            name,
            format!("{image} is not on this machine"),
            "It is pulled at the first start of a model of this engine, which may take long.",
            &format!("docker pull {image}"),
        ),
        Err(error) => {
            Check::warn(name, error.to_string(), "Whether the image is there is not known.", "try again")
        }
    }
}

/// Returns a check for each engine's program, and whether any program was found; one engine is enough. Programs are
/// looked for in the `PATH` of the running gateway, if there is one.
fn programs(settings: &Settings, running: Option<&Told>) -> (Vec<Check>, bool) {
    let path = running.map_or_else(search_path, |it| it.path.clone());
    let found = wanted(settings, &path);
    let any = found.values().any(|it| it.file.is_some());
    let names = PerEngine { vllm: "primary_program", llamacpp: "secondary_program" };
    let check = |engine: EngineKind, Candidate { program, named, file }: Candidate| {
        let (name, setting) = (names[engine], COMMANDS[engine]);
        match file {
            Some(_) if program.simulator => Check::warn(
                name,
                format!("{setting} names the simulator"),
                "Models of this engine are simulated: their answers mean nothing.",
                &format!(
                    "name the engine's program in {setting}, or install {engine} and leave {setting} empty"
                ),
            ),
            Some(file) => Check::ok(name, format!("{} for {engine}", file.display())),
            None if named => Check::fail(
                name,
                format!("{setting} names `{}`, which is not a program here", program.reference),
                "Models of this engine can't start.",
                &format!("install it there, or correct {setting}"),
            ),
            None => {
                let word = program.words.first().map(String::as_str).unwrap_or_default();
                let (found, fix) = (
                    format!("{word} is not in PATH"),
                    format!("install {engine}, set {setting}, or use containers"),
                );
                let means = "Models of this engine can't start.";
                if any {
                    Check::warn(name, found, means, &fix)
                } else {
                    Check::fail(name, found, means, &fix)
                }
            }
        }
    };
    let PerEngine { vllm, llamacpp } = found.map(check);
    (vec![vllm, llamacpp], any)
}
