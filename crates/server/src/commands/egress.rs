//! `gantry egress`: which connections the present settings allow.

use std::{fs, net::IpAddr, path::Path, time::Duration};

use anyhow::Context;
use clap::ArgMatches;
use gantry_cli::{
    Exit,
    egress::{self, Finding, Outgoing, Reach},
};
use gantry_connect::HttpUrl;
use gantry_control::{hub, shared_limits};
use gantry_domain::{
    image::repository,
    runtime::{DOCKER, PROCESS},
};
use gantry_settings::{ContainerRuntime, Entry, Settings};
use gantry_store::{DatabaseAddress, Store, database_address};

use super::doctor::Subject;
use crate::account::Refused;

/// Where vLLM sends its statistics (0.32.0: `usage/usage_lib.py`).
const VLLM_STATISTICS: &str = "stats.vllm.ai:443";
/// Registry of an image whose name has none.
const DEFAULT_REGISTRY: &str = "docker.io";
const ANY: &str = "any host";
const NAMES: &str = "engines that can reach other machines can ask for any name: those in containers through Docker's \
                     resolver, which asks 8.8.8.8 if the machine names no server";
const STATISTICS: &str = "the gateway switches them off (`VLLM_NO_USAGE_STATS=1`, `DO_NOT_TRACK=1`)";
/// Longest time that the database may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(settings: Settings, entries: &[Entry], matches: &ArgMatches) -> anyhow::Result<Exit> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("can't start")?;
    let (findings, settings) = runtime.block_on(async {
        let subject = Subject::find(settings, entries, None).await?;
        let said: Vec<&str> = subject.checks.iter().map(|it| it.found.as_str()).collect();
        let said = said.join("; ");
        Ok::<_, Refused>((findings(&subject).await, said))
    })?;
    Ok(egress::report(&findings, &settings, matches))
}

async fn findings(subject: &Subject) -> Vec<Finding> {
    let upstreams = upstreams(subject).await;
    let mut all: Vec<_> = Outgoing::ALL.into_iter().map(|it| find(it, subject, &upstreams)).collect();
    // The gateway asks for no name if nothing is elsewhere, and engines that can reach nobody have no name server.
    let is_remote = |it: &Finding| it.reach == Reach::Remote && it.outgoing != Outgoing::NameServer;
    if !all.iter().any(is_remote) {
        for it in all.iter_mut().filter(|it| it.outgoing == Outgoing::NameServer) {
            (it.reach, it.note) = (Reach::None, None);
        }
    }
    all
}

fn find(outgoing: Outgoing, subject: &Subject, upstreams: &Upstreams) -> Finding {
    let (settings, engines) = (&subject.settings, Engines::of(subject));
    let online = !settings.engines.offline_mode;
    let (to, reach, note) = match outgoing {
        Outgoing::Database => database(subject),
        Outgoing::Redis => redis(subject),
        Outgoing::Collector => collector(settings),
        Outgoing::Hub | Outgoing::EngineHub => possible(online, vec![hub_address(settings)]),
        Outgoing::Upstreams => (upstreams.to.clone(), reach_of(&upstreams.to), upstreams.note.clone()),
        Outgoing::ContainerRuntime => {
            let host = settings.engines.container_host.as_deref().unwrap_or(gantry_runtime::DEFAULT_HOST);
            possible(engines.containers, vec![host.to_owned()])
        }
        Outgoing::Engines => {
            (vec!["127.0.0.1, ports that the runtime chooses".to_owned()], Reach::Local, None)
        }
        Outgoing::ImageRegistry => {
            let pulls = engines.containers && online && !settings.engines.require_image_precache;
            possible(pulls, registries(settings))
        }
        Outgoing::EngineMedia => {
            let hosts = &settings.listening.media_url_hosts.0;
            let to = hosts.iter().map(|it| if it == "*" { ANY.to_owned() } else { it.clone() });
            possible(!hosts.is_empty(), to.collect())
        }
        Outgoing::EngineStatistics => {
            (vec![VLLM_STATISTICS.to_owned()], Reach::None, Some(STATISTICS.to_owned()))
        }
        Outgoing::EngineOther => engines.standing(settings, ANY),
        // A name server on this machine asks others.
        Outgoing::NameServer => (name_servers(), Reach::Remote, Some(NAMES.to_owned())),
        Outgoing::LocalSockets => (vec!["Unix sockets".to_owned()], Reach::Local, None),
        Outgoing::CommandLine => possible(true, vec![subject.url.clone()]),
    };
    Finding { outgoing, to, reach, note }
}

/// Where to, how far, and what else there is to know.
type Standing = (Vec<String>, Reach, Option<String>);

