//! `HAProxy` as a second reference: one thread that checks a key and passes everything on.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    child::{PROXY_CORE, Placement, Running, free_addresses, version},
    http_client::Call,
    nginx::Proxy,
};

const READY_WITHIN: Duration = Duration::from_secs(10);

/// Starts `HAProxy` in front of the engine at `upstream`; `key` is the only one it lets through. `None` if it is not installed.
pub(crate) async fn start(
    dir: &Path,
    placement: Placement,
    upstream: SocketAddr,
    key: &str,
) -> Result<Option<Proxy>> {
    if version("haproxy", "-v") == "unknown" {
        return Ok(None);
    }
    let [addr] = free_addresses()?;
    let dir = dir.join("haproxy");
    fs::create_dir(&dir)?;
    let file = dir.join("haproxy.cfg");
    fs::write(&file, config(addr, upstream, key))?;
    let mut command = placement.command(PROXY_CORE, &PathBuf::from("haproxy"));
    command.arg("-db").arg("-f").arg(&file);
    let began = Instant::now();
    let mut running = Running::start("haproxy", &mut command, &dir)?;
    let health = Call::get(addr, "/health");
    health
        .wait_for_200(&mut running, READY_WITHIN, Duration::from_millis(1))
        .await
        .context("HAProxy did not start")?;
    Ok(Some(Proxy { running, addr, ready_ms: began.elapsed().as_secs_f64() * 1e3 }))
}

fn config(addr: SocketAddr, upstream: SocketAddr, key: &str) -> String {
    format!(
        r#"global
    maxconn 8192
    nbthread 1
defaults
    mode http
    option http-no-delay
    http-reuse always
    timeout connect 5s
    timeout client 600s
    timeout server 600s
frontend all
    bind {addr} backlog 4096
    http-request return status 200 if {{ path /health }}
    http-request deny deny_status 401 unless {{ req.hdr(authorization) -m str "Bearer {key}" }}
    default_backend engine
backend engine
    server engine {upstream} pool-max-conn 1024
"#
    )
}
