//! The dry run of a saved model with changes that are not saved yet.

use gantry_testkit::{Database, Options};
use serde_json::{Value, json};

use crate::{
    dry_run::add_fixtures,
    models::{create, with},
    support::{assert_error, assert_forbidden_fields, assert_invalid},
    team::Team,
};

const LLAMACPP: &str = "ghcr.io/ggml-org/llama.cpp:server-b11434";

/// On one database: nothing is stored. No container runtime is needed.
async fn team(name: &str) -> Team {
    let database = Database::all(name).into_iter().next().unwrap();
    let options = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
    let team = Team::with(options.env("SECONDARY_ENGINE_IMAGE", LLAMACPP)).await;
    add_fixtures(&team.gateway.models_dir());
    team
}

fn gguf() -> Value {
    json!({ "served_name": "m", "engine_type": "llamacpp", "local_path": "tiny-llama-Q8_0.gguf", "force": true })
}

/// Leaves out what other programs change from moment to moment: the memory that is free.
fn settled(mut preview: Value) -> Value {
    preview["vram_estimate"].as_object_mut().unwrap().remove("available_gb").unwrap();
    preview
}

#[tokio::test]
async fn changes_are_previewed_and_not_stored() {
    let team = team("changes_are_previewed_and_not_stored").await;
    let made = create(&team.owner, &with(gguf(), "context_size", json!(4096))).await.expect(201);
    let path = format!("/admin/models/{}", made["id"]);
    let preview =
        async |body: &Value| settled(team.owner.post(&format!("{path}/dry-run"), body).await.expect(200));
    let saved = settled(team.owner.command(&format!("{path}/dry-run")).await.expect(200));
    assert_eq!(preview(&json!({})).await, saved);

    // The same as of a new model with these settings.
    let changed = preview(&json!({ "context_size": 8192, "seed": 7 })).await;
    let whole = with(with(gguf(), "context_size", json!(8192)), "seed", json!(7));
    let fresh = with(whole, "served_name", json!("n"));
    let fresh = settled(team.owner.post("/admin/models/dry-run", &fresh).await.expect(200));
    assert_eq!(changed["vram_estimate"], fresh["vram_estimate"]);
    let flags = |it: &Value| it["command_str"].as_str().unwrap().replace("--alias n ", "--alias m ");
    assert_eq!(flags(&changed), flags(&fresh));
    assert!(flags(&changed).contains("--ctx-size 8192") && flags(&saved).contains("--ctx-size 4096"));

    // `null` unsets, a warning comes with the change that causes it, and its fix takes it away.
    assert!(!flags(&preview(&json!({ "context_size": null })).await).contains("4096"));
    let odd = preview(&json!({ "batch_size": 8 })).await;
    let of_batch = |it: &Value| {
        it["warnings"].as_array().unwrap().iter().find(|it| it["field"] == "batch_size").cloned()
    };
    assert!(of_batch(&saved).is_none());
    let fix = of_batch(&odd).unwrap()["set"].clone();
    assert!(of_batch(&preview(&fix).await).is_none());

    assert_eq!(team.owner.get(&path).await.expect(200), made, "nothing was stored");
    assert_eq!(team.owner.get("/admin/audit?action=model.change").await.text, "[]");
}

#[tokio::test]
async fn what_could_not_be_saved_is_refused_as_it_would_be_then() {
    let team = team("what_could_not_be_saved_is_refused").await;
    let body = with(gguf(), "extra_env", json!({ "APP_TOKEN": "hf_one" }));
    let made = create(&team.owner, &body).await.expect(201);
    create(&team.owner, &with(gguf(), "served_name", json!("taken"))).await.expect(201);
    let path = format!("/admin/models/{}/dry-run", made["id"]);
    assert_invalid(
        &team.owner.post(&path, &json!({ "context_size": "much", "seedling": 1 })).await,
        &["context_size", "seedling"],
    );
    // A right guess of a value must not look different from a wrong one.
    for guess in ["hf_one", "hf_two"] {
        let answer = team.admin.post(&path, &json!({ "extra_env": { "APP_TOKEN": guess } })).await;
        assert_forbidden_fields(&answer, &["extra_env"]);
    }
    let seen = team.admin.post(&path, &json!({ "extra_env": { "APP_TOKEN": "***" } })).await.expect(200);
    assert!(!seen.to_string().contains("hf_one"));
    let taken = team.owner.post(&path, &json!({ "served_name": "taken" })).await.expect(200);
    let said = |it: &Value| it["field"] == "served_name" && it["severity"] == "error";
    assert!(taken["warnings"].as_array().unwrap().iter().any(said), "{taken:#}");
    assert_error(&team.org_admin.post(&path, &json!({})).await, 403, "forbidden");
}
