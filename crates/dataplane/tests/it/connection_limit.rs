//! Tests with more client connections than are allowed.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use gantry_domain::net::IpList;

use crate::{
    client::{get, post},
    engine::{Engine, json},
    gateway::{Gateway, KEY, catalog, key_entry},
    stalls::until,
};

const CHAT: &str = "/v1/chat/completions";

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

#[tokio::test]
async fn silent_connections_make_room_for_those_that_ask() {
    let mut engine = Engine::start().await;
    let keys = vec![(KEY, key_entry(1))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| config.max_connections = 4);
    let counters = &gateway.shared.counters;
    // One works.
    let mut busy = gateway.client().await;
    busy.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    let mut silent = Vec::new();
    for n in 1..=40 {
        silent.push(gateway.client().await);
        until("it was accepted", || read(&counters.connections) == n + 1).await;
    }
    until("the others were sent away", || read(&counters.connections_open) <= 4).await;
    assert_eq!(read(&counters.connections_displaced), 37);
    // A new client that sends a request is served.
    for _ in 0..10 {
        assert_eq!(gateway.client().await.ask(&get("/health", "")).await.status, 200);
    }
    call.send(&json("{}"));
    assert_eq!(busy.answer().await.status, 200);
    drop(silent);
    gateway.rows(1).await;
}

#[tokio::test]
async fn a_burst_of_silent_connections_refuses_nobody() {
    let mut engine = Engine::start().await;
    let keys = vec![(KEY, key_entry(1))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        config.max_connections = 8;
        config.threads = 1;
    });
    let counters = &gateway.shared.counters;
    let mut busy = gateway.client().await;
    busy.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    for _ in 0..20 {
        // All wait in the queue of the socket, and the thread accepts them without a pause.
        let burst: Vec<_> = (0..100).map(|_| TcpStream::connect(gateway.addr).unwrap()).collect();
        assert_eq!(gateway.client().await.ask(&get("/health", "")).await.status, 200);
        drop(burst);
    }
    assert_eq!(read(&counters.connections_refused_full), 0);
    call.send(&json("{}"));
    assert_eq!(busy.answer().await.status, 200);
    gateway.rows(1).await;
}

#[tokio::test]
async fn where_all_connections_work_a_new_one_is_closed_at_once() {
    let mut engine = Engine::start().await;
    let keys = vec![(KEY, key_entry(1))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| config.max_connections = 1);
    let mut busy = gateway.client().await;
    busy.send(&post(CHAT, KEY, "", r#"{"model":"m"}"#)).await;
    let call = engine.call().await;
    let mut more = gateway.client().await;
    more.until_closed().await;
    assert_eq!(read(&gateway.shared.counters.connections_refused_full), 1);
    call.send(&json("{}"));
    assert_eq!(busy.answer().await.status, 200);
    gateway.rows(1).await;
}

#[tokio::test]
async fn one_address_gets_so_many_and_a_trusted_proxy_all() {
    let engine = Engine::start().await;
    for trusted in [false, true] {
        let keys = vec![(KEY, key_entry(1))];
        let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
            config.max_connections_per_address = 2;
            config.count_loopback = true;
            if trusted {
                config.trusted_proxies = IpList::parse(["127.0.0.1"]).unwrap();
            }
        });
        let counters = &gateway.shared.counters;
        let mut first = gateway.client().await;
        let mut second = gateway.client().await;
        for client in [&mut first, &mut second] {
            assert_eq!(client.ask(&get("/health", "")).await.status, 200);
        }
        let mut third = gateway.client().await;
        if trusted {
            assert_eq!(third.ask(&get("/health", "")).await.status, 200);
            continue;
        }
        third.until_closed().await;
        assert_eq!(read(&counters.connections_refused_address), 1);
        assert_eq!(first.ask(&get("/health", "")).await.status, 200);
        drop(second);
        until("its place is free", || read(&counters.connections_open) == 1).await;
        // Silent ones of the same address make room.
        let mut silent = gateway.client().await;
        until("it was accepted", || read(&counters.connections_open) == 2).await;
        assert_eq!(gateway.client().await.ask(&get("/health", "")).await.status, 200);
        silent.until_closed().await;
        assert_eq!(read(&counters.connections_displaced), 1);
    }
}
