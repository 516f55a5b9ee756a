//! Keys, limits and bodies: who is refused, with which words, and whether it is metered.

use std::time::Duration;

use gantry_testkit::{
    Client, EventStream, Gateway, Managed, Options, chat, eventually, simulated, simulator,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{CHAT, GANTRY, SOON, gateway, streamed};

/// Status and code of an answer that must have the shape of an error.
async fn refused(client: &Client, path: &str, body: &Value) -> (u16, String) {
    let answer = client.post(path, body).await;
    assert!(
        answer.json["request_id"].is_string() && answer.json["error"]["message"].is_string(),
        "{}",
        answer.text
    );
    (answer.status, answer.code().to_owned())
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

#[tokio::test]
async fn keys_open_what_they_are_for() {
    if !simulator(GANTRY, "docker_inference: keys") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let ask = chat("m");

    assert_eq!(refused(&gateway.client(), CHAT, &ask).await, is(401, "invalid_api_key"));
    assert_eq!(
        refused(&gateway.client().with_key("gty_nonsense"), CHAT, &ask).await,
        is(401, "invalid_api_key")
    );
    assert_eq!(owner.get("/admin/usage").await.expect(200), json!([]), "strangers are not metered");

    for (settings, code) in [
        (json!({ "scopes": "embeddings" }), "insufficient_scope"),
        (json!({ "models": ["another"] }), "model_not_allowed"),
        (json!({ "ip_allowlist": ["10.0.0.0/8", "192.0.2.7"] }), "ip_not_allowed"),
    ] {
        let (record, client) = owner.new_key(&settings).await;
        let answer = client.chat("m").await;
        assert_eq!((answer.status, answer.code()), (403, code));
        assert!(!answer.text.contains("10.0.0.0") && !answer.text.contains("another"), "{}", answer.text);
        let row = owner.usage_of(answer.header("x-request-id").unwrap()).await;
        assert_eq!((&row["key_id"], &row["outcome"]), (&record["id"], &json!("client_error")));
        assert_eq!((&row["status_code"], &row["total_tokens"]), (&json!(403), &json!(0)));
        let shown = client.get("/v1/models").await;
        assert!(
            shown.status == 403 || code == "insufficient_scope" || shown.json["data"] == json!([]),
            "{shown:?}"
        );
    }
    let (_, fits) =
        owner.new_key(&json!({ "scopes": "chat", "models": ["m"], "ip_allowlist": "127.0.0.0/8,::1" })).await;
    assert_eq!(fits.chat("m").await.status, 200);

    let (record, client) = owner.new_key(&json!({})).await;
    assert_eq!(client.chat("m").await.status, 200);
    owner.delete(&format!("/admin/keys/{}", record["id"])).await.expect(200);
    assert_eq!(
        refused(&client, CHAT, &ask).await,
        is(401, "invalid_api_key"),
        "from the moment it is revoked"
    );

    // A key that expires before it was used, on a machine that is too slow, is followed by one that lives longer.
    let mut life = Duration::from_secs(2);
    let (at, client) = loop {
        let at = gantry_testkit::now().plus(life);
        let made = owner.post("/admin/keys", &json!({ "expires_at": at.rfc3339() })).await;
        if made.status == 201 {
            let client = owner.with_key(made.json["token"].as_str().unwrap());
            let answer = client.chat("m").await;
            if answer.status == 200 {
                break (at, client);
            }
            assert!(gantry_testkit::now() >= at, "{}", answer.text);
        } else {
            assert!(gantry_testkit::now() >= at, "{}", made.text);
        }
        life *= 2;
    };
    let expired = eventually("the key expires", life + SOON, async || {
        let answer = client.chat("m").await;
        (answer.status != 200).then_some(answer)
    });
    let expired = expired.await;
    assert_eq!((expired.status, expired.code()), (401, "invalid_api_key"));
    assert!(gantry_testkit::now() >= at);
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused_before_an_engine_sees_them() {
    if !simulator(GANTRY, "docker_inference: bodies") {
        return;
    }
    let options = Options::containers().env("REQUEST_MAX_BODY_BYTES", "10000");
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let model = Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let mut embed = simulated("llamacpp", "e", &[]);
    embed["task"] = json!("embed");
    Managed::run(&owner, &embed).await;
    let (_, client) = owner.new_key(&json!({})).await;
    let large = json!({ "model": "m", "messages": [{ "role": "user", "content": "x".repeat(20_000) }] });
    let cases = [
        (CHAT, json!({ "model": "e", "messages": [] }), is(400, "task_mismatch")),
        ("/v1/embeddings", json!({ "model": "m", "input": "x" }), is(400, "task_mismatch")),
        (CHAT, chat("nobody"), is(404, "model_not_found")),
        (CHAT, json!({ "messages": [] }), is(400, "invalid_request")),
        (CHAT, json!([1, 2]), is(400, "invalid_json")),
        (CHAT, large.clone(), is(413, "request_too_large")),
    ];
    let n = cases.len();
    for (path, body, expected) in cases {
        assert_eq!(refused(&client, path, &body).await, expected, "{path} {body}");
    }
    for (body, code) in [
        (r#"{"model":"m","messages":[}"#, "invalid_json"),
        ("", "invalid_json"),
        (r#"{"model":"m","model":"e","messages":[]}"#, "duplicate_key"),
    ] {
        let request =
            client.request(Method::POST, CHAT).header("content-type", "application/json").body(body);
        let answer = client.send(request).await;
        assert_eq!((answer.status, answer.code()), (400, code), "{body}");
    }
    assert_eq!(model.stat("requests").await, 0);
    let metered = eventually("each has a row", SOON, async || {
        let rows = owner.get("/admin/usage?outcome=client_error").await.expect(200);
        (rows.as_array().unwrap().len() == n + 3).then_some(rows)
    });
    let metered = metered.await;
    assert!(metered.as_array().unwrap().iter().all(|it| it["total_tokens"] == 0), "{metered}");
    // What only the engine can judge keeps the engine's words.
    let answer = client.post(CHAT, &json!({ "model": "m", "messages": "no list" })).await;
    assert_eq!((answer.status, answer.json["error"]["type"].as_str()), (400, Some("invalid_request_error")));
    assert!(answer.json["error"]["message"].as_str().unwrap().contains("valid list"), "{}", answer.text);
}

#[tokio::test]
async fn limits_of_a_key_hold() {
    if !simulator(GANTRY, "docker_inference: limits") {
        return;
    }
    let gateway = gateway().await;
    let owner = gateway.owner().await;
    Managed::run(&owner, &simulated("vllm", "m", &[])).await;
    let hanging = Managed::run(&owner, &simulated("vllm", "hangs", &[("HANG_AFTER_TOKENS", "2")])).await;

    let (_, client) = owner.new_key(&json!({ "rpm_limit": 2 })).await;
    for _ in 0..2 {
        assert_eq!(client.chat("m").await.status, 200);
    }
    let third = client.chat("m").await;
    assert_eq!((third.status, third.code()), (429, "rate_limit_exceeded"));
    let seconds: u64 = third.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    let row = owner.usage_of(third.header("x-request-id").unwrap()).await;
    assert_eq!((&row["outcome"], &row["status_code"]), (&json!("rejected"), &json!(429)));

    let (_, client) = owner.new_key(&json!({ "tpm_limit": 20 })).await;
    assert_eq!(client.chat("m").await.status, 200);
    let spent = eventually("the tokens are used up", SOON, async || {
        let answer = client.chat("m").await;
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(spent.await.code(), "rate_limit_exceeded");

    let (_, client) = owner.new_key(&json!({ "max_concurrency": 1 })).await;
    let request = client.request(Method::POST, CHAT).json(&streamed("hangs", 50));
    let mut first = EventStream::new(request.send().await.unwrap());
    assert!(first.next().await.unwrap().is_some());
    let second = client.chat("m").await;
    assert_eq!((second.status, second.code()), (429, "rate_limit_exceeded"));
    drop(first);
    let free = eventually("the place is free again", SOON, async || {
        (client.chat("m").await.status == 200).then_some(())
    });
    free.await;
    eventually("its engine is let go", SOON, async || (hanging.stat("in_flight").await == 0).then_some(()))
        .await;
}
