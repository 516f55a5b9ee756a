//! The endpoints of the specification's section "Admin: deployment", in its order; imports and restores have files of
//! their own.

use std::{fs, time::Instant};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, eventually, simulated};
use serde_json::{Value, json};

use super::{
    ESTIMATE, EXPORT, IMPORT, IMPORT_MODEL, JOBS, RESTORE, STATUS, WEIGHTS, add_huge, assert_whole,
    completes, ended, export, files, folder, manifest, site, tiny,
};
use crate::{
    support::{assert_error, column},
    team::{Team, id},
};

const CHECK: &str = "/admin/deployment/check-database-dump";
/// Nobody uses this.
const UNKNOWN: &str = "deploy-999999";

fn names(gateway: &Gateway, name: &str) -> Vec<String> {
    files(&folder(gateway, name)).iter().map(|it| it.display().to_string()).collect()
}

#[tokio::test]
async fn export_writes_a_package_with_all_that_was_asked_for() {
    for database in Database::one("deployment: export") {
        let (gateway, owner) = site(database).await;
        let model = id(&owner.post("/admin/models", &tiny()).await.expect(201));
        let job = export(&owner, "whole").await;
        assert_eq!((&job["job_type"], &job["progress"]), (&json!("export"), &json!(1.0)), "{job}");
        assert!(
            job["id"].as_str().unwrap().strip_prefix("deploy-").is_some_and(|it| it.parse::<u64>().is_ok()),
            "{job}"
        );
        assert!(job["finished_at"].as_f64().unwrap() >= job["started_at"].as_f64().unwrap(), "{job}");
        assert!(
            job["bytes_written"].as_u64().unwrap() > 300_000 && !job["logs"].as_array().unwrap().is_empty(),
            "{job}"
        );
        assert!(job["output_dir"].as_str().unwrap().ends_with("/exports/whole"), "{job}");
        let found = names(&gateway, "whole");
        let own = format!("manifests/model-{model}.json");
        let wanted = [
            "bin/gantry",
            "checksums.sha256",
            "db/dump.sql",
            "manifest.json",
            own.as_str(),
            "manifests/settings.json",
            "models/tiny.gguf",
            "sbom.cdx.json",
        ];
        assert_eq!(found, wanted);
        let dir = folder(&gateway, "whole");
        assert_eq!(fs::read(dir.join("models/tiny.gguf")).unwrap(), WEIGHTS);
        assert_whole(&dir);
        let made = &job["artifacts"];
        assert_eq!((&made["models"], &made["signed"]), (&json!(["tiny"]), &json!(false)), "{made}");
        assert_eq!(made["package_id"], manifest(&dir)["id"]);
        let row = &owner.get("/admin/audit?action=package.export").await.expect(200)[0];
        assert_eq!(
            (&row["after"]["tar_models"], &row["after"]["include_db"]),
            (&json!(true), &json!(true)),
            "{row}"
        );

        // Each part that is not wanted is left out.
        let none = json!({
            "output_dir": "little", "include_db": false, "include_configs": false, "include_models_manifest": false,
        });
        completes(&owner, EXPORT, &none).await;
        assert_eq!(
            names(&gateway, "little"),
            ["bin/gantry", "checksums.sha256", "manifest.json", "sbom.cdx.json"]
        );
        assert_whole(&folder(&gateway, "little"));
    }
}

