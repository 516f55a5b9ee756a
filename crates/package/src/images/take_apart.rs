//! Archive → blobs.
//!
//! `docker save` writes two forms. Before version 25, an image is `<digest>.json`, and each layer `<id>/layer.tar`, which may
//! be a link to another `layer.tar`. Since then both are `blobs/sha256/<digest>`, beside documents of no use here; engines with
//! the containerd image store have compressed layers. In both forms `manifest.json` says which entry is what, and it may come
//! last. So what may be a configuration is held in memory until then, and everything else is stored as it comes.

use std::{
    collections::{HashMap, HashSet},
    io::{Cursor, Read},
};

use super::{
    BLOBS, ImageError, ImageSink, LARGEST_DOCUMENT,
    archive::{Content, Entry, for_each_entry, inside},
    layout::{Blob, Compression, manifest},
    saved::{Config, MANIFEST, Saved},
};
use crate::{checksums::Sha256Sum, contents::Image};

/// Most bytes of documents that are held in memory.
const MOST_HELD: u64 = 16 << 20;
/// An entry that is smaller is no layer: a tar archive has at least 1024 bytes. (A compressed one may have less. It is held,
/// and stored once it turns out to be a layer.)
const SMALLEST_TAR: u64 = 1024;
/// Most images and names of images in an archive.
const MOST_IMAGES: usize = 1000;
/// Most layers of an image. Docker's own limit is 128.
const MOST_LAYERS: usize = 256;
/// Longest reference, in bytes.
const LONGEST_REFERENCE: usize = 512;
/// Most links that lead from a name to a content. `docker save` writes links to contents only.
const MOST_LINKS: usize = 4;

/// Stores the images of an archive that `docker save` wrote, of any version. Returns each name of each image, in the archive's
/// order; an image without a name has its id as reference. Contents are streamed; memory stays below 64 MiB.
///
/// Compressed layers stay as they are; Docker compares them with the configuration when it loads them. Layers without
/// compression are compared here.
///
/// # Errors
/// The archive can't be read, is not complete, or contradicts itself. Blobs that were stored until then are of no use.
pub fn take_apart(archive: &mut dyn Read, sink: &mut dyn ImageSink) -> Result<Vec<Image>, ImageError> {
    let mut taking = Taking { sink, entries: HashMap::new(), held: 0, needed: HashSet::new() };
    for_each_entry(archive, |entry| taking.add(entry))?;
    let mut taken = Vec::new();
    let mut names = HashSet::new();
    for saved in taking.list()? {
        let of_image = taking.image(&saved)?;
        if taken.len() + of_image.len() > MOST_IMAGES {
            return Err(ImageError::entry(MANIFEST, "names too many images"));
        }
        for it in of_image {
            if !names.insert(it.reference.clone()) {
                return Err(ImageError::image(&it.reference, "is in the archive twice"));
            }
            taken.push(it);
        }
    }
    taking.drop_the_rest()?;
    Ok(taken)
}

/// What is known of an entry.
enum Known {
    /// It may be a configuration.
    Held(Vec<u8>),
    Stored(Blob),
    Config(Blob, Config),
    Link(String),
}

impl Known {
    fn blob(&self) -> Option<Blob> {
        match self {
            Self::Stored(blob) | Self::Config(blob, _) => Some(*blob),
            Self::Held(_) | Self::Link(_) => None,
        }
    }
}

struct Taking<'a> {
    sink: &'a mut dyn ImageSink,
    entries: HashMap<String, Known>,
    /// Bytes of all [`Known::Held`].
    held: u64,
    /// Blobs that belong to an image.
    needed: HashSet<Sha256Sum>,
}

