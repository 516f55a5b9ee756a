//! Malformed and ill-typed requests to every route: the right 4xx in the one shape, never a 5xx, and nothing changed.

use gantry_admin_api::routes::routes;
use gantry_testkit::{Answer, Client, Database};
use reqwest::{Body, Method};
use serde_json::{Value, json};

use crate::{
    matrix::{TABLE, filled},
    support::{assert_error, assert_invalid, gateway},
    team::{PASSWORD, Team, everything, id, make_key, make_model},
};

/// A route with a body: what it can't do without, and the fields that it may have.
struct Form {
    method: &'static str,
    path: &'static str,
    /// Largest body in bytes.
    limit: usize,
    required: Value,
    optional: &'static str,
}

const KEY: &str = "name scopes models ip_allowlist expires_at rpm_limit tpm_limit max_concurrency max_streams \
    budget_tokens_day budget_tokens_month limit_mode";
const LIMITS: &str = "rpm_limit tpm_limit max_concurrency max_streams budget_tokens_day budget_tokens_month";
const MODEL: &str = "name task hub_token archived mode repo_id dtype max_model_len gpu_memory_utilization \
    enforce_eager selected_gpus lora_adapters extra_args extra_env request_defaults chat_template startup_timeout_sec";

/// Every route that reads a body.
fn forms() -> Vec<Form> {
    let credentials = json!({ "username": "x", "password": PASSWORD });
    let mut forms = vec![
        form(
            "POST",
            "/admin/bootstrap-owner",
            8192,
            json!({ "username": "x", "password": PASSWORD, "org_name": "x" }),
            "setup_token",
        ),
        form("POST", "/auth/login", 8192, credentials, ""),
        form(
            "POST",
            "/auth/password",
            8192,
            json!({ "current_password": "x", "new_password": PASSWORD }),
            "",
        ),
        form("POST", "/auth/password-link", 8192, json!({ "token": "x", "password": PASSWORD }), ""),
        form("POST", "/auth/keys", 262_144, json!({}), KEY),
        form("POST", "/auth/tokens", 262_144, json!({ "name": "x", "scopes": "*:read" }), "expires_at"),
        form(
            "POST",
            "/admin/keys",
            262_144,
            json!({}),
            "name scopes models ip_allowlist expires_at rpm_limit org_id user_id",
        ),
        form("PATCH", "/admin/keys/{id}", 262_144, json!({}), KEY),
        form("POST", "/admin/orgs", 262_144, json!({ "name": "x" }), LIMITS),
        form("PATCH", "/admin/orgs/{id}", 262_144, json!({}), "name enabled rpm_limit budget_tokens_day"),
        form("POST", "/admin/users", 262_144, json!({ "username": "x" }), "password role org_id enabled"),
        form("PATCH", "/admin/users/{id}", 262_144, json!({}), "username password role org_id enabled"),
        form("POST", "/admin/users/{id}/password-link", 262_144, json!({}), "hours"),
        form(
            "POST",
            "/admin/models",
            262_144,
            json!({ "engine_type": "vllm", "served_name": "x", "local_path": "m" }),
            MODEL,
        ),
        form("POST", "/admin/upstreams/refresh-health", 262_144, json!({}), "served_names"),
        form("PUT", "/admin/models/base-dir", 262_144, json!({ "base_dir": "/nowhere" }), ""),
        form(
            "POST",
            "/admin/models/dry-run",
            262_144,
            json!({ "engine_type": "vllm", "served_name": "x", "local_path": "m" }),
            MODEL,
        ),
        form("POST", "/admin/models/{id}/dry-run", 262_144, json!({}), MODEL),
        form(
            "POST",
            "/admin/models/registry",
            262_144,
            json!({ "served_name": "x", "url": "http://h" }),
            "urls task upstream_model api_key",
        ),
        form(
            "PATCH",
            "/admin/models/registry/{*served_name}",
            262_144,
            json!({}),
            "url urls task upstream_model api_key",
        ),
        form("PATCH", "/admin/models/{id}", 262_144, json!({}), MODEL),
        form("POST", "/admin/system/container-images/load", 262_144, json!({ "path": "x" }), ""),
    ];
    forms.extend(chat_forms());
    forms.extend(package_forms());
    forms
}

fn form(
    method: &'static str,
    path: &'static str,
    limit: usize,
    required: Value,
    optional: &'static str,
) -> Form {
    Form { method, path, limit, required, optional }
}

