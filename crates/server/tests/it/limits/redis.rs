//! Redis as an operator has it: with TLS, a password and a database of its own; and what it refuses.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use gantry_testkit::{Client, Gateway, Options, eventually, free_port, skip};
use serde_json::json;
use tempfile::TempDir;

use super::parts::{Redis, SOON, engine, metric, metric_is, with_redis};
use crate::support::start;

const PASSWORD: &str = "redis-password-0001";
const OUTAGE: &str = "limits are not shared";
/// No request may take longer, whatever Redis does; one that waited for it would take for ever.
const BOUND: Duration = SOON;

async fn redis(gateway: &Gateway, what: &str) -> i64 {
    metric(gateway, &format!("gantry_limit_redis_{what}")).await
}

/// A gateway with a client that two requests a minute are allowed to.
async fn limited(options: Options) -> (Gateway, Client) {
    let gateway = start(options).await;
    let owner = gateway.owner().await;
    engine(&owner, "m", "").await;
    let (_, client) = owner.new_key(&json!({ "rpm_limit": 2 })).await;
    (gateway, client)
}

/// The limit holds, and nobody waits for it.
async fn assert_limited(client: &Client, allowed: usize) {
    for n in 0..4 {
        let begun = Instant::now();
        let answer = client.chat("m").await;
        assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
        assert_eq!(answer.status, if n < allowed { 200 } else { 429 }, "{n}: {}", answer.text);
    }
}

fn openssl(dir: &Path, arguments: &str) -> bool {
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(dir);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|it| it.success())
}

/// A certificate authority `ca.pem`, and a certificate of 127.0.0.1 by it; another authority `other.pem`.
fn certificates(dir: &Path) -> bool {
    const NEW: &str = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    [
        format!("{NEW} -x509 -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"),
        format!("{NEW} -x509 -days 2 -subj /CN=other -keyout other.key -out other.pem"),
        format!("{NEW} -subj /CN=redis -keyout redis.key -out redis.csr"),
        "x509 -req -days 2 -in redis.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out redis.pem"
            .to_owned(),
    ]
    .iter()
    .all(|it| openssl(dir, it))
}

#[tokio::test]
async fn redis_with_tls_a_password_and_a_database() {
    let test = "limits: redis with TLS";
    let dir = TempDir::new().unwrap();
    if !certificates(dir.path()) {
        skip(test, "openssl is not installed");
        return;
    }
    let folder = dir.path().to_owned();
    // Redis can't choose a port itself.
    let port = free_port();
    let tls = [
        ["--tls-port", &port.to_string()],
        ["--bind", "127.0.0.1"],
        ["--tls-cert-file", "redis.pem"],
        ["--tls-key-file", "redis.key"],
        ["--tls-ca-cert-file", "ca.pem"],
        ["--tls-auth-clients", "no"],
        ["--requirepass", PASSWORD],
    ];
    let Some(server) = Redis::start_in(dir, tls.as_flattened(), test).await else { return };
    let options =
        |ca: &str, url: &str| with_redis(url).env("SSL_CERT_FILE", &folder.join(ca).display().to_string());
    let url = format!("rediss://:{PASSWORD}@127.0.0.1:{port}/3");

    let (gateway, client) = limited(options("ca.pem", &url)).await;
    metric_is(&gateway, "gantry_limit_redis_up", 1).await;
    assert_limited(&client, 2).await;
    // In its own database, and nowhere else.
    let auth = format!("AUTH {PASSWORD}");
    eventually("the limit is exchanged", SOON, async || {
        let sizes = server.tell(&[&auth, "SELECT 3", "DBSIZE", "SELECT 0", "DBSIZE"]);
        assert_eq!(sizes[4], ":0");
        (sizes[2] == ":2").then_some(())
    })
    .await;
    assert_eq!((redis(&gateway, "failures_total").await, gateway.log().contains(PASSWORD)), (0, false));

    let wrong_password = format!("rediss://:redis-password-0002@127.0.0.1:{port}/3");
    let other_name = format!("rediss://:{PASSWORD}@localhost:{port}/3");
    let no_database = format!("rediss://:{PASSWORD}@127.0.0.1:{port}/99");
    let plain = format!("redis://:{PASSWORD}@127.0.0.1:{port}/3");
    for (ca, url, reason) in [
        ("other.pem", &url, "certificate"),
        ("nothing.pem", &url, "certificate"),
        ("ca.pem", &other_name, "certificate"),
        ("ca.pem", &wrong_password, "assword"),
        ("ca.pem", &no_database, "database"),
        ("ca.pem", &plain, ""),
    ] {
        let mut options = options(ca, url);
        if reason.is_empty() {
            // Nobody answers what is no TLS: that takes as long as it may.
            options = options.env("REDIS_TIMEOUT_MS", "250");
        }
        let (gateway, client) = limited(options).await;
        assert_limited(&client, 2).await;
        // It goes on trying, and says so once.
        eventually("several attempts", SOON, async || {
            (redis(&gateway, "failures_total").await > 2).then_some(())
        })
        .await;
        assert_eq!(redis(&gateway, "up").await, 0);
        assert!(metric(&gateway, "gantry_limit_fallback_total").await >= 4);
        let log = gateway.log();
        let said: Vec<_> = log.lines().filter(|it| it.contains(OUTAGE)).collect();
        assert!(said.len() == 1 && said[0].contains(reason), "{reason}: {said:?}");
        assert!(!log.contains("redis-password"), "{said:?}");
    }
}

