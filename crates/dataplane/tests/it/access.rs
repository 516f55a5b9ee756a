//! Tests of access: who may ask for what, and requests that are refused before an engine gets them.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::sync_channel},
    time::Duration,
};

use gantry_dataplane::{
    KeyEntry,
    access::{AccessFormat, AccessLog},
};
use gantry_domain::{KeyId, Timestamp, UserId, key::Scopes, net::IpList, usage::Outcome, web::Web};

use crate::{
    client::{get, post},
    engine::{Engine, json},
    gateway::{COOKIE, Gateway, KEY, catalog, key_entry},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

#[tokio::test]
async fn the_matrix_of_keys() {
    let engine = Engine::start().await;
    let ips = |text| IpList::parse([text]).unwrap();
    let keys = vec![
        (KEY, key_entry(1)),
        ("expired", KeyEntry { expires_at: Some(Timestamp(1)), ..key_entry(2) }),
        ("chat-only", KeyEntry { scopes: Scopes::parse("chat").unwrap(), ..key_entry(3) }),
        ("model-e", KeyEntry { models: Some(["e".to_owned()].into()), ..key_entry(4) }),
        ("elsewhere", KeyEntry { ip_allowlist: ips("10.0.0.0/8"), ..key_entry(5) }),
        ("here", KeyEntry { ip_allowlist: ips("127.0.0.0/8"), ..key_entry(6) }),
        ("proxied", KeyEntry { ip_allowlist: ips("203.0.113.7"), ..key_entry(7) }),
    ];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        config.trusted_proxies = IpList::parse(["127.0.0.1"]).unwrap();
    });
    engine.always(&json("{}"));
    let mut client = gateway.client().await;
    let forwarded = "x-forwarded-for: 203.0.113.7\r\n";
    let cases = [
        (CHAT, KEY, "", BODY, 200, ""),
        (CHAT, "nobody", "", BODY, 401, "invalid_api_key"),
        (CHAT, "expired", "", BODY, 401, "invalid_api_key"),
        (CHAT, "chat-only", "", BODY, 200, ""),
        ("/v1/completions", "chat-only", "", BODY, 403, "insufficient_scope"),
        (CHAT, "model-e", "", BODY, 403, "model_not_allowed"),
        ("/v1/embeddings", "model-e", "", r#"{"model":"e"}"#, 200, ""),
        (CHAT, "elsewhere", "", BODY, 403, "ip_not_allowed"),
        (CHAT, "here", "", BODY, 200, ""),
        (CHAT, "proxied", "", BODY, 403, "ip_not_allowed"),
        (CHAT, "proxied", forwarded, BODY, 200, ""),
        (CHAT, "proxied", "x-forwarded-for: junk\r\n", BODY, 403, "ip_not_allowed"),
    ];
    for (path, key, extra, body, status, code) in cases {
        let got = client.ask(&post(path, key, extra, body)).await;
        assert_eq!((got.status, got.code().as_str()), (status, code), "{path} {key} {extra}");
        assert!(got.header("x-request-id").is_some());
    }
    let plain =
        |header: &str| format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\n{header}content-length: 13\r\n\r\n{BODY}");
    assert_eq!(client.ask(&plain("x-api-key: gty_full\r\n")).await.status, 200);
    assert_eq!(client.ask(&plain("api-key: gty_full\r\n")).await.status, 200);
    assert_eq!(client.ask(&plain("authorization: bearer gty_full\r\n")).await.status, 200);
    assert_eq!(client.ask(&plain("authorization: Basic eA==\r\n")).await.status, 401);
    assert_eq!(client.ask(&plain("")).await.status, 401);
    assert_eq!(gateway.shared.counters.refused.load(Relaxed), 4);
    assert!(gateway.shared.catalog.load().keys.values().any(|it| it.state.last_used().is_some()));
    // Each request has a row, except those refused with 401.
    gateway.rows(13).await;
}

