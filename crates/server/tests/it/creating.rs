//! Making a model well: what is left open comes from its files, what is wrong is said before it is made, and better values
//! than the defaults are one word away.

use gantry_testkit::{Client, Database, Gateway, Options};
use serde_json::{Value, json};

use crate::{
    dry_run::add_fixtures,
    support::{assert_error, assert_invalid, start},
    team::id,
};

/// Where nothing can be started, and models are real ones.
async fn gateway(database: Database) -> (Gateway, Client) {
    let options = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
    let gateway = start(options).await;
    add_fixtures(&gateway.models_dir());
    let owner = gateway.owner().await;
    (gateway, owner)
}

#[tokio::test]
async fn what_is_left_open_comes_from_the_files() {
    for database in Database::one("creating: from the files") {
        let (gateway, owner) = gateway(database).await;
        let models = gateway.models_dir();
        std::fs::create_dir(models.join("one")).unwrap();
        std::fs::create_dir(models.join("two")).unwrap();
        for to in ["one/a-Q8_0.gguf", "two/a-F16.gguf", "two/b-F16.gguf"] {
            std::fs::copy(models.join("tiny-llama-F16.gguf"), models.join(to)).unwrap();
        }
        for (path, engine, task, pooling, name) in [
            ("tiny-llama-F16.gguf", "llamacpp", "generate", None, "tiny-llama-F16"),
            ("tiny-bert-rerank-F16.gguf", "llamacpp", "embed", Some("rank"), "tiny-bert-rerank-F16"),
            ("tiny-bert-embed-F16.gguf", "llamacpp", "embed", None, "tiny-bert-embed-F16"),
            ("tiny-split-F16-00001-of-00002.gguf", "llamacpp", "generate", None, "tiny-split-F16"),
            ("tiny-llama-chat", "vllm", "generate", None, "tiny-llama-chat"),
            ("tiny-bert-embed", "vllm", "embed", None, "tiny-bert-embed"),
            ("one", "llamacpp", "generate", None, "one"),
        ] {
            let body = json!({ "local_path": path });
            let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
            assert_eq!(preview["served_name"], name, "{path}");
            let made = owner.post("/admin/models", &body).await.expect(201);
            let found = (&made["engine_type"], &made["task"], &made["served_name"]);
            assert_eq!(found, (&json!(engine), &json!(task), &json!(name)), "{path}");
            assert_eq!(made.get("pooling").cloned().unwrap_or_default(), json!(pooling), "{path}");
            let file = if path == "one" { "one/a-Q8_0.gguf" } else { path };
            assert_eq!(made["local_path"], file);
        }
        // What is given counts.
        let given =
            json!({ "local_path": "tiny-bert-rerank-F16.gguf", "task": "generate", "served_name": "given" });
        let made = owner.post("/admin/models", &given).await.expect(201);
        assert_eq!((&made["task"], &made["pooling"]), (&json!("generate"), &Value::Null));
        // What the files don't tell has to be said.
        let two = owner.post("/admin/models", &json!({ "local_path": "two" })).await;
        assert_invalid(&two, &["local_path"]);
        assert!(two.text.contains("two/a-F16.gguf") && two.text.contains("two/b-F16.gguf"), "{}", two.text);
        assert_invalid(
            &owner.post("/admin/models", &json!({ "local_path": "sizes.json" })).await,
            &["engine_type"],
        );
        // A link is named for what it is.
        for (link, to, text) in [
            ("away", "/etc", "leads out of the models directory by a link"),
            ("gone", "nowhere", "is a link to what is not there"),
        ] {
            std::os::unix::fs::symlink(to, models.join(link)).unwrap();
            let refused = owner.post("/admin/models", &json!({ "local_path": link })).await;
            assert_invalid(&refused, &["local_path"]);
            assert!(refused.text.contains(text), "{}", refused.text);
        }
        // A name that is taken leads to the model that has it.
        let again = owner.post("/admin/models", &json!({ "local_path": "tiny-llama-F16.gguf" })).await;
        assert_error(&again, 409, "served_name_conflict");
        assert!(again.text.contains("(id 1)") && again.text.contains("change that one"), "{}", again.text);
    }
}

