//! `sbom.cdx.json`: the bill of materials of a package, `CycloneDX` 1.6 in JSON (<https://cyclonedx.org/docs/1.6/json/>). It has
//! what the manifest says and no more: what is inside an image is not known here, and the document says that it is incomplete.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
};

use serde::{Serialize, Serializer, ser::SerializeSeq};
use serde_json::{Value, json};

use crate::{
    checksums::Sha256Sum,
    contents::{Gateway, Image, Model, PROGRAM, Program},
    manifest::{FileEntry, Manifest},
    path::PackagePath,
};

/// Registry of an image whose reference names none.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Writes the bill of materials, the same for the same manifest. `licences` has the licence of models, by [`Model::id`], as
/// their model cards name it. Files of weights, of which there may be very many, are held one at a time.
///
/// # Errors
/// Those of `to`.
pub fn sbom(manifest: &Manifest, licences: &BTreeMap<i64, String>, to: &mut dyn Write) -> io::Result<()> {
    let metadata = json!({
        "timestamp": manifest.created_at,
        "tools": {
            "components": [{ "type": "application", "name": "gantry", "version": manifest.gateway_version }],
        },
        "component": {
            "type": "application", "bom-ref": "package", "name": "Gantry deployment package", "version": manifest.id,
        },
    });
    let gateway = manifest.contents.gateway.as_ref().map(|it| gateway(it, manifest));
    let components = Components { manifest, licences, gateway };
    let refs = components.refs();
    let bom = Bom {
        schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
        format: "CycloneDX",
        spec_version: "1.6",
        serial_number: is_uuid(&manifest.id).then(|| format!("urn:uuid:{}", manifest.id)),
        version: 1,
        metadata,
        components,
        compositions: json!([{ "aggregate": "incomplete", "assemblies": refs }]),
    };
    let mut to = BufWriter::new(to);
    serde_json::to_writer_pretty(&mut to, &bom)?;
    to.write_all(b"\n")?;
    to.flush()
}

/// The document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bom<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    #[serde(rename = "bomFormat")]
    format: &'static str,
    spec_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial_number: Option<String>,
    version: u32,
    metadata: Value,
    components: Components<'a>,
    compositions: Value,
}

/// Everything that is in the package, or has to be where it is used.
struct Components<'a> {
    manifest: &'a Manifest,
    licences: &'a BTreeMap<i64, String>,
    gateway: Option<Value>,
}

impl Components<'_> {
    /// Returns the names by which the document refers to them, in their order.
    fn refs(&self) -> Vec<String> {
        let contents = &self.manifest.contents;
        let gateway = self.gateway.iter().map(|_| GATEWAY.to_owned());
        let images = contents.images.iter().map(image_ref);
        let models = contents.models.iter().map(model_ref);
        gateway.chain(images).chain(models).chain(contents.programs.iter().map(program_ref)).collect()
    }
}

impl Serialize for Components<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let contents = &self.manifest.contents;
        let mut list = to.serialize_seq(None)?;
        self.gateway.iter().try_for_each(|it| list.serialize_element(it))?;
        contents.images.iter().try_for_each(|it| list.serialize_element(&image(it)))?;
        for it in &contents.models {
            list.serialize_element(&model(it, self.manifest, self.licences.get(&it.id)))?;
        }
        contents.programs.iter().try_for_each(|it| list.serialize_element(&program(it)))?;
        list.end()
    }
}

/// The name by which the document refers to the gateway's program.
const GATEWAY: &str = "gateway";

fn gateway(it: &Gateway, manifest: &Manifest) -> Value {
    let program = manifest.files.iter().find(|(path, _)| path.as_str() == PROGRAM);
    with(
        json!({ "type": "application", "bom-ref": GATEWAY, "name": "gantry", "version": it.version }),
        [
            ("hashes", program.map(|(_, file)| hashes(file.sha256))),
            ("properties", Some(properties([("platform", &it.platform)]))),
        ],
    )
}

/// Adds the fields that have a value to an object.
fn with<const N: usize>(object: Value, fields: [(&str, Option<Value>); N]) -> Value {
    let Value::Object(mut object) = object else { return object };
    object.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Value::Object(object)
}

fn hashes(sum: Sha256Sum) -> Value {
    json!([{ "alg": "SHA-256", "content": sum.to_string() }])
}

/// Returns facts that `CycloneDX` has no field for. The names are ours, as the standard asks.
fn properties<'a>(facts: impl IntoIterator<Item = (&'static str, &'a String)>) -> Value {
    let facts =
        facts.into_iter().map(|(name, value)| json!({ "name": format!("gantry:{name}"), "value": value }));
    facts.collect()
}

