//! Tests of what a request is charged if its engine counts in an unusual way, reports nonsense, or is left by its
//! client.

use std::{sync::Arc, time::Duration};

use gantry_dataplane::{Catalog, Route, RouteTarget};
use gantry_domain::{
    model::{EngineKind, Task},
    usage::{Outcome, UsageRow},
};

use crate::{
    client::post,
    engine::{Engine, PATIENCE, SSE_HEAD, chunk, json},
    gateway::{COOKIE, Gateway, KEY, catalog, key_entry, route, upstream},
};

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";
const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";

/// A gateway whose model `m` is served by such an engine; `None` for one of the registry.
fn served_by(engine: &Engine, kind: Option<EngineKind>) -> Gateway {
    let mut catalog = catalog(engine.addr, vec![(KEY, key_entry(1))]);
    let target = RouteTarget::Up(upstream(engine.addr));
    let route = Route { engine: kind, ..route("m", Task::Generate, target) };
    catalog.routes.insert("m".into(), Arc::new(route));
    Gateway::with(catalog, |_| {})
}

/// Returns the row of a request that gets this answer.
async fn row_of(kind: Option<EngineKind>, path: &str, body: &str, answer: &str) -> UsageRow {
    let mut engine = Engine::start().await;
    let gateway = served_by(&engine, kind);
    let mut client = gateway.client().await;
    client.send(&post(path, KEY, "", body)).await;
    engine.call().await.send(answer);
    client.answer().await;
    gateway.row().await
}

fn tokens(row: &UsageRow) -> (i64, i64, bool) {
    (row.prompt_tokens, row.completion_tokens, row.estimated)
}

fn streamed(events: &[&str]) -> String {
    let chunks: String = events.iter().map(|it| chunk(it)).collect();
    format!("{SSE_HEAD}{chunks}{}0\r\n\r\n", chunk("data: [DONE]\n\n"))
}