fn chat_forms() -> Vec<Form> {
    vec![
        form(
            "POST",
            "/v1/chat/sessions",
            262_144,
            json!({ "model_name": "m", "engine_type": "vllm" }),
            "constraints",
        ),
        form("PATCH", "/v1/chat/sessions/{id}", 262_144, json!({}), "title pinned"),
        form(
            "POST",
            "/v1/chat/sessions/{id}/messages",
            3 << 20,
            json!({ "role": "user", "content": "x" }),
            "metrics",
        ),
        form(
            "POST",
            "/v1/chat/sessions/{id}/completions",
            8 << 20,
            json!({ "request": { "messages": [] } }),
            "parent continues",
        ),
    ]
}

fn package_forms() -> Vec<Form> {
    vec![
        form(
            "POST",
            "/admin/deployment/export",
            262_144,
            json!({ "output_dir": "x" }),
            "include_images include_db include_configs include_models_manifest tar_models tar_hub_cache \
             allow_pull_images part_size since",
        ),
        form(
            "POST",
            "/admin/deployment/export-model/{id}",
            262_144,
            json!({}),
            "output_dir include_images tar_models tar_hub_cache include_env allow_pull_images part_size since",
        ),
        form(
            "POST",
            "/admin/deployment/estimate-size",
            262_144,
            json!({ "output_dir": "x" }),
            "include_images include_db tar_models tar_hub_cache",
        ),
        form(
            "POST",
            "/admin/deployment/import-model",
            262_144,
            json!({ "output_dir": "x", "manifest_file": "model-1.json" }),
            "conflict_strategy dry_run served_name_override local_path_override include_images include_weights \
             base_dir replace_images",
        ),
        form(
            "POST",
            "/admin/deployment/import",
            262_144,
            json!({ "output_dir": "x" }),
            "base_dir include_images include_weights include_hub_cache include_models replace_images dry_run",
        ),
        form(
            "POST",
            "/admin/deployment/check-database-dump",
            262_144,
            json!({ "output_dir": "x" }),
            "db_file",
        ),
        form(
            "POST",
            "/admin/deployment/restore-database",
            262_144,
            json!({ "output_dir": "x" }),
            "backup_first drop_existing db_file",
        ),
    ]
}

#[test]
fn every_route_with_a_body_is_among_the_forms() {
    let key = |method: &str, path: &str, limit: usize| format!("{method} {path} {limit}");
    let mut found: Vec<_> = routes()
        .iter()
        .filter(|it| it.policy.body.0 > 0)
        .map(|it| key(it.method.as_str(), it.path, it.policy.body.0))
        .collect();
    let mut wanted: Vec<_> = forms().iter().map(|it| key(it.method, it.path, it.limit)).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// One object of each kind, as the targets of changes.
struct Targets {
    key: i64,
    model: i64,
    chat: String,
}

impl Targets {
    async fn make(owner: &Client) -> Self {
        let chat = json!({ "model_name": "target", "engine_type": "vllm" });
        let chat = owner.post("/v1/chat/sessions", &chat).await.expect(201);
        Self {
            key: id(&make_key(owner, &json!({})).await),
            model: make_model(owner, "target").await,
            chat: chat["id"].as_str().unwrap().to_owned(),
        }
    }

    fn path(&self, pattern: &str) -> String {
        let id = match pattern.split('/').nth(2) {
            Some("models") => self.model.to_string(),
            Some("keys") => self.key.to_string(),
            Some("chat") => self.chat.clone(),
            _ => "1".to_owned(),
        };
        filled(pattern, &id, "target")
    }
}

async fn send(client: &Client, form: &Form, path: &str, kind: Option<&str>, body: impl Into<Body>) -> Answer {
    let mut request = client.request(form.method.parse().unwrap(), path).body(body);
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    client.send(request).await
}

const JSON: Option<&str> = Some("application/json");

/// Bodies that are no JSON object.
fn garbage() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "",
        " ",
        "{",
        "}",
        "nul",
        "null",
        "true",
        "7",
        "\"text\"",
        "[]",
        "[{}]",
        "{}{}",
        "{} x",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":NaN}",
        "{\"a\":1e999}",
        "{\"a\":\"\u{0}\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\x41\"}",
        "\u{feff}{}",
        "username=x&password=y",
        "<a/>",
        "{\"a\":1}\u{0}",
    ]
    .iter()
    .map(|it| it.as_bytes().to_vec())
    .collect();
    all.push(vec![0xff, 0xfe]);
    all.push(b"{\"name\":\"\xff\"}".to_vec());
    all.push(b"{\"\xc3\x28\":1}".to_vec());
    all.push("{\"a\":".repeat(1000).into_bytes());
    all.push("[".repeat(8000).into_bytes());
    all.push(format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200)).into_bytes());
    all
}

