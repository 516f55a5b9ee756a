//! `egress`: every connection to the outside that an installation can make, with what goes out and what forbids it. Which
//! of them the present settings allow is found out in the server crate. `cargo xtask tidy` fails if the code connects in a
//! place that belongs to none of these.

use clap::{ArgMatches, Command};
use gantry_domain::words;
use serde::Serialize;
use serde_json::json;

use crate::{
    exit::{Exit, Outcome},
    gateway_options::output,
    options::flag,
    output::{Out, Tone},
    output_form::Form,
    text::clean,
};

words! {
    /// A kind of connection that an installation can make.
    pub enum Outgoing {
        Database = "database",
        Redis = "redis",
        Collector = "collector",
        Hub = "hub",
        Upstreams = "upstreams",
        ContainerRuntime = "container_runtime",
        Engines = "engines",
        ImageRegistry = "image_registry",
        EngineHub = "engine_hub",
        EngineMedia = "engine_media",
        EngineStatistics = "engine_statistics",
        EngineOther = "engine_other",
        NameServer = "name_server",
        LocalSockets = "local_sockets",
        CommandLine = "command_line",
    }
}

words! {
    /// What opens a connection.
    pub enum Opener {
        Gateway = "gateway",
        Runtime = "container runtime",
        Engine = "engine",
        System = "system",
        Command = "command",
    }
}

words! {
    /// How far a connection goes with the present settings.
    pub enum Reach {
        /// To other machines.
        Remote = "remote",
        /// On this machine: a file, a Unix socket, or a loopback address.
        Local = "local",
        /// It is not possible.
        None = "none",
    }
}

/// What is true of a kind of connection with any settings, in words for people.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub opener: Opener,
    pub what: &'static str,
    pub when: &'static str,
    /// What goes out.
    pub data: &'static str,
    /// The setting, or else the act, that forbids it.
    pub forbid: &'static str,
}

/// One kind of connection with the present settings.
#[derive(Debug, Clone)]
pub struct Finding {
    pub outgoing: Outgoing,
    /// Where to: `host:port`, a file, a socket, or words if it is not a fixed place.
    pub to: Vec<String>,
    pub reach: Reach,
    /// What else there is to know; `None` if there is nothing.
    pub note: Option<String>,
}

impl Outgoing {
    /// Returns what is true of it with any settings.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn facts(self) -> Facts {
        let facts = |opener, what, when, data, forbid| Facts { opener, what, when, data, forbid };
        match self {
            Self::Database => facts(
                Opener::Gateway,
                "the database",
                "always",
                "all that the gateway stores, encrypted only if the address asks for it (`sslmode`): accounts, hashes of \
                 passwords and keys, models, usage, chats of the playground; hub tokens and keys of upstreams are sealed",
                "leave `DATABASE_URL` empty: a SQLite file in the data directory",
            ),
            Self::Redis => facts(
                Opener::Gateway,
                "the Redis server through which several gateways share limits",
                "always",
                "ids of keys, users and organisations, and what they have used",
                "leave `REDIS_URL` empty",
            ),
            Self::Collector => facts(
                Opener::Gateway,
                "the OpenTelemetry collector",
                "in batches while there are requests",
                "one span for each request, with served name, client address, status and counts of tokens, without any \
                 part of a prompt, an answer or a key; and `OTEL_EXPORTER_OTLP_HEADERS`",
                "leave `OTEL_EXPORTER_OTLP_ENDPOINT` empty",
            ),
            Self::Hub => facts(
                Opener::Gateway,
                "the model hub, for what it says of a repository; redirects to other hosts are not followed",
                "when somebody looks at a repository of the hub, or makes a model of one",
                "the name of the repository, and the model's hub token if it has one",
                "`OFFLINE_MODE=true`",
            ),
            Self::Upstreams => facts(
                Opener::Gateway,
                "engines elsewhere that an owner has entered in the registry",
                "probes always, requests when clients send them",
                "the requests of clients with all their content, and the entry's key",
                "`gantry registry remove NAME`: without entries there is no connection",
            ),
            Self::ContainerRuntime => facts(
                Opener::Gateway,
                "Docker or Podman",
                "always",
                "what engines are started with: images, arguments, and environments with their keys and hub tokens",
                "`CONTAINER_RUNTIME=process`; `CONTAINER_HOST=unix://…` keeps it on this machine",
            ),
            Self::Engines => facts(
                Opener::Gateway,
                "the engines that this gateway runs",
                "while a model runs",
                "the requests of clients, and the engines' key",
                "it never leaves this machine: engines listen on 127.0.0.1",
            ),
            Self::ImageRegistry => facts(
                Opener::Runtime,
                "registries of container images, and the hosts that they refer to",
                "when a model starts whose image is not on the machine",
                "the name of the image, and what Docker itself knows to sign in there",
                "`OFFLINE_MODE=true` or `REQUIRE_IMAGE_PRECACHE=true`",
            ),
            Self::EngineHub => facts(
                Opener::Engine,
                "the model hub, for weights, and the hosts that it refers to for large files",
                "when a model of the hub starts",
                "the name of the repository, the model's hub token if it has one, and versions of the engine's libraries",
                "`OFFLINE_MODE=true`; for one model: its files in the models directory",
            ),
            Self::EngineMedia => facts(
                Opener::Engine,
                "hosts of pictures, sounds and films that requests refer to",
                "when a request refers to one",
                "the address that the client wrote into the request",
                "leave `MEDIA_URL_HOSTS` empty",
            ),
            Self::EngineStatistics => facts(
                Opener::Engine,
                "usage statistics of vLLM, to its makers",
                "when vLLM starts, and every ten minutes",
                "the model's architecture, settings of the engine, GPUs, CPU and platform",
                "nothing to do: the gateway sets `VLLM_NO_USAGE_STATS=1`, unless a model's `extra_env` sets it otherwise",
            ),
            Self::EngineOther => facts(
                Opener::Engine,
                "whatever else an engine's program, its libraries or a model's own code connect to",
                "while a model runs",
                "what they choose: they have the model and the requests",
                "for containers: `OFFLINE_MODE=true` and no `MEDIA_URL_HOSTS`, so that no answer reaches them; for processes: a firewall, such as `IPAddressDeny=` of the service",
            ),
            Self::NameServer => facts(
                Opener::System,
                "the name servers of the machine: for hosts in this list, and for names that engines ask for",
                "before a connection to a host that has a name, and when an engine asks",
                "the name",
                "a firewall, or a machine whose `/etc/resolv.conf` and Docker (`dns` in `daemon.json`) name no server that \
                 can be reached",
            ),
            Self::LocalSockets => facts(
                Opener::Gateway,
                "sockets of this machine: of the service manager (`NOTIFY_SOCKET`), of a running gateway for `gantry \
                 doctor` and `gantry egress`, and the gateway's own listener for answers in chats of the web UI",
                "always",
                "whether the gateway is ready; settings without secrets, to its own user and root; requests of \
                 signed-in users, to the gateway itself",
                "it never leaves this machine",
            ),
            Self::CommandLine => facts(
                Opener::Command,
                "the gateway that `gantry` is the client of",
                "when a verb is run that asks a gateway",
                "the sign-in, and what the verb does",
                "leave `--url`, `GANTRY_URL` and `gantry context` at the gateway of this machine",
            ),
        }
    }
}

