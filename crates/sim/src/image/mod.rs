//! Container images of the simulator: this program under the engines' names.
//!
//! Nothing is downloaded and no build tool is needed, so lifecycle tests get real containers on a
//! machine without a registry.

pub(crate) mod command;

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use bollard::query_parameters::ImportImageOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::StreamExt;
use gantry_image::Image;
use serde_json::json;
use tokio_util::io::ReaderStream;

use crate::flavour::Flavour;

/// The engines' own programs, as links, for containers that override the entry point.
const LINKS: [&str; 2] = ["app/llama-server", "usr/local/bin/vllm"];

/// Why no image was made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Packed(#[from] gantry_image::ImageError),
    #[error("cannot write the image archive")]
    Write(#[from] io::Error),
    #[error("the Docker engine did not take the image")]
    Docker(#[from] bollard::errors::Error),
}

/// Packs `exe` and the shared libraries it maps into an archive for `docker load`.
///
/// # Errors
/// A file that cannot be read, or an archive that cannot be written.
pub fn write_image(exe: &Path, tag: &str, flavour: Flavour, out: impl Write) -> Result<(), ImageError> {
    // The real image sets this variable too.
    let env = match flavour {
        Flavour::Llamacpp => vec!["LLAMA_ARG_HOST=0.0.0.0"],
        Flavour::Vllm => Vec::new(),
    };
    let image = Image {
        reference: tag,
        program: exe.to_owned(),
        place: "gantry",
        created: None,
        links: LINKS.map(|link| (link.to_owned(), "/gantry".to_owned())).into(),
        folders: vec![("models".to_owned(), 0o755), ("tmp".to_owned(), 0o1777)],
        files: Vec::new(),
        config: json!({
            "Env": env,
            "Entrypoint": ["/gantry", "engine-sim", "--flavour", flavour.name()],
            "WorkingDir": "/",
            "Labels": {
                "gantry.engine": flavour.name(),
                "gantry.simulator": "true",
                "org.opencontainers.image.version": flavour.default_version()
            }
        }),
    };
    Ok(gantry_image::write(&image, out)?)
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