#[tokio::test]
async fn a_body_that_is_no_json_object_of_the_right_type_and_size_is_refused() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let targets = Targets::make(&owner).await;
    let before = everything(&owner).await;
    for form in forms() {
        let path = targets.path(form.path);
        // None at all stands for one that says nothing.
        let optional = [
            "/admin/upstreams/refresh-health",
            "/admin/deployment/export-model/{id}",
            "/admin/models/{id}/dry-run",
            "/admin/users/{id}/password-link",
        ];
        let needed = !optional.contains(&form.path);
        for body in garbage().into_iter().filter(|it| needed || !it.is_empty()) {
            let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let answer = send(&owner, &form, &path, JSON, body).await;
            assert_eq!(answer.status, 400, "{} {path} {shown:?}: {}", form.method, answer.text);
            assert_error(&answer, 400, "invalid_json");
        }
        let good = form.required.to_string();
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("multipart/form-data; boundary=x"),
            Some("text/json"),
            Some("application/json5"),
            Some("application/problem+json"),
            Some("text/plain; application/json"),
        ] {
            let answer = send(&owner, &form, &path, kind, good.clone()).await;
            assert_eq!(answer.status, 415, "{} {path} {kind:?}: {}", form.method, answer.text);
            assert_error(&answer, 415, "unsupported_media_type");
        }
        // To the byte, announced or not.
        for (size, status, code) in
            [(form.limit, 422, "validation_error"), (form.limit + 1, 413, "request_too_large")]
        {
            let object = "{\"no_such\":1}";
            let body = format!("{object}{}", " ".repeat(size - object.len()));
            let chunks: Vec<_> =
                body.as_bytes().chunks(4000).map(|it| Ok::<_, std::io::Error>(it.to_vec())).collect();
            let chunked = Body::wrap_stream(futures_util::stream::iter(chunks));
            for body in [Body::from(body), chunked] {
                let answer = send(&owner, &form, &path, Some("Application/JSON; charset=utf-8"), body).await;
                assert_eq!(answer.status, status, "{} {path} {size}: {}", form.method, answer.text);
                assert_error(&answer, status, code);
            }
        }
    }
    assert_eq!(everything(&owner).await, before);
}

fn put(body: &Value, field: &str, value: &Value) -> String {
    let mut body = body.clone();
    body[field] = value.clone();
    body.to_string()
}

#[tokio::test]
async fn a_field_that_is_missing_unknown_or_of_the_wrong_type_is_named() {
    for database in Database::one("a_field_that_is_missing_unknown_or_of_the_wrong_type") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let targets = Targets::make(&owner).await;
        let before = everything(&owner).await;
        for form in forms() {
            let path = targets.path(form.path);
            let required: Vec<_> = form.required.as_object().unwrap().keys().map(String::as_str).collect();
            if !required.is_empty() {
                // A model's source is asked for when its engine is known.
                let told = if path == "/admin/models" || path == "/admin/models/dry-run" {
                    &required[..2]
                } else {
                    &required[..]
                };
                assert_invalid(&send(&owner, &form, &path, JSON, "{}").await, told);
            }
            // A model's name comes from its files.
            let named = path == "/admin/models" || path == "/admin/models/dry-run";
            for field in required.iter().filter(|it| !(named && **it == "served_name")) {
                let mut body = form.required.clone();
                body.as_object_mut().unwrap().shift_remove(*field);
                assert_invalid(&send(&owner, &form, &path, JSON, body.to_string()).await, &[field]);
            }
            for unknown in ["no_such", "", "__proto__", "Name"] {
                let body = put(&form.required, unknown, &json!(1));
                assert_invalid(&send(&owner, &form, &path, JSON, body).await, &[unknown]);
            }
            // An answer shows at most 100 characters of such a name, and none that can't be seen.
            let long = format!("{}…", "x".repeat(100));
            for (unknown, named) in [("a\u{0}b", "a\u{fffd}b"), ("x".repeat(5000).as_str(), long.as_str())] {
                let body = put(&form.required, unknown, &json!(1));
                assert_invalid(&send(&owner, &form, &path, JSON, body).await, &[named]);
            }
            // It names 20 problems, and counts the others.
            let mut body = form.required.clone();
            body.as_object_mut().unwrap().extend((0..100).map(|n| (format!("no_{n}"), json!(n))));
            let answer = send(&owner, &form, &path, JSON, body.to_string()).await;
            let told = answer.json["error"]["details"].as_array().unwrap();
            assert_eq!(told.len(), 21, "{}", answer.text);
            assert_eq!(told[20]["message"], "there are 80 more problems", "{}", answer.text);
            // No field takes any of these.
            for field in required.into_iter().chain(form.optional.split_whitespace()) {
                for wrong in ["[{}]", "-1.5", "1e300", "99999999999999999999999", "[[[\"x\"]]]"] {
                    let body = put(&form.required, field, &serde_json::from_str(wrong).unwrap());
                    let answer = send(&owner, &form, &path, JSON, body).await;
                    assert_eq!(
                        answer.status, 422,
                        "{} {path} {field} = {wrong}: {}",
                        form.method, answer.text
                    );
                    assert_eq!(answer.json["error"]["param"], field, "{}", answer.text);
                    let details = answer.json["error"]["details"].as_array().unwrap();
                    assert!(details.iter().all(|it| it["param"] == field), "{}", answer.text);
                }
                // Passwords may be any text; so may what is only compared with something.
                let free = field.contains("password") || field == "setup_token" || path == "/auth/login";
                for nul in ["a\u{0}b", "\u{0}"].iter().filter(|_| !free) {
                    let answer =
                        send(&owner, &form, &path, JSON, put(&form.required, field, &json!(nul))).await;
                    assert_eq!(answer.status, 422, "{path} {field} = {nul:?}: {}", answer.text);
                    assert_eq!(answer.json["error"]["param"], field, "{}", answer.text);
                }
            }
        }
        assert_eq!(everything(&owner).await, before);
    }
}

