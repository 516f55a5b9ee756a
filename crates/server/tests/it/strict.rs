//! What a request says in vain is refused, and what it says without an effect leaves no trace.

use gantry_admin_api::routes::routes;
use gantry_testkit::{Client, Database, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    matrix::{self, Names},
    support::{assert_error, assert_invalid, column, gateway},
    team::{Team, everything, id, make_key, make_model},
};

async fn n_audited(owner: &Client) -> String {
    owner.get("/admin/audit?limit=1").await.header("x-total-count").unwrap().to_owned()
}

#[tokio::test]
async fn a_change_with_a_parameter_that_its_route_does_not_have_is_not_made() {
    for database in Database::one("a_change_with_a_parameter_that_its_route") {
        let dead = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let team = Team::with(dead).await;
        let mut names = Names::default();
        let mut n = 0;
        for route in routes() {
            let (method, path) = (route.method.as_str(), route.path);
            if method == "GET" {
                continue;
            }
            let target = matrix::fresh(&team, &mut names, method, path, &team.owner).await;
            let body = matrix::body(&mut names, method, path, "owner-password");
            let before = (everything(&team.owner).await, n_audited(&team.owner).await);
            let sign = if target.contains('?') { '&' } else { '?' };
            let target = format!("{target}{sign}dry_run=true");
            assert_invalid(&matrix::call(&team.owner, method, &target, body.as_ref()).await, &["dry_run"]);
            assert_eq!((everything(&team.owner).await, n_audited(&team.owner).await), before, "{target}");
            // A caller who may not call the route learns nothing of it.
            if path.starts_with("/admin/") && path != "/admin/bootstrap-owner" {
                let answer = matrix::call(&team.gateway.client(), method, &target, body.as_ref()).await;
                assert_error(&answer, 401, "unauthenticated");
            }
            n += 1;
        }
        assert!(n > 25, "{n}");
        let chat = json!({ "model_name": "m", "engine_type": "vllm" });
        let chat = team.user.post("/v1/chat/sessions", &chat).await.expect(201)["id"].clone();
        let one = format!("/v1/chat/sessions?id={}", chat.as_str().unwrap());
        assert_invalid(&team.user.delete(&one).await, &["id"]);
        assert_eq!(column(&team.user.get("/v1/chat/sessions").await.json, "id"), [&chat]);
        // An empty query is none.
        let key = format!("/admin/keys/{}", id(&make_key(&team.owner, &json!({})).await));
        team.owner.delete(&format!("{key}?")).await.expect(200);
    }
}

#[tokio::test]
async fn null_is_no_value_of_what_always_has_one() {
    for database in Database::one("null_is_no_value_of_what_always_has_one") {
        let team = Team::on(database).await;
        let key = id(&make_key(&team.owner, &json!({})).await);
        let model = make_model(&team.owner, "m").await;
        let uwe = team.owner.get("/admin/users?q=uwe").await.expect(200)[0]["id"].clone();
        let before = (everything(&team.owner).await, n_audited(&team.owner).await);
        for (path, fields) in [
            (format!("/admin/users/{uwe}"), &["username", "password", "role", "org_id", "enabled"][..]),
            (format!("/admin/orgs/{}", team.tenant), &["name", "enabled"]),
            (format!("/admin/keys/{key}"), &["scopes"]),
            (format!("/admin/models/{model}"), &["name", "served_name", "task", "archived"]),
        ] {
            for field in fields {
                assert_invalid(&team.owner.patch(&path, &json!({ *field: null })).await, &[field]);
            }
        }
        assert_eq!((everything(&team.owner).await, n_audited(&team.owner).await), before);
    }
}

