//! Archives of the imaginary machine's images, as `docker save` writes them. Each image has two small layers, of which the
//! first is the same in all.

use std::{
    collections::HashMap,
    io::{self, Read},
};

use gantry_domain::hex::hex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{ImageInfo, runtime::ARCHITECTURE};

const VERSION: &str = "org.opencontainers.image.version";
const SIMULATOR: &str = "gantry.simulator";

/// Returns what is known of an image that [`Fake::add_image`](super::Fake::add_image) puts on the machine.
pub(super) fn added(reference: &str) -> ImageInfo {
    let unknown = ImageInfo {
        id: String::new(),
        config: None,
        layers: Vec::new(),
        architecture: ARCHITECTURE.to_owned(),
        size_bytes: 0,
        created: None,
        version_label: None,
        simulator: true,
    };
    let layers = layers(reference);
    let config = config(&unknown, &layers);
    info(&config, layers.iter().map(Vec::len).sum()).unwrap_or(unknown)
}

fn layers(reference: &str) -> [Vec<u8>; 2] {
    ["the same in all images", reference].map(|content| {
        let mut tree = tar::Builder::new(Vec::new());
        let written = append(&mut tree, "content", content.as_bytes());
        written.and_then(|()| tree.into_inner()).unwrap_or_default()
    })
}

/// Makes the configuration of an image. If a test described it by an id, that id is lost.
fn config(info: &ImageInfo, layers: &[Vec<u8>; 2]) -> String {
    let mut labels = json!({});
    if let Some(version) = &info.version_label {
        labels[VERSION] = json!(version);
    }
    if info.simulator {
        labels[SIMULATOR] = json!("true");
    }
    json!({
        "architecture": info.architecture,
        "os": "linux",
        "created": info.created,
        "config": { "Labels": labels },
        "rootfs": { "type": "layers", "diff_ids": layers.each_ref().map(|it| digest(it)) },
    })
    .to_string()
}

/// Reads a configuration; `size` is that of the layers, in bytes.
fn info(config: &str, size: usize) -> Option<ImageInfo> {
    let facts: Value = serde_json::from_str(config).ok()?;
    let (labels, text) = (&facts["config"]["Labels"], |it: &Value| it.as_str().map(str::to_owned));
    let id = digest(config.as_bytes());
    Some(ImageInfo {
        config: Some(id.clone()),
        id,
        layers: facts["rootfs"]["diff_ids"].as_array()?.iter().filter_map(text).collect(),
        architecture: text(&facts["architecture"])?,
        size_bytes: i64::try_from(size).ok()?,
        created: text(&facts["created"]),
        version_label: text(&labels[VERSION]),
        simulator: labels[SIMULATOR] == "true",
    })
}

pub(super) fn write(images: &[(&str, &ImageInfo)]) -> io::Result<Vec<u8>> {
    let (mut entries, mut list) = (HashMap::new(), Vec::new());
    let mut order = Vec::new();
    for (reference, info) in images {
        let layers = layers(reference);
        let config = config(info, &layers).into_bytes();
        let mut names = Vec::new();
        for content in layers.into_iter().chain([config]) {
            let name = format!("blobs/sha256/{}", digest(&content).trim_start_matches("sha256:"));
            names.push(name.clone());
            if entries.insert(name.clone(), content).is_none() {
                order.push(name);
            }
        }
        let config = names.pop();
        list.push(json!({ "Config": config, "RepoTags": [reference], "Layers": names }));
    }
    let mut archive = tar::Builder::new(Vec::new());
    for name in order {
        append(&mut archive, &name, &entries[&name])?;
    }
    append(&mut archive, "manifest.json", json!(list).to_string().as_bytes())?;
    archive.into_inner()
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content)
}

/// Returns the images of an archive with their references, or ids if they have none; `None` if it is none, or not complete.
pub(super) fn read(archive: &[u8]) -> Option<Vec<(String, ImageInfo)>> {
    let mut entries = HashMap::new();
    for entry in tar::Archive::new(archive).entries().ok()? {
        let mut entry = entry.ok()?;
        let (name, mut content) = (entry.path().ok()?.display().to_string(), Vec::new());
        entry.read_to_end(&mut content).ok()?;
        entries.insert(name, content);
    }
    let entry = |name: &Value| entries.get(name.as_str()?);
    let list: Value = serde_json::from_slice(entries.get("manifest.json")?).ok()?;
    let mut images = Vec::new();
    for saved in list.as_array()? {
        let layers: Option<Vec<_>> = saved["Layers"].as_array()?.iter().map(entry).collect();
        let layers = layers?;
        let config = std::str::from_utf8(entry(&saved["Config"])?).ok()?;
        let info = info(config, layers.iter().map(|it| it.len()).sum())?;
        if !layers.iter().map(|it| digest(it)).eq(info.layers.iter().cloned()) {
            return None;
        }
        let names: Vec<&str> =
            saved["RepoTags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let names = if names.is_empty() { vec![info.id.as_str()] } else { names };
        images.extend(names.into_iter().map(|it| (it.to_owned(), info.clone())));
    }
    Some(images)
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(content)))
}
