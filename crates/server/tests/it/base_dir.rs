//! The models base directory: who may choose it, which it may be, and what the choice changes.

use std::os::unix::fs::symlink;

use gantry_testkit::{Database, Managed, Options, eventually, simulated, simulator};
use serde_json::json;

use crate::{
    support::{GANTRY, assert_error, assert_invalid, start},
    team::Team,
};

const GGUF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gguf/tiny-llama-F16.gguf");
const PATH: &str = "/admin/models/base-dir";

#[tokio::test]
async fn a_choice_counts_at_once_survives_restarts_and_can_be_taken_back() {
    for database in Database::one("base_dir: a_choice_counts_at_once") {
        let options = Options::default().on(database).env("CONTAINER_HOST", "unix:///nonexistent.sock");
        let mut team = Team::with(options).await;
        let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
        let chosen = root.path().canonicalize().unwrap().join("weights");
        std::fs::create_dir_all(chosen.join("tiny")).unwrap();
        std::fs::copy(GGUF, chosen.join("tiny/tiny-F16.gguf")).unwrap();
        symlink(&chosen, root.path().join("link")).unwrap();
        let configured = team.gateway.models_dir().canonicalize().unwrap();

        let dry_run =
            json!({ "served_name": "t", "engine_type": "llamacpp", "local_path": "tiny/tiny-F16.gguf" });
        let is_there = async |owner: &gantry_testkit::Client| {
            let preview = owner.post("/admin/models/dry-run", &dry_run).await.expect(200);
            !preview["warnings"].as_array().unwrap().iter().any(|it| it["category"] == "files")
        };
        assert!(!is_there(&team.owner).await);
        team.owner.get("/admin/models/inspect-folder?folder=tiny").await.expect(404);

        // A link is as good as what it leads to.
        let link = root.path().join("link");
        let answer = team.owner.put(PATH, &json!({ "base_dir": link })).await.expect(200);
        assert_eq!(
            (&answer["base_dir"], &answer["source"]),
            (&json!(chosen), &json!("database")),
            "{answer}"
        );
        assert!(
            answer["free_bytes"].as_u64() <= answer["total_bytes"].as_u64() && answer["free_bytes"].is_u64()
        );
        assert!(is_there(&team.owner).await);
        team.owner.get("/admin/models/inspect-folder?folder=tiny").await.expect(200);
        let folders = team.owner.get("/admin/models/local-folders").await.expect(200);
        assert_eq!(folders[0]["path"], "tiny");

        team.gateway.kill_and_restart().await;
        let owner = team.gateway.owner().await;
        let after = owner.get(PATH).await.expect(200);
        for field in ["base_dir", "source", "settings_base_dir", "total_bytes"] {
            assert_eq!(after[field], answer[field], "{field}");
        }
        assert!(is_there(&owner).await);

        let back = owner.put(PATH, &json!({ "base_dir": configured })).await.expect(200);
        assert_eq!((&back["base_dir"], &back["source"]), (&json!(configured), &json!("settings")), "{back}");
        assert_eq!(back["settings_base_dir"], json!(configured));
        assert!(!is_there(&owner).await);
    }
}

/// Whichever gateway was asked: the supervisor starts engines from the directory that counts.
#[tokio::test]
async fn a_choice_counts_on_every_gateway_of_the_database() {
    if !Database::all("base_dir: every gateway").contains(&Database::Postgres) {
        return;
    }
    let one = start(Options::default().on(Database::Postgres)).await;
    let two = start(Options::default().env("DATABASE_URL", &one.database_url().unwrap())).await;
    let (owner, other) = (one.owner().await, two.owner().await);
    let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
    for (name, asked, told) in [("a", &owner, &other), ("b", &other, &owner)] {
        let dir = root.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(&dir).unwrap();
        asked.put(PATH, &json!({ "base_dir": dir })).await.expect(200);
        let seen = eventually("the other one uses it", gantry_testkit::PATIENCE, async || {
            let seen = told.get(PATH).await.expect(200);
            (seen["base_dir"] == json!(dir)).then_some(seen)
        })
        .await;
        assert_eq!(seen["source"], "database");
    }
    let rows = owner.get("/admin/audit?action=base_dir.change").await.expect(200);
    assert_eq!(rows[0]["before"], rows[1]["after"], "{rows}");
}

