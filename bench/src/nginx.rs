//! nginx as the reference for all figures: one worker that checks a key and passes everything on, nothing else.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::{
    child::{PROXY_CORE, Placement, Running, free_addresses},
    http_client::Call,
    procfs,
};

/// Valgrind is slow.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) running: Running,
    pub(crate) addr: SocketAddr,
    pub(crate) ready_ms: f64,
}

/// Starts nginx in front of the engine at `upstream`; `key` is the only one it lets through.
pub(crate) async fn start(
    dir: &Path,
    placement: Placement,
    upstream: SocketAddr,
    key: &str,
) -> Result<Proxy> {
    start_under(&[], dir, placement, upstream, key).await
}

/// The same, with the words of another program in front of it.
pub(crate) async fn start_under(
    wrapper: &[&str],
    dir: &Path,
    placement: Placement,
    upstream: SocketAddr,
    key: &str,
) -> Result<Proxy> {
    let [addr] = free_addresses()?;
    let dir = dir.join("nginx");
    fs::create_dir_all(&dir)?;
    let file = dir.join("nginx.conf");
    fs::write(&file, config(&dir, addr, upstream, key, procfs::is_root()))?;
    let words = [wrapper, &["nginx"]].concat();
    let mut command = placement.command(PROXY_CORE, &PathBuf::from(words[0]));
    command.args(&words[1..]).arg("-p").arg(&dir).arg("-e").arg(dir.join("error.log")).arg("-c").arg(&file);
    let began = Instant::now();
    let mut running = Running::start("nginx", &mut command, &dir)?;
    let health = Call::get(addr, "/health");
    health
        .wait_for_200(&mut running, READY_WITHIN, Duration::from_millis(1))
        .await
        .context("nginx did not start")?;
    Ok(Proxy { running, addr, ready_ms: began.elapsed().as_secs_f64() * 1e3 })
}

fn config(dir: &Path, addr: SocketAddr, upstream: SocketAddr, key: &str, is_root: bool) -> String {
    let dir = dir.display();
    // As root the worker would change to a user that cannot write below our directory.
    let user = if is_root { "user root;" } else { "" };
    format!(
        r#"{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid {dir}/nginx.pid;
error_log {dir}/error.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {dir}/client_body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    keepalive_requests 1000000000;
    tcp_nodelay on;
    map_hash_bucket_size 128;
    map $http_authorization $is_allowed {{ default 0; "Bearer {key}" 1; }}
    upstream engine {{
        server {upstream};
        keepalive 1024;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {addr} backlog=4096;
        location = /health {{ return 200; }}
        location / {{
            if ($is_allowed = 0) {{ return 401; }}
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"#
    )
}
