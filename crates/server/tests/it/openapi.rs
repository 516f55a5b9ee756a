//! The `OpenAPI` document: what is committed is what is served, the page that shows it needs nothing from elsewhere, and
//! every operation has an example that was really sent.
//!
//! `GANTRY_RECORD_EXAMPLES=1` writes the examples anew; `cargo xtask gen` then takes them into the document.

use std::{collections::BTreeMap, path::Path};

use gantry_testkit::{Answer, Client, Database, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    support::start,
    team::{PASSWORD, id},
};

const COMMITTED: &str = include_str!("../../../../openapi.json");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../admin-api/src/doc/examples.json");
/// Entries of an array that are kept.
const MOST: usize = 2;
/// Their answers never end by themselves, so that there is nothing to keep.
const ENDLESS: &[&str] = &["streamEvents"];
/// What could be measured differs between machines and moments: of these only the status is compared.
const MEASURED: &[&str] =
    &["getSystemSummary", "getThroughput", "getHostSummary", "getHostTrends", "getCapabilities"];

#[tokio::test]
async fn the_committed_document_is_the_served_one() {
    let gateway = start(Options::default().on(Database::Sqlite)).await;
    let served = gateway.client().get("/openapi.json").await.expect(200);
    let committed: Value = serde_json::from_str(COMMITTED).unwrap();
    assert!(served == committed, "openapi.json is stale: run `cargo xtask gen`");
    assert_eq!(served["openapi"], "3.1.0");
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let gateway = start(Options::default().on(Database::Sqlite)).await;
    let client = gateway.client();
    let mut wanted = vec!["/docs".to_owned()];
    let mut seen = 0;
    while let Some(path) = wanted.pop() {
        let answer = client.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        for outside in ["http://", "https://", "//cdn", "<style", " style=", " onclick="] {
            assert!(!answer.text.contains(outside), "{path} has {outside}");
        }
        for part in answer.text.split(['"', '\'']).filter(|it| it.starts_with("/docs/")) {
            wanted.push(part.to_owned());
        }
        seen += 1;
    }
    assert_eq!(seen, 3, "the page, its script and its style");
}

/// Sends and remembers.
struct Recorder(BTreeMap<String, Value>);

impl Recorder {
    async fn send(
        &mut self,
        operation: &str,
        client: &Client,
        line: &str,
        body: impl Into<Option<Value>>,
    ) -> Value {
        let (method, path) = line.split_once(' ').unwrap();
        let body = body.into();
        let request = client.request(method.parse::<Method>().unwrap(), path);
        let answer = client.send(if let Some(body) = &body { request.json(body) } else { request }).await;
        assert!(
            answer.status != 500 && answer.status != 422,
            "{operation}: {} {}",
            answer.status,
            answer.text
        );
        let entry = json!({
            "request": { "method": method, "path": path, "body": body.map(|it| short(&it)) },
            "response": { "status": answer.status, "body": shown(operation, &answer) },
        });
        assert!(self.0.insert(operation.to_owned(), entry).is_none(), "{operation} twice");
        answer.json
    }
}

/// What is worth keeping of an answer: no page, and not the document within itself.
fn shown(operation: &str, answer: &Answer) -> Value {
    if operation == "getOpenApi" { Value::Null } else { short(&answer.json) }
}

/// With the first entries of lists only, and without secrets.
fn short(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().take(MOST).map(short).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, it)| {
                let value = if name == "token" { json!(TOKEN) } else { short(it) };
                (name.clone(), value)
            })
            .collect(),
        other => other.clone(),
    }
}

/// Has the form of a token, and is none: its checksum is wrong.
const TOKEN: &str = "gty_0000000000000000000000000000000000000000000000";

/// Keys and types, without the values that differ from run to run.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!(null),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::Object(map) => map.iter().map(|(name, it)| (name.clone(), shape(it))).collect(),
    }
}