/// The standing of a setting that a running gateway does not reveal.
fn not_told(setting: &str) -> Standing {
    let note = format!("{setting} has a password, so the running gateway does not reveal it");
    (vec![format!("the host in {setting}")], Reach::Remote, Some(note))
}

/// The standing of a connection to these places, if the settings allow it.
fn possible(allowed: bool, to: Vec<String>) -> Standing {
    let reach = if allowed { reach_of(&to) } else { Reach::None };
    (to, reach, None)
}

fn database(subject: &Subject) -> Standing {
    if subject.hides("DATABASE_URL") {
        return not_told("DATABASE_URL");
    }
    match database_address(subject.settings.database().expose()) {
        Ok(DatabaseAddress::File(path)) => (
            vec![path.display().to_string()],
            Reach::Local,
            Some("a SQLite file, and no connection".to_owned()),
        ),
        Ok(DatabaseAddress::Socket(path)) => (vec![path.display().to_string()], Reach::Local, None),
        Ok(DatabaseAddress::Server(host, port)) => at(&host, port),
        Err(error) => (vec!["the host in DATABASE_URL".to_owned()], Reach::Remote, Some(error.to_string())),
    }
}

fn redis(subject: &Subject) -> Standing {
    if subject.hides("REDIS_URL") {
        return not_told("REDIS_URL");
    }
    let Some(url) = &subject.settings.limits.redis_url else { return (Vec::new(), Reach::None, None) };
    match shared_limits::address(url.expose()) {
        Ok((host, Some(port))) => at(&host, port),
        Ok((socket, None)) => (vec![socket], Reach::Local, None),
        Err(error) => (vec!["the host in REDIS_URL".to_owned()], Reach::Remote, Some(error)),
    }
}

fn collector(settings: &Settings) -> Standing {
    match &settings.tracing.otel_exporter_otlp_endpoint {
        Some(it) if cfg!(feature = "otlp") => at(it.0.host(), it.0.port()),
        Some(_) => {
            let note =
                "this program was built without the export of traces, and does not start with this setting";
            (Vec::new(), Reach::None, Some(note.to_owned()))
        }
        None => (Vec::new(), Reach::None, None),
    }
}

fn hub_address(settings: &Settings) -> String {
    let given = settings.engines.hub_endpoint.as_deref().and_then(HttpUrl::parse);
    given.unwrap_or_else(|| HttpUrl::https(hub::PUBLIC)).host_and_port()
}

/// Which kinds of instances there can be. Before a gateway runs, `CONTAINER_RUNTIME=auto` may become either.
#[derive(Clone, Copy)]
struct Engines {
    containers: bool,
    processes: bool,
}

impl Engines {
    fn of(subject: &Subject) -> Self {
        let settings = &subject.settings.engines;
        let chosen = match settings.container_runtime {
            ContainerRuntime::Docker => Some(DOCKER),
            ContainerRuntime::Process => Some(PROCESS),
            ContainerRuntime::Auto => match &subject.running {
                Some(told) => Some(told.runtime.as_str()),
                None => settings.container_host.as_ref().map(|_| DOCKER),
            },
        };
        Self { containers: chosen != Some(PROCESS), processes: chosen != Some(DOCKER) }
    }

    /// Returns whether an engine can reach other machines: processes always, containers if one may be in the network
    /// whose addresses are translated ([`gantry_domain::engine::Confinement`]).
    fn has_way_out(self, settings: &Settings) -> bool {
        self.processes || !settings.engines.offline_mode || !settings.listening.media_url_hosts.0.is_empty()
    }

    /// Returns the standing of what engines connect to by themselves.
    fn standing(self, settings: &Settings, to: &str) -> Standing {
        let has_media = !settings.listening.media_url_hosts.0.is_empty();
        let note = match self {
            Self { processes: true, .. } => "an engine that is a process has the network of this machine",
            _ if has_media => "all containers, because MEDIA_URL_HOSTS is set",
            _ if settings.engines.offline_mode => "no answer from outside reaches the containers",
            _ => "only containers of models of the hub: no answer from outside reaches the others",
        };
        let (to, reach, _) = possible(self.has_way_out(settings), vec![to.to_owned()]);
        (to, reach, Some(note.to_owned()))
    }
}