#[tokio::test]
async fn export_twice_into_one_folder_takes_what_changed_and_drops_what_is_gone() {
    let (gateway, owner) = site(Database::Sqlite).await;
    let gone = id(&owner.post("/admin/models", &tiny()).await.expect(201));
    export(&owner, "p").await;
    let weights = fs::metadata(folder(&gateway, "p").join("models/tiny.gguf")).unwrap().modified().unwrap();
    owner.delete(&format!("/admin/models/{gone}")).await.expect(200);
    let other = id(&owner.post("/admin/models", &simulated("vllm", "other", &[])).await.expect(201));
    fs::write(gateway.models_dir().join("new.gguf"), "new").unwrap();
    export(&owner, "p").await;
    let dir = folder(&gateway, "p");
    assert_whole(&dir);
    assert!(!dir.join(format!("manifests/model-{gone}.json")).exists());
    assert!(dir.join(format!("manifests/model-{other}.json")).exists());
    assert_eq!(fs::read_to_string(dir.join("models/new.gguf")).unwrap(), "new");
    assert_eq!(fs::metadata(dir.join("models/tiny.gguf")).unwrap().modified().unwrap(), weights);
}

#[tokio::test]
async fn export_names_what_it_leaves_out() {
    let (gateway, owner) = site(Database::Sqlite).await;
    fs::create_dir(gateway.models_dir().join("repo")).unwrap();
    for name in ["repo/model.part", "repo/blob.incomplete", "repo/poetry.lock"] {
        fs::write(gateway.models_dir().join(name), "x").unwrap();
    }
    let job = export(&owner, "p").await;
    let found = names(&gateway, "p");
    let has = |name: &str| found.iter().any(|it| it == name);
    assert!(has("models/repo/poetry.lock") && !has("models/repo/model.part"), "{found:?}");
    for name in ["models/repo/model.part", "models/repo/blob.incomplete"] {
        assert!(job["logs"].to_string().contains(&format!("left out: {name}")), "{job}");
    }
    assert_whole(&folder(&gateway, "p"));
}

#[tokio::test]
async fn export_redacts_secrets_in_model_manifests_and_everywhere_else() {
    for database in Database::one("deployment: secrets") {
        let (gateway, owner) = site(database).await;
        let mut model = tiny();
        model["hub_token"] = json!("hf_canary_hub");
        model["extra_env"] =
            json!({ "MY_TOKEN": "canary-env-1", "PROXY": "http://u:canary-env-2@h:1", "PLAIN": "shown" });
        owner.post("/admin/models", &model).await.expect(201);
        let entry =
            json!({ "served_name": "far", "url": "http://127.0.0.1:9", "api_key": "sk-canary-registry" });
        owner.post("/admin/models/registry", &entry).await.expect(201);
        let (key, _) = owner.new_key(&json!({})).await;
        let login = json!({ "username": "owner", "password": "owner-password" });
        let cookie =
            gateway.client().post("/auth/login", &login).await.header("set-cookie").unwrap().to_owned();
        let session = cookie.split_once('=').unwrap().1.split(';').next().unwrap().to_owned();
        let engine_key =
            fs::read_to_string(gateway.data_dir().join("secrets/engine-key")).unwrap_or_default();
        export(&owner, "p").await;
        let canaries = [
            "hf_canary_hub",
            "canary-env-1",
            "canary-env-2",
            "sk-canary-registry",
            key["token"].as_str().unwrap(),
            session.split('.').next().unwrap(),
            session.split('.').nth(1).unwrap(),
            "owner-password",
            &"5eed".repeat(16),
            engine_key.trim(),
        ];
        let dir = folder(&gateway, "p");
        for name in files(&dir).iter().filter(|it| !it.starts_with("bin")) {
            let text = String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap()).into_owned();
            for canary in canaries.iter().filter(|it| !it.is_empty()) {
                assert!(!text.contains(canary), "{canary} is in {}", name.display());
            }
        }
        // What the other side has to set again is said.
        let listed = owner.get("/admin/deployment/model-manifests?output_dir=p").await.expect(200);
        let all = json!(["hub_token", "extra_env.MY_TOKEN", "extra_env.PROXY", "extra_env.PLAIN"]);
        assert_eq!(listed[0]["redacted"], all);
        let dump = fs::read_to_string(dir.join("db/dump.sql")).unwrap();
        let plain = r#""PLAIN":"shown""#;
        assert!(dump.contains("$argon2id$") && !dump.contains(plain), "the rest is there");

        // Variables that are no secrets are carried if that was asked for.
        completes(&owner, EXPORT, &json!({ "output_dir": "q", "include_env": true })).await;
        let listed = owner.get("/admin/deployment/model-manifests?output_dir=q").await.expect(200);
        assert_eq!(listed[0]["redacted"], json!(["hub_token", "extra_env.MY_TOKEN", "extra_env.PROXY"]));
        let dump = fs::read_to_string(folder(&gateway, "q").join("db/dump.sql")).unwrap();
        assert!(dump.contains(plain) && !dump.contains("canary"));
    }
}