#[tokio::test]
async fn a_file_that_is_not_there_leaves_no_record_unless_it_comes_later() {
    for database in Database::one("creating: missing files") {
        let (_gateway, owner) = gateway(database).await;
        for body in [
            json!({ "local_path": "nope.gguf" }),
            json!({ "local_path": "nope.gguf", "served_name": "m", "engine_type": "llamacpp" }),
            json!({ "local_path": "nope", "served_name": "m", "engine_type": "vllm" }),
        ] {
            let refused = owner.post("/admin/models", &body).await;
            assert_invalid(&refused, &["local_path"]);
            assert!(
                refused.text.contains("there is no `nope") && refused.text.contains("force"),
                "{}",
                refused.text
            );
        }
        assert_eq!(owner.get("/admin/models").await.expect(200), json!([]));
        let later = json!({ "local_path": "later.gguf", "force": true });
        let made = owner.post("/admin/models", &later).await.expect(201);
        assert_eq!((&made["engine_type"], &made["served_name"]), (&json!("llamacpp"), &json!("later")));
        // A change is checked in the same way; fields that are set already need not be given again.
        let path = format!("/admin/models/{}", id(&made));
        assert_invalid(&owner.patch(&path, &json!({ "local_path": "nope.gguf" })).await, &["local_path"]);
        owner.patch(&path, &json!({ "local_path": "later.gguf", "threads": 2 })).await.expect(200);
        assert_invalid(&owner.patch(&path, &json!({ "force": 1 })).await, &["force"]);
    }
}

#[tokio::test]
async fn a_model_for_another_task_is_not_started_unless_it_must() {
    let (_gateway, owner) = gateway(Database::Sqlite).await;
    for (file, set) in [
        ("tiny-bert-rerank-F16.gguf", json!({ "task": "embed", "pooling": "rank" })),
        ("tiny-bert-embed-F16.gguf", json!({ "task": "embed" })),
    ] {
        let made =
            owner.post("/admin/models", &json!({ "local_path": file, "task": "generate" })).await.expect(201);
        let path = format!("/admin/models/{}", id(&made));
        let preview = owner.command(&format!("{path}/dry-run")).await.expect(200);
        let told = preview["warnings"].as_array().unwrap().iter().find(|it| it["field"] == "task").unwrap();
        assert_eq!(told["set"], set, "{told}");
        for command in ["start", "apply"] {
            let refused = owner.command(&format!("{path}/{command}")).await;
            assert_error(&refused, 409, "invalid_state");
            assert_eq!(refused.json["error"]["param"], "task");
            assert!(
                refused.text.contains("set `task` to embed") && refused.text.contains("--force"),
                "{}",
                refused.text
            );
        }
        assert_eq!(owner.get(&path).await.expect(200)["state"], "stopped");
        owner.command(&format!("{path}/start?force=true")).await.expect(202);
        owner.command(&format!("{path}/stop")).await;
    }
    // The right task alone does not make llama-server rank.
    let half = json!({ "local_path": "tiny-bert-rerank-F16.gguf", "task": "embed", "pooling": "mean", "served_name": "half" });
    let preview = owner.post("/admin/models/dry-run", &half).await.expect(200);
    let told = preview["warnings"].as_array().unwrap().iter().find(|it| it["field"] == "pooling").unwrap();
    assert_eq!(told["set"], json!({ "pooling": "rank" }));
}

#[tokio::test]
async fn the_profile_sets_better_values_than_the_defaults_for_all_to_see() {
    for database in Database::one("creating: tuned") {
        let (_gateway, owner) = gateway(database).await;
        let about = |preview: &Value| {
            let all = preview["warnings"].as_array().unwrap();
            all.iter().find(|it| it["category"] == "defaults").cloned()
        };
        for (path, more, set) in [
            ("tiny-llama-chat", json!({}), json!({ "enforce_eager": false, "max_num_batched_tokens": 8192 })),
            // The context is no longer than the model's, and what is given stays.
            (
                "tiny-llama-F16.gguf",
                json!({ "batch_size": 1024 }),
                json!({ "mlock": false, "no_mmap": false, "numa": "none" }),
            ),
        ] {
            let mut body = json!({ "local_path": path });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let plain = owner.post("/admin/models", &body).await.expect(201);
            let own = format!("/admin/models/{}", id(&plain));
            let told = about(&owner.command(&format!("{own}/dry-run")).await.expect(200)).unwrap();
            assert_eq!((&told["severity"], &told["set"]), (&json!("info"), &set), "{told}");
            body["profile"] = json!("tuned");
            body["served_name"] = json!(format!("{path}-tuned"));
            let preview = owner.post("/admin/models/dry-run", &body).await.expect(200);
            assert_eq!(about(&preview), None);
            let tuned = owner.post("/admin/models", &body).await.expect(201);
            // A record that exists takes it too.
            let changed = owner.patch(&own, &json!({ "profile": "tuned" })).await.expect(200);
            for record in [&tuned, &changed] {
                for (field, value) in set.as_object().unwrap() {
                    assert_eq!(&record[field], value, "{field}");
                    assert!(!record["defaulted"].as_array().unwrap().contains(&json!(field)), "{field}");
                }
                assert_eq!(record.get("profile"), None);
            }
            assert_eq!(tuned.get("batch_size"), plain.get("batch_size"));
        }
        let wrong = json!({ "local_path": "m", "profile": "fastest" });
        assert_invalid(&owner.post("/admin/models", &wrong).await, &["profile"]);
    }
}
