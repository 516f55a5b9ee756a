//! Which role may call which route: every route with every role, every path with every method, and the shape of every
//! refusal. The table below is written by hand, so that a policy can't change by accident.

use gantry_admin_api::{policy::Access, routes::routes};
use gantry_domain::Role;
use gantry_testkit::{Answer, Client, Database, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::{assert_error, gateway},
    team::{PASSWORD, Team, everything, id, make_key, make_model, make_org, make_token, make_user},
};

/// Method, path, least role (`-`: nobody need sign in), and the status when all is well.
pub(crate) const TABLE: &[(&str, &str, &str, u16)] = &[
    ("GET", "/readyz", "-", 200),
    // In this story there is an owner already.
    ("POST", "/admin/bootstrap-owner", "-", 409),
    ("GET", "/auth/setup", "-", 200),
    ("POST", "/auth/login", "-", 200),
    ("POST", "/auth/logout", "user", 200),
    ("GET", "/auth/me", "user", 200),
    ("POST", "/auth/password", "user", 200),
    ("POST", "/auth/password-link", "-", 401),
    ("GET", "/auth/keys", "user", 200),
    ("POST", "/auth/keys", "user", 201),
    ("DELETE", "/auth/keys/{id}", "user", 200),
    ("GET", "/auth/tokens", "user", 200),
    ("POST", "/auth/tokens", "user", 201),
    ("DELETE", "/auth/tokens/{id}", "user", 200),
    ("GET", "/auth/sessions", "user", 200),
    ("DELETE", "/auth/sessions", "user", 200),
    ("DELETE", "/auth/sessions/{id}", "user", 200),
    ("GET", "/auth/usage", "user", 200),
    ("GET", "/auth/usage/aggregate", "user", 200),
    ("GET", "/auth/usage/series", "user", 200),
    ("GET", "/auth/limits", "user", 200),
    ("GET", "/auth/models", "user", 200),
    ("GET", "/auth/events", "user", 200),
    ("GET", "/admin/tokens", "org_admin", 200),
    ("DELETE", "/admin/tokens/{id}", "org_admin", 200),
    ("GET", "/admin/keys", "org_admin", 200),
    ("POST", "/admin/keys", "org_admin", 201),
    ("PATCH", "/admin/keys/{id}", "org_admin", 200),
    ("DELETE", "/admin/keys/{id}", "org_admin", 200),
    ("GET", "/admin/orgs", "org_admin", 200),
    ("POST", "/admin/orgs", "admin", 201),
    ("GET", "/admin/orgs/lookup", "org_admin", 200),
    ("PATCH", "/admin/orgs/{id}", "admin", 200),
    ("DELETE", "/admin/orgs/{id}", "admin", 200),
    ("GET", "/admin/users", "org_admin", 200),
    ("POST", "/admin/users", "org_admin", 201),
    ("GET", "/admin/users/lookup", "org_admin", 200),
    ("PATCH", "/admin/users/{id}", "org_admin", 200),
    ("DELETE", "/admin/users/{id}", "org_admin", 200),
    ("POST", "/admin/users/{id}/password-link", "org_admin", 201),
    ("GET", "/admin/usage", "org_admin", 200),
    ("GET", "/admin/audit", "admin", 200),
    ("GET", "/admin/events", "admin", 200),
    ("GET", "/admin/usage/aggregate", "org_admin", 200),
    ("GET", "/admin/usage/series", "org_admin", 200),
    ("GET", "/admin/usage/latency", "org_admin", 200),
    ("GET", "/admin/usage/ttft", "org_admin", 200),
    ("GET", "/admin/usage/export", "org_admin", 200),
    ("GET", "/admin/usage/integrity", "admin", 200),
    ("GET", "/admin/models", "admin", 200),
    ("POST", "/admin/models", "admin", 201),
    ("GET", "/admin/models/base-dir", "admin", 200),
    // A directory that is not there.
    ("PUT", "/admin/models/base-dir", "owner", 422),
    ("GET", "/admin/models/local-folders", "admin", 200),
    // Without saying which folder.
    ("GET", "/admin/models/inspect-folder", "admin", 422),
    // Without saying which repository.
    ("GET", "/admin/models/hub-config", "admin", 422),
    ("POST", "/admin/models/dry-run", "admin", 200),
    ("GET", "/admin/models/registry", "admin", 200),
    ("POST", "/admin/models/registry", "owner", 201),
    ("DELETE", "/admin/models/registry", "owner", 200),
    ("PATCH", "/admin/models/registry/{*served_name}", "owner", 200),
    ("DELETE", "/admin/models/registry/{*served_name}", "owner", 200),
    ("GET", "/admin/models/metrics", "admin", 200),
    ("GET", "/admin/models/{id}", "admin", 200),
    ("PATCH", "/admin/models/{id}", "admin", 200),
    ("DELETE", "/admin/models/{id}", "admin", 200),
    // No container runtime answers in this story: commands are accepted, looking at a container is not possible.
    ("POST", "/admin/models/{id}/start", "admin", 202),
    ("POST", "/admin/models/{id}/stop", "admin", 200),
    ("POST", "/admin/models/{id}/apply", "admin", 202),
    ("POST", "/admin/models/{id}/dry-run", "admin", 200),
    ("POST", "/admin/models/{id}/test", "admin", 409),
    ("GET", "/admin/models/{id}/readiness", "admin", 200),
    ("GET", "/admin/models/{id}/logs", "admin", 503),
    ("GET", "/admin/models/{id}/events", "admin", 200),
    ("GET", "/admin/system/container-images", "admin", 503),
    ("POST", "/admin/system/container-images/load", "owner", 415),
    ("POST", "/admin/deployment/export", "owner", 415),
    ("POST", "/admin/deployment/export-model/{id}", "owner", 202),
    ("POST", "/admin/deployment/estimate-size", "admin", 415),
    ("GET", "/admin/deployment/model-manifests", "admin", 422),
    ("GET", "/admin/deployment/package-contents", "admin", 422),
    ("POST", "/admin/deployment/import-model", "owner", 415),
    ("POST", "/admin/deployment/import", "owner", 415),
    ("POST", "/admin/deployment/check-database-dump", "admin", 415),
    ("POST", "/admin/deployment/restore-database", "owner", 415),
    ("GET", "/admin/deployment/status", "admin", 200),
    ("GET", "/admin/deployment/jobs", "admin", 200),
    // Its ids are of the form `deploy-<number>`.
    ("GET", "/admin/deployment/jobs/{id}", "admin", 404),
    ("DELETE", "/admin/deployment/jobs/{id}", "owner", 404),
    ("GET", "/v1/chat/sessions", "user", 200),
    ("POST", "/v1/chat/sessions", "user", 415),
    ("DELETE", "/v1/chat/sessions", "user", 200),
    ("GET", "/v1/chat/sessions/{id}", "user", 404),
    ("PATCH", "/v1/chat/sessions/{id}", "user", 404),
    ("DELETE", "/v1/chat/sessions/{id}", "user", 404),
    ("POST", "/v1/chat/sessions/{id}/messages", "user", 404),
    ("POST", "/v1/chat/sessions/{id}/completions", "user", 404),
    ("GET", "/v1/chat/sessions/{id}/completions/current", "user", 404),
    ("DELETE", "/v1/chat/sessions/{id}/completions/current", "user", 404),
    ("GET", "/v1/models/running", "user", 200),
    ("GET", "/v1/models/{*name_constraints}", "user", 200),
    ("GET", "/admin/engines/spec", "admin", 200),
    ("GET", "/openapi.json", "-", 200),
    ("GET", "/docs", "-", 200),
    ("GET", "/admin/system/gpus", "admin", 200),
    ("GET", "/admin/system/summary", "admin", 200),
    ("GET", "/admin/system/throughput", "admin", 200),
    ("GET", "/admin/system/host/summary", "admin", 200),
    ("GET", "/admin/system/host/trends", "admin", 200),
    ("GET", "/admin/system/capabilities", "admin", 200),
    ("GET", "/admin/system/settings", "admin", 200),
    ("GET", "/admin/upstreams", "admin", 200),
    ("POST", "/admin/upstreams/refresh-health", "admin", 200),
];

