//! The routing registry: engines that run elsewhere, by address.

use gantry_testkit::{Database, Options};
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    support::{assert_error, assert_invalid, column, start},
    team::{Team, make_key, make_model},
};

fn entry(served_name: &str, url: &str) -> Value {
    json!({ "served_name": served_name, "url": url })
}

#[tokio::test]
async fn an_engine_elsewhere_is_added_routed_to_replaced_and_removed() {
    for database in Database::all("an_engine_elsewhere_is_added") {
        let team = Team::on(database).await;
        let key = make_key(&team.owner, &json!({})).await["token"].as_str().unwrap().to_owned();
        let bearer = team.gateway.client().with_key(&key);
        let chat = async |model: &str| {
            let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
            bearer.post("/v1/chat/completions", &body).await
        };
        assert_error(&chat("far/away").await, 404, "model_not_found");
        // Nothing listens on the discard port.
        let body = json!({
            "served_name": "far/away", "url": "http://127.0.0.1:9/", "task": "generate", "api_key": "very-secret",
        });
        let made = team.owner.post("/admin/models/registry", &body).await;
        assert!(!made.text.contains("very-secret"), "{}", made.text);
        let shown = json!({
            "served_name": "far/away", "url": "http://127.0.0.1:9", "task": "generate", "engine_type": null,
            "source": "manual", "healthy": false, "breaker": "closed",
        });
        assert_eq!(made.expect(201), shown, "nobody answers there");
        assert_error(&chat("far/away").await, 502, "model_unavailable");

        let list = team.admin.get("/admin/models/registry").await;
        assert!(!list.text.contains("very-secret"), "{}", list.text);
        assert_eq!(list.expect(200), json!([shown]));

        // The same name again replaces it.
        let mut body = entry("far/away", "http://127.0.0.1:10");
        body["task"] = json!("embed");
        team.owner.post("/admin/models/registry", &body).await.expect(200);
        assert_error(&chat("far/away").await, 400, "task_mismatch");
        team.owner.post("/admin/models/registry", &entry("plain", "http://[::1]:9")).await.expect(201);
        let second = team.admin.get("/admin/models/registry?limit=1&offset=1").await;
        assert_eq!(second.header("x-total-count"), Some("2"));
        assert_eq!(column(&second.json, "served_name"), ["plain"]);
        let list = team.admin.get("/admin/models/registry").await.json;
        assert_eq!(column(&list, "url"), ["http://127.0.0.1:10", "http://[::1]:9"]);

        for (path, name) in [("/far%2Faway", "far/away"), ("?served_name=plain", "plain")] {
            let path = format!("/admin/models/registry{path}");
            let done = team.owner.delete(&path).await.expect(200);
            assert_eq!(done, json!({ "id": name, "status": "deleted" }));
            assert_error(&team.owner.delete(&path).await, 404, "not_found");
        }
        team.owner.post("/admin/models/registry", &body).await.expect(201);
        team.owner.delete("/admin/models/registry/far/away").await.expect(200);
        assert_eq!(team.admin.get("/admin/models/registry").await.text, "[]");
        assert_error(&chat("far/away").await, 404, "model_not_found");
    }
}

#[tokio::test]
async fn an_engine_s_key_stays_as_long_as_its_address_does() {
    let gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    let sim = Simulator::start("--api-key right").await;
    let put = async |body: Value| owner.post("/admin/models/registry", &body).await;
    let mut body = entry("m", &sim.url());
    body["api_key"] = json!("wrong");
    assert_eq!(put(body.clone()).await.expect(201)["healthy"], false);
    let refused = owner.chat("m").await;
    assert_error(&refused, 502, "engine_key_mismatch");
    assert!(refused.text.contains("registry") && !refused.text.contains("apply"), "{}", refused.text);

    body["api_key"] = json!("right");
    assert_eq!(put(body).await.expect(200)["healthy"], true);
    assert_eq!(owner.chat("m").await.status, 200);
    assert_eq!(put(entry("m", &sim.url())).await.expect(200)["healthy"], true, "it was not sent, and stays");
    assert_eq!(owner.chat("m").await.status, 200);
    // To another address it never goes, and `null` takes it away.
    let other = Simulator::start("--api-key right").await;
    assert_eq!(put(entry("m", &other.url())).await.expect(200)["healthy"], false);
    let mut body = entry("m", &sim.url());
    body["api_key"] = json!("right");
    put(body.clone()).await.expect(200);
    body["api_key"] = Value::Null;
    assert_eq!(put(body).await.expect(200)["healthy"], false);
    assert_error(&owner.chat("m").await, 502, "engine_key_mismatch");
}

#[tokio::test]
async fn an_entry_that_leads_back_to_the_gateway_is_no_endless_round() {
    let gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    let (key, client) = owner.new_key(&json!({})).await;
    let mut body = entry("round", &gateway.url);
    body["api_key"] = key["token"].clone();
    owner.post("/admin/models/registry", &body).await.expect(201);
    let answer = client.chat("round").await;
    assert_error(&answer, 508, "request_loop");
    // One row for each time that it passed.
    let rows = owner.get("/admin/usage?model=round").await;
    assert!(rows.json.as_array().unwrap().len() <= 2, "{}", rows.text);
}

