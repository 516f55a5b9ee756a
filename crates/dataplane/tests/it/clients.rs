//! What programs that were made for other servers send, and look for in answers.

use gantry_domain::{endpoint::Endpoint, usage::Outcome};
use serde_json::json;

use crate::{
    client::{Answer, get, post},
    engine::{Engine, json},
    gateway::{COOKIE, Gateway, KEY},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"m"}"#;

#[tokio::test]
async fn paths_have_other_names_and_may_end_with_slashes() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let cases = [
        ("/rerank", "e", Endpoint::Rerank),
        ("/v2/rerank", "e", Endpoint::Rerank),
        ("/v1/rerank/", "e", Endpoint::Rerank),
        ("/score", "e", Endpoint::Score),
        ("/v1/embeddings//", "e", Endpoint::Embeddings),
        ("/v1/chat/completions/", "m", Endpoint::ChatCompletions),
    ];
    for (path, model, endpoint) in cases {
        client.send(&post(path, KEY, "", &format!(r#"{{"model":"{model}"}}"#))).await;
        let call = engine.call().await;
        assert!(call.head.starts_with(&format!("POST {} HTTP/1.1\r\n", endpoint.path())), "{}", call.head);
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200, "{path}");
    }
    let wrong = client.ask(&get("/v2/rerank", "")).await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    let rows = gateway.rows(cases.len()).await;
    let endpoints: Vec<_> = rows.iter().map(|it| it.endpoint).collect();
    assert_eq!(endpoints, cases.map(|it| it.2));
}

#[tokio::test]
async fn every_answer_has_its_id_under_both_names() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    client.send(&post(CHAT, KEY, "x-request-id: mine\r\n", BODY)).await;
    engine.call().await.send(&json("{}"));
    let both =
        |answer: &Answer| ["x-request-id", "request-id"].map(|it| answer.header(it).map(str::to_owned));
    assert_eq!(both(&client.answer().await), [Some("mine".to_owned()), Some("mine".to_owned())]);
    for request in [
        post(CHAT, "nobody", "", BODY),
        post(CHAT, KEY, "", "{"),
        get("/health", ""),
        get("/v1/models", ""),
        "NO HTTP\r\n\r\n".to_owned(),
    ] {
        let [openai, anthropic] = both(&client.ask(&request).await);
        assert!(openai.is_some() && openai == anthropic, "{request}");
    }
    gateway.rows(2).await;
}

#[tokio::test]
async fn with_a_key_json_needs_no_name_and_with_a_cookie_it_does() {
    let mut engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let typed = |who: &str, kind: &str, body: &str| {
        post(CHAT, KEY, "", body)
            .replace(&format!("authorization: Bearer {KEY}\r\n"), who)
            .replace("content-type: application/json\r\n", kind)
    };
    let key = format!("authorization: Bearer {KEY}\r\n");
    let session = format!("cookie: {COOKIE}\r\nsec-fetch-site: same-origin\r\n");
    let named = |kind: &str| format!("content-type: {kind}\r\n");
    // Those of curl, and of `fetch` with a text.
    let usual = [
        "",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: text/plain;charset=UTF-8\r\n",
    ];
    for kind in usual {
        client.send(&typed(&key, kind, BODY)).await;
        let call = engine.call().await;
        assert_eq!(
            (call.body.as_slice(), call.header("content-type")),
            (BODY.as_bytes(), Some("application/json"))
        );
        call.send(&json("{}"));
        assert_eq!(client.answer().await.status, 200, "{kind:?}");
        let form = client.ask(&typed(&key, kind, "model=m&stream=true")).await;
        assert_eq!((form.status, form.code().as_str()), (400, "invalid_json"));
    }
    for kind in ["multipart/form-data; boundary=x", "application/xml", "image/png"] {
        assert_eq!(
            client.ask(&typed(&key, &named(kind), BODY)).await.code(),
            "unsupported_media_type",
            "{kind}"
        );
    }
    // A page elsewhere can make a browser send such bodies with its cookie.
    for kind in &usual[1..] {
        assert_eq!(client.ask(&typed(&session, kind, BODY)).await.code(), "unsupported_media_type", "{kind}");
    }
    gateway.rows(3 + 3 + 3 + 2).await;
}

#[tokio::test]
async fn models_come_in_the_form_of_whose_client_asks() {
    let engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let key = format!("x-api-key: {KEY}\r\n");
    let anthropic = format!("{key}anthropic-version: 2023-06-01\r\n");
    for path in ["/v1/models", "/v1/models/"] {
        let list = client.ask(&get(path, &key)).await.json();
        assert_eq!((&list["object"], &list["data"][0]["object"]), (&json!("list"), &json!("model")));
        assert_eq!((&list["data"][0]["id"], list.get("has_more")), (&json!("e"), None));
        let list = client.ask(&get(path, &anthropic)).await.json();
        let ends = (&list["has_more"], &list["first_id"], &list["last_id"]);
        assert_eq!(ends, (&json!(false), &json!("e"), &json!("org/m")), "{list}");
        assert_eq!(list["data"].as_array().unwrap().len(), 3);
    }
    let one = client.ask(&get("/v1/models/org/m", &anthropic)).await.json();
    assert_eq!(
        one,
        json!({
            "type": "model", "id": "org/m", "display_name": "org/m", "created_at": "2023-11-14T22:13:20.000Z",
            "task": "generate", "max_model_len": 4096,
        })
    );
    let missing = client.ask(&get("/v1/models/gpt-4o", &anthropic)).await.json();
    assert_eq!((&missing["type"], &missing["error"]["code"]), (&json!("error"), &json!("model_not_found")));
}

#[tokio::test]
async fn errors_about_models_say_which_and_how_it_is() {
    let engine = Engine::start().await;
    let gateway = Gateway::start(engine.addr);
    let mut client = gateway.client().await;
    let long = "x".repeat(300);
    for (model, said) in [
        ("gpt-4o", "there is no model `gpt-4o`; `GET /v1/models` lists those you may call"),
        // Nothing that changes how a terminal shows what follows.
        ("a\\u001b[2J\\u202eb", "there is no model `a\u{fffd}[2J\u{fffd}b`; "),
        (long.as_str(), &format!("there is no model `{}…`; ", "x".repeat(100))),
        ("failed", "the model `failed` has failed"),
        ("down", "the model `down` is stopped"),
        ("loading", "the model `loading` is loading"),
    ] {
        let answer = client.ask(&post(CHAT, KEY, "", &format!(r#"{{"model":"{model}"}}"#))).await.json();
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(said), "{message}");
    }
    let rows = gateway.rows(6).await;
    assert!(rows.iter().all(|it| it.outcome != Outcome::Ok));
}
