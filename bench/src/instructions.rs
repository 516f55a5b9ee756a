//! Counts the instructions that a request costs in user space, with Valgrind: a figure that does not depend on the machine's other
//! guests. What the kernel does for the process does not count.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use crate::{
    child::{Placement, Running, version},
    gateway::{self, Launch},
    http_client::Call,
    nginx,
    shot::{Ask, Connection, Shot},
};

const VALGRIND: [&str; 3] = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
/// Requests of two runs. Their difference has no start and no end in it.
const REQUESTS: [u64; 2] = [800, 3200];
const CONNECTIONS: u64 = 16;
const READY_WITHIN: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(50);

/// Whether they can be counted here.
pub(crate) fn can_count() -> bool {
    version("valgrind", "--version") != "unknown"
}

/// Returns the instructions for a unary request of nginx.
pub(crate) async fn of_nginx(dir: &Path, placement: Placement, engine: SocketAddr, key: &str) -> Result<f64> {
    let mut counts = [0; 2];
    for (count, n) in counts.iter_mut().zip(REQUESTS) {
        let dir = dir.join(format!("count-{n}"));
        std::fs::create_dir(&dir)?;
        let proxy = nginx::start_under(&VALGRIND, &dir, placement, engine, key).await?;
        *count = counted(proxy.running, proxy.addr, key, n).await.context("nginx in Valgrind")?;
    }
    Ok(difference(counts))
}

/// Returns the instructions for a unary request of the gateway, until its row is stored.
pub(crate) async fn of_gateway(launch: &Launch, key: &str) -> Result<f64> {
    let mut launch = launch.clone();
    launch.wrapper = VALGRIND.to_vec();
    let mut counts = [0; 2];
    for (count, n) in counts.iter_mut().zip(REQUESTS) {
        let mut running = launch.spawn()?;
        let health = Call::get(launch.addr, "/readyz");
        health.wait_for_200(&mut running, READY_WITHIN, POLL).await.context("the gateway in Valgrind")?;
        gateway::wait_for_route(launch.addr, key, &mut running).await.context("the gateway in Valgrind")?;
        *count = counted(running, launch.addr, key, n).await.context("the gateway in Valgrind")?;
    }
    Ok(difference(counts))
}

fn difference([few, many]: [u64; 2]) -> f64 {
    many.saturating_sub(few) as f64 / (REQUESTS[1] - REQUESTS[0]) as f64
}

/// Sends requests, ends the process, and returns how many instructions it says that it ran.
async fn counted(running: Running, addr: SocketAddr, key: &str, n: u64) -> Result<u64> {
    let shot = Arc::new(Shot::new(addr, key, Ask::Unary { body_bytes: 200 }));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let shot = Arc::clone(&shot);
        tasks.spawn(async move {
            let mut connection = Connection::open(&shot).await?;
            for _ in 0..n / CONNECTIONS {
                connection.exchange(&shot, |_| {}).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let log = running.log_path();
    running.stop()?;
    let text = std::fs::read_to_string(log)?;
    let count = collected(&text);
    ensure!(count > 0, "Valgrind said no number of instructions");
    Ok(count)
}

/// Sums the instructions of the processes that ended last; a log may have those of earlier runs.
fn collected(log: &str) -> u64 {
    let run = log.rfind("Callgrind, a call-graph").map_or(log, |at| &log[at..]);
    let numbers = run.lines().filter_map(|it| it.split_once("Collected :")?.1.trim().parse::<u64>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_of_the_last_run_count() {
        let log = "==1== Callgrind, a call-graph generating cache profiler\n==1== Collected : 5\n\
                   ==7== Callgrind, a call-graph generating cache profiler\n==8== Collected : 20\n==7== Collected : 3\n";
        assert_eq!((collected(log), collected("")), (23, 0));
    }
}