#[tokio::test]
async fn what_is_no_plain_address_of_an_engine_is_refused() {
    let team = Team::on(Database::Sqlite).await;
    for url in [
        "",
        "/",
        "10.0.0.5",
        "10.0.0.5:8000",
        "//10.0.0.5:8000",
        "http:",
        "http://",
        "http:///x",
        "http://:80",
        "https://10.0.0.5",
        "ftp://10.0.0.5",
        "file:///etc/passwd",
        "unix:///run/docker.sock",
        "gopher://10.0.0.5",
        "javascript:alert(1)",
        "http://user@10.0.0.5",
        "http://user:secret@10.0.0.5",
        "http://@10.0.0.5",
        "http://10.0.0.5?x=1",
        "http://10.0.0.5/?x=1",
        "http://10.0.0.5#x",
        "http://10.0.0.5/#",
        "http://10.0.0.5/v1",
        "http://10.0.0.5//",
        "http://10.0.0.5:99999",
        "http://10.0.0.5:port",
        "http://10.0.0.5:-1",
        "http://[::1",
        "http://::1",
        "http://10.0.0.5 ",
        " http://10.0.0.5",
        "http://10.0.0.5\r\nhost: x",
        "http://a b",
        "http://ho\u{0}st",
        "http://10.0.0.5\\@evil",
        &format!("http://{}", "a".repeat(500)),
    ] {
        let answer = team.owner.post("/admin/models/registry", &entry("m", url)).await;
        assert_eq!(answer.status, 422, "{url:?}: {}", answer.text);
        assert_invalid(&answer, &["url"]);
    }
    for (body, params) in [
        (json!({}), &["served_name", "url"][..]),
        (json!({ "served_name": "m", "url": 7 }), &["url"]),
        (json!({ "served_name": "m", "url": null }), &["url"]),
        (entry("", "http://h"), &["served_name"]),
        (entry(" m", "http://h"), &["served_name"]),
        (entry("m\u{0}", "http://h"), &["served_name"]),
        (entry(&"x".repeat(201), "http://h"), &["served_name"]),
        (entry("running", "http://h"), &["served_name"]),
        (json!({ "served_name": "m", "url": "http://h", "task": "chat" }), &["task"]),
        (json!({ "served_name": "m", "url": "http://h", "api_key": "" }), &["api_key"]),
        (json!({ "served_name": "m", "url": "http://h", "api_key": "a\r\nb: c" }), &["api_key"]),
        (json!({ "served_name": "m", "url": "http://h", "engine_type": "vllm" }), &["engine_type"]),
    ] {
        assert_invalid(&team.owner.post("/admin/models/registry", &body).await, params);
    }
    assert_eq!(team.owner.get("/admin/models/registry").await.text, "[]");
}

#[tokio::test]
async fn a_served_name_leads_to_one_engine_managed_or_not() {
    for database in Database::all("a_served_name_leads_to_one_engine") {
        let team = Team::on(database).await;
        make_model(&team.owner, "managed").await;
        let other = make_model(&team.owner, "other").await;
        let conflict = |answer: &gantry_testkit::Answer| {
            assert_error(answer, 409, "served_name_conflict");
            assert_eq!(answer.json["error"]["param"], "served_name");
        };
        conflict(&team.owner.post("/admin/models/registry", &entry("managed", "http://h")).await);
        team.owner.post("/admin/models/registry", &entry("manual", "http://h")).await.expect(201);
        let body = json!({ "served_name": "manual", "engine_type": "vllm", "local_path": "m" });
        conflict(&team.owner.post("/admin/models", &body).await);
        let path = format!("/admin/models/{other}");
        conflict(&team.owner.patch(&path, &json!({ "served_name": "manual" })).await);
        team.owner.delete("/admin/models/registry/manual").await.expect(200);
        team.owner.patch(&path, &json!({ "served_name": "manual" })).await.expect(200);
    }
}

#[tokio::test]
async fn removing_what_has_no_name_or_an_unreadable_one_is_refused() {
    for database in Database::all("removing_what_has_no_name") {
        let team = Team::on(database).await;
        let path = "/admin/models/registry";
        assert_invalid(&team.owner.delete(path).await, &["served_name"]);
        assert_invalid(&team.owner.delete(&format!("{path}?served_name=")).await, &["served_name"]);
        assert_invalid(&team.owner.delete(&format!("{path}?name=x")).await, &["name"]);
        for name in ["%00", "a%00b", "%ff", "%20", "a%2f..%2fb"] {
            for path in [format!("{path}/{name}"), format!("{path}?served_name={name}")] {
                let answer = team.owner.delete(&path).await;
                match answer.status {
                    400 => assert_error(&answer, 400, "invalid_request"),
                    _ => assert_error(&answer, 404, "not_found"),
                }
            }
        }
    }
}