const ROLES: [&str; 5] = ["-", "user", "org_admin", "admin", "owner"];

fn rank(role: &str) -> usize {
    ROLES.iter().position(|it| *it == role).unwrap()
}

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

#[test]
fn the_route_table_is_the_one_written_here() {
    let least = |access: Access| access.role().map_or("-", Role::as_str);
    let all = routes();
    let found: Vec<_> = all.iter().map(|it| (it.method.as_str(), it.path, least(it.policy.access))).collect();
    let wanted: Vec<_> = TABLE.iter().map(|(method, path, role, _)| (*method, *path, *role)).collect();
    assert_eq!(found, wanted);
}

/// Makes names that no other object of this gateway has.
#[derive(Default)]
pub(crate) struct Names(u32);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("thing-{}", self.0)
    }
}

/// The path of the object with this id or name.
pub(crate) fn filled(path: &str, id: &str, name: &str) -> String {
    path.replace("{id}", id)
        .replace("{*served_name}", name)
        .replace("{*name_constraints}", &format!("{name}/constraints"))
}

/// Returns the path with an object that was made for this request alone and belongs to `caller` or to the caller's
/// organisation.
pub(crate) async fn fresh(
    team: &Team,
    names: &mut Names,
    method: &str,
    path: &str,
    caller: &Client,
) -> String {
    let (owner, name) = (&team.owner, names.next());
    if path == "/auth/keys/{id}" {
        return format!("/auth/keys/{}", id(&caller.post("/auth/keys", &json!({})).await.expect(201)));
    }
    if path == "/auth/tokens/{id}" {
        return format!("/auth/tokens/{}", id(&make_token(caller, "*:read").await));
    }
    if path == "/auth/sessions/{id}" {
        let me = caller.get("/auth/me").await.expect(200)["user"]["username"].as_str().unwrap().to_owned();
        let password = if me == "owner" { "owner-password" } else { PASSWORD };
        team.gateway.sign_in(&me, password).await;
        let sessions = caller.get("/auth/sessions").await.expect(200);
        let other = sessions.as_array().unwrap().iter().find(|it| it["current"] == false).unwrap();
        return format!("/auth/sessions/{}", other["id"].as_str().unwrap());
    }
    if path.starts_with("/admin/models/registry") && matches!(method, "DELETE" | "PATCH") {
        let entry = json!({ "served_name": name, "url": "http://127.0.0.1:9" });
        owner.post("/admin/models/registry", &entry).await.expect(201);
        return match path.strip_suffix("{*served_name}") {
            None => format!("{path}?served_name={name}"),
            Some(path) => format!("{path}{name}"),
        };
    }
    if let Some(path) = path.strip_suffix("{*name_constraints}") {
        make_model(owner, &name).await;
        return format!("{path}{name}/constraints");
    }
    if !path.contains("{id}") {
        return path.to_owned();
    }
    let id = match path.split('/').nth(2).unwrap() {
        "keys" => id(&make_key(owner, &json!({ "org_id": team.tenant })).await),
        "tokens" => id(&make_token(&team.user, "*:read").await),
        "orgs" => make_org(owner, &name).await,
        "users" => make_user(owner, team.tenant, &name, "user").await,
        _ => make_model(owner, &name).await,
    };
    path.replace("{id}", &id.to_string())
}