pub(crate) fn command() -> Command {
    Command::new("egress")
        .about("Lists every outbound connection that this configuration can make, and the setting that forbids it")
        .arg(flag("json", "Prints JSON for programs, errors too (on standard error)"))
        .arg(output())
        .after_help(
            "Opens no connection to another machine, except to a Postgres database for the entries of the registry. If a \
             gateway runs on this machine, its settings are used. See docs/egress.md.",
        )
}

/// A finding for programs.
#[derive(Serialize)]
struct Row<'a> {
    name: Outgoing,
    possible: bool,
    reach: Reach,
    to: &'a [String],
    opened_by: Opener,
    what: &'static str,
    when: &'static str,
    data: &'static str,
    forbidden_by: &'static str,
    note: Option<&'a str>,
}

/// Prints the findings. `settings` says whose settings they are about.
pub fn report(findings: &[Finding], settings: &str, matches: &ArgMatches) -> Exit {
    let out = Out::new(Form::of(matches), false);
    match print(findings, settings, &out) {
        Ok(()) => Exit::Done,
        Err(failure) => {
            out.complain(&failure);
            failure.exit()
        }
    }
}

fn print(findings: &[Finding], settings: &str, out: &Out) -> Outcome<()> {
    let rows: Vec<_> = findings
        .iter()
        .map(|it| {
            let Facts { opener, what, when, data, forbid } = it.outgoing.facts();
            let (name, reach, to, note) = (it.outgoing, it.reach, &it.to[..], it.note.as_deref());
            let possible = reach != Reach::None;
            Row { name, possible, reach, to, opened_by: opener, what, when, data, forbidden_by: forbid, note }
        })
        .collect();
    out.either(&json!({ "settings": settings, "connections": rows }), || {
        out.line(&clean(&format!("settings: {settings}")))?;
        for row in &rows {
            people(row, out)?;
        }
        let n = |reach| rows.iter().filter(|it| it.reach == reach).count();
        out.line(&format!(
            "\n{} to other machines, {} on this machine, {} not possible",
            n(Reach::Remote),
            n(Reach::Local),
            n(Reach::None)
        ))
    })
}

fn people(row: &Row<'_>, out: &Out) -> Outcome<()> {
    let (word, tone) = match row.reach {
        Reach::Remote => ("OUT  ", Tone::Busy),
        Reach::Local => ("LOCAL", Tone::Plain),
        Reach::None => ("NO   ", Tone::Good),
    };
    let to = if row.to.is_empty() { "-".to_owned() } else { row.to.join(", ") };
    out.line(&format!(
        "\n{}  {}  {}",
        out.paint(tone, word),
        out.paint(Tone::Bold, row.name.as_str()),
        clean(&to)
    ))?;
    let facts = [
        ("what", format!("{}, opened by the {}", row.what, row.opened_by)),
        ("when", row.when.to_owned()),
        ("data", row.data.to_owned()),
        ("forbid", row.forbidden_by.to_owned()),
    ];
    let note = row.note.map(|it| ("note", it.to_owned()));
    for (label, text) in facts.into_iter().chain(note) {
        out.line(&format!("       {}  {}", out.paint(Tone::Dim, &format!("{label:<6}")), clean(&text)))?;
    }
    Ok(())
}
