//! The engines' surface in front of the engine simulators: what they refuse and accept is what the real ones do.

use std::{net::SocketAddr, sync::Arc};

use gantry_dataplane::{Route, RouteTarget};
use gantry_domain::{
    model::{EngineKind, Task},
    usage::UsageRow,
};
use gantry_sim::{Config, Env};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    client::{Answer, Client, post},
    engine::spawn,
    gateway::{Gateway, KEY, catalog, key_entry, route, upstream},
};

async fn simulator(arguments: &str) -> SocketAddr {
    let words: Vec<_> = arguments.split_whitespace().map(str::to_owned).collect();
    let config = Config::parse(&words, &Env::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    spawn(async move {
        gantry_sim::serve(listener, config, CancellationToken::new()).await;
    });
    addr
}

async fn gateway(arguments: &str, engine: EngineKind) -> (Gateway, Client) {
    let addr = simulator(arguments).await;
    let mut catalog = catalog(addr, vec![(KEY, key_entry(1))]);
    for (name, task) in [("m", Task::Generate), ("e", Task::Embed)] {
        let target = RouteTarget::Up(upstream(addr));
        let route = Route { engine: Some(engine), ..route(name, task, target) };
        catalog.routes.insert(name.into(), Arc::new(route));
    }
    let gateway = Gateway::with(catalog, |_| {});
    let client = gateway.client().await;
    (gateway, client)
}

fn counts(row: &UsageRow) -> (bool, bool, bool) {
    (row.prompt_tokens > 0, row.completion_tokens > 0, row.estimated)
}

#[tokio::test]
async fn all_of_it_is_served_and_counted() {
    let engines = [
        ("sim:m --served-model-name m --api-key internal", EngineKind::Vllm, r#""prompt":"hi there""#),
        ("--flavour llamacpp -m sim:m --api-key internal", EngineKind::Llamacpp, r#""content":"hi there""#),
    ];
    for (arguments, kind, text) in engines {
        let (gateway, mut client) = gateway(arguments, kind).await;
        let messages = r#""messages":[{"role":"user","content":"hi there"}],"max_tokens":5"#;
        let cases = [
            ("/v1/responses", r#""input":"hi","max_output_tokens":5"#.to_owned(), (true, true, false)),
            (
                "/v1/responses",
                r#""input":"hi","max_output_tokens":5,"stream":true"#.to_owned(),
                (true, true, false),
            ),
            ("/v1/messages", messages.to_owned(), (true, true, false)),
            ("/v1/messages", format!(r#"{messages},"stream":true"#), (true, true, false)),
            ("/v1/messages/count_tokens", messages.to_owned(), (true, false, false)),
            ("/tokenize", text.to_owned(), (true, false, false)),
            ("/detokenize", r#""tokens":[1,2]"#.to_owned(), (false, false, false)),
        ];
        for (path, members, _) in &cases {
            let got = client.ask(&post(path, KEY, "", &format!(r#"{{"model":"m",{members}}}"#))).await;
            assert_eq!(got.status, 200, "{kind:?} {path}: {}", got.body);
            assert_eq!(got.body.contains("event: "), members.contains("stream"), "{kind:?} {path}");
        }
        for (row, (path, members, want)) in gateway.rows(cases.len()).await.iter().zip(&cases) {
            assert_eq!(counts(row), *want, "{kind:?} {path} {members}: {row:?}");
            assert_eq!(row.ttft_ms.is_some(), members.contains("stream"), "{kind:?} {path}");
        }
    }
}

#[tokio::test]
async fn a_model_without_a_template_chats() {
    let arguments = "sim:m --served-model-name m --api-key internal --sim-no-chat-template";
    let (gateway, mut client) = gateway(arguments, EngineKind::Vllm).await;
    let mut ask = async |members: &str| -> Answer {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"seed":1{members}}}"#);
        client.ask(&post("/v1/chat/completions", KEY, "", &body)).await
    };
    let got = ask("").await;
    assert_eq!(got.status, 200, "{}", got.body);
    assert_eq!(got.json()["object"], "chat.completion");
    assert!(got.json()["usage"]["completion_tokens"].as_i64().is_some_and(|it| it > 16), "{}", got.body);
    let got = ask(r#","max_completion_tokens":3,"n":2,"logprobs":true,"top_logprobs":2"#).await.json();
    for (at, choice) in got["choices"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&choice["index"], &choice["message"]["role"]), (&at.into(), &"assistant".into()));
        assert_eq!(choice["logprobs"]["content"].as_array().map(Vec::len), Some(3), "{got}");
    }
    let got = ask(r#","max_tokens":3,"n":2,"stream":true"#).await.body;
    assert_eq!(got.matches(r#""role":"assistant""#).count(), 2, "{got}");
    assert!(
        got.ends_with("data: [DONE]\n\n") && !got.contains("usage") && !got.contains("\"text\""),
        "{got}"
    );
    let rows = gateway.rows(3).await;
    assert!(rows.iter().all(|it| counts(it) == (true, true, false)), "{rows:?}");
    assert_eq!((rows[1].completion_tokens, rows[2].completion_tokens), (6, 6));
}

#[tokio::test]
async fn several_answers_are_all_counted() {
    let engines = [
        ("sim:m --served-model-name m --api-key internal", EngineKind::Vllm),
        ("--flavour llamacpp -m sim:m --api-key internal", EngineKind::Llamacpp),
    ];
    for (arguments, kind) in engines {
        let (gateway, mut client) = gateway(arguments, kind).await;
        let messages = r#""messages":[{"role":"user","content":"hi there"}]"#;
        let cases = [
            ("/v1/chat/completions", messages, 1),
            ("/v1/completions", r#""prompt":["one","one","one"]"#, 3),
        ];
        let mut want = Vec::new();
        for (path, members, prompts) in cases {
            for stream in [false, true] {
                let body = format!(
                    r#"{{"model":"m",{members},"max_tokens":5,"ignore_eos":true,"n":2,"stream":{stream}}}"#
                );
                let got = client.ask(&post(path, KEY, "", &body)).await;
                assert_eq!(got.status, 200, "{kind:?} {path}: {}", got.body);
                want.push((path, stream, 2 * prompts * 5));
            }
        }
        for (row, want) in gateway.rows(want.len()).await.iter().zip(&want) {
            assert_eq!(row.completion_tokens, want.2, "{kind:?} {want:?} {row:?}");
            // The prompts behind the first one are not counted by llama-server, unless it streams.
            let hidden = kind == EngineKind::Llamacpp && want.0 == "/v1/completions" && !want.1;
            assert_eq!(row.estimated, hidden, "{kind:?} {want:?} {row:?}");
        }
    }
}

#[tokio::test]
async fn what_an_engine_was_not_started_with_is_named_as_a_field_of_the_model() {
    let arguments = "sim:m --served-model-name m --api-key internal";
    let tools = r#""tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]"#;
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{tools}}}"#);
    let said = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
    let ours =
        "An operator sets `enable_auto_tool_choice` and `tool_call_parser` of the model, and applies it";
    let (_gateway, mut client) = gateway(arguments, EngineKind::Vllm).await;
    let got = client.ask(&post("/v1/chat/completions", KEY, "", &body)).await;
    assert_eq!((got.status, &got.json()["error"]["message"]), (400, &format!("{said}. {ours}").into()));
    // The operator of an engine of the registry types its arguments.
    let gateway = Gateway::with(catalog(simulator(arguments).await, vec![(KEY, key_entry(1))]), |_| {});
    let got = gateway.client().await.ask(&post("/v1/chat/completions", KEY, "", &body)).await;
    assert_eq!((got.status, &got.json()["error"]["message"]), (400, &said.into()));
}