/// The least that the route takes.
pub(crate) fn body(names: &mut Names, method: &str, path: &str, password: &str) -> Option<Value> {
    Some(match (method, path) {
        ("POST", "/admin/bootstrap-owner") => {
            json!({ "username": names.next(), "password": PASSWORD, "org_name": names.next() })
        }
        ("POST", "/auth/login") => json!({ "username": "uwe", "password": PASSWORD }),
        ("POST", "/auth/password") => json!({ "current_password": password, "new_password": password }),
        ("POST", "/auth/password-link") => json!({ "token": "gtl_", "password": password }),
        ("PUT", "/admin/models/base-dir") => json!({ "base_dir": "/nowhere/at/all" }),
        ("POST", "/auth/tokens") => json!({ "name": names.next(), "scopes": "account:read" }),
        ("POST", "/admin/users") => json!({ "username": names.next(), "password": PASSWORD }),
        ("POST", "/admin/models" | "/admin/models/dry-run") => {
            json!({ "served_name": names.next(), "engine_type": "vllm", "local_path": "m" })
        }
        ("POST", "/admin/models/registry") => {
            json!({ "served_name": names.next(), "url": "http://127.0.0.1:9" })
        }
        ("PATCH", "/admin/users/{id}") => json!({ "username": names.next() }),
        ("PATCH", "/admin/models/registry/{*served_name}") => json!({ "task": "embed" }),
        // The path names no chat: nothing of the body is read.
        ("PATCH", "/v1/chat/sessions/{id}") => return None,
        ("POST", "/admin/orgs") | ("PATCH", _) => json!({ "name": names.next() }),
        ("POST", "/admin/upstreams/refresh-health" | "/admin/keys" | "/auth/keys") => json!({}),
        _ => return None,
    })
}

pub(crate) async fn call(client: &Client, method_name: &str, path: &str, body: Option<&Value>) -> Answer {
    let request = client.request(method(method_name), path);
    client.send(body.map_or_else(|| client.request(method(method_name), path), |it| request.json(it))).await
}