impl Taking<'_> {
    fn add(&mut self, entry: Entry<'_>) -> Result<(), ImageError> {
        let (name, known) = match entry {
            Entry::Link { name, target } => (name, Known::Link(target)),
            Entry::File { name, content } => {
                let known = self.file(&name, content)?;
                (name, known)
            }
        };
        if self.entries.contains_key(&name) {
            return Err(ImageError::entry(&name, "is there twice"));
        }
        self.entries.insert(name, known);
        Ok(())
    }

    fn file(&mut self, name: &str, mut content: Content<'_>) -> Result<Known, ImageError> {
        let size = content.size;
        let mut head = [0; 4];
        let head_len = usize::try_from(size).unwrap_or(head.len()).min(head.len());
        let head = &mut head[..head_len];
        content.read_exact(head).map_err(|error| unread(name, &content, error))?;
        let may_be_document = size < SMALLEST_TAR || head.starts_with(b"{") || head.starts_with(b"[");
        if may_be_document && size <= LARGEST_DOCUMENT && self.held + size <= MOST_HELD {
            let mut text = head.to_vec();
            content.read_to_end(&mut text).map_err(|error| unread(name, &content, error))?;
            self.held += size;
            return Ok(Known::Held(text));
        }
        let compression = Compression::of(head);
        let stored = self.sink.blob(&mut head.as_ref().chain(&mut content));
        let (digest, stored) = stored.map_err(|error| unread(name, &content, error))?;
        let blob = Blob { digest, size: stored, compression };
        checked(name, blob, size).map(Known::Stored)
    }

    /// Returns what `manifest.json` says.
    fn list(&mut self) -> Result<Vec<Saved>, ImageError> {
        let list = match self.entries.remove(MANIFEST) {
            Some(Known::Held(text)) => text,
            Some(_) => return Err(ImageError::entry(MANIFEST, "is no list of images, or too large")),
            None => {
                return Err(ImageError::entry(
                    MANIFEST,
                    "is missing, so this is no archive of `docker save`",
                ));
            }
        };
        let list: Vec<Saved> =
            serde_json::from_slice(&list).map_err(|_| ImageError::entry(MANIFEST, "is no list of images"))?;
        if list.is_empty() || list.len() > MOST_IMAGES {
            return Err(ImageError::entry(MANIFEST, "names no images, or too many"));
        }
        Ok(list)
    }

    /// Stores the configuration and the OCI manifest of an image, and what of its layers was held. Returns the image once for
    /// each of its names.
    fn image(&mut self, saved: &Saved) -> Result<Vec<Image>, ImageError> {
        let config = self.resolve(&saved.config)?;
        self.read_config(&config)?;
        let names = saved.layers.as_deref().unwrap_or_default();
        if names.len() > MOST_LAYERS {
            return Err(ImageError::entry(&config, "is an image with too many layers"));
        }
        let layers = names.iter().map(|it| self.layer(it)).collect::<Result<Vec<_>, _>>()?;
        let Some(Known::Config(blob, facts)) = self.entries.get(&config) else {
            return Err(ImageError::entry(&config, "is no configuration of an image, or too large"));
        };
        agree(&config, facts, names, &layers)?;
        let blob = *blob;
        let mut image = Image {
            reference: format!("sha256:{}", blob.digest),
            config: format!("sha256:{}", blob.digest),
            layers: layers.iter().map(|it| format!("sha256:{}", it.digest)).collect(),
            size: layers.iter().fold(blob.size, |sum, it| sum.saturating_add(it.size)),
            version: facts.version().map(str::to_owned),
            architecture: facts.architecture.clone(),
            manifest: blob.digest,
            manifest_size: 0,
        };
        let stored = self.store("the OCI manifest", manifest(blob, &layers).as_bytes())?;
        self.needed.extend(layers.iter().chain([&blob, &stored]).map(|it| it.digest));
        (image.manifest, image.manifest_size) = (stored.digest, stored.size);
        named(&image, saved.repo_tags.as_deref().unwrap_or_default())
    }

    /// Stores the configuration with this name, unless that was done before.
    fn read_config(&mut self, name: &str) -> Result<(), ImageError> {
        let Some(Known::Held(text)) = self.entries.get_mut(name) else { return Ok(()) };
        let text = std::mem::take(text);
        let facts = serde_json::from_slice(&text)
            .map_err(|_| ImageError::entry(name, "is no configuration of an image"))?;
        let blob = self.store(name, &text)?;
        self.entries.insert(name.to_owned(), Known::Config(blob, facts));
        Ok(())
    }

    /// Returns the layer with this name, and stores it if it is so small that it was held.
    fn layer(&mut self, name: &str) -> Result<Blob, ImageError> {
        let name = self.resolve(name)?;
        if let Some(Known::Held(text)) = self.entries.get_mut(&name) {
            let text = std::mem::take(text);
            let blob = self.store(&name, &text)?;
            self.entries.insert(name, Known::Stored(blob));
            return Ok(blob);
        }
        let blob = self.entries.get(&name).and_then(Known::blob);
        blob.ok_or_else(|| ImageError::entry(&name, "is no layer"))
    }

    fn store(&mut self, name: &str, content: &[u8]) -> Result<Blob, ImageError> {
        let stored = self.sink.blob(&mut Cursor::new(content));
        let (digest, size) = stored.map_err(|source| ImageError::Store { name: name.to_owned(), source })?;
        let blob = Blob { digest, size, compression: Compression::of(content) };
        checked(name, blob, content.len() as u64)
    }

    /// Returns the name of the content that a name in `manifest.json` leads to.
    fn resolve(&self, named: &str) -> Result<String, ImageError> {
        let missing = |name: &str| ImageError::entry(name, "is missing");
        let mut name = inside("", named).ok_or_else(|| missing(named))?;
        for _ in 0..=MOST_LINKS {
            match self.entries.get(&name) {
                None => return Err(missing(&name)),
                Some(Known::Link(target)) => name.clone_from(target),
                Some(_) => return Ok(name),
            }
        }
        Err(ImageError::entry(&name, "is a link to a link, and so on"))
    }

    /// Drops what was stored and belongs to no image.
    fn drop_the_rest(mut self) -> Result<(), ImageError> {
        for (name, known) in &self.entries {
            let Some(blob) = known.blob() else { continue };
            if self.needed.insert(blob.digest) {
                let dropped = self.sink.drop_blob(blob.digest);
                dropped.map_err(|source| ImageError::Store { name: name.clone(), source })?;
            }
        }
        Ok(())
    }
}

