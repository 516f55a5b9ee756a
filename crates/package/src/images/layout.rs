//! The documents that make an OCI image layout of blobs, so that people without Gantry can use the folder: `skopeo` and
//! `podman` read it, and `tar c -C images . | docker load` loads it ([OCI image specification
//! 1.0](https://github.com/opencontainers/image-spec/blob/main/image-layout.md)).

use serde_json::{Value, json};

use super::{BLOBS, saved::MANIFEST, saved::Saved};
use crate::{checksums::Sha256Sum, contents::Image};

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// A blob with its size in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blob {
    pub(super) digest: Sha256Sum,
    pub(super) size: u64,
    pub(super) compression: Compression,
}

/// How a layer is compressed. Docker takes no other algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Tells it from the first bytes of a layer.
    pub(super) fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::None => "application/vnd.oci.image.layer.v1.tar",
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }
}

impl Blob {
    fn descriptor(&self, media_type: &str) -> Value {
        descriptor(self.digest, self.size, media_type)
    }
}

fn descriptor(digest: Sha256Sum, size: u64, media_type: &str) -> Value {
    json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size })
}

/// Returns the text of an image's OCI manifest.
pub(super) fn manifest(config: Blob, layers: &[Blob]) -> String {
    let layers: Vec<Value> = layers.iter().map(|it| it.descriptor(it.compression.media_type())).collect();
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": layers,
    })
    .to_string()
}

/// Returns names and texts of the documents that lie beside the blobs of these images: `oci-layout`, `index.json`, and the
/// `manifest.json` of `docker save`, because Docker engines without the containerd image store read nothing else.
pub fn layout(images: &[Image]) -> [(&'static str, String); 3] {
    let listed = |it: &Image| {
        let mut listed = descriptor(it.manifest, it.manifest_size, MANIFEST_TYPE);
        listed["platform"] = json!({ "architecture": it.architecture, "os": "linux" });
        if !is_id(&it.reference) {
            listed["annotations"] = json!({
                "io.containerd.image.name": full_name(&it.reference),
                "org.opencontainers.image.ref.name": it.reference,
            });
        }
        listed
    };
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": images.iter().map(listed).collect::<Vec<_>>(),
    });
    [
        ("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string()),
        ("index.json", index.to_string()),
        (MANIFEST, saved_manifest(images)),
    ]
}

/// Returns the text of a `manifest.json` for blobs that lie where an image layout has them. Images with the same
/// configuration are one image with several names.
pub(super) fn saved_manifest<'a>(images: impl IntoIterator<Item = &'a Image>) -> String {
    let place = |digest: &String| format!("{BLOBS}/{}", digest.strip_prefix("sha256:").unwrap_or(digest));
    let mut saved: Vec<Saved> = Vec::new();
    for image in images {
        let name = (!is_id(&image.reference)).then(|| image.reference.clone());
        let (config, layers) = (place(&image.config), image.layers.iter().map(place).collect());
        let layers = Some(layers);
        match saved.iter_mut().find(|it| it.config == config && it.layers == layers) {
            Some(same) => same.repo_tags.get_or_insert_default().extend(name),
            None => saved.push(Saved { config, repo_tags: name.map(|it| vec![it]), layers }),
        }
    }
    json!(saved).to_string()
}

/// Whether an image has no name, and is referred to by its id.
fn is_id(reference: &str) -> bool {
    reference.starts_with("sha256:")
}

/// Returns a reference with its registry and tag, as containerd needs it: `docker.io/library/a:latest` of `a`. Two references
/// with the same full name mean the same image.
pub fn full_name(reference: &str) -> String {
    let has_registry = reference
        .split_once('/')
        .is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
    let name = match (has_registry, reference.contains('/')) {
        (true, _) => reference.to_owned(),
        (false, true) => format!("docker.io/{reference}"),
        (false, false) => format!("docker.io/library/{reference}"),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) { name } else { name + ":latest" }
}