#[tokio::test]
async fn export_model_has_one_model_and_no_database() {
    for database in Database::one("deployment: export-model") {
        let (gateway, owner) = site(database).await;
        fs::write(gateway.models_dir().join("other.gguf"), "other").unwrap();
        let model = id(&owner.post("/admin/models", &tiny()).await.expect(201));
        owner.post("/admin/models", &simulated("vllm", "other", &[])).await.expect(201);
        let job = owner.command(&format!("/admin/deployment/export-model/{model}")).await.expect(202);
        let job = ended(&owner, &job).await;
        assert_eq!(
            (&job["job_type"], &job["status"]),
            (&json!("model_export"), &json!("completed")),
            "{job}"
        );
        let name = format!("model-{model}");
        let manifest = format!("manifests/{name}.json");
        let wanted = [
            "bin/gantry",
            "checksums.sha256",
            "manifest.json",
            &manifest,
            "models/tiny.gguf",
            "sbom.cdx.json",
        ];
        assert_eq!(names(&gateway, &name), wanted);
        assert_whole(&folder(&gateway, &name));
        assert_error(&owner.command("/admin/deployment/export-model/999").await, 404, "not_found");
    }
}

#[tokio::test]
async fn estimate_size_tells_true_sizes_and_whether_there_is_room() {
    for database in Database::one("deployment: estimate-size") {
        let (gateway, owner) = site(database).await;
        let all = json!({ "output_dir": "p", "tar_models": true, "tar_hub_cache": true });
        let told = owner.post(ESTIMATE, &all).await.expect(200);
        let bytes = &told["breakdown_bytes"];
        assert_eq!((&bytes["models"], &bytes["hub_cache"]), (&json!(WEIGHTS.len()), &json!(0)), "{told}");
        assert!(bytes["database"].as_u64().unwrap() > 0, "{told}");
        let sum: u64 = bytes.as_object().unwrap().values().map(|it| it.as_u64().unwrap()).sum();
        assert_eq!(told["estimated_bytes"], sum, "{told}");
        assert_eq!(told["breakdown"]["models"], "293.0 KiB");
        let space = &told["disk_space"];
        let required = (sum as f64 * 1.2).ceil() as u64;
        assert_eq!(
            (&space["safety_margin"], &space["required_bytes"]),
            (&json!(1.2), &json!(required)),
            "{told}"
        );
        assert_eq!(space["sufficient"], space["available_bytes"].as_u64().unwrap() >= required, "{told}");
        assert!(
            space["available_formatted"].is_string() && space["required_formatted"].is_string(),
            "{told}"
        );
        // Without weights they are not in it, and too much of them is too much.
        let told = owner.post(ESTIMATE, &json!({ "output_dir": "p", "include_db": false })).await.expect(200);
        assert!(told["breakdown"]["models"].is_null() && told["breakdown"]["database"].is_null(), "{told}");
        fs::File::create(gateway.models_dir().join("huge.gguf")).unwrap().set_len(1 << 42).unwrap();
        let told = owner.post(ESTIMATE, &all).await.expect(200);
        assert_eq!(told["disk_space"]["sufficient"], false, "{told}");
        assert!(!folder(&gateway, "p").exists());
    }
}

