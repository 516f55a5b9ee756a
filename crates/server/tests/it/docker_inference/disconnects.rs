//! One side leaves in the middle of an answer.

use std::time::Instant;

use gantry_testkit::{Managed, docker_cli, eventually, simulated, simulator};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, GANTRY, SOON, gateway, streamed, text};

#[tokio::test]
async fn a_client_that_leaves_frees_the_engine() {
    if !simulator(GANTRY, "docker_inference: clients that leave") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::run(&owner, &simulated(engine, engine, &[("TOKENS_PER_SEC", "40")])).await;
        let (_, client) = owner.new_key(&json!({})).await;
        let ask = |id: &str, body: Value| {
            client.request(Method::POST, CHAT).header("x-request-id", format!("{engine}-{id}")).json(&body)
        };
        let cancelled = async |n: u64| {
            let left = Instant::now();
            let what = format!("{engine} stops working");
            eventually(&what, SOON, async || (model.stat("cancelled").await == n).then_some(())).await;
            println!("{engine}: cancelled after {:?}", left.elapsed());
            eventually(&what, SOON, async || (model.stat("in_flight").await == 0).then_some(())).await;
        };

        // In the middle of a stream.
        let mut stream =
            gantry_testkit::EventStream::new(ask("stream", streamed(engine, 4000)).send().await.unwrap());
        let mut seen = Vec::new();
        while text(&seen).split_whitespace().count() < 6 {
            seen.push(stream.next().await.unwrap().unwrap());
        }
        drop(stream);
        cancelled(1).await;
        let row = owner.usage_of(&format!("{engine}-stream")).await;
        assert_eq!((&row["status_code"], &row["outcome"]), (&json!(499), &json!("client_closed")));
        let counted = row["completion_tokens"].as_u64().unwrap();
        let made = model.stat("tokens_generated").await;
        assert!(
            (5..=made).contains(&counted) && row["ttft_ms"].is_i64(),
            "of {made} tokens that were made: {row}"
        );
        assert!(row["prompt_tokens"].as_i64().unwrap() > 0 && row["estimated"] == true, "{row}");

        // While it waits for an answer in one piece.
        let mut whole = streamed(engine, 4000);
        whole["stream"] = json!(false);
        let waiting = ask("whole", whole).send();
        let begun = async {
            eventually("the engine works", SOON, async || (model.stat("in_flight").await == 1).then_some(()))
                .await;
        };
        tokio::select! {
            answer = waiting => panic!("{answer:?}"),
            () = begun => {}
        }
        cancelled(2).await;
        let row = owner.usage_of(&format!("{engine}-whole")).await;
        assert_eq!((&row["status_code"], &row["outcome"]), (&json!(499), &json!("client_closed")));
        assert_eq!(row["ttft_ms"], Value::Null);
        // It says nothing against the engine.
        assert_eq!(owner.chat(engine).await.status, 200);
    }
}

#[tokio::test]
async fn an_engine_that_dies_in_mid_stream_is_an_error_event_and_a_failed_model() {
    if !simulator(GANTRY, "docker_inference: engines that die") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::run(&owner, &simulated(engine, engine, &[("TOKENS_PER_SEC", "40")])).await;
        let (_, client) = owner.new_key(&json!({})).await;
        let id = format!("{engine}-killed");
        let request =
            client.request(Method::POST, CHAT).header("x-request-id", &id).json(&streamed(engine, 4000));
        let mut stream = gantry_testkit::EventStream::new(request.send().await.unwrap());
        let mut seen = Vec::new();
        while text(&seen).split_whitespace().count() < 6 {
            seen.push(stream.next().await.unwrap().unwrap());
        }
        docker_cli(&["kill", &model.container]);
        let died = Instant::now();
        let refused = owner.chat(engine).await;
        assert!(
            matches!(
                (refused.status, refused.code()),
                (502, "model_unavailable") | (503, "model_not_running")
            ),
            "{refused:?}"
        );
        seen.extend(stream.rest().await.unwrap());
        let last: Value = serde_json::from_str(&seen.pop().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "model_unavailable", "{last}");
        assert_eq!((&last["error"]["type"], &last["request_id"]), (&json!("server_error"), &json!(id)));
        assert!(!seen.iter().any(|it| it == "[DONE]" || it.contains("\"error\"")), "{seen:?}");
        assert!(text(&seen).starts_with("This is simulated text:"), "{}", text(&seen));

        let row = owner.usage_of(&id).await;
        assert_eq!((&row["status_code"], &row["outcome"]), (&json!(502), &json!("upstream_error")));
        // The first chunk says only who speaks, and the engines' last one why it ends.
        let chunks = seen.len() as i64 - 1;
        assert!(
            (chunks - 1..=chunks).contains(&row["completion_tokens"].as_i64().unwrap()),
            "{chunks}: {row}"
        );
        assert_eq!(model.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
        let noticed = died.elapsed();
        println!("{engine}: failed after {noticed:?}");
        assert_eq!(owner.chat(engine).await.code(), "model_not_running");
    }
}

#[tokio::test]
async fn an_engine_that_dies_before_it_answers_is_a_502_and_is_not_asked_again() {
    if !simulator(GANTRY, "docker_inference: engines that die before they answer") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    for engine in ["vllm", "llamacpp"] {
        let model = Managed::run(&owner, &simulated(engine, engine, &[("TOKENS_PER_SEC", "10")])).await;
        let (_, client) = owner.new_key(&json!({})).await;
        let id = format!("{engine}-killed");
        let mut body = streamed(engine, 4000);
        body["stream"] = json!(false);
        let request = client.request(Method::POST, CHAT).header("x-request-id", &id).json(&body);
        let (answer, died) = tokio::join!(client.send(request), async {
            eventually("the engine works", SOON, async || (model.stat("in_flight").await == 1).then_some(()))
                .await;
            docker_cli(&["kill", &model.container]);
            Instant::now()
        });
        println!("{engine}: told {:?} after the engine died", died.elapsed());
        assert_eq!((answer.status, answer.code()), (502, "model_unavailable"), "{}", answer.text);
        let row = owner.usage_of(&id).await;
        assert_eq!((&row["status_code"], &row["outcome"]), (&json!(502), &json!("upstream_error")));
        assert_eq!(row["total_tokens"], 0, "{row}");
        assert_eq!(model.fails(&owner).await, "engine_unhealthy: container killed (exit code 137)");
    }
}
