//! A gateway whose log can't be written, or that nobody reads.

use std::{os::fd::OwnedFd, sync::Arc};

use gantry_testkit::{Client, EventStream, Gateway, Options};
use serde_json::json;

use crate::{
    simulator::Simulator,
    support::{full_disk, full_pipe, left_pipe, start},
};

async fn logging_to(stderr: impl Into<OwnedFd>) -> Gateway {
    start(Options { stderr: Some(Arc::new(stderr.into())), ..Options::default() }).await
}

/// A stream of 100 tokens that has begun.
async fn streaming(client: &Client) -> EventStream {
    let body = json!({
        "model": "m", "max_tokens": 100, "stream": true, "ignore_eos": true,
        "messages": [{ "role": "user", "content": "Tell me something long" }],
    });
    let mut stream = client.stream("/v1/chat/completions", &body).await;
    assert!(stream.next().await.unwrap().is_some());
    stream
}

/// Fails unless it serves, lets a stream end after SIGTERM, and ends well.
async fn serves_and_ends(mut gateway: Gateway) {
    let simulator = Simulator::start("--sim-tokens-per-sec 40").await;
    let client = simulator.join(&gateway).await;
    assert_eq!(client.chat("m").await.status, 200);
    // Each refusal is a line of the log.
    assert_eq!(client.chat("no-such-model").await.status, 404);
    let stream = streaming(&client).await;
    gateway.signal("TERM");
    let events = stream.rest().await.unwrap();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
    assert!(gateway.ended().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_on_a_full_disk_neither_stops_it_nor_ends_it() {
    serves_and_ends(logging_to(full_disk()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_is_gone_neither_stops_it_nor_ends_it() {
    serves_and_ends(logging_to(left_pipe()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_while_it_serves_cuts_no_stream() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut gateway = logging_to(writer).await;
    let simulator = Simulator::start("--sim-tokens-per-sec 40").await;
    let client = simulator.join(&gateway).await;
    let stream = streaming(&client).await;
    drop(reader);
    gateway.signal("TERM");
    let events = stream.rest().await.unwrap();
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"), "{events:?}");
    assert!(gateway.ended().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_neither_holds_it_up_nor_keeps_it_from_ending() {
    let (_reader, writer) = full_pipe();
    serves_and_ends(logging_to(writer).await).await;
}