#[tokio::test]
async fn check_database_dump_tells_whether_a_dump_is_there_and_whole() {
    for database in Database::all("deployment: check-database-dump") {
        let (gateway, owner) = site(database).await;
        export(&owner, "p").await;
        let check = async || owner.post(CHECK, &json!({ "output_dir": "p" })).await.expect(200);
        let told = check().await;
        assert_eq!(
            (&told["exists"], &told["valid"], &told["problems"]),
            (&json!(true), &json!(true), &json!([])),
            "{told}"
        );
        assert_eq!((&told["path"], &told["tables"]["users"]), (&json!("db/dump.sql"), &json!(1)), "{told}");
        let dump = folder(&gateway, "p").join("db/dump.sql");
        assert_eq!(told["size_bytes"], fs::metadata(&dump).unwrap().len());
        assert!(told["modified_at"].is_string() && told["created_at"].is_string(), "{told}");
        let text = fs::read_to_string(&dump).unwrap();
        let cut = text.rsplit_once("-- gantry-proof").unwrap().0;
        for bad in [cut, "DROP TABLE users;\n", &text.replace("\towner\t", "\teve\t")] {
            fs::write(&dump, bad).unwrap();
            let told = check().await;
            assert_eq!((&told["exists"], &told["valid"]), (&json!(true), &json!(false)), "{told}");
            assert!(!told["problems"].as_array().unwrap().is_empty(), "{told}");
        }
        fs::remove_file(&dump).unwrap();
        let told = check().await;
        assert_eq!((&told["exists"], &told["valid"]), (&json!(false), &json!(false)), "{told}");
        assert_error(&owner.post(CHECK, &json!({ "output_dir": "q" })).await, 404, "not_found");
        let out = json!({ "output_dir": "p", "db_file": "../../gantry.db" });
        assert_error(&owner.post(CHECK, &out).await, 422, "path_not_allowed");
    }
}

#[tokio::test]
async fn status_jobs_and_job_show_what_was_done() {
    for database in Database::one("deployment: jobs") {
        let (_gateway, owner) = site(database).await;
        assert_eq!(owner.get(STATUS).await.expect(200), json!({ "status": "idle" }));
        assert_eq!(owner.get(JOBS).await.expect(200), json!([]));
        // One folder for all: only the first export has to copy the program.
        let little = json!({ "output_dir": "p", "include_db": false });
        let mut made = Vec::new();
        for _ in 0..22 {
            made.push(completes(&owner, EXPORT, &little).await);
        }
        let listed = owner.get(JOBS).await.expect(200);
        let newest: Vec<Value> = made.iter().rev().take(20).map(|it| it["id"].clone()).collect();
        assert_eq!(column(&listed, "id"), newest.iter().collect::<Vec<_>>());
        let last = &made[21];
        assert_eq!(owner.get(STATUS).await.expect(200)["id"], last["id"]);
        let shown = owner.get(&format!("{JOBS}/{}", last["id"].as_str().unwrap())).await.expect(200);
        assert_eq!(shown, *last);
        for unknown in [UNKNOWN, "deploy-0", "deploy-x", "7"] {
            assert_error(&owner.get(&format!("{JOBS}/{unknown}")).await, 404, "not_found");
            assert_error(&owner.delete(&format!("{JOBS}/{unknown}")).await, 404, "not_found");
        }
        let over = owner.delete(&format!("{JOBS}/{}", last["id"].as_str().unwrap())).await;
        assert_error(&over, 409, "invalid_state");
    }
}

/// Starts an export that takes minutes, and waits until it copies weights.
pub(super) async fn long_export(owner: &Client, name: &str) -> Value {
    let body = json!({ "output_dir": name, "tar_models": true });
    let job = owner.post(EXPORT, &body).await.expect(202);
    let path = format!("{JOBS}/{}", job["id"].as_str().unwrap());
    let copies = eventually("weights are copied", PATIENCE, async || {
        let job = owner.get(&path).await.expect(200);
        assert_eq!(job["status"], "running", "{job}");
        (job["step"].as_str().unwrap().contains("weights")
            && job["bytes_written"].as_u64().unwrap() > 1 << 28)
            .then_some(job)
    });
    copies.await
}

