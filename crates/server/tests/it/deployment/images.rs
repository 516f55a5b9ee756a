//! Images of a registry in packages: those that an export pulls, and those that are named by a digest.

use std::fs;

use gantry_testkit::{Client, Database, Gateway, Managed, Options, docker_cli, simulated, simulator};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    ESTIMATE, EXPORT, IMPORT, assert_whole, completes, export, fails, folder, manifest,
    side::{Side, says_something, stops},
};
use crate::{
    image_registry::{Image, Registry},
    support::{GANTRY, start},
};

/// Images of registries on loopback may be used.
fn options() -> Options {
    Options::containers().env("ENGINE_IMAGE_ALLOWLIST", "127.0.0.1:*")
}

/// A gateway beside a registry with an image that its Docker engine does not have.
struct Site {
    gateway: Gateway,
    owner: Client,
    /// The image by its tag, and by its digest.
    tag: String,
    digest: String,
    _registry: Registry,
    _dir: TempDir,
}

impl Site {
    async fn start(test: &str) -> Option<Self> {
        if !simulator(GANTRY, test) {
            return None;
        }
        let registry = Registry::start(test).await?;
        let dir = tempfile::tempdir().unwrap();
        let digest = registry.take(&Image::simulator(dir.path())).await;
        let repository = registry.repository();
        let gateway = start(options()).await;
        fs::create_dir(gateway.models_dir().join("simulated")).unwrap();
        fs::write(gateway.models_dir().join("simulated/model.safetensors"), [5; 1000]).unwrap();
        let owner = gateway.owner().await;
        let (tag, digest) = (format!("{repository}:1"), format!("{repository}@{digest}"));
        Some(Self { gateway, owner, tag, digest, _registry: registry, _dir: dir })
    }

    /// Makes a model that runs in the image with this name.
    async fn model(&self, served_name: &str, image: &str) {
        let mut body = simulated("vllm", served_name, &[]);
        body["engine_image"] = json!(image);
        Managed::create(&self.owner, &body).await;
    }

    /// Removes the image with all its names from the Docker engine.
    fn remove_image(&self) {
        docker_cli(&["rmi", "-f", &docker_cli(&["image", "inspect", "--format", "{{.Id}}", &self.tag])]);
    }

    /// What an estimate says of images: their bytes, and those that are missing.
    async fn estimate(&self) -> (Value, Value) {
        let told = self.owner.post(ESTIMATE, &json!({ "output_dir": "p" })).await.expect(200);
        (told["breakdown_bytes"]["container_images"].clone(), told["missing_images"].clone())
    }
}

#[tokio::test]
async fn an_image_that_is_missing_is_pulled_only_if_that_is_allowed() {
    let Some(site) = Site::start("deployment: images are pulled").await else { return };
    let (owner, image) = (&site.owner, &site.tag);
    site.model("m", image).await;
    assert_eq!(site.estimate().await, (json!(0), json!([image])));
    let why = fails(owner, EXPORT, &json!({ "output_dir": "p", "allow_pull_images": false })).await;
    assert!(why.contains(image.as_str()) && why.contains("`allow_pull_images` is false"), "{why}");
    assert_eq!(site.estimate().await.1, json!([image]), "nothing was pulled");

    let job = completes(owner, EXPORT, &json!({ "output_dir": "p", "allow_pull_images": true })).await;
    assert_eq!(job["artifacts"]["images"], json!([image]), "{job}");
    assert_whole(&folder(&site.gateway, "p"));
    let bytes: u64 = docker_cli(&["image", "inspect", "--format", "{{.Size}}", image]).parse().unwrap();
    assert_eq!(site.estimate().await, (json!(bytes), json!([])));
    site.remove_image();
}

#[tokio::test]
async fn an_image_that_is_named_by_a_digest_is_carried_over_an_air_gap() {
    const TEST: &str = "deployment: air gap, an image by its digest";
    let Some(here) = Site::start(TEST).await else { return };
    let Some(there) = Side::with_containers(TEST, Database::Sqlite, options()).await else { return };
    here.model("m", &here.digest).await;
    // The same image under another name, too.
    here.model("same", &here.tag).await;
    let job = export(&here.owner, "p").await;
    assert_eq!(job["artifacts"]["images"], json!([here.tag, here.digest]), "{job}");
    let images = manifest(&folder(&here.gateway, "p"))["contents"]["images"].clone();
    assert_eq!(images[0]["config"], images[1]["config"]);
    here.remove_image();

    there.takes(&here.gateway, "p");
    there.verify("p", &[]);
    let owner = there.gateway.owner().await;
    let told = owner.post(IMPORT, &json!({ "output_dir": "p", "dry_run": true })).await.expect(200);
    assert_eq!(told["plan"]["load_images"], json!([here.tag, here.digest]), "{told}");
    let job = completes(&owner, IMPORT, &json!({ "output_dir": "p" })).await;
    assert_eq!(job["artifacts"]["loaded_images"], json!([here.tag, here.digest]), "{job}");
    let found = there.daemon().docker(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    let own = here.digest.replace("@sha256:", ":sha256-");
    assert_eq!(found, [here.tag.as_str(), own.as_str()]);
    let models = owner.get("/admin/models").await.expect(200);
    let record = models.as_array().unwrap().iter().find(|it| it["served_name"] == "m").unwrap();
    assert_eq!(record["engine_image"], json!(here.digest), "the record is as it was");
    let model = Managed::of(record);
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    says_something(&owner, "m").await;
    stops(&owner, &model).await;

    // From there it is carried on.
    let job = export(&owner, "on").await;
    assert_eq!(job["artifacts"]["images"], json!([here.tag, here.digest]), "{job}");
    assert_eq!(manifest(&folder(&there.gateway, "on"))["contents"]["images"], images);
    there.assert_silent();
}
