//! Keys, streaming, cancellation, tools, embeddings and the faults on demand.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what helps a test fails like one")]

mod common;

use std::time::{Duration, Instant};

use base64::Engine as _;
use common::{Connection, KEY, PATIENCE, Sim};
use http_body_util::BodyExt;
use serde_json::{Value, json};

const BOTH: [&str; 2] =
    ["sim:m --enable-auto-tool-choice --tool-call-parser hermes", "--flavour llamacpp -m sim:m"];

fn chat(more: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hello world"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The JSON of each `data:` line, without `[DONE]`.
fn chunks(body: &str) -> Vec<Value> {
    body.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn streamed_text(body: &str) -> String {
    chunks(body).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// Opens a stream and reads it up to the `n`th chunk of data.
async fn open_stream(sim: &Sim, body: &Value, n: usize) -> (Connection, hyper::body::Incoming) {
    let mut connection = Connection::open(&sim.address).await;
    let request = Connection::request("POST", "/v1/chat/completions", &[], &body.to_string());
    let mut answer = connection.sender.send_request(request).await.unwrap().into_body();
    for _ in 0..n {
        answer.frame().await.unwrap().unwrap();
    }
    (connection, answer)
}

#[tokio::test]
async fn the_same_question_gets_the_same_answer_streamed_or_not() {
    for line in BOTH {
        let sim = Sim::start(line).await;
        let whole = sim.post("/v1/chat/completions", &chat(&json!({"max_tokens": 12}))).await.json();
        let streamed =
            sim.post("/v1/chat/completions", &chat(&json!({"max_tokens": 12, "stream": true}))).await;
        assert_eq!(whole["choices"][0]["message"]["content"], json!(streamed_text(&streamed.body)));
        assert!(streamed.body.ends_with("data: [DONE]\n\n"));
        assert_eq!(whole["choices"][0]["finish_reason"], "length");
        assert_eq!(whole["usage"]["completion_tokens"], 12);
        assert!(streamed_text(&streamed.body).starts_with("This is simulated text"));
        let open = sim.post("/v1/chat/completions", &chat(&json!({}))).await.json();
        assert_eq!(
            (&open["choices"][0]["finish_reason"], &open["usage"]["completion_tokens"]),
            (&json!("stop"), &json!(64))
        );
        let stopped = sim.post("/v1/chat/completions", &chat(&json!({"stop": "simulated"}))).await.json();
        assert_eq!(stopped["choices"][0]["message"]["content"], "This is ");
        assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn events_leave_one_by_one_at_the_pace_asked_for() {
    let sim = Sim::start("sim:m --sim-tokens-per-sec 50 --sim-ttft-ms 100").await;
    let began = Instant::now();
    let body = chat(&json!({"max_tokens": 11, "stream": true}));
    let mut connection = Connection::open(&sim.address).await;
    let request = Connection::request("POST", "/v1/chat/completions", &[], &body.to_string());
    let mut answer = connection.sender.send_request(request).await.unwrap().into_body();
    let mut at = Vec::new();
    while let Some(frame) = answer.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        at.push((began.elapsed(), data.windows(6).filter(|bytes| bytes == b"data: ").count()));
    }
    // Role and first token share a moment, as do the last token's chunk and the end mark.
    assert!(at.len() >= 11, "{at:?}");
    assert!(at[0].0 >= Duration::from_millis(100), "{at:?}");
    assert!(at.last().unwrap().0 >= Duration::from_millis(300), "{at:?}");
}

#[tokio::test]
async fn an_answer_ends_by_itself_below_a_large_limit_unless_it_is_to_go_on() {
    for line in BOTH {
        let sim = Sim::start(line).await;
        let mut ends = Vec::new();
        for more in [json!({"max_tokens": 32_000}), json!({"max_tokens": 5000, "ignore_eos": true})] {
            let answer = sim.post("/v1/chat/completions", &chat(&more)).await.json();
            let length = answer["usage"]["completion_tokens"].as_u64().unwrap();
            ends.push((answer["choices"][0]["finish_reason"].clone(), length));
        }
        assert!(ends[0].0 == "stop" && (2048..4096).contains(&ends[0].1), "{ends:?}");
        assert_eq!(ends[1], (json!("length"), 5000));
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_the_generation() {
    for line in BOTH {
        let sim = Sim::start(&format!("{line} --sim-tokens-per-sec 500")).await;
        let (connection, answer) =
            open_stream(&sim, &chat(&json!({"max_tokens": 100_000, "stream": true, "ignore_eos": true})), 4)
                .await;
        assert_eq!(sim.stat("in_flight").await, 1);
        drop((connection, answer));
        sim.until("cancelled", 1).await;
        sim.until("in_flight", 0).await;
        // The same for an answer in one piece, of which the client sees nothing.
        let mut connection = Connection::open(&sim.address).await;
        let body = chat(&json!({"max_tokens": 100_000, "ignore_eos": true})).to_string();
        let request = Connection::request("POST", "/v1/chat/completions", &[], &body);
        let asked = connection.sender.send_request(request);
        tokio::select! {
            answer = asked => panic!("answered: {answer:?}"),
            () = sim.until("in_flight", 1) => {}
        }
        drop(connection);
        sim.until("cancelled", 2).await;
        let made = sim.stat("tokens_generated").await;
        assert!((3..50_000).contains(&made), "{made}");
        assert_eq!((sim.stat("requests").await, sim.stat("completed").await), (2, 0));
        assert_eq!(sim.stat("tokens_generated").await, made);
    }
}

#[tokio::test]
async fn keys_guard_what_the_engine_guards() {
    let vllm = Sim::start("sim:m --api-key sk-test other").await;
    let llama = Sim::start("--flavour llamacpp -m sim:m --metrics --api-key sk-test,other").await;
    let old = Sim::start("--flavour llamacpp --engine-version b9000 -m sim:m --api-key sk-test").await;
    for (sim, path, status) in [
        (&vllm, "/health", 200),
        (&vllm, "/metrics", 200),
        (&vllm, "/version", 200),
        (&vllm, "/nope", 404),
        (&vllm, "/v1/nope", 401),
        (&vllm, "/v2/rerank", 401),
        (&vllm, "/v1/models", 401),
        (&llama, "/health", 200),
        (&llama, "/v1/health", 200),
        (&llama, "/metrics", 401),
        (&llama, "/props", 401),
        (&llama, "/v1/models", 401),
        (&old, "/v1/models", 200),
        (&old, "/props", 401),
        (&old, "/sim/stats", 200),
    ] {
        assert_eq!(sim.ask("GET", path, &[], "").await.status, status, "{path}");
    }
    for sim in [&vllm, &llama] {
        let with = |value: &'static str| [("authorization", value)];
        assert_eq!(sim.ask("GET", "/v1/models", &with("Bearer other"), "").await.status, 200);
        assert_eq!(sim.ask("GET", "/v1/models", &with("Bearer wrong"), "").await.status, 401);
        assert_eq!(sim.ask("GET", "/v1/models", &with(KEY), "").await.status, 401);
    }
    assert_eq!(llama.ask("GET", "/props", &[("x-api-key", "other")], "").await.status, 200);
    let wrong = Sim::start("sim:m --api-key sk-test --sim-wrong-key").await;
    assert_eq!(wrong.get("/v1/models").await.status, 401);
    assert_eq!(wrong.get("/health").await.status, 200);
}

#[tokio::test]
async fn a_required_tool_is_called_with_arguments_that_fit() {
    let parameters = json!({"type": "object", "required": ["city", "days"], "properties": {
        "city": {"type": "string", "minLength": 3}, "days": {"type": "integer", "minimum": 2}, "note": {"type": "string"}}});
    let tools = json!([
        {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "weather", "parameters": parameters}}
    ]);
    let named = json!({"type": "function", "function": {"name": "weather"}});
    for line in BOTH {
        let sim = Sim::start(line).await;
        let whole = sim
            .post("/v1/chat/completions", &chat(&json!({"tools": tools, "tool_choice": named})))
            .await
            .json();
        let choice = &whole["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{whole}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        let arguments = r#"{"city":"xxx","days":2}"#;
        assert_eq!((&function["name"], &function["arguments"]), (&json!("weather"), &json!(arguments)));
        let body = chat(&json!({"tools": tools, "tool_choice": "required", "stream": true}));
        let streamed = chunks(&sim.post("/v1/chat/completions", &body).await.body);
        let calls: Vec<&Value> = streamed
            .iter()
            .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0])
            .filter(|call| !call.is_null())
            .collect();
        assert_eq!((&calls[0]["function"]["name"], &calls[0]["type"]), (&json!("other"), &json!("function")));
        let joined: String = calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
        assert_eq!(joined, "{}");
        let last = streamed.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "tool_calls", "{last}");
        let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": parameters}});
        let whole = sim.post("/v1/chat/completions", &chat(&json!({"response_format": format}))).await.json();
        assert_eq!(whole["choices"][0]["message"]["content"], json!(arguments));
    }
}

#[tokio::test]
async fn vectors_are_the_same_in_both_encodings() {
    for line in ["sim:e --runner pooling", "--flavour llamacpp -m sim:e --embedding"] {
        let sim = Sim::start(line).await;
        let floats = sim.post("/v1/embeddings", &json!({"input": ["hello", "world"]})).await.json();
        let coded =
            sim.post("/v1/embeddings", &json!({"input": "world", "encoding_format": "base64"})).await.json();
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(coded["data"][0]["embedding"].as_str().unwrap())
            .unwrap();
        let decoded: Vec<f32> =
            bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        let plain: Vec<f32> = serde_json::from_value(floats["data"][1]["embedding"].clone()).unwrap();
        assert_eq!((decoded.len(), &decoded), (64, &plain));
        assert_eq!(floats["usage"]["prompt_tokens"], 6);
    }
}

/// What the real ones (vLLM 0.32.0, llama.cpp b11434) were seen to take and to refuse.
#[tokio::test]
async fn inputs_of_a_wrong_type_are_refused() {
    let cases = [
        ("/v1/embeddings", "input", json!("a"), [200, 200]),
        ("/v1/embeddings", "input", json!(["a", "b"]), [200, 200]),
        ("/v1/embeddings", "input", json!([[1, 2], [3]]), [200, 200]),
        ("/v1/embeddings", "input", json!(["a", 5]), [400, 200]),
        ("/v1/embeddings", "input", json!([{ "prompt_string": "a" }]), [400, 200]),
        ("/v1/embeddings", "input", json!({}), [400, 400]),
        ("/v1/embeddings", "input", json!([]), [400, 400]),
        ("/v1/embeddings", "input", json!([{}]), [400, 400]),
        ("/v1/embeddings", "input", json!([1.5]), [400, 400]),
        ("/v1/rerank", "documents", json!("a"), [200, 400]),
        ("/v1/rerank", "documents", json!([]), [400, 400]),
        ("/v1/rerank", "documents", json!(["a", 5]), [400, 400]),
        ("/v1/rerank", "query", json!(5), [400, 400]),
    ];
    let vllm = Sim::start("sim:e --runner pooling").await;
    let embedding = Sim::start("--flavour llamacpp -m sim:e --embedding").await;
    let reranking = Sim::start("--flavour llamacpp -m sim:r --reranking").await;
    for (path, field, value, expected) in cases {
        let mut body =
            if path == "/v1/rerank" { json!({"query": "q", "documents": ["d"]}) } else { json!({}) };
        body[field] = value;
        let llama = if path == "/v1/rerank" { &reranking } else { &embedding };
        let statuses = [vllm.post(path, &body).await.status, llama.post(path, &body).await.status];
        assert_eq!(statuses, expected, "{path} {body}");
    }
    let answer = vllm.post("/score", &json!({"text_1": "one", "text_2": ["a", {}]})).await;
    assert_eq!((answer.status, &answer.json()["error"]["param"]), (400, &json!("body.text_2")));
}

#[tokio::test]
async fn several_answers_and_usage_in_every_chunk() {
    let sim = Sim::start("sim:m").await;
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let body = chat(&json!({"n": 2, "max_tokens": 3, "stream": true, "stream_options": options}));
    let streamed = chunks(&sim.post("/v1/chat/completions", &body).await.body);
    let emitted: Vec<u64> =
        streamed.iter().map(|chunk| chunk["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(emitted, [0, 0, 1, 2, 3, 4, 5, 6, 6]);
    let whole = sim.post("/v1/chat/completions", &chat(&json!({"n": 2, "max_tokens": 9}))).await.json();
    let text = |i: usize| whole["choices"][i]["message"]["content"].as_str().unwrap();
    assert_ne!(text(0), text(1));
    assert_eq!(sim.stat("tokens_generated").await, 6 + 18);
}

#[tokio::test]
async fn a_full_engine_makes_requests_wait() {
    let sim = Sim::start("--flavour llamacpp -m sim:m -np 1 --metrics --sim-hang-after-tokens 2").await;
    let body = chat(&json!({"stream": true}));
    let first = open_stream(&sim, &body, 1).await;
    let mut second = Connection::open(&sim.address).await;
    let asked = Connection::request("POST", "/v1/chat/completions", &[], &body.to_string());
    let second_answer = second.sender.send_request(asked).await.unwrap();
    sim.until("in_flight", 2).await;
    let metrics = sim.get("/metrics").await.body;
    assert!(metrics.contains("\nllamacpp:requests_processing 1\n"), "{metrics}");
    assert!(metrics.contains("\nllamacpp:requests_deferred 1\n"), "{metrics}");
    let slots = sim.get("/slots").await.json();
    assert_eq!((slots.as_array().unwrap().len(), &slots[0]["is_processing"]), (1, &json!(true)));
    drop((first, second, second_answer));
    sim.until("cancelled", 2).await;
}

#[tokio::test]
async fn a_crash_breaks_the_stream_and_ends_the_process() {
    for (line, code) in [("sim:m", 0), ("--flavour llamacpp -m sim:m", 139)] {
        let sim = Sim::start(&format!("{line} --sim-crash-after-tokens 5")).await;
        let (_connection, mut answer) =
            open_stream(&sim, &chat(&json!({"max_tokens": 50, "stream": true})), 1).await;
        let mut text = String::new();
        let broken = loop {
            match answer.frame().await {
                Some(Ok(frame)) => text.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap())),
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert!(broken && !text.contains("[DONE]"), "{text}");
        assert_eq!(sim.code().await, code);
    }
    // vLLM still answers a request in one piece, as recorded.
    let sim = Sim::start("sim:m --sim-crash-after-tokens 5").await;
    let answer = sim.post("/v1/chat/completions", &chat(&json!({"max_tokens": 50}))).await;
    let recorded = r#"{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}"#;
    assert_eq!((answer.status, answer.body.as_str()), (500, recorded));
    assert_eq!(sim.code().await, 0);
}

#[tokio::test]
async fn a_hanging_engine_is_silent_and_healthy() {
    let sim = Sim::start("sim:m --sim-hang").await;
    let mut connection = Connection::open(&sim.address).await;
    let request = Connection::request("POST", "/v1/chat/completions", &[], &chat(&json!({})).to_string());
    let asked = connection.sender.send_request(request);
    tokio::select! {
        answer = asked => panic!("answered: {answer:?}"),
        () = sim.until("in_flight", 1) => {}
    }
    assert_eq!(sim.get("/health").await.status, 200);
    drop(connection);
    sim.until("cancelled", 1).await;
    let sim = Sim::start("sim:m --sim-hang-after-tokens 3").await;
    let (_connection, mut answer) = open_stream(&sim, &chat(&json!({"stream": true})), 4).await;
    sim.until("tokens_generated", 3).await;
    assert!(tokio::time::timeout(Duration::from_millis(100), answer.frame()).await.is_err());
}

#[tokio::test]
async fn errors_on_demand_have_the_engines_shape() {
    let vllm = Sim::start("sim:m --sim-error-status 503").await;
    let answer = vllm.post("/v1/chat/completions", &chat(&json!({}))).await;
    let wanted = json!({"error": {"message": "simulated error 503", "type": "ServiceUnavailableError", "param": null, "code": 503}});
    assert_eq!((answer.status, answer.json()), (503, wanted));
    assert_eq!(vllm.get("/v1/models").await.status, 200);
    let llama = Sim::start("--flavour llamacpp -m sim:m --sim-error-status 500").await;
    let answer = llama.post("/v1/chat/completions", &chat(&json!({}))).await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (500, &json!("server_error")));
    for line in BOTH {
        let sim = Sim::start(&format!("{line} --sim-error-after 3")).await;
        let answer = sim.post("/v1/chat/completions", &chat(&json!({"stream": true}))).await;
        assert_eq!(answer.status, 200);
        let all = chunks(&answer.body);
        assert_eq!(
            (streamed_text(&answer.body).as_str(), &all.last().unwrap()["error"]["code"]),
            ("This is simulated", &json!(500))
        );
        assert_eq!(answer.body.contains("[DONE]"), line.starts_with("sim:"));
        assert_eq!(sim.post("/v1/chat/completions", &chat(&json!({}))).await.status, 500);
        assert_eq!(sim.stat("failed").await, 2);
    }
    let old = Sim::start("--engine-version 0.10.0 sim:m").await;
    let answer = old.post("/v1/chat/completions", &chat(&json!({"model": "x"}))).await.json();
    assert_eq!(
        (&answer["object"], &answer["message"]),
        (&json!("error"), &json!("The model `x` does not exist."))
    );
}

#[tokio::test]
async fn loading_ends_and_a_stop_has_the_engines_code() {
    let sim = Sim::start("--flavour llamacpp -m sim:m --sim-load-seconds 2").await;
    let end = Instant::now() + PATIENCE;
    while sim.get("/health").await.status != 200 {
        assert!(Instant::now() < end, "it still loads");
    }
    sim.stop.cancel();
    assert_eq!(sim.code().await, 0);
    let sim = Sim::start("--flavour llamacpp -m sim:m --sim-load-seconds 3600").await;
    assert_eq!(sim.get("/health").await.status, 503);
    assert_eq!(sim.post("/v1/chat/completions", &chat(&json!({}))).await.status, 503);
    sim.stop.cancel();
    assert_eq!(sim.code().await, 143);
    let sim = Sim::start("--flavour llamacpp -m sim:m --sim-load-seconds 0.05 --sim-oom").await;
    assert_eq!(sim.code().await, 1);
    // With a limit, only a context above it is too much; it is the sum over all slots.
    for (context, code) in [("--ctx-size 8448 --parallel 4", 1), ("--ctx-size 8192", 0), ("", 1)] {
        let line = format!(
            "--flavour llamacpp -m sim:m --sim-load-seconds 0.05 --sim-oom-above-context 8192 {context}"
        );
        let sim = Sim::start(&line).await;
        if code == 0 {
            let end = Instant::now() + Duration::from_mins(1);
            while sim.get("/health").await.status != 200 {
                assert!(Instant::now() < end);
            }
            sim.stop.cancel();
        }
        assert_eq!(sim.code().await, code, "{context}");
    }
}

#[tokio::test]
async fn a_router_without_a_model_looks_healthy_and_serves_nothing() {
    let sim = Sim::start("--flavour llamacpp").await;
    assert_eq!(sim.get("/health").await.status, 200);
    assert_eq!(sim.get("/v1/models").await.json(), json!({"data": [], "object": "list"}));
    assert_eq!(sim.post("/v1/chat/completions", &chat(&json!({}))).await.status, 400);
}
