//! Container images of the simulator: this program and the libraries it maps, nothing else.
//!
//! Nothing is downloaded and no build tool is needed, so lifecycle tests get real containers on a
//! machine without a registry.

pub(crate) mod command;
mod libraries;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bollard::query_parameters::ImportImageOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

use crate::flavour::Flavour;

/// Where the program lies in the image.
const PROGRAM: &str = "gantry";
/// The engines' own programs, as links, for containers that override the entry point.
const LINKS: [&str; 2] = ["app/llama-server", "usr/local/bin/vllm"];
/// Empty folders that mounts need or that programs expect.
const FOLDERS: [&str; 2] = ["models", "tmp"];

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot read `{path}` for the image")]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot tell which libraries `{0}` needs; is it an ELF program?")]
    Libraries(PathBuf),
    #[error("cannot write the image archive")]
    Write(#[from] io::Error),
    #[error("the Docker engine did not take the image")]
    Docker(#[from] bollard::errors::Error),
}

/// Packs `exe` and the shared libraries it maps into an archive for `docker load`.
///
/// The archive depends on the files' contents alone: entries are sorted and have no times.
///
/// # Errors
/// A file that cannot be read, or an archive that cannot be written.
pub fn write_image(exe: &Path, tag: &str, flavour: Flavour, out: impl Write) -> Result<(), ImageError> {
    let libraries = libraries::of(exe)?;
    let mut layer = tempfile::tempfile()?;
    let digest = write_layer(exe, &libraries, &mut layer)?;
    let config = config(flavour, &digest, &libraries).to_string();
    let config_name = format!("{}.json", hex(&Sha256::digest(config.as_bytes())));
    let layer_name = format!("{digest}/layer.tar");
    let manifest = json!([{"Config": config_name, "RepoTags": [tag], "Layers": [layer_name]}]).to_string();

    let mut archive = tar::Builder::new(out);
    let mut add = |name: &str, size: u64, data: &mut dyn Read| {
        let mut header = header(tar::EntryType::Regular, 0o644, size);
        archive.append_data(&mut header, name, data)
    };
    add(&config_name, config.len() as u64, &mut config.as_bytes())?;
    let size = layer.seek(SeekFrom::End(0))?;
    layer.seek(SeekFrom::Start(0))?;
    add(&layer_name, size, &mut layer)?;
    add("manifest.json", manifest.len() as u64, &mut manifest.as_bytes())?;
    archive.into_inner()?.flush()?;
    Ok(())
}

/// Packs the image and loads it into a Docker engine; returns the image reference.
///
/// `docker_host` is an address as in `DOCKER_HOST`; without it the local socket is used.
///
/// # Errors
/// As [`write_image`], or an engine that cannot be reached or refuses the image.
pub async fn load_image(
    exe: &Path,
    tag: &str,
    flavour: Flavour,
    docker_host: Option<&str>,
) -> Result<String, ImageError> {
    let docker = match docker_host {
        None | Some("") => Docker::connect_with_local_defaults()?,
        Some(path) if path.starts_with('/') => Docker::connect_with_socket(path, 120, API_DEFAULT_VERSION)?,
        Some(host) => Docker::connect_with_host(host)?,
    };
    let (exe, name) = (exe.to_owned(), tag.to_owned());
    let packed = tokio::task::spawn_blocking(move || {
        let mut file = tempfile::tempfile()?;
        write_image(&exe, &name, flavour, io::BufWriter::new(&mut file))?;
        file.seek(SeekFrom::Start(0))?;
        Ok::<File, ImageError>(file)
    });
    let file = packed.await.map_err(io::Error::other)??;
    let options = ImportImageOptionsBuilder::default().quiet(true).build();
    let mut progress = std::pin::pin!(docker.import_image_stream(
        options,
        ReaderStream::new(tokio::fs::File::from_std(file)),
        None
    ));
    while let Some(line) = progress.next().await {
        line?;
    }
    Ok(tag.to_owned())
}

/// One file of the layer, by its path without the leading slash.
enum Entry {
    Folder,
    Link(String),
    Copy(PathBuf, u32),
}

/// Writes the layer and returns its digest, which is also its `diff_id`.
fn write_layer(exe: &Path, libraries: &libraries::Libraries, out: &mut File) -> Result<String, ImageError> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    entries.insert(PROGRAM.to_owned(), Entry::Copy(exe.to_owned(), 0o755));
    for link in LINKS {
        entries.insert(link.to_owned(), Entry::Link(format!("/{PROGRAM}")));
    }
    for (place, source) in &libraries.files {
        entries.insert(relative(place), Entry::Copy(source.clone(), 0o755));
    }
    for (place, target) in &libraries.links {
        entries.entry(relative(place)).or_insert_with(|| Entry::Link(target.clone()));
    }
    let mut folders: BTreeSet<String> = FOLDERS.iter().map(|name| (*name).to_owned()).collect();
    for name in entries.keys() {
        let parents = Path::new(name).ancestors().skip(1).map(|parent| parent.display().to_string());
        folders.extend(parents.filter(|parent| !parent.is_empty()));
    }
    for folder in folders {
        entries.entry(folder).or_insert(Entry::Folder);
    }

    let mut hashed = Hashing { out, hash: Sha256::new() };
    let mut tar = tar::Builder::new(&mut hashed);
    for (name, entry) in &entries {
        match entry {
            Entry::Folder => {
                let mode = if name == "tmp" { 0o1777 } else { 0o755 };
                let mut header = header(tar::EntryType::Directory, mode, 0);
                tar.append_data(&mut header, format!("{name}/"), io::empty())?;
            }
            Entry::Link(target) => {
                let mut header = header(tar::EntryType::Symlink, 0o777, 0);
                tar.append_link(&mut header, name, target)?;
            }
            Entry::Copy(source, mode) => {
                let unreadable = |error| ImageError::Read { path: source.clone(), source: error };
                let file = File::open(source).map_err(unreadable)?;
                let size = file.metadata().map_err(unreadable)?.len();
                let mut header = header(tar::EntryType::Regular, *mode, size);
                tar.append_data(&mut header, name, file)?;
            }
        }
    }
    tar.finish()?;
    drop(tar);
    Ok(hex(&hashed.hash.finalize()))
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

fn config(flavour: Flavour, layer: &str, libraries: &libraries::Libraries) -> Value {
    let mut env = vec!["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/app".to_owned()];
    if !libraries.folders.is_empty() {
        env.push(format!("LD_LIBRARY_PATH={}", libraries.folders.join(":")));
    }
    if flavour == Flavour::Llamacpp {
        // As in the real image.
        env.push("LLAMA_ARG_HOST=0.0.0.0".to_owned());
    }
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    json!({
        "architecture": arch,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {
            "Env": env,
            "Entrypoint": ["/gantry", "engine-sim", "--flavour", flavour.name()],
            "WorkingDir": "/",
            "Labels": {
                "gantry.engine": flavour.name(),
                "gantry.simulator": "true",
                "org.opencontainers.image.version": flavour.default_version()
            }
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "gantry engine-sim image"}]
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        text
    })
}

