//! Helpers for tests only: the real program as a child process, an HTTP client for it, databases of their own, and a
//! way to skip tests when something that they need is missing.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test helper fails the test"
)]

mod air_gap;
mod answer;
mod client;
mod contract;
mod daemon;
mod database;
mod docker;
mod faults;
mod gateway;
mod model;
mod options;
mod patient;
mod process;
mod raw;
mod sse;
mod wire;

use std::{
    fs::OpenOptions,
    io::Write,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    time::Duration,
};

pub use air_gap::AirGap;
pub use answer::Answer;
pub use client::{Client, chat};
pub use contract::documented;
pub use daemon::Daemon;
pub use docker::{Foreign, copy, docker, docker_cli, inspect, sim_llamacpp, sim_vllm, simulator};
pub use faults::{LooseDisk, Postgres, SlowCpu, SmallDisk, docker_at_its_place, root_with};
pub use gateway::Gateway;
pub use model::{Managed, simulated};
pub use options::{Database, ModelIds, Options};
pub use process::{engine_processes, kill_process, lives};
pub use raw::raw;
pub use sse::{EventStream, events};
pub use wire::Wire;

/// Longest wait of a test for something that takes milliseconds on an idle machine. A machine that is busy with other
/// tests may stop for seconds. The runner ends a test after 10 minutes (`.config/nextest.toml`), without a word about what
/// it waited for, so other limits are 4 minutes or less.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until `probe` returns a value. Fails the test with a message about `what` if that takes longer than `limit`.
pub async fn eventually<T>(what: &str, limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(tokio::time::Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns a loopback port on which nothing listens, for a program that can't choose one itself. The port is below the
/// range from which the kernel assigns free ports (`net.ipv4.ip_local_port_range`), and no other test gets it while this one
/// runs, so it stays free until the program uses it. A program that has nothing to do with the tests may still take it: see
/// [`on_a_port`].
pub fn free_port() -> u16 {
    loop {
        let drawn = 20_000 + uuid::Uuid::now_v7().as_u128() % 12_000;
        let port = u16::try_from(drawn).expect("it is below 32000");
        if is_reserved(port) && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Reserves the port among all tests of the machine until this process ends, by a socket with an abstract name (`unix(7)`).
fn is_reserved(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("gantry-test-port-{port}")).unwrap();
    UnixListener::bind_addr(&name).map(std::mem::forget).is_ok()
}

/// How many ports are tried.
pub(crate) const PORTS: usize = 5;

/// Starts a program on a port that it can't choose itself. `start` returns `None` if the program does not come up there, and
/// is called with another port then, because another program may have taken the first one.
pub async fn on_a_port<T>(what: &str, mut start: impl AsyncFnMut(u16) -> Option<T>) -> T {
    for _ in 0..PORTS {
        if let Some(started) = start(free_port()).await {
            return started;
        }
    }
    panic!("{what} comes up on none of {PORTS} ports");
}

/// Notes that `test` can't run here, and why; fails it where no test may be skipped. Always returns `false`.
pub fn skip(test: &str, reason: &str) -> bool {
    assert!(std::env::var("REQUIRE_ALL").as_deref() != Ok("1"), "{test} can't run: {reason}");
    eprintln!("SKIP {test}: {reason}");
    if let Ok(path) = std::env::var("GANTRY_SKIP_FILE") {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}\tSKIP\t{reason}").unwrap();
    }
    false
}

/// Reads a number from the environment that makes a long test longer, or makes it repeat itself.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|it| it.parse().expect("it is a number"))
}

/// Returns the time from the gateway's clock.
pub fn now() -> gantry_domain::Timestamp {
    gantry_domain::Clock::default().now()
}
