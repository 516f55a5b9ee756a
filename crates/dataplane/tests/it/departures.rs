//! The ways in which a client leaves: with FIN, with RST, or by not reading any more.

use std::time::{Duration, Instant};

use gantry_domain::usage::Outcome;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    client::post,
    engine::{Engine, PATIENCE, SSE_HEAD, chunk},
    gateway::{Gateway, KEY},
};

const CHAT: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"model":"m","stream":true}"#;
const EVENT: &str = "data: {\"choices\":[{}]}\n\n";

#[tokio::test]
async fn half_a_connection_is_none_and_neither_is_a_broken_one() {
    let mut engine = Engine::start().await;
    for (how, begun) in [("FIN", false), ("FIN", true), ("RST", false), ("RST", true)] {
        let gateway = Gateway::start(engine.addr);
        let mut client = gateway.client().await;
        client.send(&post(CHAT, KEY, "", STREAM)).await;
        let mut call = engine.call().await;
        if begun {
            call.send(&format!("{SSE_HEAD}{}", chunk(EVENT)));
            client.arrived().await;
        }
        let left = Instant::now();
        // Kept, so that only the one half is closed.
        let _half = if how == "FIN" {
            client.finish().await;
            Some(client)
        } else {
            client.reset();
            None
        };
        call.gone().await;
        println!("{how}, stream begun: {begun}: the engine's request is dropped after {:?}", left.elapsed());
        let row = gateway.row().await;
        assert_eq!((row.status_code, row.outcome), (499, Outcome::ClientClosed), "{how} {begun}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_its_engine_and_no_memory() {
    const OFFERED: usize = 256 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Gateway::start(listener.local_addr().unwrap());
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", STREAM)).await;
    let (mut engine, _) = listener.accept().await.unwrap();
    let mut request = [0; 4096];
    assert!(engine.read(&mut request).await.unwrap() > 0);
    let events = chunk(&EVENT.repeat(1000));
    engine.write_all(SSE_HEAD.as_bytes()).await.unwrap();
    client.arrived().await;
    let rest = |taken: usize| &events.as_bytes()[taken % events.len()..];
    let mut taken = 0;
    // A second without room for one more byte means that it is held up. On a busy machine it may go on later: no event is
    // torn by that.
    while let Ok(wrote) = tokio::time::timeout(Duration::from_secs(1), engine.write(rest(taken))).await {
        taken += wrote.unwrap();
        assert!(taken < OFFERED, "it goes on taking");
    }
    println!("{} KiB lie between an engine and a client that does not read", taken >> 10);
    // Others are served meanwhile, and when the client goes, the request to the engine ends.
    let mut other = gateway.client().await;
    assert_eq!(other.ask(&crate::client::get("/health", "")).await.status, 200);
    drop(client);
    let left = Instant::now();
    while let Ok(Ok(n)) = tokio::time::timeout(PATIENCE, engine.write(rest(taken))).await {
        taken += n;
    }
    println!("its engine is let go {:?} after it left", left.elapsed());
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (499, Outcome::ClientClosed));
}
