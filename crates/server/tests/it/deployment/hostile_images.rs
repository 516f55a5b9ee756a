//! Container images of a package: everything is verified before anything is used, and a manifest that lies about them changes
//! nothing.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use gantry_package::checksums::Sha256Sum;
use gantry_testkit::{Client, Gateway, Options, docker, docker_cli, simulated};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    EXPORT, IMPORT, JOBS, completes, ended, files, folder,
    hostile::{put, write},
    manifest,
};
use crate::support::start;

/// Size of the image's only layer, which no simulator needs to have.
const LAYER: usize = 3 << 20;

/// A gateway that may run one image of its own, and the package `p` with that image and weights. Neither is there any more.
struct Site {
    gateway: Gateway,
    owner: Client,
    image: String,
    manifest: Value,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", &self.image]).output();
    }
}

impl Site {
    async fn new(test: &str) -> Option<Self> {
        if !docker(test) {
            return None;
        }
        let image = format!("localhost/gantry-test-{}:1", uuid::Uuid::now_v7().simple());
        let gateway = start(Options::containers().env("ENGINE_IMAGE_ALLOWLIST", &image)).await;
        make_image(&image);
        fs::create_dir(gateway.models_dir().join("simulated")).unwrap();
        fs::write(gateway.models_dir().join("simulated/model.safetensors"), vec![5; 1 << 20]).unwrap();
        let owner = gateway.owner().await;
        let mut body = simulated("vllm", "m", &[]);
        body["engine_image"] = json!(image);
        let made = owner.post("/admin/models", &body).await.expect(201);
        let job = completes(&owner, EXPORT, &json!({ "output_dir": "p", "tar_models": true })).await;
        assert_eq!(job["artifacts"]["images"], json!([image]), "{job}");
        owner.delete(&format!("/admin/models/{}", made["id"])).await.expect(200);
        let manifest = manifest(&folder(&gateway, "p"));
        let site = Self { gateway, owner, image, manifest };
        site.clear();
        Some(site)
    }

    fn clear(&self) {
        let _ = Command::new("docker").args(["rmi", &self.image]).output();
        let _ = fs::remove_dir_all(self.gateway.models_dir().join("simulated"));
    }

    fn dir(&self) -> PathBuf {
        folder(&self.gateway, "p")
    }

    fn layer(&self) -> String {
        blob(&self.manifest["contents"]["images"][0]["layers"][0])
    }

    /// The import fails, at once or as a job, and nothing of the package is there. Returns why.
    async fn refuses(&self, what: &str) -> String {
        let answer = self.owner.post(IMPORT, &json!({ "output_dir": "p" })).await;
        let said = if answer.status == 202 {
            let job = ended(&self.owner, &answer.json).await;
            assert_eq!(
                (&job["status"], &job["artifacts"]),
                (&json!("failed"), &Value::Null),
                "{what}: {job}"
            );
            job["error"].as_str().unwrap().to_owned()
        } else {
            assert_eq!(answer.status, 422, "{what}: {}", answer.text);
            answer.text
        };
        let none = [""; 0].map(PathBuf::from);
        assert_eq!(files(&self.gateway.models_dir()), none, "{what}: {said}");
        assert_eq!(self.owner.get("/admin/models").await.expect(200), json!([]), "{what}");
        let looked = Command::new("docker").args(["image", "inspect", &self.image]).output().unwrap();
        assert!(!looked.status.success(), "{what}: the image is there");
        assert!(!self.gateway.log().contains("panicked"), "{what}");
        println!("{what}: {said}");
        said
    }

    async fn completes(&self) {
        let job = completes(&self.owner, IMPORT, &json!({ "output_dir": "p" })).await;
        assert_eq!(job["artifacts"]["loaded_images"], json!([self.image]), "{job}");
        docker_cli(&["image", "inspect", &self.image]);
        assert!(self.gateway.models_dir().join("simulated/model.safetensors").exists());
    }
}

/// Makes an image of one layer with one file.
fn make_image(name: &str) {
    make_image_of(name, 7);
}

/// As [`make_image`], with another content for each `kind`.
fn make_image_of(name: &str, kind: usize) {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..LAYER).map(|n| (n / kind % 251) as u8).collect();
    fs::write(dir.path().join("content"), content).unwrap();
    let archive = dir.path().join("a.tar");
    let made = Command::new("tar")
        .args(["-C", dir.path().to_str().unwrap(), "-cf", archive.to_str().unwrap(), "content"])
        .status()
        .unwrap();
    assert!(made.success());
    docker_cli(&["import", archive.to_str().unwrap(), name]);
}

/// The place of a blob in a package.
fn blob(digest: &Value) -> String {
    format!("images/blobs/sha256/{}", digest.as_str().unwrap().strip_prefix("sha256:").unwrap())
}

#[tokio::test]
async fn a_flipped_bit_in_a_layer_is_found_before_weights_are_in_place() {
    let Some(site) = Site::new("deployment: a damaged layer").await else { return };
    let layer = site.layer();
    let path = site.dir().join(&layer);
    let whole = fs::read(&path).unwrap();
    for bit in [7, whole.len() * 4, whole.len() * 8 - 1] {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).unwrap();
        let said = site.refuses(&format!("bit {bit}")).await;
        assert!(said.contains(&layer) && said.contains("another content"), "{said}");
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(site.refuses("cut off").await.contains(&layer));
    fs::remove_file(&path).unwrap();
    assert!(site.refuses("missing").await.contains(&layer));
    fs::write(&path, whole).unwrap();
    site.completes().await;
}

