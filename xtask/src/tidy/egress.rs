//! Every place in the code that opens a connection or starts a program, and which rows of `gantry egress` it belongs to. A
//! place that is not listed here is one that the statement does not know.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use gantry_cli::egress::{Opener, Outgoing};

/// Text by which such a place is recognised. `Connector` is the one of `gantry-connect`; sockets and resolvers are those of
/// the standard library, tokio, rustix and socket2; the others are clients that connect by themselves.
const MARKS: &[&str] = &[
    "Connector",
    "HttpConnection",
    "connect(",
    "connect_with",
    "connect_lazy",
    "::connect_timeout",
    "TcpSocket",
    "UdpSocket",
    "UnixDatagram",
    "Socket::new",
    "lookup_host",
    "to_socket_addrs",
    "ToSocketAddrs",
    "PgListener",
    "hyper_util::client",
    "reqwest",
    "ureq::",
    "sd_notify::notify",
    "sendto(",
    "send_to(",
];
/// Text by which the start of a program is recognised, except where `Command` is clap's.
const PROGRAM: &str = "Command::new(";

use Outgoing::{
    Collector, CommandLine, ContainerRuntime, Database, EngineHub, EngineMedia, EngineOther,
    EngineStatistics, Engines, Hub, ImageRegistry, LocalSockets, Redis, Upstreams,
};

/// Engines open these; the gateway starts the engines.
const OF_ENGINES: &[Outgoing] = &[EngineHub, EngineMedia, EngineStatistics, EngineOther];

/// The places. One without rows opens nothing by itself: a comment says what it does.
const PLACES: &[(&str, &[Outgoing])] = &[
    // Runs `timedatectl` and `nvidia-smi`, which ask this machine.
    ("crates/cli/src/doctor/machine.rs", &[]),
    // Runs `systemctl` and `journalctl`, which ask this machine.
    ("crates/cli/src/doctor/service.rs", &[]),
    ("crates/cli/src/http.rs", &[CommandLine]),
    // What the others connect with.
    ("crates/connect/src/http1.rs", &[]),
    ("crates/connect/src/lib.rs", &[]),
    // Asks the kernel for its sockets.
    ("crates/connect/src/sockets.rs", &[]),
    ("crates/control/src/engine_http.rs", &[Engines, Upstreams]),
    ("crates/control/src/hub.rs", &[Hub]),
    ("crates/control/src/publish/targets.rs", &[Engines, Upstreams]),
    ("crates/control/src/shared_limits/redis.rs", &[Redis]),
    // Listens.
    ("crates/dataplane/src/plane.rs", &[]),
    ("crates/dataplane/src/upstream/engine.rs", &[Engines, Upstreams]),
    ("crates/dataplane/src/upstream/forward.rs", &[Engines, Upstreams]),
    ("crates/dataplane/src/upstream/pool.rs", &[Engines, Upstreams]),
    // Runs the loader of this machine, which lists a program's libraries.
    ("crates/image/src/libraries.rs", &[]),
    ("crates/runtime/src/docker/mod.rs", &[ContainerRuntime, ImageRegistry]),
    ("crates/runtime/src/process/launch.rs", OF_ENGINES),
    ("crates/runtime/src/process/program.rs", OF_ENGINES),
    ("crates/runtime/src/process/shim.rs", OF_ENGINES),
    ("crates/server/src/door.rs", &[LocalSockets]),
    ("crates/server/src/notify.rs", &[LocalSockets]),
    ("crates/server/src/otlp/client.rs", &[Collector]),
    ("crates/server/src/own_inference.rs", &[LocalSockets]),
    // `gantry engine-sim image` puts the simulator's image into Docker.
    ("crates/sim/src/image/mod.rs", &[ContainerRuntime]),
    // Listens.
    ("crates/sim/src/server.rs", &[]),
    ("crates/store/src/backup.rs", &[Database]),
    ("crates/store/src/dump/server.rs", &[Database]),
    ("crates/store/src/dump/source.rs", &[Database]),
    ("crates/store/src/inspect.rs", &[Database]),
    ("crates/store/src/restore/postgres.rs", &[Database]),
    ("crates/store/src/restore/scratch.rs", &[Database]),
    ("crates/store/src/restore/sqlite.rs", &[Database]),
    ("crates/store/src/store.rs", &[Database]),
    ("crates/store/src/supervision.rs", &[Database]),
];

/// Returns the places that the list lacks, and those that it names in vain.
pub(super) fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates")).context("can't read crates")? {
        let source = entry?.path().join("src");
        // It is part of no program.
        if !source.starts_with(root.join("crates/testkit")) {
            super::collect(&source, &mut files)?;
        }
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))?;
        let name = file.strip_prefix(root).map_or(file.clone(), PathBuf::from).display().to_string();
        if !is_test(&name) && connects(&text) {
            found.insert(name);
        }
    }
    Ok(compare(&found))
}

fn compare(found: &BTreeSet<String>) -> Vec<String> {
    let listed = |name: &str| PLACES.iter().any(|(it, _)| *it == name);
    let new = found.iter().filter(|it| !listed(it)).map(|it| {
        format!("{it} opens connections: say in xtask/src/tidy/egress.rs to which rows of `gantry egress` they belong")
    });
    let gone = PLACES.iter().filter(|(it, _)| !found.contains(*it));
    let gone = gone.map(|(it, _)| format!("xtask/src/tidy/egress.rs: {it} opens no connections any more"));
    // Nobody but the gateway's own code opens these.
    let own = Outgoing::ALL.into_iter().filter(|it| it.facts().opener == Opener::Gateway);
    let orphans = own.filter(|row| !PLACES.iter().any(|(_, rows)| rows.contains(row)));
    let orphans = orphans.map(|it| format!("xtask/src/tidy/egress.rs: no place opens the connection `{it}`"));
    new.chain(gone).chain(orphans).collect()
}

fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/")
}

/// Returns whether code, without its tests and comments, opens connections or starts programs.
fn connects(text: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let has_clap = code.contains("clap::");
    code.lines()
        .map(str::trim)
        .filter(|it| !it.starts_with("//"))
        .any(|line| MARKS.iter().any(|it| line.contains(it)) || (line.contains(PROGRAM) && !has_clap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_place_is_found_wherever_it_is_and_however_it_connects() {
        for line in [
            "let stream = TcpStream::connect(address).await?;",
            "use gantry_connect::Connector;",
            "let child = std::process::Command::new(\"curl\").spawn();",
            "        .connect(host)",
            "let pool = PgPoolOptions::new().connect_lazy_with(options);",
            "reqwest::get(url).await",
        ] {
            assert!(connects(line), "{line}");
        }
        for line in [
            "// TcpStream::connect(address)",
            "let connected = true;",
            "use clap::Command; Command::new(\"x\")",
        ] {
            assert!(!connects(line), "{line}");
        }
        assert!(!connects("fn x() {}\n#[cfg(test)]\nmod tests { TcpStream::connect(x) }"));
    }

    #[test]
    fn a_place_that_is_not_listed_and_one_that_is_gone_are_problems() {
        let mut found: BTreeSet<String> = PLACES.iter().map(|(it, _)| (*it).to_owned()).collect();
        assert_eq!(compare(&found), Vec::<String>::new());
        found.insert("crates/domain/src/new.rs".to_owned());
        found.remove("crates/control/src/hub.rs");
        let problems = compare(&found);
        assert!(problems.len() == 2 && problems[0].contains("crates/domain/src/new.rs"), "{problems:?}");
        assert!(problems[1].contains("hub.rs opens no connections any more"), "{problems:?}");
    }
}
