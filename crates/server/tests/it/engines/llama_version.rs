//! The version of an engine whose image names it neither in its tag nor in a label: the gateway asks the image itself,
//! once.

use std::time::Duration;

use gantry_testkit::{Gateway, Options, docker, docker_cli, eventually};
use serde_json::{Value, json};

use super::{Engine, GANTRY, fixture, image};

/// An image for one test, removed with it.
struct Image(String);

impl Image {
    fn reference(name: &str) -> String {
        format!("gantry-test/{name}:moving-{}", std::process::id())
    }

    /// Makes an image with the same program, whose tag names no version and whose label is that of the base
    /// distribution.
    fn unmarked(original: &str) -> Self {
        let reference = Self::reference("llama");
        let container = docker_cli(&["create", original]);
        let label = "LABEL org.opencontainers.image.version=24.04";
        docker_cli(&["commit", "--change", label, &container, &reference]);
        docker_cli(&["rm", &container]);
        Self(reference)
    }

    /// An image in which there is nothing to ask.
    fn mute() -> Self {
        let reference = Self::reference("mute");
        let dir = tempfile::tempdir().unwrap();
        let tar = dir.path().join("empty.tar");
        std::fs::write(&tar, [0; 10240]).unwrap();
        docker_cli(&["import", "--change", "ENTRYPOINT [\"/nothing\"]", tar.to_str().unwrap(), &reference]);
        Self(reference)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        docker_cli(&["rmi", "-f", &self.0]);
    }
}

fn about_version(dry_run: &Value) -> Option<&Value> {
    dry_run["warnings"].as_array()?.iter().find(|it| it["title"] == "The engine's version is not known")
}

#[tokio::test]
async fn an_image_without_a_version_is_asked_for_it_once() {
    let Some(original) = image("GANTRY_TEST_LLAMA_IMAGE", "engines: version of an image") else { return };
    let image = Image::unmarked(&original);
    let since = docker_cli(&["info", "--format", "{{.SystemTime}}"]);
    let engine = Engine::start("SECONDARY_ENGINE_IMAGE", &image.0).await;
    engine.add("gguf/tiny-llama-F16.gguf");
    let body =
        json!({ "served_name": "tiny", "engine_type": "llamacpp", "local_path": "tiny-llama-F16.gguf" });
    // The tag of the image says its version.
    let version = original.rsplit(':').next().unwrap();
    let known = eventually("the version is known", gantry_testkit::PATIENCE, async || {
        let seen = engine.owner.post("/admin/models/dry-run", &body).await.expect(200);
        (seen["engine_version"] == version).then_some(seen)
    })
    .await;
    assert_eq!(about_version(&known), None, "{known}");
    assert!(known["command_str"].as_str().unwrap().contains("--load-mode mlock"), "{known}");
    let model = engine.run(&body, Duration::from_mins(2)).await;
    engine.stop(&model).await;

    let until = docker_cli(&["info", "--format", "{{.SystemTime}}"]);
    let asked = docker_cli(&[
        "events",
        "--since",
        &since,
        "--until",
        &until,
        "--filter",
        "label=gantry.probe",
        "--filter",
        &format!("image={}", image.0),
        "--filter",
        "event=create",
        "--format",
        "{{.ID}}",
    ]);
    assert_eq!(asked.lines().count(), 1, "{asked}");
    let left = docker_cli(&[
        "ps",
        "-aq",
        "--filter",
        "label=gantry.probe",
        "--filter",
        &format!("ancestor={}", image.0),
    ]);
    assert_eq!(left, "");
}

#[tokio::test]
async fn an_image_that_does_not_tell_gets_the_newest_arguments_and_a_warning() {
    if !docker("engines: an image that does not tell its version") {
        return;
    }
    let image = Image::mute();
    let options = Options::containers().env("SECONDARY_ENGINE_IMAGE", &image.0);
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    gantry_testkit::copy(&fixture("gguf/tiny-llama-F16.gguf"), &gateway.models_dir().join("m.gguf"));
    let body = json!({ "served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf" });
    let warning = eventually("the image has been asked", gantry_testkit::PATIENCE, async || {
        let seen = owner.post("/admin/models/dry-run", &body).await.expect(200);
        assert_eq!(seen["engine_version"], "unknown");
        assert!(seen["command_str"].as_str().unwrap().contains("--load-mode mlock"), "{seen}");
        about_version(&seen).filter(|it| it["severity"] == "warning").cloned()
    })
    .await;
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.ends_with("does not tell its version: this command is for the newest version"),
        "{message}"
    );
    assert_eq!(warning["field"], "engine_image");
}