/// Hashes what passes through.
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
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn pack(flavour: Flavour) -> Vec<u8> {
        let mut archive = Vec::new();
        write_image(&std::env::current_exe().unwrap(), "example/sim:1", flavour, &mut archive).unwrap();
        archive
    }

    fn files(archive: &[u8]) -> HashMap<String, Vec<u8>> {
        let mut tar = tar::Archive::new(archive);
        let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            (entry.path().unwrap().display().to_string(), data)
        };
        tar.entries().unwrap().map(read).collect()
    }

    #[test]
    fn the_archive_names_its_layer_and_config_by_digest() {
        let archive = files(&pack(Flavour::Vllm));
        let manifest: Value = serde_json::from_slice(&archive["manifest.json"]).unwrap();
        assert_eq!(manifest[0]["RepoTags"], json!(["example/sim:1"]));
        let config_name = manifest[0]["Config"].as_str().unwrap();
        assert_eq!(config_name, format!("{}.json", hex(&Sha256::digest(&archive[config_name]))));
        let config: Value = serde_json::from_slice(&archive[config_name]).unwrap();
        let layer = &archive[manifest[0]["Layers"][0].as_str().unwrap()];
        let digest = format!("sha256:{}", hex(&Sha256::digest(layer)));
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest]));
        assert_eq!(config["config"]["Entrypoint"], json!(["/gantry", "engine-sim", "--flavour", "vllm"]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "0.32.0");
        assert_eq!(config["config"]["Labels"]["gantry.simulator"], "true");
        assert!(config["config"].get("User").is_none());
    }

    #[test]
    fn the_layer_holds_the_program_its_loader_and_the_engines_names() {
        let archive = files(&pack(Flavour::Llamacpp));
        let manifest: Value = serde_json::from_slice(&archive["manifest.json"]).unwrap();
        let layer = &archive[manifest[0]["Layers"][0].as_str().unwrap()];
        let mut names = Vec::new();
        for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.header().mtime().unwrap(), 0);
            let target = entry.link_name().unwrap().map(|target| target.display().to_string());
            names.push((entry.path().unwrap().display().to_string(), target));
        }
        let mut sorted = names.clone();
        sorted.sort_by(|a, b| a.0.trim_end_matches('/').cmp(b.0.trim_end_matches('/')));
        assert_eq!(names, sorted);
        let has = |name: &str| names.iter().any(|(known, _)| known == name);
        assert!(has("gantry") && has("tmp/") && has("models/") && has("usr/"), "{names:?}");
        assert!(names.contains(&("usr/local/bin/vllm".to_owned(), Some("/gantry".to_owned()))));
        assert!(names.contains(&("app/llama-server".to_owned(), Some("/gantry".to_owned()))));
        let interpreter = libraries::interpreter(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert!(has(interpreter.trim_start_matches('/')), "{interpreter} in {names:?}");
        assert!(names.iter().any(|(name, _)| name.ends_with("/libc.so.6")), "{names:?}");
    }

    #[test]
    fn the_same_program_gives_the_same_archive() {
        let digest = |bytes: &[u8]| hex(&Sha256::digest(bytes));
        assert_eq!(digest(&pack(Flavour::Vllm)), digest(&pack(Flavour::Vllm)));
    }

    #[test]
    fn a_program_that_is_not_running_is_packed_too() {
        let shell = Path::new("/bin/sh");
        let libraries = libraries::of(&shell.canonicalize().unwrap()).unwrap();
        assert!(libraries.files.keys().any(|name| name.ends_with("/libc.so.6")), "{:?}", libraries.files);
        assert!(matches!(libraries::of(Path::new("/etc/hostname")), Err(ImageError::Libraries(_))));
    }
}