#[tokio::test]
async fn a_change_that_changes_nothing_leaves_no_trace() {
    for database in Database::one("a_change_that_changes_nothing") {
        let team = Team::on(database).await;
        let key = json!({ "name": "k", "rpm_limit": 5, "ip_allowlist": ["10.0.0.0/8"] });
        let key = id(&make_key(&team.owner, &key).await);
        let model = json!({
            "served_name": "m", "engine_type": "vllm", "local_path": "m", "extra_env": { "A": "1" },
        });
        let model = id(&team.owner.post("/admin/models", &model).await.expect(201));
        let uwe = team.owner.get("/admin/users?q=uwe").await.expect(200)[0]["id"].clone();
        let same_key =
            json!({ "name": "k", "rpm_limit": 5, "tpm_limit": null, "ip_allowlist": "10.1.2.3/8" });
        for (path, same, other) in [
            (
                format!("/admin/users/{uwe}"),
                json!({ "username": "uwe", "role": "user" }),
                json!({ "username": "u" }),
            ),
            (
                format!("/admin/orgs/{}", team.tenant),
                json!({ "name": "Tenant", "enabled": true }),
                json!({ "rpm_limit": 1 }),
            ),
            (format!("/admin/keys/{key}"), same_key, json!({ "tpm_limit": 1 })),
            (
                format!("/admin/models/{model}"),
                json!({ "served_name": "m", "extra_env": { "A": "1" }, "seed": null }),
                json!({ "extra_env": { "A": "2" } }),
            ),
        ] {
            let (all, n) = (everything(&team.owner).await, n_audited(&team.owner).await);
            for nothing in [json!({}), same] {
                let answer = team.owner.patch(&path, &nothing).await.expect(200);
                let listed = everything(&team.owner).await;
                assert_eq!(listed, all, "{path} {nothing}");
                assert!(
                    listed.iter().any(|it| it.as_array().is_some_and(|it| it.contains(&answer))),
                    "{answer}"
                );
                assert_eq!(n_audited(&team.owner).await, n, "{path} {nothing}");
            }
            team.owner.patch(&path, &other).await.expect(200);
            assert_ne!(n_audited(&team.owner).await, n, "{path} {other}");
        }
    }
}

async fn raw(client: &Client, method: Method, path: &str, body: String) -> gantry_testkit::Answer {
    let request = client.request(method, path).header("content-type", "application/json");
    client.send(request.body(body)).await
}

#[tokio::test]
async fn a_field_that_stands_twice_is_refused() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let model = make_model(&owner, "m").await;
    let before = everything(&owner).await;
    for (method, path, body, key) in [
        (Method::POST, "/admin/orgs".to_owned(), r#"{"name":"a","name":"b"}"#, "name"),
        (
            Method::POST,
            "/admin/keys".to_owned(),
            r#"{"rpm_limit":1,"name":"x","rpm_limit":null}"#,
            "rpm_limit",
        ),
        (
            Method::POST,
            "/auth/login".to_owned(),
            r#"{"username":"a","username":"b","password":"x"}"#,
            "username",
        ),
        // A repeated JSON key, spelt with an escape, and in a nested object.
        (Method::POST, "/admin/orgs".to_owned(), r#"{"name":"a","n\u0061me":"b"}"#, "name"),
        (Method::PATCH, format!("/admin/models/{model}"), r#"{"extra_env":{"A":"1","B":"2","A":"3"}}"#, "A"),
        (
            Method::PATCH,
            format!("/admin/models/{model}"),
            r#"{"request_defaults":{"stop":[{"a":1},{"x":1.5,"x":true}]}}"#,
            "x",
        ),
    ] {
        let answer = raw(&owner, method, &path, body.to_owned()).await;
        assert_error(&answer, 400, "duplicate_key");
        assert_eq!(answer.json["error"]["param"], key, "{}", answer.text);
    }
    assert_eq!(everything(&owner).await, before);
    // In two objects it stands once in each.
    let body = r#"{"request_defaults":{"a":{"x":1},"b":[{"x":-1},{"x":"1"}],"x":null}}"#.to_owned();
    let answer = raw(&owner, Method::PATCH, &format!("/admin/models/{model}"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test]
async fn a_refusal_says_the_rule_that_was_broken() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    for (path, field) in [("/admin/keys", "name"), ("/admin/orgs", "name"), ("/admin/users", "username")] {
        for bad in [" a", "a\tb", "a\u{200b}"] {
            let answer = owner.post(path, &json!({ field: bad })).await;
            let details = answer.json["error"]["details"].as_array().unwrap();
            let message =
                details.iter().find(|it| it["param"] == field).unwrap()["message"].as_str().unwrap();
            for rule in ["control characters", "invisible characters", "blanks at its ends"] {
                assert!(message.contains(rule), "{path} {bad:?}: {message}");
            }
        }
    }
    let nested = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let deep = raw(&owner, Method::POST, "/admin/orgs", nested(127)).await;
    assert_error(&deep, 400, "invalid_json");
    assert_eq!(deep.json["error"]["message"], "the body is nested too deeply: more than 127 levels");
    let read: Value = raw(&owner, Method::POST, "/admin/orgs", nested(126)).await.json;
    assert_eq!(read["error"]["code"], "validation_error", "{read}");
}