#[tokio::test]
async fn every_operation_has_an_example_that_was_really_sent() {
    let dead = Options::default()
        .on(Database::Sqlite)
        .env("CONTAINER_HOST", "unix:///nonexistent.sock")
        .env("GPU_INVENTORY_FILE", "");
    let gateway = start(dead).await;
    let mut record = Recorder(BTreeMap::new());
    let recorder = &mut record;
    story(recorder, &gateway).await;

    let document: Value = serde_json::from_str(COMMITTED).unwrap();
    let operations = document["paths"].as_object().unwrap().values();
    let mut wanted: Vec<&str> = operations
        .flat_map(|it| it.as_object().unwrap().values())
        .map(|it| it["operationId"].as_str().unwrap())
        .filter(|it| !ENDLESS.contains(it))
        .collect();
    wanted.sort_unstable();
    assert_eq!(record.0.keys().collect::<Vec<_>>(), wanted, "each operation is sent once in the story below");

    let found = json!(record.0);
    if std::env::var_os("GANTRY_RECORD_EXAMPLES").is_some() {
        let place = gateway.models_dir().parent().unwrap().display().to_string();
        let text = serde_json::to_string_pretty(&found).unwrap().replace(&place, "/srv/gantry") + "\n";
        std::fs::write(Path::new(EXAMPLES), text).unwrap();
        return;
    }
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(EXAMPLES).unwrap()).unwrap();
    for (operation, example) in found.as_object().unwrap() {
        let kept = &committed[operation];
        assert_eq!(kept["response"]["status"], example["response"]["status"], "{operation}");
        if MEASURED.contains(&operation.as_str()) {
            continue;
        }
        assert_eq!(shape(kept), shape(example), "{operation}: record again, if that is meant");
    }
}

async fn story(record: &mut Recorder, gateway: &gantry_testkit::Gateway) {
    let (anybody, owner) = (gateway.client(), gateway.owner().await);
    probes(record, &anybody).await;
    let org = record.send("createOrganisation", &owner, "POST /admin/orgs", json!({ "name": "Acme" })).await;
    let path = format!("/admin/orgs/{}", id(&org));
    record.send("changeOrganisation", &owner, &format!("PATCH {path}"), json!({ "name": "Acme Labs" })).await;
    record.send("listOrganisations", &owner, "GET /admin/orgs?q=acme", None).await;
    record.send("lookUpOrganisations", &owner, "GET /admin/orgs/lookup", None).await;
    let user = json!({ "username": "ada", "password": PASSWORD, "role": "admin", "org_id": id(&org) });
    let ada = record.send("createUser", &owner, "POST /admin/users", user).await;
    let user_path = format!("/admin/users/{}", id(&ada));
    record.send("changeUser", &owner, &format!("PATCH {user_path}"), json!({ "role": "org_admin" })).await;
    record.send("listUsers", &owner, "GET /admin/users?sort=username&limit=2", None).await;
    record.send("lookUpUsers", &owner, "GET /admin/users/lookup", None).await;
    account(record, gateway).await;
    keys(record, &owner, id(&ada)).await;
    routing(record, gateway, &owner).await;
    models(record, &owner).await;
    let exports = gateway.data_dir().join("exports");
    std::fs::create_dir_all(&exports).unwrap();
    std::fs::write(exports.join("images.tar"), "").unwrap();
    let archive = json!({ "path": "images.tar" });
    record.send("loadContainerImages", &owner, "POST /admin/system/container-images/load", archive).await;
    record.send("deleteUser", &owner, &format!("DELETE {user_path}"), None).await;
    record.send("deleteOrganisation", &owner, &format!("DELETE {path}"), None).await;
    record.send("listAuditLog", &owner, "GET /admin/audit?action=user.delete", None).await;
    for (operation, line) in [
        ("getSystemSummary", "GET /admin/system/summary"),
        ("getThroughput", "GET /admin/system/throughput"),
        ("getHostSummary", "GET /admin/system/host/summary"),
        ("getHostTrends", "GET /admin/system/host/trends?minutes=5"),
        ("getCapabilities", "GET /admin/system/capabilities"),
    ] {
        record.send(operation, &owner, line, None).await;
    }
}

async fn probes(record: &mut Recorder, anybody: &Client) {
    record.send("getHealth", anybody, "GET /health", None).await;
    record.send("getLiveness", anybody, "GET /livez", None).await;
    record.send("getReadiness", anybody, "GET /readyz", None).await;
    record.send("getOpenApi", anybody, "GET /openapi.json", None).await;
    record.send("getDocs", anybody, "GET /docs", None).await;
    let owner = json!({ "username": "olga", "password": PASSWORD, "org_name": "Home" });
    record.send("bootstrapOwner", anybody, "POST /admin/bootstrap-owner", owner).await;
}