fn image(it: &Image) -> Value {
    let reference = Reference::of(&it.reference);
    // The digest of the image's configuration is what Docker calls its id; layers are in their order, lowest first.
    let id = it.config.strip_prefix("sha256:").and_then(|it| it.parse::<Sha256Sum>().ok());
    let facts = [("reference", &it.reference), ("architecture", &it.architecture)];
    let facts = facts.into_iter().chain(it.layers.iter().map(|layer| ("layer", layer)));
    with(
        json!({
            "type": "container",
            "bom-ref": image_ref(it),
            "name": reference.repository,
        }),
        [
            ("version", it.version.as_deref().or(reference.tag).map(Into::into)),
            ("purl", Some(reference.purl(&it.architecture).into())),
            ("hashes", id.map(hashes)),
            ("properties", Some(properties(facts))),
        ],
    )
}

fn image_ref(it: &Image) -> String {
    format!("image:{}", it.reference)
}

fn model_ref(it: &Model) -> String {
    format!("model:{}", it.id)
}

fn program_ref(it: &Program) -> String {
    format!("program:{}", it.engine)
}

/// A model with the files of its weights.
#[derive(Serialize)]
struct ModelComponent<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    bom_ref: String,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    licenses: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    components: Option<Weights<'a>>,
    properties: Value,
}

fn model<'a>(it: &'a Model, manifest: &'a Manifest, licence: Option<&String>) -> ModelComponent<'a> {
    let facts = [("served_name", &it.served_name)].into_iter();
    let facts = facts.chain(it.image.iter().map(|image| ("runs_in", image)));
    let weights = Weights { model: it, manifest };
    let has_some = weights.files().next().is_some();
    ModelComponent {
        kind: "machine-learning-model",
        bom_ref: model_ref(it),
        name: &it.name,
        // A name and no SPDX id: model cards have ids of their own.
        licenses: licence.map(|it| json!([{ "license": { "name": it } }])),
        components: has_some.then_some(weights),
        properties: properties(facts),
    }
}

/// The files of a model's weights.
struct Weights<'a> {
    model: &'a Model,
    manifest: &'a Manifest,
}

impl Weights<'_> {
    fn files(&self) -> impl Iterator<Item = (&PackagePath, &FileEntry)> {
        self.model.weights.iter().flat_map(|place| files_at(self.manifest, place))
    }
}

impl Serialize for Weights<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let file = |(path, file): (&PackagePath, &FileEntry)| json!({ "type": "file", "name": path, "hashes": hashes(file.sha256) });
        to.collect_seq(self.files().map(file))
    }
}

fn program(it: &Program) -> Value {
    with(
        json!({
            "type": "application",
            "bom-ref": program_ref(it),
            "name": it.engine,
        }),
        [
            ("version", it.version.as_deref().map(Into::into)),
            (
                "description",
                Some("Not in the package: it has to be installed where the package is imported".into()),
            ),
            ("properties", Some(properties([("command", &it.command)]))),
        ],
    )
}

/// Returns the files at a place, which is a file or a folder, without looking at all others.
fn files_at<'a>(
    manifest: &'a Manifest,
    place: &'a PackagePath,
) -> impl Iterator<Item = (&'a PackagePath, &'a FileEntry)> {
    let from = manifest.files.range(place..);
    from.take_while(|(it, _)| it.as_str().starts_with(place.as_str())).filter(|(it, _)| it.is_at(place))
}

/// The parts of an image's name.
struct Reference<'a> {
    /// With the registry, and without tag and digest.
    repository: String,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn of(text: &'a str) -> Self {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, it)| (name, Some(it)));
        // A colon before the last slash is that of a port.
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let has_registry =
            name.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost");
        let repository = if has_registry {
            name.to_owned()
        } else if name.contains('/') {
            format!("{DEFAULT_REGISTRY}/{name}")
        } else {
            format!("{DEFAULT_REGISTRY}/library/{name}")
        };
        Self { repository, tag, digest }
    }

    /// Returns the package URL, of the type `oci` (<https://github.com/package-url/purl-spec>). It has a version only if the
    /// reference has a digest, because that is the one of the image's manifest, which Docker does not keep.
    fn purl(&self, architecture: &str) -> String {
        let name = self.repository.rsplit('/').next().unwrap_or_default().to_lowercase();
        let version = self.digest.map_or_else(String::new, |it| format!("@{}", escaped(it)));
        let tag = self.tag.map_or_else(String::new, |it| format!("&tag={}", escaped(it)));
        let (architecture, repository) = (escaped(architecture), escaped(&self.repository));
        format!("pkg:oci/{}{version}?arch={architecture}&repository_url={repository}{tag}", escaped(&name))
    }
}