#[tokio::test]
async fn a_name_moves_from_an_image_that_is_there_only_if_that_was_asked_for() {
    let Some(site) = Site::new("deployment: a name that is taken").await else { return };
    make_image_of(&site.image, 11);
    let id = || docker_cli(&["image", "inspect", "--format", "{{.Id}}", &site.image]);
    let before = id();
    let plan = site.owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await.expect(200);
    assert_eq!(
        (&plan["can_import"], &plan["plan"]["replaced_images"]),
        (&json!(false), &json!([site.image]))
    );
    let why = plan["plan"]["problems"][0].as_str().unwrap();
    assert!(why.contains(&site.image) && why.contains("`replace_images`"), "{why}");
    let answer = site.owner.post(IMPORT, &json!({ "output_dir": "p" })).await;
    assert!(answer.status == 422 && answer.text.contains("replace_images"), "{}", answer.text);
    assert_eq!(id(), before);
    let job = completes(&site.owner, IMPORT, &json!({ "output_dir": "p", "replace_images": true })).await;
    assert_eq!(job["artifacts"]["loaded_images"], json!([site.image]), "{job}");
    assert_ne!(id(), before);
    docker_cli(&["image", "rm", &before]);
}

#[tokio::test]
async fn a_layer_that_becomes_far_too_large_is_refused_before_it_is_unpacked() {
    let Some(site) = Site::new("deployment: a layer that is a bomb").await else { return };
    let config = blob(&site.manifest["contents"]["images"][0]["config"]);
    let config = fs::read_to_string(site.dir().join(config)).unwrap();
    let layer = site.manifest["contents"]["images"][0]["layers"][0].as_str().unwrap().to_owned();
    let mut manifest = site.manifest.clone();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let (mut sum, zeros) = (Sha256::new(), vec![0; 1 << 20]);
    for _ in 0..300 {
        bomb.write_all(&zeros).unwrap();
        sum.update(&zeros);
    }
    let bomb = bomb.finish().unwrap();
    let digest = |bytes: &[u8]| format!("sha256:{}", Sha256Sum::of(bytes));
    let diff_id = format!("sha256:{}", Sha256Sum(sum.finalize().into()));
    let config = config.replace(&layer, &diff_id);
    for bytes in [bomb.as_slice(), config.as_bytes()] {
        put(&site.dir(), &mut manifest, &blob(&json!(digest(bytes))), bytes);
    }
    manifest["contents"]["images"][0]["layers"] = json!([digest(&bomb)]);
    manifest["contents"]["images"][0]["config"] = json!(digest(config.as_bytes()));
    write(&site.dir(), &manifest);
    let said = site.refuses("300 MiB of zeros").await;
    assert!(said.contains("times as large"), "{said}");
}

/// A manifest whose files are all there, with contents that do not fit.
#[tokio::test]
async fn a_manifest_that_lies_about_images_is_refused() {
    let Some(site) = Site::new("deployment: hostile images").await else { return };
    let image = |it: &Value| it["contents"]["images"][0].clone();
    let config = fs::read_to_string(site.dir().join(blob(&image(&site.manifest)["config"]))).unwrap();
    // Puts another configuration in place of the image's.
    let with_config = |text: &str| {
        let mut manifest = site.manifest.clone();
        let digest = json!(format!("sha256:{}", Sha256Sum::of(text.as_bytes())));
        put(&site.dir(), &mut manifest, &blob(&digest), text.as_bytes());
        manifest["contents"]["images"][0]["config"] = digest;
        manifest
    };
    let with = |field: &str, value: Value| {
        let mut manifest = site.manifest.clone();
        manifest["contents"]["images"][0][field] = value;
        manifest
    };
    let unknown = format!("sha256:{}", "ab".repeat(32));
    let layer = image(&site.manifest)["layers"][0].as_str().unwrap().to_owned();
    let twice = format!("{config} ").replace(&layer, &unknown);
    for (what, manifest, reason) in [
        ("a layer that is not in the package", with("layers", json!([unknown])), "ab".repeat(32)),
        ("a configuration that is not in the package", with("config", json!(unknown)), "ab".repeat(32)),
        ("a layer too many", with("layers", json!([layer, layer])), "names other layers".to_owned()),
        ("no layer", with("layers", json!([])), "names other layers".to_owned()),
        ("a digest that leads out", with("config", json!("sha256:../../../canary")), "digest".to_owned()),
        ("another diff id", with_config(&twice), "names other layers".to_owned()),
        ("a configuration that is no JSON", with_config("canary"), "can't be read".to_owned()),
        (
            "the image of somebody else",
            with("reference", json!("docker.io/library/postgres:17")),
            "ENGINE_IMAGE_ALLOWLIST".to_owned(),
        ),
        (
            "a name that is an option",
            with("reference", json!("--privileged")),
            "ENGINE_IMAGE_ALLOWLIST".to_owned(),
        ),
        (
            "an image by its id",
            with("reference", image(&site.manifest)["config"].clone()),
            "ENGINE_IMAGE_ALLOWLIST".to_owned(),
        ),
    ] {
        write(&site.dir(), &manifest);
        let said = site.refuses(what).await;
        assert!(said.contains(&reason), "{what}: {said}");
    }
    assert!(site.owner.get(JOBS).await.expect(200).as_array().unwrap().len() > 5, "jobs were begun");
    write(&site.dir(), &site.manifest);
    site.completes().await;
}