/// As llama-server b11434 answers: the usage is that of the first choice.
fn llama_answer(choices: &[(&str, &str)], usage: (u32, u32)) -> String {
    let choices: Vec<_> = choices
        .iter()
        .enumerate()
        .map(|(at, (text, reason))| {
            format!(r#"{{"text":"{text}","index":{at},"logprobs":null,"finish_reason":"{reason}"}}"#)
        })
        .collect();
    json(&format!(
        r#"{{"choices":[{}],"object":"text_completion","usage":{{"completion_tokens":{},"prompt_tokens":{},"total_tokens":9,"prompt_tokens_details":{{"cached_tokens":0}}}}}}"#,
        choices.join(","),
        usage.1,
        usage.0
    ))
}

#[tokio::test]
async fn a_plain_answer_of_llama_server_counts_all_its_choices() {
    let llama = Some(EngineKind::Llamacpp);
    let seven = ("makeknowpeallshow", "length");
    let of = async |body: &str, choices: &[(&str, &str)], usage| {
        let body = format!(r#"{{"model":"m","max_tokens":7,{body}}}"#);
        tokens(&row_of(llama, COMPLETIONS, &body, &llama_answer(choices, usage)).await)
    };
    assert_eq!(of(r#""prompt":"hello""#, &[seven], (3, 7)).await, (3, 7, false));
    // All of them went on as long as they were allowed to; the prompt was read once.
    assert_eq!(of(r#""prompt":"hello","n":3"#, &[seven; 3], (3, 7)).await, (3, 21, false));
    assert_eq!(of(r#""prompt":"hello","n_cmpl":2"#, &[seven; 2], (3, 7)).await, (3, 14, false));
    // This answer is half as long as the one that was counted.
    let short = ("makeknow", "stop");
    assert_eq!(of(r#""prompt":"hello","n":2"#, &[seven, short], (3, 7)).await, (3, 10, true));
    // A first answer that ends at once does not make the others free.
    let prompts = format!(r#""prompt":[{}]"#, vec![r#""hello world""#; 100].join(","));
    let mut choices = vec![("", "stop")];
    choices.resize(100, seven);
    assert_eq!(of(&prompts, &choices, (3, 1)).await, (3 + 346, 1 + 99 * 7, true));
    let tokens = of(r#""prompt":[[1,2,3,4],[5,6]]"#, &[seven; 2], (4, 7)).await;
    assert_eq!((tokens.1, tokens.2), (14, true));
    // One prompt.
    assert_eq!(of(r#""prompt":[1,2,3,4]"#, &[seven], (4, 7)).await, (4, 7, false));
}

#[tokio::test]
async fn a_stream_of_llama_server_counts_each_choice_for_itself() {
    let llama = Some(EngineKind::Llamacpp);
    let usage = |prompt: u32, completion: u32| {
        format!(
            r#""usage":{{"completion_tokens":{completion},"prompt_tokens":{prompt},"prompt_tokens_details":{{"cached_tokens":1}}}}"#
        )
    };
    // Completions have it in the last event of each choice, chats in an event behind it.
    let last = |at: u32, usage: &str| {
        format!(
            "data: {{\"choices\":[{{\"text\":\"x\",\"index\":{at},\"finish_reason\":\"length\"}}],{usage}}}\n\n"
        )
    };
    let events = [last(1, &usage(3, 7)), last(0, &usage(3, 5)), last(2, &usage(6, 7)), last(3, &usage(6, 2))];
    let body = r#"{"model":"m","stream":true,"prompt":["a","b"],"n":2}"#;
    let answer = streamed(&events.each_ref().map(String::as_str));
    let row = row_of(llama, COMPLETIONS, body, &answer).await;
    assert_eq!((tokens(&row), row.cached_tokens), ((9, 21, false), Some(2)), "two prompts of 3 and 6");

    let behind = |usage: &str| format!("data: {{\"choices\":[],{usage}}}\n\n");
    let events = [EVENT.to_owned(), behind(&usage(16, 7)), EVENT.to_owned(), behind(&usage(16, 4))];
    let body = r#"{"model":"m","stream":true,"messages":[],"n":2}"#;
    let answer = streamed(&events.each_ref().map(String::as_str));
    assert_eq!(tokens(&row_of(llama, CHAT, body, &answer).await), (16, 11, false));
    // An upstream of the registry is recognized by its `Server` header.
    let named = answer.replace("server: uvicorn", "Server: llama.cpp");
    assert_eq!(tokens(&row_of(None, CHAT, body, &named).await), (16, 11, false));

    // Other engines count as they go on, and all choices together at the end.
    let events = [last(0, &usage(3, 5)), last(1, &usage(3, 6)), behind(&usage(3, 14))];
    let answer = streamed(&events.each_ref().map(String::as_str));
    for other in [Some(EngineKind::Vllm), None] {
        assert_eq!(tokens(&row_of(other, CHAT, body, &answer).await), (3, 14, false));
    }
    // Broken off: what had been counted, or what was seen if that is more.
    let events = [behind(&usage(16, 2)), EVENT.repeat(12)];
    let cut = streamed(&events.each_ref().map(String::as_str)).replace("data: [DONE]", ": end here ");
    assert_eq!(tokens(&row_of(llama, CHAT, body, &cut).await), (16, 10, true));
}

#[tokio::test]
async fn a_response_is_one_answer() {
    let mut engine = Engine::start().await;
    let gateway = served_by(&engine, Some(EngineKind::Llamacpp));
    let mut client = gateway.client().await;
    for member in ["n", "n_cmpl"] {
        let body = format!(r#"{{"model":"m","input":"x","{member}":2}}"#);
        let got = client.ask(&post("/v1/responses", KEY, "", &body)).await;
        assert_eq!((got.status, got.code().as_str()), (400, "parameter_not_allowed"), "{}", got.body);
    }
    assert!(engine.was_not_called());
    gateway.rows(2).await;
}

#[tokio::test]
async fn counts_that_can_not_be_are_estimated() {
    let of =
        async |body: &str| tokens(&row_of(None, CHAT, r#"{"model":"m","messages":[]}"#, &json(body)).await);
    let sane = r#"{"usage":{"prompt_tokens":4096,"completion_tokens":1}}"#;
    assert_eq!(of(sane).await, (4096, 1, false));
    for body in [
        r#"{"usage":{"prompt_tokens":1000000000,"completion_tokens":1000000000}}"#,
        r#"{"usage":{"prompt_tokens":5000,"completion_tokens":1}}"#,
        r#"{"usage":{"prompt_tokens":5,"completion_tokens":5000}}"#,
    ] {
        assert_eq!(of(body).await, (27 / 4, body.len() as i64 / 4, true), "{body}");
    }
    // The engine reports one half: the other half is estimated.
    for body in [
        r#"{"usage":{"completion_tokens":2}}"#,
        r#"{"usage":{"prompt_tokens":"7","completion_tokens":2}}"#,
        r#"{"usage":{"prompt_tokens":NaN,"completion_tokens":2}}"#,
    ] {
        assert_eq!(of(body).await, (27 / 4, 2, true), "{body}");
    }
    let body = r#"{"usage":{"prompt_tokens":7}}"#;
    assert_eq!(of(body).await, (7, body.len() as i64 / 4, true));
}

#[tokio::test]
async fn who_leaves_a_plain_request_pays_for_the_time() {
    let mut engine = Engine::start().await;
    let gateway = served_by(&engine, None);
    let mut n = 0;
    // The client leaves before the head of the answer, and after it.
    for begun in [false, true] {
        let mut client = gateway.client().await;
        let body = r#"{"model":"m","max_tokens":4}"#;
        client.send(&post(CHAT, KEY, "", body)).await;
        let mut call = engine.call().await;
        if begun {
            call.send("HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{");
            client.head().await;
        }
        // This is long enough for the engine to have written all that it was allowed to.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(client);
        call.gone().await;
        n += 1;
    }
    // If there is a count of the engine, time is not charged.
    let mut client = gateway.client().await;
    client.send(&post("/tokenize", KEY, "", r#"{"model":"m","prompt":"x"}"#)).await;
    let mut call = engine.call().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(client);
    call.gone().await;
    let rows = gateway.rows(n + 1).await;
    for row in &rows[..n] {
        assert_eq!((row.status_code, row.outcome), (499, Outcome::ClientClosed));
        assert_eq!(tokens(row), (28 / 4, 4, true), "{row:?}");
    }
    assert_eq!(tokens(&rows[n]), (0, 0, false));
}

#[tokio::test]
async fn an_error_beside_a_delta_is_an_error() {
    for error in [
        "data: {\"error\":{\"message\":\"m\"}}\n\n",
        "data:{\"error\":{\"message\":\"m\"}}\n\n",
        "data: { \"error\" : {\"message\":\"m\"}}\n\n",
    ] {
        let answer = format!("{SSE_HEAD}{}0\r\n\r\n", chunk(&format!("{EVENT}{error}")));
        let row = row_of(None, CHAT, r#"{"model":"m","stream":true}"#, &answer).await;
        assert_eq!((row.status_code, row.outcome), (200, Outcome::UpstreamError), "{error}");
    }
    let said = EVENT.replace('x', r#"data: {\"error\":1}\n\ndata: {\"error\":1}"#);
    let row = row_of(None, CHAT, r#"{"model":"m","stream":true}"#, &streamed(&[&said])).await;
    assert_eq!(row.outcome, Outcome::Ok);
}

#[tokio::test]
async fn an_event_in_two_pieces_counts_as_one_in_one_piece() {
    let ask = async |answer: &str| row_of(None, CHAT, r#"{"model":"m","stream":true}"#, answer).await;
    let error = "data: {\"error\":{\"message\":\"m\"}}\n\n";
    for cut in 1..error.len() - 1 {
        let (a, b) = error.split_at(cut);
        let row = ask(&streamed(&[EVENT, a, b])).await;
        assert_eq!(row.outcome, Outcome::UpstreamError, "cut at {cut}");
    }
    for cut in 1..EVENT.len() - 1 {
        let (a, b) = EVENT.split_at(cut);
        let row = ask(&streamed(&[EVENT, EVENT, a, b])).await;
        assert_eq!((row.outcome, row.completion_tokens), (Outcome::Ok, 2), "cut at {cut}");
    }
}

#[tokio::test]
async fn a_media_type_is_the_same_in_any_case() {
    let answer = streamed(&[EVENT, EVENT]).replace("text/event-stream", "Text/Event-Stream");
    let row = row_of(None, CHAT, r#"{"model":"m","stream":true}"#, &answer).await;
    assert!(row.ttft_ms.is_some());
    assert_eq!((row.completion_tokens, row.estimated), (1, true));
}

/// What the gateway serves.
fn same(gateway: &Gateway) -> Catalog {
    let now = gateway.shared.catalog.load();
    Catalog {
        keys: now.keys.clone(),
        sessions: now.sessions.clone(),
        accounts: now.accounts.clone(),
        states: now.states.clone(),
        routes: now.routes.clone(),
    }
}

#[tokio::test]
async fn streams_end_with_the_key_or_session_that_asked_for_them() {
    for of_key in [true, false] {
        let mut engine = Engine::start().await;
        let gateway = served_by(&engine, None);
        let stream = r#"{"model":"m","stream":true}"#;
        let by_key = post(CHAT, KEY, "", stream);
        let by_session = by_key.replace(
            "authorization: Bearer gty_full",
            &format!("cookie: {COOKIE}\r\norigin: http://gateway"),
        );
        let (mut mine, mut other) = (gateway.client().await, gateway.client().await);
        let (ended, stays) = if of_key { (&by_key, &by_session) } else { (&by_session, &by_key) };
        mine.send(ended).await;
        let mut call = engine.call().await;
        other.send(stays).await;
        let others = engine.call().await;
        for (client, call) in [(&mut mine, &call), (&mut other, &others)] {
            call.send(&format!("{SSE_HEAD}{}", chunk(&EVENT.repeat(4))));
            client.head().await;
            client.chunk().await;
        }
        // A catalog like the one before ends nothing.
        gateway.shared.publish(same(&gateway));
        let mut less = same(&gateway);
        if of_key {
            less.keys.clear();
        } else {
            less.sessions.clear();
        }
        gateway.shared.publish(less);
        let last = tokio::time::timeout(PATIENCE, mine.chunk()).await.unwrap().unwrap();
        assert!(
            last.starts_with("data: {\"error\"")
                && last.contains("invalid_api_key")
                && last.contains("the key or session that asked for this stream has been ended"),
            "{last}"
        );
        assert_eq!(mine.chunk().await, None);
        call.gone().await;
        // Other callers' streams are not affected.
        others.send(&format!("{}{}0\r\n\r\n", chunk(EVENT), chunk("data: [DONE]\n\n")));
        assert_eq!(other.chunk().await.as_deref(), Some(EVENT));
        assert_eq!(other.chunk().await.as_deref(), Some("data: [DONE]\n\n"));
        let rows = gateway.rows(2).await;
        assert_eq!((rows[0].status_code, rows[0].outcome), (401, Outcome::ClientError));
        assert_eq!((rows[0].completion_tokens, rows[0].estimated), (3, true));
        assert_eq!((rows[1].status_code, rows[1].outcome), (200, Outcome::Ok));
    }
}