#[tokio::test]
async fn what_is_no_id_names_nothing() {
    for database in Database::one("what_is_no_id_names_nothing") {
        let team = Team::on(database).await;
        let before = everything(&team.owner).await;
        for (method, path, ..) in TABLE.iter().filter(|it| it.1.contains("{id}")) {
            for bad in [
                "0",
                "-1",
                "abc",
                "9999999999999999999",
                "99999999999999999999999999",
                "1.0",
                "1e0",
                "0x1",
                "1,2",
                "%20",
                "1%20",
                "1%00",
                "%EF%BC%91",
                "null",
                "*",
                "1;drop",
                "1%27--",
                "a".repeat(3000).as_str(),
            ] {
                let target = path.replace("{id}", bad);
                let method: Method = method.parse().unwrap();
                let answer =
                    team.owner.send(team.owner.request(method.clone(), &target).json(&json!({}))).await;
                assert_eq!(answer.status, 404, "{method} {target}: {}", answer.text);
                assert_error(&answer, 404, "not_found");
            }
            let unreadable = path.replace("{id}", "%ff");
            let request = team.owner.request(method.parse().unwrap(), &unreadable).json(&json!({}));
            assert_error(&team.owner.send(request).await, 400, "invalid_request");
        }
        assert_eq!(everything(&team.owner).await, before);
    }
}

#[tokio::test]
async fn a_query_parameter_that_is_unknown_or_out_of_bounds_is_named() {
    for database in Database::one("a_query_parameter_that_is_unknown") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let targets = Targets::make(&owner).await;
        // Probes may put anything there.
        for (_, path, ..) in TABLE.iter().filter(|it| it.0 == "GET" && it.1 != "/readyz") {
            let path = targets.path(path);
            for (query, param) in
                [("no_such=1", "no_such"), ("%20=", " "), ("a%00b=1", "a\u{0}b"), ("limi=1", "limi")]
            {
                assert_invalid(&owner.get(&format!("{path}?{query}")).await, &[param]);
            }
            for query in ["?", "?&", "?&&"] {
                let answer = owner.get(&format!("{path}{query}")).await;
                // These must say which folder, which repository, and which package.
                let which = ["/inspect-folder", "/hub-config", "/model-manifests", "/package-contents"]
                    .iter()
                    .any(|it| path.ends_with(it));
                // Ids of jobs are of another form than this one.
                let missing = path.contains("/deployment/jobs/");
                let empty = if which {
                    422
                } else if missing {
                    404
                } else {
                    503
                };
                assert!(answer.status < 400 || answer.status == empty, "{path}{query}: {}", answer.text);
            }
            for query in ["%ff=1", "limit=%ff", "%", "=", "a=%zz", "limit[]=1"] {
                let answer = owner.get(&format!("{path}?{query}")).await;
                assert!(
                    matches!(answer.status, 400 | 422),
                    "{path}?{query}: {} {}",
                    answer.status,
                    answer.text
                );
                assert_error(&answer, answer.status, answer.code());
            }
        }
    }
}

