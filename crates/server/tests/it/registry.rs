//! The routing registry: engines that run elsewhere, by address.

use std::process::Command;

use gantry_testkit::{Client, Database, Options, skip};
use serde_json::{Value, json};

use crate::{
    cli::tls,
    simulator::Simulator,
    support::{assert_error, assert_invalid, column, start},
    team::{Team, id, make_key, make_model},
};

fn entry(served_name: &str, url: &str) -> Value {
    json!({ "served_name": served_name, "url": url })
}

#[tokio::test]
async fn an_engine_elsewhere_is_added_routed_to_replaced_and_removed() {
    for database in Database::one("an_engine_elsewhere_is_added") {
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
            "served_name": "far/away", "url": "http://127.0.0.1:9", "urls": ["http://127.0.0.1:9"],
            "upstream_model": null, "task": "generate", "engine_type": null, "source": "manual", "healthy": false,
            "breaker": "closed",
        });
        assert_eq!(made.expect(201), shown, "nobody answers there");
        assert_error(&chat("far/away").await, 502, "model_unavailable");

        let list = team.admin.get("/admin/models/registry").await;
        assert!(!list.text.contains("very-secret"), "{}", list.text);
        assert_eq!(list.expect(200), json!([shown]));

        // Another entry of the same name replaces the first one.
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
        "http://10.0.0.5//",
        "http://10.0.0.5/a//b",
        "http://10.0.0.5/a/../b",
        "http://10.0.0.5/%2e%2e",
        "https://user@10.0.0.5",
        "https://",
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
    let many: Vec<_> = (1..18).map(|n| format!("http://10.0.0.{n}")).collect();
    for (body, params) in [
        (json!({}), &["served_name", "url"][..]),
        (json!({ "served_name": "m", "url": 7 }), &["url"]),
        (json!({ "served_name": "m", "url": null }), &["url"]),
        (entry("", "http://h"), &["served_name"]),
        (entry(" m", "http://h"), &["served_name"]),
        (entry("m\u{0}", "http://h"), &["served_name"]),
        (entry(&"x".repeat(201), "http://h"), &["served_name"]),
        (entry("running", "http://h"), &["served_name"]),
        (entry("a/constraints", "http://h"), &["served_name"]),
        (json!({ "served_name": "m", "url": "http://h", "task": "chat" }), &["task"]),
        (json!({ "served_name": "m", "url": "http://h", "api_key": "" }), &["api_key"]),
        (json!({ "served_name": "m", "url": "http://h", "api_key": "a\r\nb: c" }), &["api_key"]),
        (json!({ "served_name": "m", "url": "http://h", "engine_type": "vllm" }), &["engine_type"]),
        (json!({ "served_name": "m", "url": "http://h", "urls": ["http://h"] }), &["urls"]),
        (json!({ "served_name": "m", "urls": [] }), &["urls"]),
        (json!({ "served_name": "m", "urls": "http://h" }), &["urls"]),
        (json!({ "served_name": "m", "urls": ["http://h", "http://h/"] }), &["urls"]),
        (json!({ "served_name": "m", "urls": ["http://h", "h"] }), &["urls"]),
        (json!({ "served_name": "m", "urls": many }), &["urls"]),
        (json!({ "served_name": "m", "url": "http://h", "upstream_model": "" }), &["upstream_model"]),
    ] {
        assert_invalid(&team.owner.post("/admin/models/registry", &body).await, params);
    }
    assert_eq!(team.owner.get("/admin/models/registry").await.text, "[]");
}

