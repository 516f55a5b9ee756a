//! Archives as `docker save` writes them, and a place for blobs in memory.

mod forms;
mod hostile;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    io::{self, Read},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::contents::Image;

/// Blobs in memory.
#[derive(Default, PartialEq, Eq)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn of(&mut self, digest: &str) -> &mut Vec<u8> {
        self.0.get_mut(digest).unwrap()
    }
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ImageSink for Blobs {
    fn blob(&mut self, content: &mut dyn Read) -> io::Result<(Sha256Sum, u64)> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let (digest, size) = (sum(&bytes), bytes.len() as u64);
        self.0.insert(digest.to_string(), bytes);
        Ok((digest, size))
    }

    fn drop_blob(&mut self, digest: Sha256Sum) -> io::Result<()> {
        self.0.remove(&digest.to_string()).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl ImageSource for Blobs {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let bytes = self.0.get(&digest.to_string()).ok_or(io::ErrorKind::NotFound)?;
        Ok((bytes.len() as u64, Box::new(bytes.as_slice())))
    }
}

fn sum(bytes: &[u8]) -> Sha256Sum {
    Sha256Sum(Sha256::digest(bytes).into())
}

/// An image to be written into an archive.
#[derive(Debug, Clone)]
struct Built {
    tags: Vec<&'static str>,
    layers: Vec<Vec<u8>>,
    config: Vec<u8>,
}

impl Built {
    fn new(tags: &[&'static str], layers: &[Vec<u8>]) -> Self {
        let diff_ids: Vec<String> = layers.iter().map(|it| format!("sha256:{}", sum(it))).collect();
        Self::with_diff_ids(tags, layers, &diff_ids)
    }

    fn with_diff_ids(tags: &[&'static str], layers: &[Vec<u8>], diff_ids: &[String]) -> Self {
        let config = json!({
            "architecture": "arm64",
            "os": "linux",
            "config": {
                "Cmd": ["/server"],
                "Labels": { "org.opencontainers.image.version": "1.2.3", "other": "x" },
            },
            "container_config": { "Labels": null },
            "created": "2026-01-02T03:04:05.000000006Z",
            "history": [{ "created_by": "COPY" }],
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        Self { tags: tags.to_vec(), layers: layers.to_vec(), config: config.to_string().into_bytes() }
    }

    fn digest(&self) -> Sha256Sum {
        sum(&self.config)
    }

    /// Returns what `take_apart` has to say of it under one of its names.
    fn described(&self, reference: &str) -> Image {
        let size: usize = self.layers.iter().map(Vec::len).sum();
        Image {
            reference: reference.to_owned(),
            config: format!("sha256:{}", self.digest()),
            layers: self.layers.iter().map(|it| format!("sha256:{}", sum(it))).collect(),
            size: (self.config.len() + size) as u64,
            version: Some("1.2.3".to_owned()),
            architecture: "arm64".to_owned(),
            manifest: Sha256Sum([0; 32]),
            manifest_size: 0,
        }
    }
}

/// A tar archive with one small file.
fn layer(file: &str, content: &[u8]) -> Vec<u8> {
    let mut tree = tar::Builder::new(Vec::new());
    let mut header = header(tar::EntryType::Regular, content.len() as u64);
    tree.append_data(&mut header, file, content).unwrap();
    tree.into_inner().unwrap()
}

fn header(kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_mtime(1_700_000_000);
    header.set_size(size);
    header
}

/// An entry of an archive.
#[derive(Clone)]
enum Item {
    File(Vec<u8>),
    Link(String),
    Folder,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Link(target) => write!(f, "-> {target}"),
            Self::Folder => f.write_str("folder"),
        }
    }
}

type Items = Vec<(String, Item)>;

fn text(value: &Value) -> Item {
    Item::File(value.to_string().into_bytes())
}

/// Returns the entries that Docker before 25 writes.
fn classic(images: &[Built]) -> Items {
    let (mut items, mut list, mut layers_at) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    let mut repositories = json!({});
    for image in images {
        let (mut parent, mut names) = (String::new(), Vec::new());
        for bytes in &image.layers {
            // Ids depend on the layers below, so that one content may have several.
            let id = sum(format!("{parent}{}", sum(bytes)).as_bytes()).to_string();
            names.push(format!("{id}/layer.tar"));
            items.insert(id.clone(), Item::Folder);
            items.insert(format!("{id}/VERSION"), Item::File(b"1.0".to_vec()));
            items.insert(format!("{id}/json"), text(&json!({ "id": id, "parent": parent, "os": "linux" })));
            let first = layers_at.entry(sum(bytes).to_string()).or_insert_with(|| id.clone());
            let content = if *first == id {
                Item::File(bytes.clone())
            } else {
                Item::Link(format!("../{first}/layer.tar"))
            };
            items.insert(format!("{id}/layer.tar"), content);
            parent = id;
        }
        for (name, tag) in image.tags.iter().filter_map(|it| it.split_once(':')) {
            repositories[name][tag] = json!(parent);
        }
        let config = format!("{}.json", image.digest());
        items.insert(config.clone(), Item::File(image.config.clone()));
        let tags = (!image.tags.is_empty()).then_some(&image.tags);
        list.push(json!({ "Config": config, "RepoTags": tags, "Layers": names }));
    }
    items.insert("manifest.json".to_owned(), text(&json!(list)));
    items.insert("repositories".to_owned(), text(&repositories));
    items.into_iter().collect()
}

/// Returns the entries that Docker from 25 on writes.
fn oci(images: &[Built]) -> Items {
    let blob = |bytes: &[u8]| (format!("blobs/sha256/{}", sum(bytes)), Item::File(bytes.to_vec()));
    let mut items: BTreeMap<String, Item> =
        ["blobs", "blobs/sha256"].map(|it| (it.to_owned(), Item::Folder)).into();
    let (mut list, mut listed) = (Vec::new(), Vec::new());
    for image in images {
        let places: Vec<String> = image.layers.iter().map(|it| blob(it).0).collect();
        items.extend(image.layers.iter().map(|it| blob(it)));
        // The documents that versions before 1.10 read.
        items.extend(places.iter().map(|it| blob(json!({ "id": it, "os": "linux" }).to_string().as_bytes())));
        items.extend([blob(&image.config)]);
        let config = json!({ "digest": format!("sha256:{}", image.digest()), "size": image.config.len() });
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [] }).to_string();
        items.extend([blob(manifest.as_bytes())]);
        listed.push(json!({ "digest": format!("sha256:{}", sum(manifest.as_bytes())) }));
        let sources = json!({ "sha256:00": { "mediaType": "x", "size": 1, "digest": "sha256:00" } });
        let tags = (!image.tags.is_empty()).then_some(&image.tags);
        list.push(json!({
            "Config": blob(&image.config).0, "RepoTags": tags, "Layers": places, "LayerSources": sources,
        }));
    }
    items.insert("index.json".to_owned(), text(&json!({ "schemaVersion": 2, "manifests": listed })));
    items.insert("manifest.json".to_owned(), text(&json!(list)));
    items.insert("oci-layout".to_owned(), text(&json!({ "imageLayoutVersion": "1.0.0" })));
    items.insert("repositories".to_owned(), text(&json!({})));
    items.into_iter().collect()
}