/// What has pages.
const LISTS: [&str; 10] = [
    "/auth/keys",
    "/admin/keys",
    "/admin/orgs",
    "/admin/orgs/lookup",
    "/admin/users",
    "/admin/users/lookup",
    "/admin/usage",
    "/admin/usage/aggregate",
    "/admin/models",
    "/admin/models/{id}/events",
];

#[tokio::test]
async fn a_page_an_order_or_a_filter_that_makes_no_sense_is_named() {
    for database in Database::one("a_page_an_order_or_a_filter_that_makes_no_sense") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let targets = Targets::make(&owner).await;
        for path in LISTS {
            let path = targets.path(path);
            for bad in [
                "limit=0",
                "limit=-1",
                "limit=1001",
                "limit=ten",
                "limit=1.5",
                "limit=%201",
                "limit=1&limit=2",
            ] {
                assert_invalid(&owner.get(&format!("{path}?{bad}")).await, &["limit"]);
            }
            for bad in ["offset=-1", "offset=1000000001", "offset=99999999999999999999", "offset=x"] {
                assert_invalid(&owner.get(&format!("{path}?{bad}")).await, &["offset"]);
            }
            let answer = owner.get(&format!("{path}?limit=1000&offset=1000000000")).await;
            assert_eq!(answer.expect(200), json!([]), "{path}");
            // Forms send empty fields.
            assert_eq!(owner.get(&format!("{path}?limit=&offset=")).await.status, 200, "{path}");
        }
        for (path, bad) in [
            (
                "/admin/keys",
                &["sort=colour", "sort=id:up", "sort=:desc", "sort=id:desc:asc", "sort=id;drop", "sort=ID"][..],
            ),
            ("/auth/keys", &["sort=token_hash", "sort=1", "org_id=1", "user_id=1", "status=ACTIVE"]),
            ("/admin/users", &["sort=password_hash", "sort=role", "role=king", "role=OWNER"]),
            ("/admin/users", &["org_id=0", "org_id=-1", "org_id=1%20OR%201", "user_id=1"]),
            ("/admin/keys", &["org_id=x", "user_id=0", "user_id=99999999999999999999"]),
            ("/admin/orgs", &["sort=user_count", "sort=-name:desc", "enabled=true"]),
            ("/admin/audit", &["from=yesterday", "to=1", "action=user.eat", "sort=at", "q=x"]),
            ("/admin/models", &["archived=maybe", "q=x", "sort=id"]),
            (
                "/admin/usage",
                &["hours=0", "hours=8785", "from=yesterday", "to=2026-01-01", "task=sing", "status=9xx"],
            ),
            (
                "/admin/usage",
                &["status=99", "status=600", "status=xx", "outcome=great", "key_id=k", "user_id=0"],
            ),
            (
                "/admin/usage",
                &["from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "org_id=-3", "model=a&model=b"],
            ),
            (
                "/admin/usage/aggregate",
                &["group_by=colour", "group_by=Model", "sort=group", "sort=--requests", "sort=id"],
            ),
            (
                "/admin/usage/aggregate",
                &["sort=requests:up", "sort=-requests:desc", "bucket=hour", "status=9xx"],
            ),
            ("/admin/usage/series", &["bucket=week", "bucket=minute&hours=49", "limit=5", "group_by=model"]),
            ("/admin/usage/series", &["bucket=hour&from=1990-01-01T00:00:00Z", "hours=0"]),
            ("/admin/usage/latency", &["limit=1", "outcome=great", "p=50"]),
            ("/admin/usage/ttft", &["offset=1", "user_id=0"]),
            ("/admin/usage/export", &["limit=10", "format=json", "from=yesterday", "org_id=-3"]),
            ("/admin/usage/integrity", &["hours=24", "org_id=1"]),
        ] {
            for query in bad {
                let param = query.split('=').next().unwrap();
                assert_invalid(&owner.get(&format!("{path}?{query}")).await, &[param]);
            }
        }
        assert_eq!(owner.get("/admin/usage?model=%00&status=4xx&outcome=ok&hours=8784").await.text, "[]");
    }
}
