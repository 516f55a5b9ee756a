//! Looks at images.

use bollard::models::ImageInspect;
use gantry_domain::image::tag_of_digest;

use super::{ASK, Docker, error::status, label, pull};
use crate::{ImageInfo, RuntimeResult};

impl Docker {
    pub(super) async fn inspect_image(&self, reference: &str) -> RuntimeResult<Option<ImageInfo>> {
        Ok(self.known_image(reference).await?.map(|(_, info)| info))
    }

    /// Returns the name by which the engine knows an image; the reference itself if it does not know the image.
    pub(super) async fn name_of_image(&self, reference: &str) -> RuntimeResult<String> {
        // Without a digest, there is one name only.
        let known = if reference.contains('@') { self.known_image(reference).await? } else { None };
        Ok(known.map_or_else(|| reference.to_owned(), |(name, _)| name))
    }

    /// Looks for an image under its reference, and then under the name that it has if it came out of an archive.
    pub(super) async fn known_image(&self, reference: &str) -> RuntimeResult<Option<(String, ImageInfo)>> {
        for name in std::iter::once(reference.to_owned()).chain(tag_of_digest(reference)) {
            if let Some(info) = self.image_named(&name).await? {
                return Ok(Some((name, info)));
            }
        }
        Ok(None)
    }

    async fn image_named(&self, name: &str) -> RuntimeResult<Option<ImageInfo>> {
        if !pull::is_reference(name) {
            return Ok(None);
        }
        let call = self.client().await?.inspect_image(name);
        match self.raw("inspect the image", ASK, call).await? {
            Ok(answer) => Ok(Some(info(answer))),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.meaning("inspect the image", &error)),
        }
    }
}

fn info(answer: ImageInspect) -> ImageInfo {
    let id = answer.id.unwrap_or_default();
    // With the containerd image store, the id is the digest by which a registry would know the image. Otherwise the two can't
    // be equal: one is of the configuration, the other of a document that names it.
    let digests = answer.repo_digests.unwrap_or_default();
    let is_of_registry =
        answer.descriptor.is_some() || digests.iter().any(|it| it.ends_with(&format!("@{id}")));
    let labels = answer.config.and_then(|it| it.labels).unwrap_or_default();
    ImageInfo {
        config: (!is_of_registry && !id.is_empty()).then(|| id.clone()),
        id,
        layers: answer.root_fs.and_then(|it| it.layers).unwrap_or_default(),
        architecture: answer.architecture.unwrap_or_default(),
        size_bytes: answer.size.unwrap_or_default(),
        created: answer.created,
        version_label: labels.get(label::VERSION).cloned(),
        simulator: labels.get(label::SIMULATOR).is_some_and(|it| it == "true"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of what the engines 20.10 and 28 answer, the latter with the containerd image store.
    #[test]
    fn an_id_is_the_configurations_digest_unless_it_is_the_registrys() {
        let inspected = |answer: serde_json::Value| info(serde_json::from_value(answer).unwrap());
        let layers = serde_json::json!({ "Type": "layers", "Layers": ["sha256:aa", "sha256:bb"] });
        let classic = inspected(serde_json::json!({
            "Id": "sha256:11", "RepoDigests": ["a/b@sha256:22"], "Architecture": "arm64", "RootFS": layers,
        }));
        assert_eq!((classic.id.as_str(), classic.config.as_deref()), ("sha256:11", Some("sha256:11")));
        assert_eq!((classic.layers.len(), classic.architecture.as_str()), (2, "arm64"));
        let containerd = inspected(serde_json::json!({
            "Id": "sha256:22", "RepoDigests": ["a/b@sha256:22"], "Architecture": "arm64", "RootFS": layers,
        }));
        assert_eq!((containerd.id.as_str(), &containerd.config), ("sha256:22", &None));
        let other = ["sha256:aa".to_owned()];
        assert!(classic.is("sha256:11", &other) && !classic.is("sha256:12", &classic.layers));
        assert!(containerd.is("sha256:11", &classic.layers) && !containerd.is("sha256:11", &other));
        let empty = ImageInfo { layers: Vec::new(), ..containerd };
        assert!(!empty.is("sha256:11", &[]), "nothing is known of it");
    }
}
