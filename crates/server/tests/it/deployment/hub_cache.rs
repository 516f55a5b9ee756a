//! Files that are not plain ones: the links of a hub cache, and weights with holes.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::Path,
    process::Command,
};

use gantry_testkit::{Client, Database, Gateway, Options, PATIENCE, number};
use serde_json::{Value, json};

use super::{
    EXPORT, IMPORT, IMPORT_MODEL, assert_whole, completes, ended, ended_within, files, folder, manifest, site,
};
use crate::{support::start, team::id};

/// Adds a repository to a hub cache as the hub's client does: contents under their digests, and names that link to them.
fn add_repository(gateway: &Gateway, name: &str) {
    let dir = gateway.data_dir().join("hub-cache").join(name);
    for folder in ["blobs", "refs", "snapshots/1f0e"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    fs::write(dir.join("refs/main"), "1f0e").unwrap();
    for file in ["config.json", "model.safetensors"] {
        let blob = format!("blob-of-{file}");
        fs::write(dir.join("blobs").join(&blob), format!("{file} of {name}")).unwrap();
        symlink(format!("../../blobs/{blob}"), dir.join("snapshots/1f0e").join(file)).unwrap();
    }
}

/// Fails unless a repository is in the hub cache as [`add_repository`] made it.
#[track_caller]
fn assert_has_repository(gateway: &Gateway, name: &str) {
    let dir = gateway.data_dir().join("hub-cache").join(name);
    assert_eq!(fs::read_to_string(dir.join("refs/main")).unwrap(), "1f0e");
    for file in ["config.json", "model.safetensors"] {
        let link = dir.join("snapshots/1f0e").join(file);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(&format!("../../blobs/blob-of-{file}")));
        assert_eq!(fs::read_to_string(link).unwrap(), format!("{file} of {name}"));
    }
}

/// Moves a package to another gateway, as on a disk. A copy would fill the holes.
fn moved(from: &Gateway, to: &Gateway, name: &str) {
    fs::create_dir_all(to.data_dir().join("exports")).unwrap();
    fs::rename(folder(from, name), folder(to, name)).unwrap();
}

#[tokio::test]
async fn a_hub_cache_is_carried_with_its_links() {
    const REPOSITORY: &str = "models--owner--tiny";
    const OTHER: &str = "models--owner--other";
    let (here, owner) = site(Database::Sqlite).await;
    add_repository(&here, REPOSITORY);
    add_repository(&here, OTHER);
    let body = json!({ "served_name": "m", "engine_type": "vllm", "repo_id": "owner/tiny" });
    let model = id(&owner.post("/admin/models", &body).await.expect(201));
    let job = owner.command(&format!("/admin/deployment/export-model/{model}")).await.expect(202);
    let job = ended(&owner, &job).await;
    assert_eq!(job["status"], "completed", "{job}");
    completes(&owner, EXPORT, &json!({ "output_dir": "whole", "tar_hub_cache": true })).await;

    // The package of the model has its repository and no other one; links are in the manifest alone.
    let one = format!("model-{model}");
    let of = |name: &str| {
        let dir = folder(&here, name);
        assert_whole(&dir);
        let blobs = files(&dir).iter().filter(|it| it.starts_with("hub-cache")).count();
        (blobs, manifest(&dir)["links"].as_object().unwrap().len())
    };
    assert_eq!((of(&one), of("whole")), ((3, 2), (6, 4)));
    let place = format!("hub-cache/{REPOSITORY}");
    assert_eq!(manifest(&folder(&here, &one))["contents"]["models"][0]["weights"], json!([place]));

    let there = start(Options::processes()).await;
    moved(&here, &there, &one);
    moved(&here, &there, "whole");
    let owner = there.owner().await;
    let body = json!({ "output_dir": one, "manifest_file": format!("{one}.json") });
    let made = owner.post(IMPORT_MODEL, &body).await.expect(201);
    assert_eq!((&made["served_name"], &made["warnings"]), (&json!("m"), &json!([])), "{made}");
    assert_has_repository(&there, REPOSITORY);
    assert!(!there.data_dir().join("hub-cache").join(OTHER).exists());
    // The rest of the whole package is missing.
    let job = completes(&owner, IMPORT, &json!({ "output_dir": "whole" })).await;
    assert_eq!(job["artifacts"]["new_files"], 3, "{job}");
    assert_has_repository(&there, REPOSITORY);
    assert_has_repository(&there, OTHER);
}

/// Starts a job that may read 9 GiB with the lowest priority. It must complete.
async fn completes_slowly(owner: &Client, path: &str, body: &Value) {
    let job = owner.post(path, body).await.expect(202);
    let job = ended_within(owner, &job, 5 * PATIENCE).await;
    assert_eq!(job["status"], "completed", "{job}");
}

/// `make test-long` has files of 9 GiB, more than the 8 GiB that old formats can count.
#[tokio::test]
async fn weights_with_holes_are_carried_with_their_holes() {
    let size = number("GANTRY_HOLES_GIB").unwrap_or(1) << 30;
    let filled = [0, size / 2, size - 1000];
    let (here, owner) = site(Database::Sqlite).await;
    let file = File::create(here.models_dir().join("huge.gguf")).unwrap();
    file.set_len(size).unwrap();
    for at in filled {
        file.write_all_at(&[9; 1000], at).unwrap();
    }
    completes_slowly(&owner, EXPORT, &json!({ "output_dir": "p", "tar_models": true })).await;
    let package = folder(&here, "p");
    assert_whole(&package);
    assert_is_sparse(&package.join("models/huge.gguf"), size);
    let entry = manifest(&package)["files"]["models/huge.gguf"].clone();
    let sum = Command::new("sha256sum").arg(here.models_dir().join("huge.gguf")).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    assert_eq!((&entry["sha256"], &entry["size"]), (&json!(sum[..64]), &json!(size)), "{entry}");

    let there = start(Options::processes()).await;
    moved(&here, &there, "p");
    let owner = there.owner().await;
    // It puts in place what has the sum of the manifest, and nothing else.
    completes_slowly(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    let imported = there.models_dir().join("huge.gguf");
    assert_is_sparse(&imported, size);
    let imported = File::open(imported).unwrap();
    for at in filled {
        let mut found = [0; 1000];
        imported.read_exact_at(&mut found, at).unwrap();
        assert_eq!(found, [9; 1000], "at {at}");
    }
}

/// Fails unless a file has this size, and takes little room.
#[track_caller]
fn assert_is_sparse(file: &Path, size: u64) {
    let found = fs::metadata(file).unwrap();
    assert_eq!(found.len(), size);
    // These are blocks of 512 bytes.
    assert!(found.blocks() <= (16 << 20) / 512, "{} blocks", found.blocks());
}