#[tokio::test]
async fn cancel_ends_a_job_within_two_seconds_and_leaves_nothing() {
    for database in Database::one("cancel_ends_a_job_within_two_seconds_and_leaves_nothing") {
        let (gateway, owner) = site(database).await;
        export(&owner, "kept").await;
        let before = fs::read(folder(&gateway, "kept").join("manifest.json")).unwrap();
        add_huge(&gateway);
        for name in ["new", "kept"] {
            let job = long_export(&owner, name).await;
            assert_eq!(owner.get(STATUS).await.expect(200)["id"], job["id"]);
            assert!(job["progress"].as_f64().unwrap() < 0.9 && job["eta_seconds"].is_u64(), "{job}");
            assert!(job["estimated_size_bytes"].as_u64().unwrap() > 64 << 30, "{job}");
            let begun = Instant::now();
            owner.delete(&format!("{JOBS}/{}", job["id"].as_str().unwrap())).await.expect(200);
            // On a busy machine the answer comes before the end. To copy all would take much longer than is waited here.
            let cancelled = ended(&owner, &job).await;
            let took = begun.elapsed();
            assert_eq!(
                (&cancelled["status"], &cancelled["artifacts"]),
                (&json!("cancelled"), &Value::Null),
                "{cancelled}"
            );
            // Two seconds by the specification, on a machine with nothing else to do.
            println!("cancelled within {took:?}");
        }
        assert!(!folder(&gateway, "new").exists());
        assert_eq!(fs::read(folder(&gateway, "kept").join("manifest.json")).unwrap(), before);
        assert!(!folder(&gateway, "kept").join(".gantry-export").exists());
        assert_whole(&folder(&gateway, "kept"));
    }
}

#[tokio::test]
async fn one_deployment_job_runs_at_a_time() {
    for database in Database::one("deployment: one at a time") {
        let (gateway, owner) = site(database).await;
        let model = id(&owner.post("/admin/models", &tiny()).await.expect(201));
        export(&owner, "p").await;
        add_huge(&gateway);
        let job = long_export(&owner, "long").await;
        for (path, body) in [
            (EXPORT, json!({ "output_dir": "q" })),
            (&format!("/admin/deployment/export-model/{model}"), json!({})),
            (IMPORT, json!({ "output_dir": "p" })),
            (
                IMPORT_MODEL,
                json!({ "output_dir": "p", "manifest_file": format!("model-{model}.json"), "conflict_strategy": "rename" }),
            ),
            (RESTORE, json!({ "output_dir": "p", "drop_existing": true })),
        ] {
            assert_error(&owner.post(path, &body).await, 409, "job_running");
        }
        assert!(!folder(&gateway, "q").exists());
        // Requests and looks go on meanwhile.
        assert_eq!(gateway.client().get("/readyz").await.status, 200);
        owner.post(ESTIMATE, &json!({ "output_dir": "q" })).await.expect(200);
        owner.delete(&format!("{JOBS}/{}", job["id"].as_str().unwrap())).await.expect(200);
        completes(&owner, EXPORT, &json!({ "output_dir": "p" })).await;
    }
}

#[tokio::test]
async fn a_job_that_ran_when_the_gateway_died_is_failed_at_the_next_start() {
    for database in Database::one("deployment: interrupted") {
        let (mut gateway, owner) = site(database).await;
        add_huge(&gateway);
        let job = long_export(&owner, "p").await;
        gateway.kill_and_restart().await;
        let owner = gateway.owner().await;
        let after = ended(&owner, &job).await;
        assert_eq!((&after["status"], &after["id"]), (&json!("failed"), &job["id"]), "{after}");
        assert!(after["error"].as_str().unwrap().starts_with("interrupted"), "{after}");
        assert!(after["finished_at"].is_f64(), "{after}");
        let looked = super::gantry(&["package", "verify", folder(&gateway, "p").to_str().unwrap()]);
        assert!(!looked.status.success(), "what is half-made does not look whole");
        // Another one takes what is there and completes.
        fs::remove_file(gateway.models_dir().join("huge.gguf")).unwrap();
        export(&owner, "p").await;
        assert_whole(&folder(&gateway, "p"));
    }
}