fn pack(items: &Items) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, item) in items {
        add(&mut archive, name, item);
    }
    archive.into_inner().unwrap()
}

/// Adds an entry whose name may be one that the crate `tar` refuses to write.
fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, item: &Item) {
    let (kind, content, target) = match item {
        Item::File(bytes) => (tar::EntryType::Regular, bytes.as_slice(), ""),
        Item::Link(target) => (tar::EntryType::Symlink, [].as_slice(), target.as_str()),
        Item::Folder => (tar::EntryType::Directory, [].as_slice(), ""),
    };
    let mut header = header(kind, content.len() as u64);
    let raw = header.as_gnu_mut().unwrap();
    raw.name[..name.len()].copy_from_slice(name.as_bytes());
    raw.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_cksum();
    archive.append(&header, content).unwrap();
}

fn take(archive: &[u8]) -> Result<(Vec<Image>, Blobs), ImageError> {
    let mut blobs = Blobs::default();
    let taken = take_apart(&mut &*archive, &mut blobs)?;
    Ok((taken, blobs))
}

/// Returns the images without their manifests, which a test can't know.
fn images(taken: &[Image]) -> Vec<Image> {
    let manifest = Sha256Sum([0; 32]);
    taken.iter().map(|it| Image { manifest, manifest_size: 0, ..it.clone() }).collect()
}

/// Returns the digests of everything that these images consist of.
fn digests(taken: &[Image]) -> BTreeSet<String> {
    let of = |it: &Image| {
        let image = std::iter::once(&it.config).chain(&it.layers);
        let digests = image.map(|it| it.strip_prefix("sha256:").unwrap().to_owned());
        digests.chain([it.manifest.to_string()]).collect::<Vec<_>>()
    };
    taken.iter().flat_map(of).collect()
}

/// Returns two images that share layers, of which one has the empty layer twice; and one without a name.
fn three() -> [Built; 3] {
    let (base, empty) = (layer("base", &[7; 3000]), vec![0; 1024]);
    let server = layer("server", b"one");
    [
        Built::new(&["a/server:1", "a/server:latest"], &[base.clone(), empty.clone(), server, empty.clone()]),
        Built::new(&["localhost:5000/other:2"], &[base, empty]),
        Built::new(&[], &[layer("third", b"three")]),
    ]
}
