//! `model-manifests`, `import-model` and `import`: what a package holds, and taking it in.

use std::fs;

use gantry_testkit::{Client, Database, Gateway, Options};
use serde_json::{Value, json};

use super::{
    IMPORT, IMPORT_MODEL, JOBS, STATUS, WEIGHTS, carry, completes, ended, export, folder, site, tiny,
};
use crate::{
    support::{assert_error, start},
    team::id,
};

#[tokio::test]
async fn model_manifests_lists_the_models_of_a_package() {
    for database in Database::one("deployment: model-manifests") {
        let (gateway, owner) = site(database).await;
        let model = id(&owner.post("/admin/models", &tiny()).await.expect(201));
        export(&owner, "p").await;
        let list = async || owner.get("/admin/deployment/model-manifests?output_dir=p").await.expect(200);
        let listed = list().await;
        let one = &listed[0];
        assert_eq!(listed.as_array().unwrap().len(), 1);
        let file = format!("model-{model}.json");
        assert_eq!(
            (&one["manifest_file"], &one["served_name"], &one["ok"]),
            (&json!(file), &json!("tiny"), &json!(true))
        );
        assert_eq!(
            (&one["weights_in_package"], &one["weights_bytes"]),
            (&json!(true), &json!(WEIGHTS.len())),
            "{one}"
        );
        assert_eq!(
            (&one["local_path"], &one["engine_type"]),
            (&json!("tiny.gguf"), &json!("llamacpp")),
            "{one}"
        );
        // A manifest that was changed on the way is distinguished from the others.
        let path = folder(&gateway, "p").join("manifests").join(&file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("tiny", "tinY")).unwrap();
        let changed = list().await;
        assert_eq!(changed[0]["ok"], false);
        assert!(changed[0]["problem"].as_str().unwrap().contains("another content"), "{changed}");
        let none = owner.get("/admin/deployment/model-manifests?output_dir=q").await;
        assert_error(&none, 404, "not_found");
        fs::create_dir(folder(&gateway, "empty")).unwrap();
        let empty = owner.get("/admin/deployment/model-manifests?output_dir=empty").await;
        assert_error(&empty, 422, "validation_error");
        let missing = owner.get("/admin/deployment/model-manifests").await;
        assert_eq!(missing.status, 422, "{}", missing.text);
    }
}

#[tokio::test]
async fn what_is_in_a_package_is_known_before_an_import() {
    let (gateway, owner) = site(Database::Sqlite).await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    export(&owner, "p").await;
    let show = async || owner.get("/admin/deployment/package-contents?output_dir=p").await.expect(200);
    let found = show().await;
    assert_eq!(
        (&found["weights_bytes"], &found["hub_cache_bytes"], &found["base"], &found["settings"]),
        (&json!(WEIGHTS.len()), &json!(0), &Value::Null, &json!(true)),
        "{found}"
    );
    let database = &found["database"];
    assert_eq!(database["kind"], "sqlite", "{found}");
    let dump = fs::metadata(folder(&gateway, "p").join("db/dump.sql")).unwrap().len();
    assert_eq!(database["size_bytes"], dump);
    assert!(database["rows"].as_u64().is_some_and(|it| it > 0), "{found}");
    // The whole is more than its parts: the program and the manifests are in it, too.
    assert!(found["size_bytes"].as_u64().is_some_and(|it| it > dump + WEIGHTS.len() as u64), "{found}");
    assert_eq!((&found["key_id"], &found["signature_problem"]), (&Value::Null, &Value::Null));
    // Who says to have signed it is said, and what is no signature.
    fs::write(folder(&gateway, "p").join("manifest.json.minisig"), "signed, really\n").unwrap();
    let forged = show().await;
    assert!(forged["signature_problem"].as_str().is_some_and(|it| it.contains("minisign")), "{forged}");
    for (dir, status, code) in [("q", 404, "not_found"), ("..", 422, "path_not_allowed")] {
        let path = format!("/admin/deployment/package-contents?output_dir={dir}");
        assert_error(&owner.get(&path).await, status, code);
    }
}

