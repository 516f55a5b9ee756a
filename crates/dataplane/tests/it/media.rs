//! Tests of addresses that engines would fetch for clients, and of the framing of bodies.

use crate::{
    client::post,
    engine::{Engine, json},
    gateway::{Gateway, KEY, catalog, key_entry},
};

const CHAT: &str = "/v1/chat/completions";

fn with_picture(url: &str) -> String {
    let part = format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#)
}

#[tokio::test]
async fn engines_fetch_nothing_that_the_operator_did_not_allow() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| {
        config.media.hosts = vec!["img.example.org".to_owned()];
    });
    let mut client = gateway.client().await;
    let refused =
        ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "https://example.org/a.png"];
    for url in refused {
        let got = client.ask(&post(CHAT, KEY, "", &with_picture(url))).await;
        assert_eq!((got.status, got.code().as_str()), (400, "parameter_not_allowed"), "{}", got.body);
        assert!(got.body.contains("MEDIA_URL_HOSTS"), "{}", got.body);
    }
    assert!(engine.was_not_called());
    for url in ["data:image/png;base64,iVBORw0KGgo=", "https://img.example.org/a.png"] {
        let body = with_picture(url);
        client.send(&post(CHAT, KEY, "", &body)).await;
        let call = engine.call().await;
        assert_eq!(call.body, body.as_bytes());
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200);
    }
    gateway.rows(5).await;
}

#[tokio::test]
async fn transfer_codings_that_are_not_understood_are_refused() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let head = |coding: &str| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/json\r\ntransfer-encoding: {coding}\r\n\r\n"
        )
    };
    let body = "d\r\n{\"model\":\"m\"}\r\n0\r\n\r\n";
    let got = gateway.client().await.ask(&(head("gzip, chunked") + body)).await;
    assert_eq!((got.status, got.code().as_str()), (400, "invalid_request"), "{}", got.body);
    assert_eq!(got.header("connection"), Some("close"));
    let mut client = gateway.client().await;
    client.send(&(head("Chunked") + body)).await;
    engine.call().await.send(&json("{}"));
    assert_eq!(client.answer().await.status, 200);
    gateway.rows(1).await;
}

#[tokio::test]
async fn engines_load_tensors_only_if_the_operator_says_so() {
    let mut engine = Engine::start().await;
    let body = r#"{"model":"m","prompt_embeds":"AAAA"}"#;
    for allowed in [false, true] {
        let keys = vec![(KEY, key_entry(1))];
        let gateway = Gateway::with(catalog(engine.addr, keys), |config| config.media.tensors = allowed);
        let mut client = gateway.client().await;
        client.send(&post("/v1/completions", KEY, "", body)).await;
        if allowed {
            let call = engine.call().await;
            assert_eq!(call.body, body.as_bytes());
            call.send(&json("{}"));
        }
        let got = client.answer().await;
        assert_eq!(got.status, if allowed { 200 } else { 400 }, "{}", got.body);
        assert!(allowed || (got.code() == "parameter_not_allowed" && got.body.contains("REQUEST_TENSORS")));
        gateway.rows(1).await;
    }
}
