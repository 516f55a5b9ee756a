//! One request of each operation, in an order that makes sense.

use gantry_testkit::{Client, Gateway, Managed, PATIENCE, eventually};
use serde_json::json;

use super::{Recorder, short, surroundings::Surroundings};
use crate::{
    simulator::Simulator,
    support::start,
    team::{PASSWORD, id},
};

pub(super) async fn tell(record: &mut Recorder, gateway: &Gateway) {
    probes(record, &gateway.client()).await;
    let owner = gateway.owner().await;
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
    let link = format!("POST {user_path}/password-link");
    let link = record.send("createPasswordLink", &owner, &link, json!({ "hours": 24 })).await;
    let redeemed = json!({ "token": link["token"], "password": PASSWORD });
    record.send("usePasswordLink", &gateway.client(), "POST /auth/password-link", redeemed).await;
    account(record, gateway, &owner).await;
    keys(record, &owner, id(&ada)).await;
    routing(record, gateway, &owner).await;
    models(record, &owner).await;
    vectors(record, &owner).await;
    images(record).await;
    packages(record).await;
    record.send("deleteUser", &owner, &format!("DELETE {user_path}"), None).await;
    record.send("deleteOrganisation", &owner, &format!("DELETE {path}"), None).await;
    record.send("listAuditLog", &owner, "GET /admin/audit?action=user.delete", None).await;
    for (operation, line) in [
        ("getSystemSummary", "GET /admin/system/summary"),
        ("getThroughput", "GET /admin/system/throughput"),
        ("getHostSummary", "GET /admin/system/host/summary"),
        ("getHostTrends", "GET /admin/system/host/trends?minutes=5"),
        ("getCapabilities", "GET /admin/system/capabilities"),
        ("listSettings", "GET /admin/system/settings"),
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
    record.send("getSetup", anybody, "GET /auth/setup", None).await;
    let owner = json!({ "username": "owner", "password": "owner-password", "org_name": "Home" });
    record.send("bootstrapOwner", anybody, "POST /admin/bootstrap-owner", owner).await;
}

async fn account(record: &mut Recorder, gateway: &Gateway, owner: &Client) {
    let client = gateway.client();
    let sign_in = json!({ "username": "ada", "password": PASSWORD });
    record.send("signIn", &client, "POST /auth/login", sign_in).await;
    let ada = gateway.sign_in("ada", PASSWORD).await;
    record.send("getMe", &ada, "GET /auth/me", None).await;
    let change = json!({ "current_password": PASSWORD, "new_password": PASSWORD });
    record.send("changeOwnPassword", &ada, "POST /auth/password", change).await;
    gateway.sign_in("ada", PASSWORD).await;
    let sessions = record.send("listOwnSessions", &ada, "GET /auth/sessions", None).await;
    let other = sessions.as_array().unwrap().iter().find(|it| it["current"] == false).unwrap();
    let other = format!("DELETE /auth/sessions/{}", other["id"].as_str().unwrap());
    record.send("endOwnSession", &ada, &other, None).await;
    record.send("endOtherSessions", &ada, "DELETE /auth/sessions", None).await;
    let key = json!({ "name": "laptop", "scopes": "chat" });
    let key = record.send("createOwnKey", &ada, "POST /auth/keys", key).await;
    record.send("listOwnKeys", &ada, "GET /auth/keys", None).await;
    record.send("revokeOwnKey", &ada, &format!("DELETE /auth/keys/{}", id(&key)), None).await;
    let token = json!({ "name": "nightly", "scopes": "keys:read,usage:read" });
    let token = record.send("createOwnToken", &ada, "POST /auth/tokens", token).await;
    record.send("listOwnTokens", &ada, "GET /auth/tokens", None).await;
    record.send("revokeOwnToken", &ada, &format!("DELETE /auth/tokens/{}", id(&token)), None).await;
    let token = json!({ "name": "backup", "scopes": "*:read" });
    let token = ada.post("/auth/tokens", &token).await.expect(201);
    record.send("listTokens", owner, "GET /admin/tokens", None).await;
    record.send("revokeToken", owner, &format!("DELETE /admin/tokens/{}", id(&token)), None).await;
    let chat = json!({ "model_name": "m", "engine_type": "vllm" });
    let chat = record.send("createChat", &ada, "POST /v1/chat/sessions", chat).await;
    let path = format!("/v1/chat/sessions/{}", chat["id"].as_str().unwrap());
    let message = json!({ "role": "user", "content": "Hello there" });
    record.send("addChatMessage", &ada, &format!("POST {path}/messages"), message).await;
    let change = json!({ "title": "Greetings", "pinned": true });
    record.send("changeChat", &ada, &format!("PATCH {path}"), change).await;
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
async fn routing(record: &mut Recorder, gateway: &Gateway, owner: &Client) {
    let simulator = Simulator::start("").await;
    let key = simulator.join(gateway).await;
    // The context's length is known once the engine was asked for it.
    eventually("the gateway knows the context's length", PATIENCE, async || {
        key.get("/v1/models/m").await.json["max_model_len"].is_number().then_some(())
    })
    .await;
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
    record.send("createResponse", &key, "POST /v1/responses", input).await;
    let text = json!({ "model": "m", "prompt": "Hello there" });
    record.send("tokenize", &key, "POST /tokenize", text).await;
    record.send("detokenize", &key, "POST /detokenize", json!({ "model": "m", "tokens": [1, 2] })).await;
    stop_an_answer(record, owner).await;
    // The list's first row is the newest, by the millisecond: what came before is stored before the last one is sent.
    let before = key.post("/tokenize", &json!({ "model": "m", "prompt": "Hello there" })).await;
    owner.usage_of(before.header("x-request-id").unwrap()).await;
    let answer = key.post("/v1/completions", &json!({ "model": "m", "prompt": "a", "stream": true })).await;
    owner.usage_of(answer.header("x-request-id").unwrap()).await;
    record.send("listUsage", owner, "GET /admin/usage?limit=2", None).await;
    record
        .send("aggregateUsage", owner, "GET /admin/usage/aggregate?group_by=model&sort=-total_tokens", None)
        .await;
    record.send("getUsageSeries", owner, "GET /admin/usage/series?bucket=hour&hours=2", None).await;
    record.send("getUsageLatency", owner, "GET /admin/usage/latency?outcome=ok", None).await;
    record.send("getUsageTtft", owner, "GET /admin/usage/ttft", None).await;
    record.send("exportUsage", owner, "GET /admin/usage/export", None).await;
    record.send("listOwnUsage", owner, "GET /auth/usage?limit=2", None).await;
    record.send("aggregateOwnUsage", owner, "GET /auth/usage/aggregate?group_by=key", None).await;
    record.send("getOwnUsageSeries", owner, "GET /auth/usage/series?bucket=hour&hours=2", None).await;
    record.send("getOwnLimits", owner, "GET /auth/limits", None).await;
    record.send("listOwnModels", owner, "GET /auth/models", None).await;
    record.send("checkUsage", owner, "GET /admin/usage/integrity", None).await;
    record.send("listRunningModels", owner, "GET /v1/models/running", None).await;
    let names = json!({ "served_names": ["m"] });
    record.send("refreshUpstreams", owner, "POST /admin/upstreams/refresh-health", names).await;
    record.send("listUpstreams", owner, "GET /admin/upstreams", None).await;
    let entry = json!({ "served_name": "elsewhere", "url": "http://10.0.0.5:8000" });
    record.send("addRegistryEntry", owner, "POST /admin/models/registry", entry).await;
    record.send("listRegistry", owner, "GET /admin/models/registry", None).await;
    let change =
        json!({ "urls": ["http://10.0.0.5:8000", "http://10.0.0.6:8000"], "upstream_model": "qwen" });
    record.send("changeRegistryEntry", owner, "PATCH /admin/models/registry/elsewhere", change).await;
    record.send("removeRegistryEntry", owner, "DELETE /admin/models/registry/elsewhere", None).await;
    let path = "DELETE /admin/models/registry?served_name=m";
    record.send("removeRegistryEntryByQuery", owner, path, None).await;
}

/// An answer in a chat that would never end, and its end.
async fn stop_an_answer(record: &mut Recorder, owner: &Client) {
    let silent = Simulator::start("--sim-hang-after-tokens 2").await;
    let entry = json!({ "served_name": "silent", "url": silent.url(), "upstream_model": "m" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let chat = json!({ "model_name": "silent", "engine_type": null });
    let chat = owner.post("/v1/chat/sessions", &chat).await.expect(201);
    let path = format!("/v1/chat/sessions/{}", chat["id"].as_str().unwrap());
    let request = json!({ "request": { "messages": [{ "role": "user", "content": "Hello there" }] } });
    let mut answer = owner.stream(&format!("{path}/completions"), &request).await;
    while !answer.next().await.unwrap().is_some_and(|it| it.contains("\"tokens\"")) {}
    record.send("stopChatAnswer", owner, &format!("DELETE {path}/completions/current"), None).await;
    answer.rest().await.unwrap();
    owner.delete("/admin/models/registry/silent").await.expect(200);
}

async fn models(record: &mut Recorder, owner: &Client) {
    let model =
        json!({ "served_name": "qwen", "engine_type": "vllm", "local_path": "qwen", "max_model_len": 2048 });
    record.send("previewModel", owner, "POST /admin/models/dry-run", model.clone()).await;
    let made = record.send("createModel", owner, "POST /admin/models", model).await;
    let model = Managed::of(&made);
    let path = format!("/admin/models/{}", id(&made));
    record.send("changeModel", owner, &format!("PATCH {path}"), json!({ "max_num_seqs": 64 })).await;
    record.send("listModels", owner, "GET /admin/models", None).await;
    record.send("getModel", owner, &format!("GET {path}"), None).await;
    record.send("getModelConstraints", owner, "GET /v1/models/qwen/constraints", None).await;
    record.send("previewSavedModel", owner, &format!("POST {path}/dry-run"), None).await;
    record.send("startModel", owner, &format!("POST {path}/start"), None).await;
    model.reaches(owner, "running").await;
    record.send("testModel", owner, &format!("POST {path}/test"), None).await;
    record.send("getModelLogs", owner, &format!("GET {path}/logs?tail=3&diagnose=true"), None).await;
    record.send("getModelReadiness", owner, &format!("GET {path}/readiness"), None).await;
    record.send("listModelEvents", owner, &format!("GET {path}/events"), None).await;
    record.send("listModelMetrics", owner, "GET /admin/models/metrics", None).await;
    record.send("applyModel", owner, &format!("POST {path}/apply?rollback=true"), None).await;
    model.reaches(owner, "running").await;
    record.send("stopModel", owner, &format!("POST {path}/stop"), None).await;
    record.send("deleteModel", owner, &format!("DELETE {path}"), None).await;
    let dir = record.send("getModelsBaseDir", owner, "GET /admin/models/base-dir", None).await;
    let same = json!({ "base_dir": dir["base_dir"] });
    record.send("changeModelsBaseDir", owner, "PUT /admin/models/base-dir", same).await;
    record.send("listLocalFolders", owner, "GET /admin/models/local-folders", None).await;
    record.send("inspectFolder", owner, "GET /admin/models/inspect-folder?folder=qwen", None).await;
    record.send("getHubConfig", owner, "GET /admin/models/hub-config?repo_id=me/model", None).await;
    record.send("listModelFields", owner, "GET /admin/engines/spec", None).await;
    record.send("getContainerImages", owner, "GET /admin/system/container-images", None).await;
    record.send("listGpus", owner, "GET /admin/system/gpus", None).await;
}

/// A model that turns texts into vectors, and what is asked of it.
async fn vectors(record: &mut Recorder, owner: &Client) {
    let body =
        json!({ "served_name": "vectors", "engine_type": "vllm", "local_path": "qwen", "task": "embed" });
    let model = Managed::run(owner, &body).await;
    let (_, key) = owner.new_key(&json!({ "scopes": "embeddings" })).await;
    let input = json!({ "model": "vectors", "input": "Hello there" });
    record.send("createEmbedding", &key, "POST /v1/embeddings", input).await;
    let rerank = json!({ "model": "vectors", "query": "one", "documents": ["one two", "three"] });
    record.send("rerank", &key, "POST /v1/rerank", rerank).await;
    let score = json!({ "model": "vectors", "text_1": "one", "text_2": "two" });
    record.send("score", &key, "POST /v1/score", score).await;
    model.command(owner, "stop").await;
    model.reaches(owner, "stopped").await;
}

/// Only where a container engine is: a gateway of its own with one that takes images.
async fn images(record: &mut Recorder) {
    let gateway = start(Surroundings::with_containers()).await;
    let owner = gateway.owner().await;
    let exports = gateway.data_dir().join("exports");
    std::fs::create_dir_all(&exports).unwrap();
    std::fs::write(exports.join("images.tar"), "an archive").unwrap();
    let archive = json!({ "path": "images.tar" });
    record.send("loadContainerImages", &owner, "POST /admin/system/container-images/load", archive).await;
}

/// What is written into packages and read from them, by a gateway of its own: a restore ends all sessions.
async fn packages(record: &mut Recorder) {
    let surroundings = Surroundings::new();
    let gateway = start(surroundings.options()).await;
    let setup = json!({ "username": "owner", "password": "owner-password", "org_name": "Home" });
    gateway.client().post("/admin/bootstrap-owner", &setup).await.expect(201);
    let owner = gateway.owner().await;
    let model = json!({ "served_name": "qwen", "engine_type": "vllm", "local_path": "qwen" });
    let model = owner.post("/admin/models", &model).await.expect(201);
    let size = json!({ "output_dir": "2026-11-23", "tar_models": true });
    record.send("estimateDeploymentSize", &owner, "POST /admin/deployment/estimate-size", size).await;
    let export = json!({ "output_dir": "2026-11-23", "tar_models": true });
    let job = record.send("exportDeployment", &owner, "POST /admin/deployment/export", export).await;
    deployed(&owner).await;
    let line = format!("GET /admin/deployment/jobs/{}", job["id"].as_str().unwrap());
    record.send("getDeploymentJob", &owner, &line, None).await;
    record.send("getDeploymentStatus", &owner, "GET /admin/deployment/status", None).await;
    let line = format!("POST /admin/deployment/export-model/{}", id(&model));
    record.send("exportModel", &owner, &line, json!({ "output_dir": "qwen" })).await;
    deployed(&owner).await;
    record.send("listDeploymentJobs", &owner, "GET /admin/deployment/jobs", None).await;
    let line = "GET /admin/deployment/model-manifests?output_dir=2026-11-23";
    let listed = record.send("listModelManifests", &owner, line, None).await;
    let line = "GET /admin/deployment/package-contents?output_dir=2026-11-23";
    record.send("getPackageContents", &owner, line, None).await;
    let import = json!({
        "output_dir": "2026-11-23", "manifest_file": listed[0]["manifest_file"], "conflict_strategy": "rename",
    });
    record.send("importModel", &owner, "POST /admin/deployment/import-model", import).await;
    let import = json!({ "output_dir": "2026-11-23", "dry_run": true });
    record.send("importPackage", &owner, "POST /admin/deployment/import", import).await;
    let check = json!({ "output_dir": "2026-11-23" });
    record.send("checkDatabaseDump", &owner, "POST /admin/deployment/check-database-dump", check).await;

    // Large enough that the export of it is still running when it is cancelled.
    let weights = std::fs::File::create(surroundings.models().join("large")).unwrap();
    weights.set_len(64 << 30).unwrap();
    let export = json!({ "output_dir": "large", "tar_models": true });
    let job = owner.post("/admin/deployment/export", &export).await.expect(202);
    let job = format!("/admin/deployment/jobs/{}", job["id"].as_str().unwrap());
    // It knows its size once it copies weights.
    eventually("the export copies weights", PATIENCE, async || {
        let seen = owner.get(&job).await.expect(200);
        let copies = seen["step"].as_str().unwrap().contains("weights");
        (copies && seen["estimated_size_bytes"].is_u64()).then_some(())
    })
    .await;
    let line = format!("DELETE {job}");
    record.send("cancelDeploymentJob", &owner, &line, None).await;
    // On a busy machine the answer comes before the end of the job.
    let ended = eventually("the export ends", PATIENCE, async || {
        let seen = owner.get(&job).await.expect(200);
        (seen["status"] == "cancelled").then_some(seen)
    });
    record.0.get_mut("cancelDeploymentJob").unwrap()["response"]["body"] = short(&ended.await);
    let restore = json!({ "output_dir": "2026-11-23", "drop_existing": true });
    record.send("restoreDatabase", &owner, "POST /admin/deployment/restore-database", restore).await;
}

/// Waits for the end of the deployment job.
async fn deployed(owner: &Client) {
    let job = eventually("the deployment job ends", PATIENCE, async || {
        let job = owner.get("/admin/deployment/status").await.expect(200);
        (job["status"] != "running").then_some(job)
    });
    let job = job.await;
    assert_eq!(job["status"], "completed", "{job}");
}