/// Compares the layers with those that the configuration has; `names` are those of their entries.
fn agree(config: &str, facts: &Config, names: &[String], layers: &[Blob]) -> Result<(), ImageError> {
    if facts.diff_ids().len() != layers.len() {
        return Err(ImageError::entry(config, "has another number of layers than the archive"));
    }
    for ((layer, diff_id), name) in layers.iter().zip(facts.diff_ids()).zip(names) {
        let is_plain = layer.compression == Compression::None;
        if is_plain && *diff_id != format!("sha256:{}", layer.digest) {
            return Err(ImageError::entry(
                name,
                "is not the layer that the configuration of its image names",
            ));
        }
    }
    Ok(())
}

/// Returns the image with each of its names.
fn named(image: &Image, names: &[String]) -> Result<Vec<Image>, ImageError> {
    let odd = |it: &String| it.is_empty() || it.len() > LONGEST_REFERENCE || it.contains(char::is_control);
    if names.len() > MOST_IMAGES || names.iter().any(odd) {
        return Err(ImageError::entry(MANIFEST, "has a name that no image can have, or too many"));
    }
    if names.is_empty() {
        return Ok(vec![image.clone()]);
    }
    let with = |name: &String| Image { reference: name.clone(), ..image.clone() };
    Ok(names.iter().map(with).collect())
}

/// Compares a blob with its entry: the size, and the digest if the name has one, as in `blobs/sha256/<digest>` and
/// `<digest>.json`.
fn checked(name: &str, blob: Blob, size: u64) -> Result<Blob, ImageError> {
    let of_blob = name.strip_prefix(BLOBS).and_then(|it| it.strip_prefix('/'));
    let named = of_blob.or_else(|| name.strip_suffix(".json")).and_then(|it| it.parse::<Sha256Sum>().ok());
    if blob.size != size || named.is_some_and(|it| it != blob.digest) {
        return Err(ImageError::entry(name, "has another content than its name says"));
    }
    Ok(blob)
}

fn unread(name: &str, content: &Content<'_>, source: std::io::Error) -> ImageError {
    if content.cut { ImageError::Cut } else { ImageError::Store { name: name.to_owned(), source } }
}