#[tokio::test]
async fn a_served_name_leads_to_one_engine_managed_or_not() {
    for database in Database::one("a_served_name_leads_to_one_engine") {
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
    for database in Database::one("removing_what_has_no_name") {
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

#[tokio::test]
async fn addresses_of_other_kinds_are_taken_as_they_are_written() {
    let team = Team::on(Database::Sqlite).await;
    for (url, shown) in [
        ("https://models.example.com", "https://models.example.com"),
        ("https://10.0.0.5:8443/openai/v1/", "https://10.0.0.5:8443/openai/v1"),
        ("http://10.0.0.5/v1", "http://10.0.0.5/v1"),
    ] {
        let made = team.owner.post("/admin/models/registry", &entry("m", url)).await;
        assert_eq!((made.status / 100, &made.json["url"]), (2, &json!(shown)), "{}", made.text);
    }
}

/// What `/admin/upstreams` says of the addresses of a name.
async fn addresses(owner: &Client, served_name: &str) -> Vec<Value> {
    let all = owner.get("/admin/upstreams").await.expect(200);
    all.as_array().unwrap().iter().filter(|it| it["served_name"] == served_name).cloned().collect()
}

#[tokio::test]
async fn several_addresses_share_the_requests_and_one_that_is_away_costs_none() {
    for database in Database::one("registry: several addresses") {
        let team = Team::on(database).await;
        let (one, two) = (Simulator::start("").await, Simulator::start("").await);
        let urls = json!([one.url(), "http://127.0.0.1:9", two.url()]);
        let body = json!({ "served_name": "m", "urls": urls });
        let made = team.owner.post("/admin/models/registry", &body).await.expect(201);
        assert_eq!((&made["url"], &made["urls"], &made["healthy"]), (&urls[0], &urls, &json!(true)));
        for _ in 0..20 {
            assert_eq!(team.owner.chat("m").await.status, 200);
        }
        let all = addresses(&team.owner, "m").await;
        let states: Vec<_> = all.iter().map(|it| (&it["url"], it["healthy"] == true)).collect();
        assert_eq!(states, [(&urls[0], true), (&urls[1], false), (&urls[2], true)]);
        // One name, whatever it leads to.
        let models = team.owner.get("/v1/models").await.expect(200);
        assert_eq!(models["data"].as_array().unwrap().len(), 1, "{models}");

        // Without the first the other one serves on.
        drop(one);
        for _ in 0..20 {
            assert_eq!(team.owner.chat("m").await.status, 200);
        }
        drop(two);
        assert_error(&team.owner.chat("m").await, 502, "model_unavailable");
    }
}

#[tokio::test]
async fn an_engine_that_does_not_serve_the_name_is_told_from_one_that_is_away() {
    for database in Database::one("registry: another name there") {
        let team = Team::on(database).await;
        let sim = Simulator::start("").await;
        let made = team.owner.post("/admin/models/registry", &entry("far", &sim.url())).await.expect(201);
        assert_eq!(made["healthy"], false);
        let said = addresses(&team.owner, "far").await[0]["last_error"].clone();
        assert_eq!(said, "it answers, but does not serve `far`: it lists `m`");

        let path = "/admin/models/registry/far";
        let changed = team.owner.patch(path, &json!({ "upstream_model": "m" })).await.expect(200);
        assert_eq!((&changed["healthy"], &changed["upstream_model"]), (&json!(true), &json!("m")));
        let answer = team.owner.chat("far").await;
        let id = answer.header("x-request-id").unwrap().to_owned();
        // The answer passes as the engine wrote it.
        assert_eq!(answer.expect(200)["model"], "m");
        assert_eq!(team.owner.usage_of(&id).await["model_name"], "far");
        assert_eq!(
            team.owner.patch(path, &json!({ "upstream_model": null })).await.expect(200)["healthy"],
            false
        );
    }
}

#[tokio::test]
async fn an_entry_is_changed_in_part_and_its_key_goes_to_no_new_address() {
    for database in Database::one("registry: changes") {
        let team = Team::on(database).await;
        let (one, two) =
            (Simulator::start("--api-key right").await, Simulator::start("--api-key right").await);
        let mut body = entry("org/m", &one.url());
        body["upstream_model"] = json!("m");
        body["api_key"] = json!("right");
        team.owner.post("/admin/models/registry", &body).await.expect(201);
        let path = "/admin/models/registry/org/m";
        let change = async |body: Value| team.owner.patch(path, &body).await;

        assert_invalid(&change(json!({ "urls": [one.url(), two.url()] })).await, &["api_key"]);
        assert_invalid(&change(json!({ "url": two.url() })).await, &["api_key"]);
        let both = json!({ "urls": [one.url(), two.url()], "api_key": "right" });
        assert_eq!(change(both).await.expect(200)["healthy"], true);
        assert!(addresses(&team.owner, "org/m").await.iter().all(|it| it["healthy"] == true));
        // To fewer of them it still goes.
        let fewer = change(json!({ "url": two.url() })).await.expect(200);
        assert_eq!((&fewer["urls"], &fewer["healthy"]), (&json!([two.url()]), &json!(true)));
        assert_eq!(team.owner.chat("org/m").await.status, 200);
        let task = change(json!({ "task": "embed" })).await.expect(200);
        assert_eq!((&task["task"], &task["upstream_model"]), (&json!("embed"), &json!("m")));
        // If another key is set, the log says at least that it was set.
        change(json!({ "api_key": "other-key" })).await.expect(200);
        let row = team.owner.get("/admin/audit?object_type=registry&limit=1").await;
        assert!(!row.text.contains("other-key"), "{}", row.text);
        let row = row.expect(200)[0].clone();
        assert_eq!(row["after"], json!({ "api_key_given": true }), "{row}");
        assert_eq!(change(json!({ "api_key": null })).await.expect(200)["healthy"], false);

        assert_invalid(&change(json!({ "served_name": "other" })).await, &["served_name"]);
        assert_invalid(&change(json!({ "url": null })).await, &["url"]);
        assert_error(&team.owner.patch("/admin/models/registry/nobody", &json!({})).await, 404, "not_found");
        assert_error(&team.admin.patch(path, &json!({})).await, 403, "forbidden");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_behind_tls_has_to_prove_its_name() {
    if Command::new("openssl").arg("version").output().is_err() {
        skip("registry: TLS", "there is no `openssl`");
        return;
    }
    let (sim, dir) = (Simulator::start("--api-key right").await, tempfile::tempdir().unwrap());
    tls::certificates(dir.path());
    let port = tls::proxy(dir.path(), sim.url().replace("http://", "")).await;
    let mut body = entry("m", &format!("https://127.0.0.1:{port}"));
    body["api_key"] = json!("right");

    let strict = start(Options::default()).await;
    let owner = strict.owner().await;
    assert_eq!(owner.post("/admin/models/registry", &body).await.expect(201)["healthy"], false);
    let said = addresses(&owner, "m").await[0]["last_error"].as_str().unwrap().to_owned();
    assert!(said.contains("SSL_CERT_FILE"), "{said}");
    assert_error(&owner.chat("m").await, 502, "model_unavailable");

    let authority = dir.path().join("ca.pem");
    let options = Options::default().env("SSL_CERT_FILE", authority.to_str().unwrap());
    let owner = start(options).await;
    let (gateway, owner) = (&owner, owner.owner().await);
    assert_eq!(owner.post("/admin/models/registry", &body).await.expect(201)["healthy"], true);
    for _ in 0..3 {
        assert_eq!(owner.chat("m").await.status, 200);
    }
    let (_, key) = owner.new_key(&json!({})).await;
    let stream = json!({
        "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }],
    });
    let answer = key.post("/v1/chat/completions", &stream).await;
    assert!(answer.status == 200 && answer.text.trim_end().ends_with("data: [DONE]"), "{}", answer.text);
    drop(sim);
    assert_error(&owner.chat("m").await, 502, "model_unavailable");
    assert!(!gateway.log().contains("panicked"));
}

#[tokio::test]
async fn a_breaker_that_is_open_for_some_says_so() {
    let gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    let sim = Simulator::start("--sim-error-status 500").await;
    let key = sim.join(&gateway).await;
    let keeps_away = async || addresses(&owner, "m").await[0]["breaker"]["keeps_away"].clone();
    assert_eq!(keeps_away().await, Value::Null);
    for _ in 0..5 {
        assert_error(&key.chat("m").await, 500, "engine_error");
    }
    assert_eq!(keeps_away().await, "some");
    // Another one is let in, and finds out that it is not the requests.
    drop(sim);
    assert_error(&owner.chat("m").await, 502, "model_unavailable");
    assert_eq!(keeps_away().await, "all");
}

#[tokio::test]
async fn the_chat_page_may_use_an_engine_that_was_entered_by_hand() {
    for database in Database::one("registry: the chat page") {
        let team = Team::on(database).await;
        let sim = Simulator::start("--max-model-len 600").await;
        sim.join(&team.gateway).await;
        team.owner.post("/admin/models/registry", &entry("gone", "http://127.0.0.1:9")).await.expect(201);
        let running = team.owner.get("/v1/models/running").await.expect(200);
        let m =
            json!({ "served_model_name": "m", "task": "generate", "engine_type": null, "state": "running" });
        assert_eq!(running, json!([m]));
        let constraints = team.owner.get("/v1/models/m/constraints").await.expect(200);
        assert_eq!(
            constraints,
            json!({
                "served_model_name": "m", "engine_type": null, "task": "generate", "context_size": null,
                "max_model_len": 600, "max_tokens_default": 300, "request_defaults": null,
                "supports_streaming": true, "supports_system_prompt": true, "supports_vision": null,
            })
        );
        let unknown = team.owner.get("/v1/models/gone/constraints").await.expect(200);
        assert_eq!((&unknown["max_model_len"], &unknown["max_tokens_default"]), (&Value::Null, &json!(512)));
        assert_error(&team.owner.get("/v1/models/nobody/constraints").await, 404, "model_not_found");

        // A caller who may only call other models learns of those only.
        let uwe = id(&team.user.get("/auth/me").await.expect(200)["user"]);
        team.user.get("/v1/models/m/constraints").await.expect(200);
        let only = json!({ "models": ["gone"] });
        team.owner.patch(&format!("/admin/users/{uwe}"), &only).await.expect(200);
        assert_error(&team.user.get("/v1/models/m/constraints").await, 404, "model_not_found");
        team.user.get("/v1/models/gone/constraints").await.expect(200);

        let body = json!({ "model_name": "m", "engine_type": null, "constraints": constraints });
        let chat = team.owner.post("/v1/chat/sessions", &body).await.expect(201);
        assert_eq!(chat["engine_type"], Value::Null);
        let path = format!("/v1/chat/sessions/{}", chat["id"].as_str().unwrap());
        assert_eq!(team.owner.get(&path).await.expect(200)["engine_type"], Value::Null);
    }
}
