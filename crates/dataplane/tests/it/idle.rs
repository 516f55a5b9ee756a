//! Tests with connections that are silent: between two requests, in the middle of a head, and from their beginning.

use std::time::Duration;

use crate::{
    client::{get, post},
    engine::{Engine, json},
    gateway::{Gateway, KEY, catalog, key_entry},
};

const CHAT: &str = "/v1/chat/completions";
const LONG: Duration = Duration::from_hours(1);

/// Starts a gateway that waits for heads and between requests for as long as given.
fn gateway(engine: &Engine, head: Duration, idle: Duration) -> Gateway {
    Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| {
        (config.header_timeout, config.idle_timeout) = (head, idle);
    })
}

/// Returns after the gateway has lost its patience with a new connection that says nothing.
async fn a_head_s_time(gateway: &Gateway) {
    gateway.client().await.until_closed().await;
}

#[tokio::test]
async fn a_connection_may_lie_idle_longer_than_a_head_may_take() {
    let mut engine = Engine::start().await;
    let gateway = gateway(&engine, Duration::from_millis(300), LONG);
    let mut client = gateway.client().await;
    for _ in 0..2 {
        assert_eq!(client.ask(&get("/health", "")).await.status, 200);
        a_head_s_time(&gateway).await;
        client.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
        let call = engine.call().await;
        a_head_s_time(&gateway).await;
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200, "the engine took longer than a head may");
        a_head_s_time(&gateway).await;
    }
    gateway.rows(2).await;
}

#[tokio::test]
async fn half_a_head_is_not_waited_for() {
    let engine = Engine::start().await;
    let gateway = gateway(&engine, Duration::from_millis(300), LONG);
    let mut client = gateway.client().await;
    client.send("GET /health HT").await;
    client.until_closed().await;
    let mut client = gateway.client().await;
    assert_eq!(client.ask(&get("/health", "")).await.status, 200);
    client.send("GET /health HT").await;
    client.until_closed().await;
}

#[tokio::test]
async fn a_connection_that_lies_idle_for_too_long_is_closed() {
    let engine = Engine::start().await;
    let gateway = gateway(&engine, LONG, Duration::from_millis(100));
    let mut client = gateway.client().await;
    assert_eq!(client.ask(&get("/health", "")).await.status, 200);
    client.until_closed().await;
}

#[tokio::test]
async fn while_half_of_all_places_are_taken_idle_connections_are_closed_earlier() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| {
        (config.header_timeout, config.idle_timeout) = (Duration::from_secs(1), LONG);
        config.max_connections = 4;
    });
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = gateway.client().await;
        assert_eq!(client.ask(&get("/health", "")).await.status, 200);
        clients.push(client);
    }
    for client in &mut clients[..3] {
        client.until_closed().await;
    }
    assert_eq!(clients[3].ask(&get("/health", "")).await.status, 200);
}