/// Returns the registries of the images that models may run in.
fn registries(settings: &Settings) -> Vec<String> {
    let engines = &settings.engines;
    let images = [&engines.primary_engine_image.0, &engines.secondary_engine_image.0];
    let mut hosts: Vec<String> =
        images.into_iter().chain(&engines.engine_image_allowlist.0).map(|it| registry(it)).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn registry(image: &str) -> String {
    match repository(image).split_once('/') {
        Some((host, _)) if host.contains(':') => host.to_owned(),
        Some((host, _)) if host.contains('.') || host == "localhost" => format!("{host}:443"),
        _ => format!("{DEFAULT_REGISTRY}:443"),
    }
}

/// Addresses of the registry of engines.
struct Upstreams {
    to: Vec<String>,
    note: Option<String>,
}

/// Reads the addresses from the database, if that can be opened.
async fn upstreams(subject: &Subject) -> Upstreams {
    let unknown = |why: String| Upstreams {
        to: vec!["the hosts in the registry".to_owned()],
        note: Some(format!("the entries are not known: {why}")),
    };
    let url = subject.settings.database();
    if subject.hides("DATABASE_URL") {
        return unknown("DATABASE_URL has a password, so the running gateway does not reveal it".to_owned());
    }
    if let Some(file) = url.expose().strip_prefix("sqlite://") {
        if !subject.shares_files {
            return unknown("the database is in the container of the gateway".to_owned());
        }
        match Path::new(file).try_exists() {
            Ok(true) => {}
            Ok(false) => {
                return Upstreams { to: Vec::new(), note: Some("there is no database yet".to_owned()) };
            }
            Err(error) => return unknown(error.to_string()),
        }
    }
    match tokio::time::timeout(PATIENCE, entries(url.expose())).await {
        Ok(Ok(to)) => Upstreams { to, note: None },
        Ok(Err(error)) => unknown(format!("{error:#}")),
        Err(_) => unknown("the database did not answer in time".to_owned()),
    }
}

async fn entries(url: &str) -> anyhow::Result<Vec<String>> {
    let store = Store::open_to_read(url).await.context("can't open the database")?;
    let mut tx = store.read().await?;
    let entries = tx.registry().await?;
    drop(tx);
    store.close().await;
    let urls = entries.iter().flat_map(|it| &it.urls);
    let mut to: Vec<String> =
        urls.map(|it| HttpUrl::parse(it).map_or_else(|| it.clone(), |url| url.host_and_port())).collect();
    to.sort();
    to.dedup();
    Ok(to)
}

/// Returns the name servers of this machine (`resolv.conf(5)`).
fn name_servers() -> Vec<String> {
    let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers =
        text.lines().filter_map(|it| it.trim().strip_prefix("nameserver")?.split_whitespace().next());
    servers.map(|it| if it.contains(':') { format!("[{it}]:53") } else { format!("{it}:53") }).collect()
}

fn at(host: &str, port: u16) -> Standing {
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let reach = reach_of(std::slice::from_ref(&to));
    (vec![to], reach, None)
}

/// Returns how far connections to these places go.
fn reach_of(places: &[String]) -> Reach {
    match places {
        [] => Reach::None,
        all if all.iter().all(|it| is_local(it)) => Reach::Local,
        _ => Reach::Remote,
    }
}

/// Returns the host of `[scheme://]host[:port][/path]`; `None` for a socket.
fn host(place: &str) -> Option<&str> {
    let rest = match place.split_once("://") {
        Some(("unix", _)) => return None,
        Some((_, rest)) => rest,
        None => place,
    };
    let rest = rest.split('/').next().unwrap_or(rest);
    Some(match rest.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(address),
        None => rest.rsplit_once(':').map_or(rest, |(host, _)| host),
    })
}

/// Returns whether a place is on this machine. A name other than `localhost` is not resolved: it counts as another machine.
fn is_local(place: &str) -> bool {
    host(place).is_none_or(|it| it == "localhost" || it.parse().is_ok_and(|it: IpAddr| it.is_loopback()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_sockets_are_local_and_names_are_not() {
        for local in [
            "127.0.0.1:1",
            "[::1]:5432",
            "localhost:80",
            "unix:///run/x",
            "http://127.0.0.2:8084",
            "tcp://[::1]:1",
        ] {
            assert!(is_local(local), "{local}");
        }
        for remote in
            ["10.0.0.1:1", "db.example:5432", "tcp://10.0.0.1:2375", "https://x/y", "localhost.example:1"]
        {
            assert!(!is_local(remote), "{remote}");
        }
    }

    #[test]
    fn an_image_without_a_host_is_of_the_default_registry() {
        for (image, host) in [
            ("vllm/vllm-openai:v1", "docker.io:443"),
            ("ghcr.io/a/b:c", "ghcr.io:443"),
            ("registry:5000/a@sha256:00", "registry:5000"),
            ("registry.example/team/*", "registry.example:443"),
        ] {
            assert_eq!(registry(image), host);
        }
    }
}
