//! SIGTERM to the real process.

use std::{os::unix::net::UnixDatagram, time::Instant};

use gantry_testkit::{Client, EventStream, Gateway, Options, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    support::{assert_error, start},
};

const CHAT: &str = "/v1/chat/completions";

fn chat(max_tokens: u32, stream: bool) -> Value {
    json!({
        "model": "m", "max_tokens": max_tokens, "stream": stream, "ignore_eos": true,
        "messages": [{ "role": "user", "content": "Tell me something long" }],
    })
}

/// A stream that has begun.
async fn streaming(client: &Client, id: &str, max_tokens: u32) -> EventStream {
    let request = client.request(Method::POST, CHAT).header("x-request-id", id).json(&chat(max_tokens, true));
    let mut stream = EventStream::new(request.send().await.unwrap());
    assert!(stream.next().await.unwrap().is_some());
    stream
}

/// Status of `/readyz` on a new connection; `None` if there is nobody.
async fn ready(gateway: &Gateway) -> Option<StatusCode> {
    let asked = Client::new(&gateway.url).request(Method::GET, "/readyz").send().await;
    asked.ok().map(|it| it.status())
}

async fn rows_of(gateway: &mut Gateway, ids: &[&str]) -> Vec<Value> {
    gateway.restart().await;
    let owner = gateway.owner().await;
    let mut rows = Vec::new();
    for id in ids {
        rows.push(owner.usage_of(id).await);
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_ends_and_nothing_fails() {
    let simulator = Simulator::start("--sim-tokens-per-sec 40").await;
    let mut gateway = start(Options::default().env("SHUTDOWN_DELAY_SEC", "15")).await;
    let client = simulator.join(&gateway).await;
    let stream = streaming(&client, "streams", 400).await;
    let plain = client.request(Method::POST, CHAT).header("x-request-id", "plain").json(&chat(400, false));
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    let plain =
        tokio::spawn(async move { plain.send().await.unwrap().error_for_status().unwrap().text().await });
    // So that both are on their way to the engine.
    assert_eq!(client.chat("m").await.status, 200);
    let owner = gateway.owner().await;
    gateway.signal("TERM");
    let asked_at = Instant::now();
    let told = eventually("it is not ready", gantry_testkit::PATIENCE, async || {
        let asked = Client::new(&gateway.url).request(Method::GET, "/readyz").send().await.ok()?;
        (asked.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(asked.json::<Value>().await.ok()?)
    })
    .await;
    println!("/readyz says so {:?} after SIGTERM", asked_at.elapsed());
    let checks = (&told["checks"]["database"], &told["checks"]["usage_spool"]);
    assert_eq!((&told["status"], checks), (&json!("shutting_down"), (&json!("ok"), &json!("ok"))), "{told}");
    assert_eq!(owner.get("/livez").await.status, 200);
    let events = stream.rest().await.unwrap();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
    let body: Value = serde_json::from_str(&plain.await.unwrap().unwrap()).unwrap();
    assert_eq!(body["usage"]["completion_tokens"], 400);
    assert!(gateway.ended().await, "{}", gateway.log());
    assert_eq!(ready(&gateway).await, None);
    for row in rows_of(&mut gateway, &["streams", "plain"]).await {
        assert_eq!((&row["status_code"], &row["completion_tokens"]), (&json!(200), &json!(400)), "{row}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_end_in_time_is_cut_told_and_metered() {
    let simulator = Simulator::start("--sim-tokens-per-sec 20").await;
    let mut gateway = start(Options::default().env("DRAIN_TIMEOUT_SEC", "15")).await;
    let client = simulator.join(&gateway).await;
    let stream = streaming(&client, "streams", 2000).await;
    let plain = client.request(Method::POST, CHAT).header("x-request-id", "plain").json(&chat(2000, false));
    #[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
    let plain = tokio::spawn(async move { plain.send().await });
    // So that the request above is on its way.
    assert_eq!(client.chat("m").await.status, 200);
    gateway.signal("TERM");
    // New requests are refused while the gateway drains.
    eventually("it takes no more", gantry_testkit::PATIENCE, async || {
        let answer = client.at(&gateway.url).chat("m").await;
        (answer.code() == "shutting_down").then(|| assert_error(&answer, 503, "shutting_down"))
    })
    .await;
    let events = stream.rest().await.unwrap();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "shutting_down", "{events:?}");
    let answer = plain.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert!(answer.text().await.unwrap().contains("shutting_down"));
    assert!(gateway.ended().await, "{}", gateway.log());
    let rows = rows_of(&mut gateway, &["streams", "plain"]).await;
    assert!(rows.iter().all(|it| it["status_code"] == 503), "{rows:?}");
    // What the client got of it counts.
    assert!(rows[0]["completion_tokens"].as_i64().unwrap() > 0 && rows[0]["estimated"] == true, "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once_and_the_rows_are_there() {
    for signals in [["TERM", "TERM"], ["TERM", "INT"]] {
        let simulator = Simulator::start("--sim-tokens-per-sec 5").await;
        let mut gateway = start(Options::default().env("DRAIN_TIMEOUT_SEC", "3600")).await;
        let client = simulator.join(&gateway).await;
        let stream = streaming(&client, "streams", 2000).await;
        gateway.signal(signals[0]);
        eventually("it drains", gantry_testkit::PATIENCE, async || {
            gateway.log().contains("stopping: running requests").then_some(())
        })
        .await;
        gateway.signal(signals[1]);
        let second = Instant::now();
        let events = stream.rest().await.unwrap();
        assert!(events.last().unwrap().contains("shutting_down"), "{events:?}");
        assert!(!gateway.ended().await, "it says that it did not end in order");
        println!("it is over {:?} after the second signal", second.elapsed());
        assert_eq!(rows_of(&mut gateway, &["streams"]).await[0]["status_code"], 503);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_manager_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(gantry_testkit::PATIENCE)).unwrap();
    let heard = || {
        let mut buffer = [0; 256];
        let n = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).trim_end().to_owned()
    };
    let options =
        Options::default().env("NOTIFY_SOCKET", path.to_str().unwrap()).env("WATCHDOG_USEC", "200000");
    let mut gateway = start(options).await;
    let begun = Instant::now();
    let mut told = vec![heard()];
    while told.iter().filter(|it| *it == "WATCHDOG=1").count() < 3 || !told.contains(&"READY=1".to_owned()) {
        assert!(begun.elapsed() < gantry_testkit::PATIENCE, "{told:?}");
        told.push(heard());
    }
    gateway.signal("TERM");
    while heard() != "STOPPING=1" {}
    assert!(gateway.ended().await);
}
