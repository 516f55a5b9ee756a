//! What an export writes beside weights and database: the list of checksums, the programs that are needed, the bill of
//! materials; and how it compares with the estimate.

use std::{collections::BTreeSet, fs, process::Command};

use gantry_testkit::{Database, Options, simulated};
use serde_json::{Value, json};

use super::{EXPORT, completes, export, files, folder, site, site_with, tiny};
use crate::support::GANTRY;

#[tokio::test]
async fn export_generates_a_checksums_file_for_all_exported_files() {
    let (gateway, owner) = site(Database::Sqlite).await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    export(&owner, "p").await;
    let dir = folder(&gateway, "p");
    let checks = || {
        let mut command = Command::new("sha256sum");
        command.args(["--quiet", "--strict", "-c", "checksums.sha256"]).current_dir(&dir);
        command.output().unwrap().status.success()
    };
    assert!(checks());
    let text = fs::read_to_string(dir.join("checksums.sha256")).unwrap();
    let listed: BTreeSet<_> = text.lines().map(|it| it.split_once("  ").unwrap().1.to_owned()).collect();
    let mut found: BTreeSet<_> = files(&dir).iter().map(|it| it.display().to_string()).collect();
    found.remove("checksums.sha256");
    assert_eq!(listed, found);
    fs::write(dir.join("models/tiny.gguf"), "x").unwrap();
    assert!(!checks());
}

/// A GGUF file without tensors, whose metadata has nothing but a licence.
fn gguf(licence: &str) -> Vec<u8> {
    let text = |it: &str| [&(it.len() as u64).to_le_bytes()[..], it.as_bytes()].concat();
    // Version 3, no tensor, one key, whose value is a text (8).
    let head = [&b"GGUF"[..], &3_u32.to_le_bytes(), &0_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat();
    [head, text("general.license"), 8_u32.to_le_bytes().to_vec(), text(licence)].concat()
}

#[tokio::test]
async fn export_names_the_licences_of_models_in_the_bill_of_materials() {
    let (gateway, owner) = site(Database::Sqlite).await;
    let (models, hub) = (gateway.models_dir(), gateway.data_dir().join("hub-cache"));
    let card = |licence: &str| format!("---\nlanguage: en\nlicense: {licence}\n---\n# A model\n");
    fs::write(models.join("own.gguf"), gguf("apache-2.0")).unwrap();
    fs::create_dir(models.join("checkpoint")).unwrap();
    fs::write(models.join("checkpoint/README.md"), card("mit")).unwrap();
    // Outside of the models base directory nothing is read.
    fs::write(gateway.data_dir().join("README.md"), card("secret")).unwrap();
    fs::create_dir(models.join("link")).unwrap();
    std::os::unix::fs::symlink(gateway.data_dir().join("README.md"), models.join("link/README.md")).unwrap();
    let (repo, snapshot) =
        (hub.join("models--owner--name"), hub.join("models--owner--name/snapshots/0123abcd"));
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir(repo.join("blobs")).unwrap();
    fs::write(repo.join("blobs/00"), card("other\nlicense_name: house")).unwrap();
    std::os::unix::fs::symlink("../../blobs/00", snapshot.join("README.md")).unwrap();
    for (name, engine, path) in [
        ("a", "llamacpp", "own.gguf"),
        ("b", "vllm", "checkpoint"),
        ("c", "vllm", "link"),
        ("d", "llamacpp", "tiny.gguf"),
        ("e", "llamacpp", "gone.gguf"),
    ] {
        let mut body = simulated(engine, name, &[]);
        body["local_path"] = json!(path);
        owner.post("/admin/models", &body).await.expect(201);
    }
    let online = json!({ "served_name": "f", "engine_type": "vllm", "repo_id": "owner/name", "force": true });
    owner.post("/admin/models", &online).await.expect(201);
    completes(&owner, EXPORT, &json!({ "output_dir": "p" })).await;
    let bom: Value =
        serde_json::from_slice(&fs::read(folder(&gateway, "p").join("sbom.cdx.json")).unwrap()).unwrap();
    let listed = bom["components"].as_array().unwrap().iter();
    let listed = listed.filter(|it| it["type"] == "machine-learning-model");
    let licences: Vec<_> = listed.map(|it| it["licenses"][0]["license"]["name"].clone()).collect();
    let none = Value::Null;
    assert_eq!(
        licences,
        [json!("apache-2.0"), json!("mit"), none.clone(), none.clone(), none, json!("house")]
    );
}

#[tokio::test]
async fn export_names_the_programs_that_the_other_side_has_to_install() {
    let (gateway, owner) = site(Database::Sqlite).await;
    let job = completes(&owner, EXPORT, &json!({ "output_dir": "none" })).await;
    assert_eq!(job["artifacts"]["programs"], json!([]), "no model needs one: {job}");
    owner.post("/admin/models", &tiny()).await.expect(201);
    let job = completes(&owner, EXPORT, &json!({ "output_dir": "p" })).await;
    let command = format!("{GANTRY} engine-sim --flavour llamacpp");
    assert_eq!(job["artifacts"]["programs"], json!([command]), "{job}");
    let listed = &super::manifest(&folder(&gateway, "p"))["contents"]["programs"];
    assert_eq!((&listed[0]["engine"], &listed[0]["command"]), (&json!("llamacpp"), &json!(command)));
}

#[tokio::test]
async fn estimate_size_is_near_to_what_the_export_then_writes() {
    let (gateway, owner) = site_with(Options::processes()).await;
    fs::write(gateway.models_dir().join("more.gguf"), vec![1; 5 << 20]).unwrap();
    owner.post("/admin/models", &tiny()).await.expect(201);
    let body = json!({ "output_dir": "p", "tar_models": true, "tar_hub_cache": true });
    let told = owner.post("/admin/deployment/estimate-size", &body).await.expect(200);
    let job = completes(&owner, EXPORT, &body).await;
    let number = |it: &Value| it.as_f64().unwrap();
    let (estimated, written) = (number(&told["estimated_bytes"]), number(&job["artifacts"]["size_bytes"]));
    // Weights and the program are what they are; the dump is not larger than its database, and there are a few small files.
    let database = number(&told["breakdown_bytes"]["database"]);
    let small = 64.0 * 1024.0;
    assert!(written <= estimated + small && written >= estimated - database, "{told}, {job}");
    println!("estimated {estimated}, written {written}");
}