#[tokio::test]
async fn every_role_gets_what_its_policy_says_and_nothing_more() {
    for database in Database::one("every_role_gets_what_its_policy_says_and_nothing_more") {
        let dead = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let team = Team::with(dead).await;
        let key = make_key(&team.owner, &json!({})).await["token"].as_str().unwrap().to_owned();
        let (anybody, key) = (team.gateway.client(), team.gateway.client().with_key(&key));
        let people = [
            ("user", "uwe", PASSWORD, &team.user),
            ("org_admin", "olga", PASSWORD, &team.org_admin),
            ("admin", "ada", PASSWORD, &team.admin),
            ("owner", "owner", "owner-password", &team.owner),
        ];
        let mut names = Names(0);

        // Refused: nothing may happen. One object of each kind stands for all.
        let mut targets = Vec::new();
        for (method, path, ..) in TABLE {
            targets.push(fresh(&team, &mut names, method, path, &team.owner).await);
        }
        let before = everything(&team.owner).await;
        for ((method, path, least, _), target) in TABLE.iter().zip(&targets) {
            let body = body(&mut names, method, path, PASSWORD);
            for (who, client) in [("nobody", &anybody), ("a key", &key)] {
                if *least != "-" {
                    let answer = call(client, method, target, body.as_ref()).await;
                    assert_eq!(answer.status, 401, "{who}: {method} {path}: {}", answer.text);
                    assert_error(&answer, 401, "unauthenticated");
                }
            }
            for (role, _, _, client) in people.iter().filter(|it| rank(it.0) < rank(least)) {
                let answer = call(client, method, target, body.as_ref()).await;
                assert_eq!(answer.status, 403, "{role}: {method} {path}: {}", answer.text);
                assert_error(&answer, 403, "forbidden");
            }
        }
        assert_eq!(everything(&team.owner).await, before);

        // Allowed: it happens, to an object of its own.
        for (method, path, least, status) in TABLE {
            if *least == "-" {
                let body = body(&mut names, method, path, PASSWORD);
                for client in [&anybody, &key] {
                    assert_eq!(
                        call(client, method, path, body.as_ref()).await.status,
                        *status,
                        "{method} {path}"
                    );
                }
                continue;
            }
            for (role, username, password, client) in people.iter().filter(|it| rank(it.0) >= rank(least)) {
                let target = fresh(&team, &mut names, method, path, client).await;
                let body = body(&mut names, method, path, password);
                // Signing out would end the rest of the story.
                let client = match *path {
                    "/auth/logout" => team.gateway.sign_in(username, password).await,
                    _ => (*client).clone(),
                };
                let answer = call(&client, method, &target, body.as_ref()).await;
                assert_eq!(answer.status, *status, "{role}: {method} {path}: {}", answer.text);
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_404_for_who_may_look_and_403_for_others() {
    for database in Database::one("what_is_not_there_is_404") {
        let team = Team::on(database).await;
        let mut names = Names(0);
        for (method, path, least, _) in TABLE.iter().filter(|(_, path, ..)| path.contains('{')) {
            let target = filled(path, "999999", "no/such");
            let body = body(&mut names, method, path, PASSWORD);
            let answer = call(&team.owner, method, &target, body.as_ref()).await;
            assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text);
            let code = if path.starts_with("/v1/models") { "model_not_found" } else { "not_found" };
            assert_error(&answer, 404, code);
            if *least != "user" {
                assert_error(&call(&team.user, method, &target, body.as_ref()).await, 403, "forbidden");
            }
        }
    }
}

#[tokio::test]
async fn a_path_takes_its_own_methods_and_says_which() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let mut paths: Vec<_> = TABLE.iter().map(|it| it.1).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let own: Vec<_> = TABLE.iter().filter(|it| it.1 == path).map(|it| it.0).collect();
        let target = filled(path, "1", "a/b");
        for other in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            if own.contains(&other) {
                continue;
            }
            for client in [&gateway.client(), &owner] {
                let answer = call(client, other, &target, None).await;
                assert_eq!(answer.status, 405, "{other} {path}: {}", answer.text);
                assert_error(&answer, 405, "method_not_allowed");
                let mut said: Vec<_> = answer.header("allow").unwrap_or_default().split(',').collect();
                said.retain(|it| *it != "HEAD");
                said.sort_unstable();
                let mut own = own.clone();
                own.sort_unstable();
                assert_eq!(said, own, "{other} {path}");
            }
        }
        // HEAD is GET without the body.
        let (head, get) =
            (call(&owner, "HEAD", &target, None).await, call(&owner, "GET", &target, None).await);
        assert_eq!((head.status, head.text.as_str()), (get.status, ""), "HEAD {path}");
    }
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_404_whoever_asks_and_however() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let paths = [
        "/admin",
        "/admin/",
        "/admin/nope",
        "/admin/keys/",
        "/admin/keys/1/2",
        "/admin/orgs/1/users",
        "/ADMIN/keys",
        "/Auth/me",
        "//admin/keys",
        "/admin//keys",
        "/auth",
        "/auth/",
        "/auth/me/",
        "/v1",
        "/v1/nope",
        "/v2/chat/completions",
        "/metrics",
        "/debug/pprof",
        "/.env",
        "/ui/nope.js",
        "/ui/%2e%2e/%2e%2e/etc/passwd",
        "/admin/models/1/nope",
        "/%00",
        "/%ff%fe",
    ];
    for path in paths {
        for name in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            for client in [&gateway.client(), &owner] {
                let answer = call(client, name, path, None).await;
                assert_eq!(answer.status, 404, "{name} {path}: {}", answer.text);
                assert_error(&answer, 404, "unknown_route");
            }
        }
    }
}