#[tokio::test]
async fn deployment_jobs_need_the_owner() {
    for database in Database::one("deployment: roles") {
        let team = Team::with(Options::processes().on(database)).await;
        let job = completes(&team.owner, EXPORT, &json!({ "output_dir": "p" })).await;
        let job = format!("{JOBS}/{}", job["id"].as_str().unwrap());
        let only_owners: [(&str, Value); 5] = [
            (EXPORT, json!({ "output_dir": "q" })),
            ("/admin/deployment/export-model/1", json!({})),
            (IMPORT, json!({ "output_dir": "p" })),
            (IMPORT_MODEL, json!({ "output_dir": "p", "manifest_file": "model-1.json" })),
            (RESTORE, json!({ "output_dir": "p", "drop_existing": true })),
        ];
        for client in [&team.admin, &team.org_admin, &team.user] {
            for (path, body) in &only_owners {
                assert_error(&client.post(path, body).await, 403, "forbidden");
            }
            assert_error(&client.delete(&job).await, 403, "forbidden");
        }
        for path in [STATUS, JOBS, &job] {
            team.admin.get(path).await.expect(200);
            for client in [&team.org_admin, &team.user] {
                assert_error(&client.get(path).await, 403, "forbidden");
            }
            assert_error(&team.gateway.client().get(path).await, 401, "unauthenticated");
        }
        team.admin.post(ESTIMATE, &json!({ "output_dir": "p" })).await.expect(200);
        team.admin.post(CHECK, &json!({ "output_dir": "p" })).await.expect(200);
        assert_eq!(team.owner.get(JOBS).await.expect(200).as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn paths_outside_the_export_folders_are_not_allowed() {
    let (gateway, owner) = site(Database::Sqlite).await;
    let exports = gateway.data_dir().join("exports");
    fs::create_dir_all(&exports).unwrap();
    std::os::unix::fs::symlink("/tmp", exports.join("link")).unwrap();
    let inside = exports.join("absolute");
    for bad in ["../p", "/etc", "/", ".", "link", "link/p", "a/../../p", exports.to_str().unwrap()] {
        for (path, more) in [
            (EXPORT, json!({})),
            (ESTIMATE, json!({})),
            (IMPORT, json!({})),
            (IMPORT_MODEL, json!({ "manifest_file": "model-1.json" })),
            (CHECK, json!({})),
            (RESTORE, json!({})),
        ] {
            let mut body = more;
            body["output_dir"] = json!(bad);
            let answer = owner.post(path, &body).await;
            assert_error(&answer, 422, "path_not_allowed");
            assert_eq!(answer.json["error"]["param"], "output_dir");
            assert!(!answer.text.contains(exports.to_str().unwrap()), "{}", answer.text);
        }
        let list = format!("/admin/deployment/model-manifests?output_dir={bad}");
        assert_error(&owner.get(&list).await, 422, "path_not_allowed");
    }
    completes(&owner, EXPORT, &json!({ "output_dir": inside, "include_db": false })).await;
    assert_whole(&inside);
    for (field, bad) in [("since", "../x"), ("base_dir", "../x")] {
        let path = if field == "since" { EXPORT } else { IMPORT };
        let mut body = json!({ "output_dir": "absolute" });
        body[field] = json!(bad);
        assert_error(&owner.post(path, &body).await, 422, "path_not_allowed");
    }
    assert_error(&owner.post(EXPORT, &json!({})).await, 422, "validation_error");
    assert_error(
        &owner.post(EXPORT, &json!({ "output_dir": "p", "compress": true })).await,
        422,
        "validation_error",
    );
}
