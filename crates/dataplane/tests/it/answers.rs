//! What an engine says is looked at before it is passed on and billed: what is no answer is a 502, and what has no usage is
//! estimated by its texts.

use gantry_domain::usage::Outcome;

use crate::{
    client::post,
    engine::{Engine, SSE_HEAD, chunk, json, with_status},
    gateway::{Gateway, KEY},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

#[tokio::test]
async fn a_success_that_is_no_answer_is_a_502_that_says_why_and_costs_nothing() {
    let zipped = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x0b";
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 6\r\n\r\n<html>";
    let redirect = "HTTP/1.1 307 Temporary Redirect\r\nlocation: https://login.example/?token=secret\r\ncontent-length: 0\r\n\r\n";
    let no_content = "HTTP/1.1 204 No Content\r\n\r\n";
    for (answer, reason) in [
        (zipped.to_owned(), "is compressed (`gzip`)"),
        (page.to_owned(), "is a web page"),
        (redirect.to_owned(), "is a redirect"),
        (with_status("200 OK", ""), "is empty"),
        (no_content.to_owned(), "is empty"),
    ] {
        let mut engine = Engine::start().await;
        let gateway = Gateway::start(engine.addr);
        let mut client = gateway.client().await;
        client.send(&post(CHAT, KEY, "", BODY)).await;
        let call = engine.call().await;
        assert_eq!(call.header("accept-encoding"), Some("identity"));
        call.send(&answer);
        let got = client.answer().await;
        assert_eq!((got.status, got.code().as_str()), (502, "bad_upstream"), "{answer}");
        assert!(got.body.contains(reason) && !got.body.contains("secret"), "{}", got.body);
        assert_eq!(got.header("x-should-retry"), Some("false"));
        let row = gateway.row().await;
        assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError), "{answer}");
        assert_eq!((row.prompt_tokens, row.completion_tokens), (0, 0), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_ends_before_its_first_byte_is_no_success() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", BODY)).await;
    engine.call().await.send(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    // The head is sent with the first byte, so that the client gets neither.
    client.until_closed().await;
    let row = gateway.row().await;
    assert_eq!((row.status_code, row.outcome), (502, Outcome::UpstreamError));
}

#[tokio::test]
async fn an_answer_without_usage_is_estimated_by_its_texts() {
    let chat = r#"{"id":"chatcmpl-1234567890","object":"chat.completion","created":1790000000,"model":"a-long-name-of-a-model",
        "choices":[{"index":0,"message":{"role":"assistant","content":"hello world!"},"finish_reason":"stop"}],"usage":"none"}"#;
    let messages = r#"{"id":"msg_1234567890","type":"message","role":"assistant","content":[{"type":"text","text":"hello world!"}]}"#;
    for (path, answer) in [(CHAT, chat), ("/v1/messages", messages)] {
        let mut engine = Engine::start().await;
        let gateway = Gateway::start(engine.addr);
        let mut client = gateway.client().await;
        client.send(&post(path, KEY, "", r#"{"model":"m","messages":[]}"#)).await;
        engine.call().await.send(&json(answer));
        assert_eq!(client.answer().await.status, 200);
        let row = gateway.row().await;
        assert_eq!((row.completion_tokens, row.estimated), (3, true), "{path}");
    }
}

#[tokio::test]
async fn proxies_pass_each_event_on_when_it_comes() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "", r#"{"model":"m","stream":true}"#)).await;
    let call = engine.call().await;
    call.send(&format!("{SSE_HEAD}{}0\r\n\r\n", chunk("data: [DONE]\n\n")));
    let got = client.answer().await;
    assert_eq!(
        (got.header("x-accel-buffering"), got.header("cache-control")),
        (Some("no"), Some("no-cache"))
    );
    gateway.row().await;
}

#[tokio::test]
async fn the_version_and_betas_of_anthropic_s_clients_reach_the_engine_at_their_endpoints_only() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let headers = "anthropic-version: 2023-06-01\r\nanthropic-beta: one,two\r\n";
    for path in ["/v1/messages", CHAT] {
        client
            .send(&post(&format!("{path}?beta=true&x=1"), KEY, headers, r#"{"model":"m","messages":[]}"#))
            .await;
        let call = engine.call().await;
        let ours = path != CHAT;
        let line = format!("POST {path}{} HTTP/1.1\r\n", if ours { "?beta=true" } else { "" });
        assert!(call.head.starts_with(&line), "{}", call.head);
        assert_eq!(call.header("anthropic-version"), ours.then_some("2023-06-01"));
        assert_eq!(call.header("anthropic-beta"), ours.then_some("one,two"));
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200);
    }
    gateway.rows(2).await;
}