/// Two gateways, and the package `p` of the first one at the second one. Returns the second one, and the name of the
/// manifest of the model `tiny`.
async fn carried(database: Database, model: &Value) -> (Gateway, Client, String) {
    let (here, owner) = site(Database::Sqlite).await;
    let model = id(&owner.post("/admin/models", model).await.expect(201));
    export(&owner, "p").await;
    let there = start(Options::processes().on(database)).await;
    carry(&here, &there, "p");
    let owner = there.owner().await;
    (there, owner, format!("model-{model}.json"))
}

#[tokio::test]
async fn import_model_dry_run_previews_the_import_without_changes_and_the_import_does_it() {
    for database in Database::one("deployment: import-model") {
        let (gateway, owner, file) = carried(database, &tiny()).await;
        let body = json!({ "output_dir": "p", "manifest_file": file });
        let dry = json!({ "output_dir": "p", "manifest_file": file, "dry_run": true, "conflict_strategy": "error" });
        let told = owner.post(IMPORT_MODEL, &dry).await.expect(200);
        assert_eq!((&told["dry_run"], &told["can_import"]), (&json!(true), &json!(true)), "{told}");
        assert_eq!((&told["warnings"], &told["conflict"]), (&json!([]), &Value::Null), "{told}");
        let would = &told["would_create"];
        assert_eq!(
            (&would["served_name"], &would["local_path"]),
            (&json!("tiny"), &json!("tiny.gguf")),
            "{told}"
        );
        assert_eq!(
            (&told["plan"]["new_files"], &told["plan"]["new_bytes"]),
            (&json!(1), &json!(WEIGHTS.len())),
            "{told}"
        );
        // A preview changes nothing.
        assert!(!gateway.models_dir().join("tiny.gguf").exists());
        assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
        assert_eq!(owner.get(JOBS).await.expect(200), json!([]));

        let made = owner.post(IMPORT_MODEL, &body).await.expect(201);
        assert_eq!((&made["served_name"], &made["warnings"]), (&json!("tiny"), &json!([])), "{made}");
        assert_eq!(fs::read(gateway.models_dir().join("tiny.gguf")).unwrap(), WEIGHTS);
        let record = owner.get(&format!("/admin/models/{}", id(&made))).await.expect(200);
        assert_eq!(
            (&record["local_path"], &record["state"]),
            (&json!("tiny.gguf"), &json!("stopped")),
            "{record}"
        );
        let job = owner.get(STATUS).await.expect(200);
        assert_eq!((&job["job_type"], &job["status"]), (&json!("import"), &json!("completed")), "{job}");

        let missing = json!({ "output_dir": "p", "manifest_file": "model-77.json" });
        assert_error(&owner.post(IMPORT_MODEL, &missing).await, 404, "not_found");
    }
}

#[tokio::test]
async fn import_model_conflict_strategy_error_reports_the_conflict_and_rename_appends_imported() {
    for database in Database::one("deployment: import-model, names") {
        let (gateway, owner, file) = carried(database, &tiny()).await;
        owner.post("/admin/models", &tiny()).await.expect(201);
        let import = |more: &Value| {
            let mut body = json!({ "output_dir": "p", "manifest_file": file });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let owner = owner.clone();
            async move { owner.post(IMPORT_MODEL, &body).await }
        };
        let dry = import(&json!({ "dry_run": true })).await.expect(200);
        assert_eq!(
            (&dry["can_import"], &dry["conflict"]["served_name"]),
            (&json!(false), &json!("tiny")),
            "{dry}"
        );
        let refused = import(&json!({ "conflict_strategy": "error" })).await;
        assert_error(&refused, 409, "served_name_conflict");
        assert!(!gateway.models_dir().join("tiny.gguf").exists(), "refused before anything is copied");
        let rename = json!({ "conflict_strategy": "rename" });
        let dry = import(&json!({ "conflict_strategy": "rename", "dry_run": true })).await.expect(200);
        assert_eq!(
            (&dry["can_import"], &dry["would_create"]["served_name"]),
            (&json!(true), &json!("tiny-IMPORTED")),
            "{dry}"
        );
        for name in ["tiny-IMPORTED", "tiny-IMPORTED-2", "tiny-IMPORTED-3"] {
            let made = import(&rename).await.expect(201);
            assert_eq!((&made["served_name"], &made["name"]), (&json!(name), &json!(name)), "{made}");
        }
        let other = import(&json!({ "served_name_override": "mine" })).await.expect(201);
        assert_eq!(other["served_name"], "mine");
        let refused = import(&json!({ "served_name_override": "mine" })).await;
        assert_error(&refused, 409, "served_name_conflict");
        let unknown = import(&json!({ "conflict_strategy": "overwrite" })).await;
        assert_error(&unknown, 422, "validation_error");
        let elsewhere = json!({ "served_name_override": "b", "local_path_override": "elsewhere.gguf" });
        let made = import(&elsewhere).await.expect(201);
        let said = made["warnings"].as_array().unwrap();
        assert!(said.iter().any(|it| it.as_str().unwrap().contains("`elsewhere.gguf` is not")), "{made}");
    }
}