#[tokio::test]
async fn directories_that_hold_more_than_models_are_refused() {
    let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    for dir in ["roots/a", "roots/ab", "elsewhere"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    let roots = format!("{}, /mnt/not-there", root.join("roots/a").display());
    let team = Team::with(Options::default().env("MODELS_ROOTS", &roots)).await;
    let data = team.gateway.data_dir().canonicalize().unwrap();
    std::fs::create_dir_all(data.join("models")).unwrap();
    let links = root.join("roots/a");
    symlink("/etc", links.join("etc")).unwrap();
    symlink("/", links.join("root")).unwrap();
    symlink(&data, links.join("data")).unwrap();
    symlink(root.join("elsewhere"), links.join("elsewhere")).unwrap();
    std::fs::write(links.join("file"), "x").unwrap();
    let before = team.owner.get(PATH).await.expect(200)["base_dir"].clone();

    let text = |it: &std::path::Path| it.to_str().unwrap().to_owned();
    let refused = [
        "/".to_owned(),
        "//".to_owned(),
        "/etc".to_owned(),
        "/etc/../etc/ssl".to_owned(),
        "/usr/share".to_owned(),
        "/proc/self/root".to_owned(),
        "/proc/1".to_owned(),
        "/dev".to_owned(),
        "/var/lib".to_owned(),
        "/tmp".to_owned(),
        text(&data),
        text(data.parent().unwrap()),
        text(&data.join("secrets")),
        text(&data.join("models")),
        text(&links.join("etc")),
        text(&links.join("etc/ssl")),
        text(&links.join("root")),
        text(&links.join("data/secrets")),
        text(&links.join("elsewhere")),
        text(&links.join("..")),
        text(&root.join("roots/ab")),
        text(&root.join("elsewhere")),
    ];
    for dir in refused {
        let answer = team.owner.put(PATH, &json!({ "base_dir": dir })).await;
        assert_error(&answer, 422, "path_not_allowed");
        assert_eq!(answer.json["error"]["param"], "base_dir", "{dir}");
    }
    let file = text(&links.join("file"));
    for dir in ["", "models", "./x", "../x", "~/models", "/no\0pe", "/nowhere/at/all", &file] {
        assert_invalid(&team.owner.put(PATH, &json!({ "base_dir": dir })).await, &["base_dir"]);
    }
    assert_eq!(team.owner.get(PATH).await.expect(200)["base_dir"], before);
    let allowed = text(&links);
    assert_error(&team.admin.put(PATH, &json!({ "base_dir": allowed })).await, 403, "forbidden");
    assert_eq!(team.owner.put(PATH, &json!({ "base_dir": allowed })).await.expect(200)["base_dir"], allowed);
}

#[tokio::test]
async fn without_roots_hidden_directories_and_homes_of_others_are_refused() {
    let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let home = root.join("ada");
    for dir in [".ssh", "ada/.ssh", "ada/models", "ada/models/.git"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    symlink(home.join(".ssh"), root.join("innocent")).unwrap();
    let options = Options::default().env("HOME", home.to_str().unwrap());
    let mut team = Team::with(options).await;
    let choose = async |owner: &gantry_testkit::Client, dir: &std::path::Path| {
        owner.put(PATH, &json!({ "base_dir": dir })).await
    };
    for (dir, why) in [
        (root.join(".ssh"), "begins with a dot"),
        (home.join(".ssh"), "begins with a dot"),
        (root.join("innocent"), "begins with a dot"),
        (home.join("models/.git"), "begins with a dot"),
        (home.clone(), "more than models"),
        ("/opt".into(), "more than models"),
    ] {
        let answer = choose(&team.owner, &dir).await;
        assert_error(&answer, 422, "path_not_allowed");
        assert!(answer.text.contains(why), "{}: {}", dir.display(), answer.text);
    }
    choose(&team.owner, &home.join("models")).await.expect(200);
    // Homes that the list of users has; `HOME` is the gateway's own, so that the homes of all users belong to others.
    let list = std::fs::read_to_string("/etc/passwd").unwrap();
    let homes = list.lines().filter_map(|it| it.split(':').nth(5)).map(std::path::Path::new);
    let listed = homes.filter(|it| it.starts_with("/var") || it.starts_with("/root"));
    for dir in listed.filter(|it| std::fs::read_dir(it).is_ok()) {
        assert_error(&choose(&team.owner, dir).await, 422, "path_not_allowed");
    }
    // What the operator names is the operator's choice.
    assert!(team.gateway.terminate());
    team.gateway.set_env("MODELS_ROOTS", root.join(".ssh").to_str().unwrap());
    team.gateway.restart().await;
    choose(&team.gateway.owner().await, &root.join(".ssh")).await.expect(200);
}

#[tokio::test]
async fn a_choice_that_the_operator_narrows_away_is_not_used() {
    let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    for dir in ["a", "b"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    let mut team = Team::with(Options::default()).await;
    let configured = team.gateway.models_dir().canonicalize().unwrap();
    team.owner.put(PATH, &json!({ "base_dir": root.join("a") })).await.expect(200);
    team.gateway.kill();
    team.gateway.set_env("MODELS_ROOTS", root.join("b").to_str().unwrap());
    team.gateway.restart().await;
    let owner = team.gateway.owner().await;
    assert_eq!(owner.get(PATH).await.expect(200)["base_dir"], json!(configured));
    // The choice is not forgotten, and a disk that is away is not replaced by another directory.
    team.gateway.kill();
    team.gateway.set_env("MODELS_ROOTS", "");
    std::fs::remove_dir(root.join("a")).unwrap();
    team.gateway.restart().await;
    let dir = team.gateway.owner().await.get(PATH).await.expect(200);
    assert_eq!((&dir["base_dir"], &dir["free_bytes"]), (&json!(root.join("a")), &json!(null)));
}

#[tokio::test]
async fn the_next_start_mounts_the_chosen_directory_and_what_runs_keeps_its_own() {
    if !simulator(GANTRY, "base_dir: mounts") {
        return;
    }
    let gateway = start(Options::containers()).await;
    let owner = gateway.owner().await;
    let first = Managed::run(&owner, &simulated("vllm", "first", &[])).await;
    let mounted = |model: &Managed| model.inspect().unwrap()["Mounts"][0]["Source"].clone();
    let before = mounted(&first);
    let root = tempfile::Builder::new().prefix("models-").tempdir().unwrap();
    let chosen = root.path().canonicalize().unwrap();
    owner.put(PATH, &json!({ "base_dir": chosen })).await.expect(200);
    let second = Managed::run(&owner, &simulated("vllm", "second", &[])).await;
    assert_eq!((mounted(&second), mounted(&first)), (json!(chosen), before));
    assert_eq!(owner.chat("first").await.status, 200);
}
