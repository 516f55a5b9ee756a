//! The whole way over an air gap: exported on one side, and on the other side, which reaches nothing, verified, imported,
//! started and asked. Nothing there looks up a name or sends a packet.

use std::{fs, net::TcpListener, path::Path, sync::Arc};

use gantry_testkit::{
    AirGap, Client, Daemon, Database, Gateway, Managed, Options, Postgres, chat, copy, sim_vllm, simulated,
    simulator,
};
use serde_json::{Value, json};

use super::{
    EXPORT, IMPORT, assert_whole, carry, completes, export, files, folder, manifest, restored, site, tiny,
};
use crate::{
    engines::image,
    support::{GANTRY, start},
};

/// A gateway behind the gap. Its listener is in front of it: that is how the test reaches it.
async fn far(gap: &AirGap, options: Options) -> Gateway {
    let listener = Some(Arc::new(TcpListener::bind("127.0.0.1:0").unwrap()));
    start(Options { wrapper: gap.wrapper(), listener, ..options }).await
}

/// Runs `gantry package verify` behind the gap.
fn verify(gap: &AirGap, gateway: &Gateway, name: &str, more: &[&str]) {
    let dir = folder(gateway, name);
    let ran =
        gap.command(GANTRY).args(["package", "verify", dir.to_str().unwrap()]).args(more).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Fails if anything looked up a name or sent a packet, and shows that either would have been seen.
fn assert_silent(gap: &AirGap) {
    assert_eq!((gap.queries(), gap.packets()), (Vec::new(), 0));
    let _ = gap.command("getent").args(["hosts", "canary.example"]).output();
    let _ = gap.command("bash").args(["-c", "echo x >/dev/udp/198.51.100.7/9"]).output();
    assert!(gap.queries().iter().any(|it| it.starts_with("canary.example")), "{:?}", gap.queries());
    assert!(gap.packets() > 0);
}

async fn says_something(client: &Client, model: &str) {
    let answer = client.post("/v1/chat/completions", &chat(model)).await.expect(200);
    assert!(answer["choices"][0]["message"]["content"].as_str().is_some_and(|it| !it.is_empty()), "{answer}");
}

/// Verifies the package of `here` on `there`, restores its database, imports the rest, starts the model and asks it with a
/// key of the other side.
async fn is_carried_over(gap: &AirGap, here: Gateway, there: Gateway, client: &Client, model: &str) {
    carry(&here, &there, "p");
    drop(here);
    verify(gap, &there, "p", &[]);
    let owner = there.owner().await;
    let (owner, job) = restored(&there, &owner, &json!({ "output_dir": "p", "drop_existing": true })).await;
    assert_eq!(job["status"], "completed", "{job}");
    completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    let started = runs(&owner).await;
    says_something(&there.client_of(client), model).await;
    started.command(&owner, "stop").await.expect(202);
    started.reaches(&owner, "stopped").await;
    assert_silent(gap);
}

async fn programs_are_carried_over(test: &str, postgres: bool) {
    let Some(gap) = AirGap::new(test) else { return };
    let server = if postgres { Postgres::start_with(gap.wrapper(), test) } else { None };
    if postgres && server.is_none() {
        return;
    }
    let (here, owner) = site(Database::Sqlite).await;
    owner.post("/admin/models", &tiny()).await.expect(201);
    let (_, client) = owner.new_key(&json!({})).await;
    export(&owner, "p").await;
    let mut options = Options::processes();
    if let Some(server) = &server {
        options = options.env("DATABASE_URL", &server.url());
    }
    let there = far(&gap, options).await;
    is_carried_over(&gap, here, there, &client, "tiny").await;
}

#[tokio::test]
async fn an_installation_with_programs_is_restored_behind_an_air_gap() {
    programs_are_carried_over("deployment: air gap, programs", false).await;
}

#[tokio::test]
async fn an_installation_on_sqlite_is_restored_into_postgres_behind_an_air_gap() {
    programs_are_carried_over("deployment: air gap, SQLite to Postgres", true).await;
}

#[tokio::test]
async fn a_real_llama_server_and_a_database_on_postgres_are_carried_over_an_air_gap() {
    const TEST: &str = "deployment: air gap, llama-server, Postgres to Postgres";
    let Some(image) = image("GANTRY_TEST_LLAMA_IMAGE", TEST) else { return };
    if !Database::all(TEST).contains(&Database::Postgres) {
        return;
    }
    let Some(gap) = AirGap::new(TEST) else { return };
    let options = || Options::containers().env("SECONDARY_ENGINE_IMAGE", &image);
    let here = start(options().on(Database::Postgres)).await;
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/tiny-llama-F16.gguf");
    copy(&weights, &here.models_dir().join("tiny.gguf"));
    let owner = here.owner().await;
    let body = json!({
        "served_name": "tiny", "engine_type": "llamacpp", "local_path": "tiny.gguf", "device": "cpu",
        "context_size": 512, "mlock": false,
    });
    owner.post("/admin/models", &body).await.expect(201);
    let (_, client) = owner.new_key(&json!({})).await;
    let job = export(&owner, "p").await;
    assert_eq!(job["artifacts"]["images"], json!([image]), "{job}");

    let Some(daemon) = Daemon::start_behind(&gap, TEST).await else { return };
    let Some(server) = Postgres::start_with(gap.wrapper(), TEST) else { return };
    assert_eq!(daemon.docker(&["images", "-q"]), "");
    let there = options().env("CONTAINER_HOST", &daemon.host()).env("DATABASE_URL", &server.url());
    is_carried_over(&gap, here, far(&gap, there).await, &client, "tiny").await;
}

/// Bytes of a package on the disk, without its manifest and the dump.
fn size(gateway: &Gateway, name: &str) -> u64 {
    let dir = folder(gateway, name);
    let names = files(&dir).into_iter().filter(|it| !it.ends_with("manifest.json") && !it.starts_with("db"));
    names.map(|it| fs::metadata(dir.join(it)).unwrap().len()).sum()
}

#[tokio::test]
async fn an_installation_with_containers_and_a_difference_to_it_are_imported_behind_an_air_gap() {
    const TEST: &str = "deployment: air gap, containers";
    if !simulator(GANTRY, TEST) {
        return;
    }
    let Some(gap) = AirGap::new(TEST) else { return };
    let here = start(Options::containers()).await;
    fs::create_dir(here.models_dir().join("simulated")).unwrap();
    fs::write(here.models_dir().join("simulated/model.safetensors"), vec![5; 2 << 20]).unwrap();
    let owner = here.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    let job = export(&owner, "p").await;
    assert_eq!(job["artifacts"]["images"], json!([sim_vllm()]), "{job}");
    assert_whole(&folder(&here, "p"));
    // One setting later, the difference is small.
    owner.patch(&format!("/admin/models/{}", model.id), &json!({ "max_num_seqs": 3 })).await.expect(200);
    let since = json!({ "output_dir": "later", "since": "p", "tar_models": true });
    completes(&owner, EXPORT, &since).await;
    assert!(
        size(&here, "later") <= 1 << 20,
        "{} bytes: {:?}",
        size(&here, "later"),
        files(&folder(&here, "later"))
    );
    println!("the difference has {} bytes, the whole {}", size(&here, "later"), size(&here, "p"));

    let Some(daemon) = Daemon::start_behind(&gap, TEST).await else { return };
    assert_eq!(daemon.docker(&["images", "-q"]), "");
    let there = far(&gap, Options::containers().env("CONTAINER_HOST", &daemon.host())).await;
    carry(&here, &there, "p");
    carry(&here, &there, "later");
    drop(here);
    verify(&gap, &there, "p", &[]);
    let base = folder(&there, "p").display().to_string();
    verify(&gap, &there, "later", &["--base", &base]);
    let owner = there.owner().await;
    imports(&owner, &json!({ "output_dir": "p" }), true).await;
    assert!(!daemon.docker(&["images", "-q"]).is_empty());
    let model = runs(&owner).await;
    says_something(&owner, "m").await;
    // Once more: nothing is to be done.
    imports(&owner, &json!({ "output_dir": "p" }), false).await;
    remove(&there, &daemon, &owner, &model).await;

    // The difference needs its base, and says which.
    let id = manifest(&folder(&there, "p"))["id"].as_str().unwrap().to_owned();
    let refused = owner.post(IMPORT, &json!({ "output_dir": "later" })).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains(&id) && refused.text.contains("base_dir"), "{}", refused.text);
    let wrong = owner.post(IMPORT, &json!({ "output_dir": "later", "base_dir": "later" })).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    assert_eq!(daemon.docker(&["images", "-q"]), "");
    imports(&owner, &json!({ "output_dir": "later", "base_dir": "p" }), true).await;
    let model = runs(&owner).await;
    assert_eq!(model.record(&owner).await["max_num_seqs"], 3);
    says_something(&owner, "m").await;
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    assert_silent(&gap);
}

