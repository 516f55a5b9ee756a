//! Builds container images of one program: the program, the libraries it needs, and a few files. Downloads nothing and
//! needs no build tool, so that images can be made on a machine without a registry.
//!
//! An archive is an OCI image layout ([OCI image specification 1.0](https://github.com/opencontainers/image-spec)), and
//! also contains the `manifest.json` of `docker save`, so that every `docker load` takes it too.

mod libraries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use libraries::Libraries;

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot read `{path}` for the image")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot tell which libraries `{0}` needs; is it an ELF program?")]
    Libraries(PathBuf),
    #[error("cannot write the image archive")]
    Write(#[from] io::Error),
}

/// The content of an image. Places are paths in the image without the leading slash.
#[derive(Debug, Default)]
pub struct Image<'a> {
    /// Name and tag, as in `gantry:0.1.0`.
    pub reference: &'a str,
    /// The program's file on this machine. Its shared libraries are added too.
    pub program: PathBuf,
    pub place: &'a str,
    /// When the image was made, in RFC 3339; the beginning of 1970 if absent.
    pub created: Option<String>,
    /// Symbolic links: place and target.
    pub links: Vec<(String, String)>,
    /// Empty folders: place and mode. Folders that lead to other entries are added automatically, with mode 0755.
    pub folders: Vec<(String, u32)>,
    /// Further files, mode 0644: place and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// The `config` object of the OCI image configuration, without `PATH` and `LD_LIBRARY_PATH`, which are added at the
    /// start of its `Env`.
    pub config: Value,
}

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/app";
const BLOBS: &str = "blobs/sha256";

/// Packs the image into an archive.
///
/// The archive depends only on the files' contents and `created`: entries are sorted and have no times.
///
/// # Errors
/// A file that cannot be read, or an archive that cannot be written.
pub fn write(image: &Image<'_>, out: impl Write) -> Result<(), ImageError> {
    let libraries = libraries::of(&image.program)?;
    let mut layer = tempfile::tempfile()?;
    let layer_digest = write_layer(image, &libraries, &mut layer)?;
    let layer_size = layer.seek(SeekFrom::End(0))?;
    layer.seek(SeekFrom::Start(0))?;

    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let platform = json!({"architecture": arch, "os": "linux"});
    let created = image.created.as_deref().unwrap_or("1970-01-01T00:00:00Z");
    let config = Blob::new(&json!({
        "architecture": arch,
        "os": "linux",
        "created": created,
        "config": config(image, &libraries),
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_digest}")]},
        "history": [{"created": created, "created_by": "gantry"}]
    }));
    let manifest = Blob::new(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [{
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": format!("sha256:{layer_digest}"),
            "size": layer_size,
        }],
    }));
    let mut listed = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    listed["platform"] = platform;
    let tag = image.reference.rsplit_once(':').map_or("latest", |(_, tag)| tag);
    listed["annotations"] = json!({
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": tag,
    });
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": [listed]});
    let saved = json!([{
        "Config": config.place(),
        "RepoTags": [image.reference],
        "Layers": [format!("{BLOBS}/{layer_digest}")],
    }]);

    let mut archive = tar::Builder::new(out);
    let mut add = |name: &str, size: u64, data: &mut dyn Read| {
        let mut header = header(tar::EntryType::Regular, 0o644, size);
        archive.append_data(&mut header, name, data)
    };
    let mut small = |name: &str, text: &str| add(name, text.len() as u64, &mut text.as_bytes());
    small(&config.place(), &config.text)?;
    small(&manifest.place(), &manifest.text)?;
    small("index.json", &index.to_string())?;
    small("manifest.json", &saved.to_string())?;
    small("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    add(&format!("{BLOBS}/{layer_digest}"), layer_size, &mut layer)?;
    archive.into_inner()?.flush()?;
    Ok(())
}

/// A JSON document whose name is its digest.
struct Blob {
    text: String,
    digest: String,
}

impl Blob {
    fn new(value: &Value) -> Self {
        let text = value.to_string();
        let digest = hex(&Sha256::digest(text.as_bytes()));
        Self { text, digest }
    }

    fn place(&self) -> String {
        format!("{BLOBS}/{}", self.digest)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", self.digest), "size": self.text.len()})
    }
}

fn config(image: &Image<'_>, libraries: &Libraries) -> Value {
    let mut env = vec![Value::from(PATH)];
    if !libraries.folders.is_empty() {
        env.push(format!("LD_LIBRARY_PATH={}", libraries.folders.join(":")).into());
    }
    let mut config = image.config.clone();
    if let Some(own) = config.get("Env").and_then(Value::as_array) {
        env.extend(own.iter().cloned());
    }
    config["Env"] = Value::Array(env);
    config
}

/// One entry of the layer.
enum Entry<'a> {
    Folder(u32),
    Link(&'a str),
    Copy(&'a Path),
    Content(&'a [u8]),
}

/// Writes the layer and returns its digest, which is also its `diff_id`.
fn write_layer(image: &Image<'_>, libraries: &Libraries, out: &mut File) -> Result<String, ImageError> {
    let mut hashed = Hashing { out, hash: Sha256::new() };
    let mut tar = tar::Builder::new(&mut hashed);
    for (name, entry) in &entries(image, libraries) {
        match entry {
            Entry::Folder(mode) => {
                let mut header = header(tar::EntryType::Directory, *mode, 0);
                tar.append_data(&mut header, format!("{name}/"), io::empty())?;
            }
            Entry::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                tar.append_link(&mut header, name, target)?;
            }
            Entry::Copy(source) => {
                let unreadable = |error| ImageError::Read { path: source.to_path_buf(), source: error };
                let file = File::open(source).map_err(unreadable)?;
                let size = file.metadata().map_err(unreadable)?.len();
                let mut header = header(tar::EntryType::Regular, 0o755, size);
                tar.append_data(&mut header, name, file)?;
            }
            Entry::Content(bytes) => {
                let mut header = header(tar::EntryType::Regular, 0o644, bytes.len() as u64);
                tar.append_data(&mut header, name, *bytes)?;
            }
        }
    }
    tar.finish()?;
    drop(tar);
    Ok(hex(&hashed.hash.finalize()))
}

fn entries<'a>(image: &'a Image<'_>, libraries: &'a Libraries) -> BTreeMap<String, Entry<'a>> {
    let mut entries = BTreeMap::from([(image.place.to_owned(), Entry::Copy(image.program.as_path()))]);
    entries.extend(image.links.iter().map(|(place, target)| (place.clone(), Entry::Link(target.as_str()))));
    entries.extend(image.files.iter().map(|(place, bytes)| (place.clone(), Entry::Content(bytes))));
    entries.extend(
        libraries.files.iter().map(|(place, source)| (relative(place), Entry::Copy(source.as_path()))),
    );
    for (place, target) in &libraries.links {
        entries.entry(relative(place)).or_insert(Entry::Link(target.as_str()));
    }
    entries.extend(image.folders.iter().map(|(place, mode)| (place.clone(), Entry::Folder(*mode))));
    let parents: BTreeSet<String> = entries
        .keys()
        .flat_map(|name| Path::new(name).ancestors().skip(1).map(|parent| parent.display().to_string()))
        .filter(|parent| !parent.is_empty())
        .collect();
    for folder in parents {
        entries.entry(folder).or_insert(Entry::Folder(0o755));
    }
    entries
}

fn relative(path: &str) -> String {
    path.trim_start_matches('/').to_owned()
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

/// A writer that hashes all bytes that pass through it.
struct Hashing<'a> {
    out: &'a mut File,
    hash: Sha256,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