#[tokio::test]
async fn import_model_dry_run_warns_that_a_redacted_token_must_be_added_after_the_import() {
    let mut model = tiny();
    model["hub_token"] = json!("hf_secret");
    model["extra_env"] = json!({ "MY_TOKEN": "x" });
    let (_gateway, owner, file) = carried(Database::Sqlite, &model).await;
    let body = json!({ "output_dir": "p", "manifest_file": file, "dry_run": true });
    let dry = owner.post(IMPORT_MODEL, &body).await.expect(200);
    let said: Vec<_> = dry["warnings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(said.iter().any(|it| it.contains("hub token") || it.contains("model-hub token")), "{said:?}");
    assert!(said.iter().any(|it| it.contains("MY_TOKEN")), "{said:?}");
    let made =
        owner.post(IMPORT_MODEL, &json!({ "output_dir": "p", "manifest_file": file })).await.expect(201);
    assert_eq!(made["warnings"], dry["warnings"]);
    let record = owner.get(&format!("/admin/models/{}", id(&made))).await.expect(200);
    assert_eq!(record["hub_token_set"], false);
}

#[tokio::test]
async fn import_of_a_whole_package_makes_what_is_missing_and_leaves_the_rest() {
    for database in Database::one("deployment: import") {
        let (gateway, owner, _) = carried(database, &tiny()).await;
        let dry = owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await.expect(200);
        assert_eq!((&dry["can_import"], &dry["new_models"]), (&json!(true), &json!(["tiny"])), "{dry}");
        assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
        let job = completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
        assert_eq!(
            (&job["job_type"], &job["artifacts"]["new_files"]),
            (&json!("import"), &json!(1)),
            "{job}"
        );
        assert_eq!(fs::read(gateway.models_dir().join("tiny.gguf")).unwrap(), WEIGHTS);
        // Once more: everything is there.
        let dry = owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await.expect(200);
        assert_eq!((&dry["present_models"], &dry["new_models"]), (&json!(["tiny"]), &json!([])), "{dry}");
        assert_eq!(
            (&dry["plan"]["new_files"], &dry["plan"]["present_files"]),
            (&json!(0), &json!(1)),
            "{dry}"
        );
        completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
        // A file with another content stays as it is, and the import says so.
        for text in [b"mine".to_vec(), vec![8; WEIGHTS.len()]] {
            let own = gateway.models_dir().join("tiny.gguf");
            fs::write(&own, &text).unwrap();
            let answer = owner.post(IMPORT, &json!({ "output_dir": "p" })).await;
            let said = match answer.status {
                202 => ended(&owner, &answer.json).await["error"].as_str().unwrap().to_owned(),
                _ => answer.text,
            };
            assert!(said.contains("tiny.gguf"), "{said}");
            assert_eq!(fs::read(&own).unwrap(), text);
        }
    }
}