#[tokio::test]
async fn a_refused_key_is_named_by_the_header_that_was_read() {
    let engine = Engine::start().await;
    let keys =
        vec![(KEY, key_entry(1)), ("expired", KeyEntry { expires_at: Some(Timestamp(1)), ..key_entry(2) })];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    let mut client = gateway.client().await;
    let good = format!("x-api-key: {KEY}\r\n");
    let both = format!("authorization: Bearer junk\r\n{good}");
    let cases = [
        ("authorization: Bearer junk\r\n", "the API key in `authorization` is not valid"),
        ("x-api-key: junk\r\n", "the API key in `x-api-key` is not valid"),
        ("api-key: junk\r\n", "the API key in `api-key` is not valid"),
        ("api-key: expired\r\n", "the API key in `api-key` has expired"),
        (both.as_str(), "the API key in `authorization` is not valid, and `x-api-key` is not read beside it"),
    ];
    for (headers, message) in cases {
        let got = client.ask(&get("/v1/models", headers)).await;
        assert_eq!((got.status, got.json()["error"]["message"].as_str()), (401, Some(message)));
    }
    // An empty header is none.
    let got = client.ask(&get("/v1/models", &format!("authorization: Bearer  \r\n{good}"))).await;
    assert_eq!(got.status, 200, "{}", got.body);
}

#[tokio::test]
async fn a_session_may_ask_from_the_gateway_s_own_pages() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(catalog(engine.addr, vec![]), |config| {
        config.web = Web::new(vec!["g".into(), "gateway".into()], vec!["https://ui.example".into()]);
    });
    engine.always(&json("{}"));
    let mut client = gateway.client().await;
    let cases = [
        ("", 200),
        ("sec-fetch-site: same-origin\r\n", 200),
        ("sec-fetch-site: none\r\n", 200),
        ("sec-fetch-site: cross-site\r\n", 403),
        ("sec-fetch-site: same-site\r\norigin: http://g\r\n", 403),
        ("origin: http://g\r\n", 200),
        ("origin: https://evil.example\r\n", 403),
        ("origin: null\r\n", 403),
        ("origin: https://ui.example\r\n", 200),
    ];
    for (extra, status) in cases {
        let request = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: g\r\ncookie: x=1; {COOKIE}\r\n{extra}content-length: 13\r\n\r\n{BODY}"
        );
        let got = client.ask(&request).await;
        assert_eq!(got.status, status, "{extra}");
        if status == 403 {
            assert_eq!(got.code(), "cross_site_request");
        }
    }
    let forged = get("/v1/models", "cookie: svc_session=abc.bad\r\n");
    assert_eq!(client.ask(&forged).await.status, 401);
    assert_eq!(client.ask(&get("/v1/models", &format!("cookie: {COOKIE}\r\n"))).await.status, 200);
    let rows = gateway.rows(5).await;
    assert!(rows.iter().all(|it| (it.key_id, it.user_id) == (None, Some(UserId(5)))));
}

#[tokio::test]
async fn in_development_anyone_may() {
    let engine = Engine::start().await;
    let chats_with_nothing = KeyEntry {
        scopes: Scopes::parse("embeddings").unwrap(),
        models: Some([].into()),
        expires_at: Some(Timestamp(0)),
        ..key_entry(7)
    };
    let keys = vec![("known", chats_with_nothing)];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        config.allow_all_keys = true;
        config.session = Arc::new(|cookie| (cookie == COOKIE).then_some([7; 32]));
    });
    engine.always(&json("{}"));
    let mut client = gateway.client().await;
    assert_eq!(client.ask(&post(CHAT, "whatever", "", BODY)).await.status, 200);
    assert_eq!(client.ask(&post(CHAT, "known", "", BODY)).await.status, 200);
    // Known callers are metered all the same.
    let rows = gateway.rows(2).await;
    assert_eq!((rows[0].key_id, rows[0].user_id, rows[0].org_id), (None, None, None));
    assert_eq!((rows[1].key_id, rows[1].org_id.is_some()), (Some(KeyId(7)), true));
}

#[tokio::test]
async fn a_request_that_comes_back_goes_no_second_round() {
    let mut engine = Engine::start().await;
    let keys = vec![(KEY, key_entry(1))];
    let gateway = Gateway::with(catalog(engine.addr, keys), |config| {
        config.via = http::HeaderValue::from_static("1.1 gantry-a");
    });
    let mut client = gateway.client().await;
    for (came, goes) in [("", "1.1 gantry-a"), ("via: 1.1 gantry-b\r\n", "1.1 gantry-b, 1.1 gantry-a")] {
        let request = post(CHAT, KEY, came, BODY);
        let (answer, ()) = tokio::join!(client.ask(&request), async {
            let call = engine.call().await;
            assert_eq!(call.header("via"), Some(goes));
            call.send(&json("{}"));
        });
        assert_eq!(answer.status, 200);
    }
    let looped = client.ask(&post(CHAT, KEY, "via: 1.0 proxy, 1.1 gantry-a\r\n", BODY)).await;
    assert_eq!((looped.status, looped.code().as_str()), (508, "request_loop"));
    gateway.rows(3).await;
}