async fn account(record: &mut Recorder, gateway: &gantry_testkit::Gateway) {
    let client = gateway.client();
    let sign_in = json!({ "username": "ada", "password": PASSWORD });
    record.send("signIn", &client, "POST /auth/login", sign_in).await;
    let ada = gateway.sign_in("ada", PASSWORD).await;
    record.send("getMe", &ada, "GET /auth/me", None).await;
    let change = json!({ "current_password": PASSWORD, "new_password": PASSWORD });
    record.send("changeOwnPassword", &ada, "POST /auth/password", change).await;
    let key = json!({ "name": "laptop", "scopes": "chat" });
    let key = record.send("createOwnKey", &ada, "POST /auth/keys", key).await;
    record.send("listOwnKeys", &ada, "GET /auth/keys", None).await;
    record.send("revokeOwnKey", &ada, &format!("DELETE /auth/keys/{}", id(&key)), None).await;
    let chat = json!({ "model_name": "m", "engine_type": "vllm" });
    let chat = record.send("createChat", &ada, "POST /v1/chat/sessions", chat).await;
    let path = format!("/v1/chat/sessions/{}", chat["id"].as_str().unwrap());
    let message = json!({ "role": "user", "content": "Hello there" });
    record.send("addChatMessage", &ada, &format!("POST {path}/messages"), message).await;
    record.send("getChat", &ada, &format!("GET {path}"), None).await;
    record.send("listChats", &ada, "GET /v1/chat/sessions", None).await;
    record.send("deleteChat", &ada, &format!("DELETE {path}"), None).await;
    record.send("deleteAllChats", &ada, "DELETE /v1/chat/sessions", None).await;
    record.send("signOut", &ada, "POST /auth/logout", None).await;
}

async fn keys(record: &mut Recorder, owner: &Client, user: i64) {
    let key = json!({ "user_id": user, "scopes": ["chat", "embeddings"], "rpm_limit": 60 });
    let key = record.send("createKey", owner, "POST /admin/keys", key).await;
    let path = format!("/admin/keys/{}", id(&key));
    let change = json!({ "ip_allowlist": ["10.0.0.0/8"] });
    record.send("changeKey", owner, &format!("PATCH {path}"), change).await;
    record.send("listKeys", owner, "GET /admin/keys?sort=created_at:desc", None).await;
    record.send("revokeKey", owner, &format!("DELETE {path}"), None).await;
}

/// An engine that runs elsewhere, what is asked of it, and what is known of that.
async fn routing(record: &mut Recorder, gateway: &gantry_testkit::Gateway, owner: &Client) {
    let simulator = Simulator::start("").await;
    let key = simulator.join(gateway).await;
    let messages = json!([{ "role": "user", "content": "Hello there" }]);
    record.send("listCallableModels", &key, "GET /v1/models", None).await;
    record.send("getCallableModel", &key, "GET /v1/models/m", None).await;
    let chat = json!({ "model": "m", "messages": messages, "max_tokens": 8 });
    record.send("createChatCompletion", &key, "POST /v1/chat/completions", chat.clone()).await;
    record.send("createMessage", &key, "POST /v1/messages", chat).await;
    let count = json!({ "model": "m", "messages": messages });
    record.send("countMessageTokens", &key, "POST /v1/messages/count_tokens", count).await;
    let prompt = json!({ "model": "m", "prompt": "Once upon", "max_tokens": 8 });
    record.send("createCompletion", &key, "POST /v1/completions", prompt).await;
    let input = json!({ "model": "m", "input": "Hello there" });
    record.send("createResponse", &key, "POST /v1/responses", input.clone()).await;
    // A model for chat has no vectors: the refusal is the example.
    record.send("createEmbedding", &key, "POST /v1/embeddings", input).await;
    let rerank = json!({ "model": "m", "query": "one", "documents": ["one two", "three"] });
    record.send("rerank", &key, "POST /v1/rerank", rerank).await;
    let score = json!({ "model": "m", "text_1": "one", "text_2": "two" });
    record.send("score", &key, "POST /v1/score", score).await;
    let text = json!({ "model": "m", "prompt": "Hello there" });
    record.send("tokenize", &key, "POST /tokenize", text).await;
    record.send("detokenize", &key, "POST /detokenize", json!({ "model": "m", "tokens": [1, 2] })).await;
    let answer = key.post("/v1/completions", &json!({ "model": "m", "prompt": "a" })).await;
    owner.usage_of(answer.header("x-request-id").unwrap()).await;
    record.send("listUsage", owner, "GET /admin/usage?limit=2", None).await;
    record
        .send("aggregateUsage", owner, "GET /admin/usage/aggregate?group_by=model&sort=-total_tokens", None)
        .await;
    record.send("getUsageSeries", owner, "GET /admin/usage/series?bucket=hour&hours=2", None).await;
    record.send("getUsageLatency", owner, "GET /admin/usage/latency?outcome=ok", None).await;
    record.send("getUsageTtft", owner, "GET /admin/usage/ttft", None).await;
    record.send("exportUsage", owner, "GET /admin/usage/export", None).await;
    record.send("checkUsage", owner, "GET /admin/usage/integrity", None).await;
    record.send("listRunningModels", owner, "GET /v1/models/running", None).await;
    let names = json!({ "served_names": ["m"] });
    record.send("refreshUpstreams", owner, "POST /admin/upstreams/refresh-health", names).await;
    record.send("listUpstreams", owner, "GET /admin/upstreams", None).await;
    let entry = json!({ "served_name": "elsewhere", "url": "http://10.0.0.5:8000" });
    record.send("addRegistryEntry", owner, "POST /admin/models/registry", entry).await;
    record.send("listRegistry", owner, "GET /admin/models/registry", None).await;
    record.send("removeRegistryEntry", owner, "DELETE /admin/models/registry/elsewhere", None).await;
    let path = "DELETE /admin/models/registry?served_name=m";
    record.send("removeRegistryEntryByQuery", owner, path, None).await;
}