/// Imports a package as its plan says. `new`: the image and the weights are not there yet.
async fn imports(owner: &Client, body: &Value, new: bool) {
    let mut dry = body.clone();
    dry["dry_run"] = json!(true);
    let told = owner.post(IMPORT, &dry).await.expect(200);
    assert_eq!((&told["can_import"], &told["warnings"]), (&json!(true), &json!([])), "{told}");
    let image = json!([sim_vllm()]);
    let (loads, has) = if new { (image, json!([])) } else { (json!([]), image) };
    assert_eq!((&told["plan"]["load_images"], &told["plan"]["present_images"]), (&loads, &has), "{told}");
    let job = completes(owner, IMPORT, body).await;
    assert_eq!(job["artifacts"]["loaded_images"], loads, "{job}");
    assert_eq!(job["artifacts"]["new_files"], u64::from(new), "{job}");
}

/// Starts the model of the package.
async fn runs(owner: &Client) -> Managed {
    let model = Managed::of(&owner.get("/admin/models").await.expect(200)[0]);
    model.start(owner).await;
    model.reaches(owner, "running").await;
    model
}

/// Removes the model, its image and its weights.
async fn remove(gateway: &Gateway, daemon: &Daemon, owner: &Client, model: &Managed) {
    model.command(owner, "stop").await.expect(202);
    model.reaches(owner, "stopped").await;
    owner.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    assert_eq!(daemon.docker(&["ps", "-aq"]), "");
    daemon.docker(&["rmi", sim_vllm()]);
    fs::remove_dir_all(gateway.models_dir().join("simulated")).unwrap();
}