#[tokio::test]
async fn what_can_not_be_served_is_refused_with_a_row() {
    let mut engine = Engine::start().await;
    let gateway =
        Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| config.max_body = 1000);
    let mut client = gateway.client().await;
    let cases = [
        (CHAT, r#"{"model":"nope"}"#, 404, "model_not_found", None, Outcome::ClientError),
        (CHAT, r#"{"model":"e"}"#, 400, "task_mismatch", None, Outcome::ClientError),
        ("/v1/embeddings", BODY, 400, "task_mismatch", None, Outcome::ClientError),
        (CHAT, r#"{"model":"loading"}"#, 503, "model_not_running", Some("2"), Outcome::Rejected),
        (CHAT, r#"{"model":"down"}"#, 503, "model_not_running", None, Outcome::Rejected),
        (CHAT, r#"{"model":"failed"}"#, 503, "model_not_running", None, Outcome::Rejected),
        (CHAT, "{", 400, "invalid_json", None, Outcome::ClientError),
        (CHAT, r#"{"model":"m","n":17}"#, 400, "parameter_not_allowed", None, Outcome::ClientError),
        (CHAT, r#"{"model":"m","model":"m"}"#, 400, "duplicate_key", None, Outcome::ClientError),
        (CHAT, r"{}", 400, "invalid_request", None, Outcome::ClientError),
    ];
    for (path, body, status, code, retry_after, _) in &cases {
        let got = client.ask(&post(path, KEY, "", body)).await;
        assert_eq!(
            (got.status, got.code().as_str(), got.header("retry-after")),
            (*status, *code, *retry_after),
            "{body}"
        );
        let retry = if retry_after.is_some() { "true" } else { "false" };
        assert_eq!(got.header("x-should-retry"), Some(retry), "{body}");
        if body.contains("failed") {
            assert!(got.json()["error"]["message"].as_str().unwrap().contains("failed"));
        }
    }
    let typed = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/xml\r\ncontent-length: 13\r\n\r\n{BODY}"
    );
    assert_eq!(client.ask(&typed).await.code(), "unsupported_media_type");
    let packed = client.ask(&post(CHAT, KEY, "content-encoding: br\r\n", BODY)).await;
    assert_eq!((packed.status, packed.code().as_str()), (415, "unsupported_media_type"));
    assert!(packed.json()["error"]["message"].as_str().unwrap().contains("Content-Encoding"));
    let long = "x".repeat(1001);
    let got = client.ask(&post(CHAT, KEY, "", &long)).await;
    assert_eq!(
        (got.status, got.code().as_str(), got.header("connection")),
        (413, "request_too_large", Some("close"))
    );
    client.until_closed().await;
    // A body without a length is counted as it comes.
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {KEY}\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{long}\r\n0\r\n\r\n"
    );
    assert_eq!(gateway.client().await.ask(&chunked).await.status, 413);
    assert!(engine.was_not_called());
    let rows = gateway.rows(cases.len() + 4).await;
    for (row, case) in rows.iter().zip(&cases) {
        assert_eq!((row.status_code, row.outcome, row.prompt_tokens), (case.2, case.5, 0), "{case:?}");
    }
    // A request refused by a guard has the requested model's name in its row, too; if it names two models, the row has
    // none.
    for (at, name) in [(0, "nope"), (3, "loading"), (7, "m"), (8, "")] {
        assert_eq!(rows[at].model_name, name, "{:?}", cases[at]);
    }
}

/// Returns the lines of the access log for these paths.
async fn lines_for(format: AccessFormat, paths: &[String]) -> Vec<String> {
    let engine = Engine::start().await;
    let (to, lines) = sync_channel(64);
    let gateway = Gateway::with(catalog(engine.addr, vec![]), |config| {
        config.access = Some(AccessLog { format, failures_only: false, to, dropped: Arc::default() });
    });
    let mut client = gateway.client().await;
    for path in paths {
        assert_eq!(client.ask(&get(path, "")).await.status, 200);
    }
    // The last block comes when the threads end.
    gateway.rows(0).await;
    let text: Vec<u8> = lines.try_iter().flatten().collect();
    String::from_utf8(text).unwrap().split_terminator('\n').map(str::to_owned).collect()
}

#[tokio::test]
async fn a_path_in_the_access_log_is_short() {
    // In the second path, the cut falls into the middle of a character.
    let long = [format!("/{}", "a".repeat(5000)), format!("/{}é{}", "a".repeat(298), "b".repeat(5000))];
    for format in [AccessFormat::Text, AccessFormat::Json] {
        let lines = lines_for(format, &long).await;
        assert_eq!(lines.len(), 2);
        for (line, n) in lines.iter().zip([299, 298]) {
            let shown = format!("/{}", "a".repeat(n));
            assert!(line.contains(&shown) && !line.contains(&format!("{shown}a")), "{line}");
            // Ids have one or two of them.
            assert!(!line.contains(&"b".repeat(40)), "{line}");
        }
    }
}

#[tokio::test]
async fn a_path_in_the_access_log_tells_a_terminal_nothing() {
    // CSI of one character, two ends of a line, an override of the writing's direction, and words.
    let odd = "/a\u{9b}31mred\u{2028}b\u{85}c\u{202e}d/größe'x'".to_owned();
    let lines = lines_for(AccessFormat::Text, std::slice::from_ref(&odd)).await;
    let shown = "GET /a\\u{9b}31mred\\u{2028}b\\u{85}c\\u{202e}d/größe'x' status=200";
    assert!(lines.len() == 1 && lines[0].contains(shown), "{lines:?}");
}

#[tokio::test]
async fn a_slow_body_is_not_waited_for() {
    let engine = Engine::start().await;
    let gateway = Gateway::with(catalog(engine.addr, vec![(KEY, key_entry(1))]), |config| {
        config.body_timeout = Duration::from_millis(50);
    });
    let mut client = gateway.client().await;
    let request = post(CHAT, KEY, "", BODY);
    let got = client.ask(&request[..request.len() - 2]).await;
    assert_eq!((got.status, got.code().as_str()), (408, "request_timeout"));
    assert_eq!(gateway.row().await.status_code, 408);
}

#[tokio::test]
async fn models_are_listed_for_those_who_may_call_them() {
    let engine = Engine::start().await;
    let keys = vec![
        (KEY, key_entry(1)),
        ("model-e", KeyEntry { models: Some(["e".to_owned(), "down".to_owned()].into()), ..key_entry(2) }),
        ("embeds", KeyEntry { scopes: Scopes::parse("embeddings").unwrap(), ..key_entry(3) }),
        ("completes", KeyEntry { scopes: Scopes::parse("completions").unwrap(), ..key_entry(4) }),
    ];
    let gateway = Gateway::with(catalog(engine.addr, keys), |_| {});
    let mut client = gateway.client().await;
    let mut ask = async |path: &str, key: &str| {
        client.ask(&get(path, &format!("authorization: Bearer {key}\r\n"))).await
    };
    let ids = |list: &serde_json::Value| -> Vec<_> {
        list["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&ask("/v1/models", KEY).await.json()), ["e", "m", "org/m"]);
    assert_eq!(ids(&ask("/v1/models", "model-e").await.json()), ["e"]);
    // Models that its scopes are not for are not listed, either.
    assert_eq!(ids(&ask("/v1/models", "embeds").await.json()), ["e"]);
    assert_eq!(ids(&ask("/v1/models", "completes").await.json()), ["m", "org/m"]);
    assert_eq!(ask("/v1/models/m", "embeds").await.code(), "model_not_found");
    assert_eq!(
        ask("/v1/models/org/m", KEY).await.json(),
        serde_json::json!({"id": "org/m", "object": "model", "created": 1_700_000_000, "owned_by": "gantry", "task": "generate", "max_model_len": 4096, "type": "base", "capabilities": {"completion_chat": true}})
    );
    assert_eq!(ask("/v1/models/org%2Fm?x=1", KEY).await.status, 200);
    assert_eq!(ask("/v1/models/m", "model-e").await.code(), "model_not_found");
    assert_eq!(ask("/v1/models/down", KEY).await.status, 404);
    assert_eq!(ask("/v1/models", "nobody").await.status, 401);
    gateway.rows(0).await;
}