/// Escapes text for a package URL.
fn escaped(text: &str) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b".-_~".contains(&it);
    let bytes =
        text.bytes().map(|it| if is_plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") });
    bytes.collect::<Vec<_>>().concat()
}

fn is_uuid(text: &str) -> bool {
    let is_digit = |it: char| matches!(it, '0'..='9' | 'a'..='f');
    let lengths = text.split('-').map(|part| part.chars().all(is_digit).then_some(part.len()));
    lengths.eq([8, 4, 4, 4, 12].map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bill of materials with everything that one may have. `tests/sbom/test_sbom.py` compares it with the official
    /// schema.
    const EXAMPLE: &str = include_str!("../tests/example.cdx.json");

    fn manifest() -> Manifest {
        let sum = |digit: &str| digit.repeat(64);
        let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
        let file = |digit: &str| json!({ "size": 1, "sha256": sum(digit) });
        let text = json!({
            "format_version": 1,
            "id": "0190f0f0-0000-7000-8000-000000000001",
            "created_at": "2026-01-02T03:04:05Z",
            "gateway_version": "0.1.0",
            "contents": {
                "gateway": { "version": "0.1.0", "platform": "linux-x86_64" },
                "images": [
                    {
                        "reference": "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434", "config": digest("a"),
                        "layers": [digest("b"), digest("c")], "size": 10, "version": "b11434", "architecture": "amd64",
                        "manifest": "f".repeat(64), "manifest_size": 1,
                    },
                    {
                        "reference": format!("registry.example:5000/vllm@{}", digest("d")), "config": digest("e"),
                        "layers": [], "size": 10, "architecture": "arm64", "manifest": "f".repeat(64),
                        "manifest_size": 1,
                    },
                ],
                "models": [
                    {
                        "id": 7, "name": "Qwen 7B", "served_name": "qwen", "manifest": "manifests/model-7.json",
                        "image": "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434", "weights": ["models/qwen"],
                    },
                    { "id": 8, "name": "small", "served_name": "small", "manifest": "manifests/model-8.json" },
                ],
                "programs": [{ "engine": "vllm", "command": "vllm serve", "version": "0.32.0" }],
            },
            "files": {
                "bin/gantry": file("1"), "models/qwen-2/x": file("2"), "models/qwen/a.gguf": file("3"),
                "models/qwen/b": file("4"),
            },
        });
        Manifest::parse(text.to_string().as_bytes()).unwrap()
    }

    fn written(manifest: &Manifest, licences: &BTreeMap<i64, String>) -> String {
        let mut text = Vec::new();
        sbom(manifest, licences, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_example_is_what_is_written() {
        let licences = BTreeMap::from([(7, "apache-2.0".to_owned())]);
        let written = written(&manifest(), &licences);
        if std::env::var_os("GANTRY_UPDATE_SBOM").is_some() {
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/example.cdx.json"), &written).unwrap();
        }
        assert!(written == EXAMPLE, "GANTRY_UPDATE_SBOM=1 writes tests/example.cdx.json anew");
    }

    #[test]
    fn an_image_has_a_package_url_with_registry_and_tag() {
        for (reference, purl) in [
            ("debian", "pkg:oci/debian?arch=amd64&repository_url=docker.io%2Flibrary%2Fdebian"),
            ("vllm/VLLM:v1", "pkg:oci/vllm?arch=amd64&repository_url=docker.io%2Fvllm%2FVLLM&tag=v1"),
            ("localhost/a/b:1", "pkg:oci/b?arch=amd64&repository_url=localhost%2Fa%2Fb&tag=1"),
            ("host:5000/a", "pkg:oci/a?arch=amd64&repository_url=host%3A5000%2Fa"),
            (
                "host:5000/a:t@sha256:0f",
                "pkg:oci/a@sha256%3A0f?arch=amd64&repository_url=host%3A5000%2Fa&tag=t",
            ),
        ] {
            assert_eq!(Reference::of(reference).purl("amd64"), purl);
        }
    }

    #[test]
    fn an_id_that_is_no_uuid_is_no_serial_number() {
        let mut manifest = manifest();
        "x".clone_into(&mut manifest.id);
        let bom: Value = serde_json::from_str(&written(&manifest, &BTreeMap::new())).unwrap();
        assert!(bom.get("serialNumber").is_none() && bom["metadata"]["component"]["version"] == "x");
        assert!(bom["components"][3].get("licenses").is_none());
        assert!(!is_uuid("0190F0F0-0000-7000-8000-000000000001") && !is_uuid("0190f0f0-0000-7000-8000"));
    }
}
