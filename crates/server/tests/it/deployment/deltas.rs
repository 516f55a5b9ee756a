//! Differences between packages, between two gateways that reach nothing and have Docker engines of their own.

use std::{collections::BTreeSet, fs};

use gantry_testkit::{Client, Database, Gateway, Managed, Options, sim_vllm, simulated, simulator};
use serde_json::{Value, json};

use super::{
    EXPORT, IMPORT, assert_whole, completes, export, files, folder, manifest,
    side::{Side, runs, says_something, stops},
};
use crate::support::GANTRY;

/// Two sides; the first one has the image of the simulated vLLM, and a model of it with 2 MiB of weights.
async fn sides(test: &str) -> Option<(Side, Side, Client, Managed)> {
    if !simulator(GANTRY, test) {
        return None;
    }
    let side = || Side::with_containers(test, Database::Sqlite, Options::containers());
    let (here, there) = tokio::join!(side(), side());
    let (here, there) = (here?, there?);
    here.daemon().take(sim_vllm());
    fs::create_dir(here.gateway.models_dir().join("simulated")).unwrap();
    fs::write(here.gateway.models_dir().join("simulated/model.safetensors"), vec![5; 2 << 20]).unwrap();
    let owner = here.gateway.owner().await;
    let model = Managed::create(&owner, &simulated("vllm", "m", &[])).await;
    let job = export(&owner, "p").await;
    assert_eq!(job["artifacts"]["images"], json!([sim_vllm()]), "{job}");
    assert_whole(&folder(&here.gateway, "p"));
    Some((here, there, owner, model))
}

/// Bytes of a package on the disk.
fn size(gateway: &Gateway, name: &str) -> u64 {
    let dir = folder(gateway, name);
    files(&dir).into_iter().map(|it| fs::metadata(dir.join(it)).unwrap().len()).sum()
}

#[tokio::test]
async fn an_installation_with_containers_and_a_difference_to_it_are_imported_behind_an_air_gap() {
    let Some((here, there, owner, model)) = sides("deployment: air gap, a difference").await else { return };
    // One setting later, the difference is small.
    owner.patch(&format!("/admin/models/{}", model.id), &json!({ "max_num_seqs": 3 })).await.expect(200);
    let since = json!({ "output_dir": "later", "since": "p", "tar_models": true });
    completes(&owner, EXPORT, &since).await;
    let bytes = size(&here.gateway, "later");
    assert!(bytes <= 1 << 20, "{bytes} bytes: {:?}", files(&folder(&here.gateway, "later")));
    println!("the difference has {bytes} bytes, the whole {}", size(&here.gateway, "p"));
    here.assert_silent();

    there.takes(&here.gateway, "p");
    there.takes(&here.gateway, "later");
    drop(here);
    there.verify("p", &[]);
    there.verify("later", &["--base", folder(&there.gateway, "p").to_str().unwrap()]);
    let owner = there.gateway.owner().await;
    imports(&owner, &json!({ "output_dir": "p" }), true).await;
    let model = runs(&owner).await;
    says_something(&owner, "m").await;
    // Once more: nothing is to be done.
    imports(&owner, &json!({ "output_dir": "p" }), false).await;
    remove(&there, &owner, &model).await;

    // The difference needs its base, and says which.
    let id = manifest(&folder(&there.gateway, "p"))["id"].as_str().unwrap().to_owned();
    let refused = owner.post(IMPORT, &json!({ "output_dir": "later" })).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.text.contains(&id) && refused.text.contains("base_dir"), "{}", refused.text);
    let wrong = owner.post(IMPORT, &json!({ "output_dir": "later", "base_dir": "later" })).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text);
    assert_eq!(there.daemon().docker(&["images", "-q"]), "");
    imports(&owner, &json!({ "output_dir": "later", "base_dir": "p" }), true).await;
    let model = runs(&owner).await;
    assert_eq!(model.record(&owner).await["max_num_seqs"], 3);
    says_something(&owner, "m").await;
    stops(&owner, &model).await;
    there.assert_silent();
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

/// Removes the model, its image and its weights.
async fn remove(side: &Side, owner: &Client, model: &Managed) {
    stops(owner, model).await;
    owner.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    assert_eq!(side.daemon().docker(&["ps", "-aq"]), "");
    side.daemon().docker(&["rmi", sim_vllm()]);
    fs::remove_dir_all(side.gateway.models_dir().join("simulated")).unwrap();
}

/// Gives the image one layer more, under the same name.
fn add_layer(side: &Side) {
    let daemon = side.daemon();
    let file = side.gateway.data_dir().join("layer");
    fs::write(&file, "one layer more").unwrap();
    daemon.docker(&["create", "--name", "changed", sim_vllm()]);
    daemon.docker(&["cp", file.to_str().unwrap(), "changed:/layer"]);
    daemon.docker(&["commit", "changed", sim_vllm()]);
    daemon.docker(&["rm", "changed"]);
}

/// The layers of the image in a Docker engine.
fn layers(side: &Side) -> String {
    side.daemon().docker(&["image", "inspect", "--format", "{{json .RootFS.Layers}}", sim_vllm()])
}

#[tokio::test]
async fn of_a_changed_image_a_difference_has_the_new_layer_only() {
    let Some((here, there, owner, _)) = sides("deployment: air gap, a changed image").await else { return };
    let base = folder(&here.gateway, "p");
    let copy = base.with_file_name("kept.json");
    fs::copy(base.join("manifest.json"), &copy).unwrap();
    let before = manifest(&base)["contents"]["images"][0]["layers"].clone();
    add_layer(&here);
    for (name, since) in [("to-package", "p"), ("to-manifest", "kept.json")] {
        completes(&owner, EXPORT, &json!({ "output_dir": name, "since": since, "tar_models": true })).await;
        let dir = folder(&here.gateway, name);
        let image = manifest(&dir)["contents"]["images"][0].clone();
        let layers = image["layers"].as_array().unwrap();
        let (new, old) = layers.split_last().unwrap();
        assert_eq!((json!(old), &image["reference"]), (before.clone(), &json!(sim_vllm())));
        // Beside the layer there are the documents that name it.
        let digest = |it: &Value| it.as_str().unwrap().trim_start_matches("sha256:").to_owned();
        let wanted = [new, &image["config"], &image["manifest"]].map(digest);
        let blobs = fs::read_dir(dir.join("images/blobs/sha256")).unwrap();
        let blobs: BTreeSet<_> = blobs.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(blobs, BTreeSet::from(wanted), "{name}");
        assert!(size(&here.gateway, name) <= 1 << 20, "{name}");
    }
    let changed = layers(&here);
    there.takes(&here.gateway, "p");
    there.takes(&here.gateway, "to-manifest");
    drop(here);
    there.verify("to-manifest", &["--base", folder(&there.gateway, "p").to_str().unwrap()]);
    let owner = there.gateway.owner().await;
    imports(&owner, &json!({ "output_dir": "to-manifest", "base_dir": "p" }), true).await;
    assert_eq!(layers(&there), changed);
    let model = runs(&owner).await;
    says_something(&owner, "m").await;
    stops(&owner, &model).await;
    there.assert_silent();
}