#[tokio::test]
async fn what_redis_refuses_is_an_outage_and_what_it_forgets_is_not() {
    let test = "limits: what Redis refuses";
    let Some(server) = Redis::start(test).await else { return };
    let (gateway, _) = limited(with_redis(&server.url())).await;
    let owner = gateway.owner().await;
    metric_is(&gateway, "gantry_limit_redis_up", 1).await;

    // Emptied, or robbed of the script: nobody notices.
    for forget in ["FLUSHALL", "SCRIPT FLUSH"] {
        let (_, client) = owner.new_key(&json!({ "rpm_limit": 2 })).await;
        assert_eq!(client.chat("m").await.status, 200);
        let before = redis(&gateway, "exchanges_total").await;
        assert_eq!(server.tell(&[forget]), ["+OK"]);
        eventually("it is used again", SOON, async || {
            (redis(&gateway, "exchanges_total").await > before + 1).then_some(())
        })
        .await;
        assert_eq!(
            (redis(&gateway, "up").await, redis(&gateway, "failures_total").await),
            (1, 0),
            "{forget}"
        );
    }

    for (n, (breaks, heals, reason)) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
        // Only those who come anew are asked for it.
        ("CONFIG SET requirepass other-password", "CONFIG SET requirepass \"\"", ""),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(server.tell(&[breaks]), ["+OK"]);
        if reason.is_empty() {
            server.tell(&["AUTH other-password", "CLIENT KILL TYPE normal SKIPME yes"]);
        }
        metric_is(&gateway, "gantry_limit_redis_up", 0).await;
        let (_, client) = owner.new_key(&json!({ "rpm_limit": 2 })).await;
        assert_limited(&client, 2).await;
        let failures = redis(&gateway, "failures_total").await;
        eventually("it goes on trying", SOON, async || {
            (redis(&gateway, "failures_total").await > failures).then_some(())
        })
        .await;
        let log = gateway.log();
        let said: Vec<_> = log.lines().filter(|it| it.contains(OUTAGE)).collect();
        assert!(said.len() == n + 1, "once for each outage: {said:?}");
        assert!(said[n].to_uppercase().contains(reason), "{reason}: {said:?}");
        assert_eq!(server.tell(&["AUTH other-password", heals]).pop().unwrap(), "+OK");
        metric_is(&gateway, "gantry_limit_redis_up", 1).await;
        // What was used meanwhile is reported to Redis.
        assert_limited(&client, 0).await;
    }
}
