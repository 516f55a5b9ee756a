//! Which images are there, and taking one in from a file: what an air-gapped room needs.

use gantry_testkit::{Gateway, Managed, Options, docker_cli, sim_llamacpp, sim_vllm, simulated, simulator};
use serde_json::{Value, json};

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");
const IMAGES: &str = "/admin/system/container-images";

#[tokio::test]
async fn the_cache_tells_what_an_offline_start_lacks_and_a_file_supplies_it() {
    if !simulator(GANTRY, "docker_images: status and load") {
        return;
    }
    // A name of its own, so that no other test misses the image meanwhile.
    let carried = format!("localhost/gantry-engine-sim-vllm:carried-{}", std::process::id());
    docker_cli(&["tag", sim_vllm(), &carried]);
    let options = Options::containers()
        .env("OFFLINE_MODE", "true")
        .env("PRIMARY_ENGINE_IMAGE", &carried)
        .env("SECONDARY_ENGINE_IMAGE", sim_llamacpp());
    let gateway = Gateway::start(GANTRY, options).await;
    let owner = gateway.owner().await;
    let exports = gateway.data_dir().join("exports");
    let archive = exports.join("images/carried.tar");
    std::fs::create_dir(archive.parent().unwrap()).unwrap();
    docker_cli(&["save", &carried, "-o", archive.to_str().unwrap()]);
    docker_cli(&["rmi", &carried]);

    let mut body = simulated("vllm", "m", &[]);
    body.as_object_mut().unwrap().remove("engine_image");
    let model = Managed::create(&owner, &body).await;
    let own = Managed::create(&owner, &simulated("vllm", "own", &[])).await;
    let status = owner.get(IMAGES).await.expect(200);
    assert_eq!((&status["offline_mode"], &status["offline_ready"]), (&json!(true), &json!(false)));
    let missing = json!({ "image": carried, "cached": false, "size_mb": null, "created": null });
    assert_eq!(status["engines"]["vllm"], missing);
    let there = &status["engines"]["llamacpp"];
    assert_eq!((&there["image"], &there["cached"]), (&json!(sim_llamacpp()), &json!(true)));
    assert!(there["size_mb"].as_f64().unwrap() > 1.0, "{there}");
    assert!(there["created"].as_str().unwrap().contains('T'), "{there}");
    assert_eq!(status["models"][0]["models"], json!([own.id]));
    let summary = json!({ "critical_images_cached": false, "total_images_checked": 3, "cached_count": 2 });
    assert_eq!(status["summary"], summary);
    let advice = status["recommendations"].as_array().unwrap();
    assert!(advice.len() == 1 && advice[0].as_str().unwrap().contains(&carried), "{advice:?}");
    assert_eq!(model.command(&owner, "start").await.code(), "image_not_available");

    let load = async |path: &str| owner.post(&format!("{IMAGES}/load"), &json!({ "path": path })).await;
    let loaded = load("images/carried.tar").await.expect(200);
    assert_eq!(loaded, json!({ "loaded": [carried] }));
    let row = &owner.get("/admin/audit?action=image.load").await.expect(200)[0];
    assert_eq!((&row["object_id"], &row["after"]), (&json!("images/carried.tar"), &loaded));
    let status = owner.get(IMAGES).await.expect(200);
    assert_eq!((&status["offline_ready"], &status["recommendations"]), (&json!(true), &json!([])));
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    docker_cli(&["rmi", &carried]);
}

#[tokio::test]
async fn only_archives_of_the_export_folders_are_loaded() {
    if !simulator(GANTRY, "docker_images: bad archives") {
        return;
    }
    let gateway = Gateway::start(GANTRY, Options::containers()).await;
    let owner = gateway.owner().await;
    let exports = gateway.data_dir().join("exports");
    std::fs::write(gateway.data_dir().join("outside.tar"), "x").unwrap();
    std::os::unix::fs::symlink("../outside.tar", exports.join("link.tar")).unwrap();
    std::fs::write(exports.join("text.tar"), "this is no archive").unwrap();
    std::fs::create_dir(exports.join("folder")).unwrap();
    // The error for a missing file differs from the error for a path that leads out of the folder, and no error
    // contains a path of the host.
    let missing = owner.post(&format!("{IMAGES}/load"), &json!({ "path": "missing.tar" })).await;
    assert_eq!((missing.status, missing.code()), (404, "not_found"), "{}", missing.text);
    assert!(!missing.text.contains(exports.to_str().unwrap()), "{}", missing.text);
    for (path, code) in [
        ("../outside.tar", "path_not_allowed"),
        ("link.tar", "path_not_allowed"),
        ("/etc/passwd", "path_not_allowed"),
        ("folder", "path_not_allowed"),
        ("text.tar", "validation_error"),
        ("", "validation_error"),
    ] {
        let refused = owner.post(&format!("{IMAGES}/load"), &json!({ "path": path })).await;
        assert_eq!((refused.status, refused.code()), (422, code), "{path}: {}", refused.text);
        assert_eq!(refused.json["error"]["param"], Value::from("path"), "{path}");
    }
}