async fn models(record: &mut Recorder, owner: &Client) {
    let model =
        json!({ "served_name": "qwen", "engine_type": "vllm", "local_path": "qwen", "max_model_len": 4096 });
    record.send("previewModel", owner, "POST /admin/models/dry-run", model.clone()).await;
    let made = record.send("createModel", owner, "POST /admin/models", model).await;
    let path = format!("/admin/models/{}", id(&made));
    record.send("changeModel", owner, &format!("PATCH {path}"), json!({ "max_num_seqs": 64 })).await;
    record.send("listModels", owner, "GET /admin/models", None).await;
    record.send("getModel", owner, &format!("GET {path}"), None).await;
    record.send("getModelConstraints", owner, "GET /v1/models/qwen/constraints", None).await;
    record.send("previewSavedModel", owner, &format!("POST {path}/dry-run"), None).await;
    // No container runtime answers in this story.
    record.send("testModel", owner, &format!("POST {path}/test"), None).await;
    record.send("getModelLogs", owner, &format!("GET {path}/logs?tail=100&diagnose=true"), None).await;
    record.send("startModel", owner, &format!("POST {path}/start"), None).await;
    record.send("getModelReadiness", owner, &format!("GET {path}/readiness"), None).await;
    record.send("listModelEvents", owner, &format!("GET {path}/events"), None).await;
    record.send("listModelMetrics", owner, "GET /admin/models/metrics", None).await;
    record.send("applyModel", owner, &format!("POST {path}/apply?rollback=true"), None).await;
    record.send("stopModel", owner, &format!("POST {path}/stop"), None).await;
    record.send("deleteModel", owner, &format!("DELETE {path}"), None).await;
    let dir = record.send("getModelsBaseDir", owner, "GET /admin/models/base-dir", None).await;
    let same = json!({ "base_dir": dir["base_dir"] });
    record.send("changeModelsBaseDir", owner, "PUT /admin/models/base-dir", same).await;
    record.send("listLocalFolders", owner, "GET /admin/models/local-folders", None).await;
    record.send("inspectFolder", owner, "GET /admin/models/inspect-folder?folder=.", None).await;
    record.send("getHubConfig", owner, "GET /admin/models/hub-config?repo_id=qwen/qwen3", None).await;
    record.send("listModelFields", owner, "GET /admin/engines/spec", None).await;
    record.send("getContainerImages", owner, "GET /admin/system/container-images", None).await;
    record.send("listGpus", owner, "GET /admin/system/gpus", None).await;
}
