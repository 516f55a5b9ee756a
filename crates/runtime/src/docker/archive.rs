//! Saves images to an archive, and loads them from one.

use std::{io, path::PathBuf, sync::Arc};

use bollard::{errors::Error, query_parameters::ImportImageOptionsBuilder};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{ASK, Docker, error::meaning, pull};
use crate::{RuntimeError, RuntimeResult};

const LOAD: &str = "load the image";
const SAVE: &str = "save the image";
/// Longest time between two pieces of the engine's answer: unpacking one layer of a large image takes minutes, and so does
/// collecting all layers before the first byte of an archive comes.
const SILENCE: std::time::Duration = std::time::Duration::from_mins(30);

impl Docker {
    pub(super) async fn save_images(
        &self,
        references: &[String],
    ) -> RuntimeResult<BoxStream<'static, RuntimeResult<Bytes>>> {
        let mut names = Vec::new();
        for reference in references {
            let Some((name, _)) = self.known_image(reference).await? else {
                return Err(RuntimeError::ImageMissing { image: reference.clone() });
            };
            // Without a tag, Docker would save every tag there is.
            names.push(pull::with_tag(&name));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(pieces(self.client().await?.export_images(&names).boxed(), self.host.clone()))
    }

    /// Returns the folder of its images, as the engine says.
    pub(super) async fn root_dir(&self) -> RuntimeResult<Option<PathBuf>> {
        let info = self.within("ask for its folder", ASK, self.client().await?.info()).await?;
        Ok(info.docker_root_dir.map(PathBuf::from))
    }

    pub(super) async fn load_images(
        &self,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> RuntimeResult<Vec<String>> {
        // An error of the archive breaks the request off, and what comes back then says nothing of the reason.
        let broken = Arc::new(Mutex::new(None));
        let note = Arc::clone(&broken);
        let archive = archive.inspect_err(move |error| *note.lock() = Some(error.to_string()));
        let loaded = self.load_stream(archive.boxed()).await;
        match broken.lock().take() {
            Some(detail) => Err(RuntimeError::Archive { detail }),
            None => loaded,
        }
    }

    async fn load_stream(
        &self,
        archive: BoxStream<'static, io::Result<Bytes>>,
    ) -> RuntimeResult<Vec<String>> {
        let options = ImportImageOptionsBuilder::default().quiet(true).build();
        let mut messages = self.client().await?.import_image_stream(options, archive, None);
        let mut loaded = Vec::new();
        while let Some(message) =
            timeout(SILENCE, messages.next()).await.map_err(|_| RuntimeError::Timeout { action: LOAD })?
        {
            let message = message.map_err(|error| self.meaning(LOAD, &error))?;
            if let Some(detail) = message.error_detail.and_then(|it| it.message) {
                return Err(RuntimeError::Refused { action: LOAD, detail });
            }
            loaded.extend(message.stream.iter().flat_map(|text| text.lines()).filter_map(reference));
        }
        if loaded.is_empty() {
            let detail = "the file holds no image".to_owned();
            return Err(RuntimeError::Refused { action: LOAD, detail });
        }
        Ok(loaded)
    }
}

/// Translates the errors of an archive that the engine sends, and ends it if it falls silent.
fn pieces(
    bytes: BoxStream<'static, Result<Bytes, Error>>,
    host: String,
) -> BoxStream<'static, RuntimeResult<Bytes>> {
    let next = async |(mut bytes, host): (BoxStream<'static, Result<Bytes, Error>>, String)| match timeout(
        SILENCE,
        bytes.next(),
    )
    .await
    {
        Ok(Some(Ok(piece))) => Ok(Some((piece, (bytes, host)))),
        Ok(Some(Err(error))) => Err(meaning(SAVE, &host, &error)),
        Ok(None) => Ok(None),
        Err(_) => Err(RuntimeError::Timeout { action: SAVE }),
    };
    stream::try_unfold((bytes, host), next).boxed()
}

/// Parses Docker's message `Loaded image: name:tag`, or `Loaded image ID: sha256:…` for an image without a name.
fn reference(line: &str) -> Option<String> {
    let rest = line.strip_prefix("Loaded image")?;
    let (_, name) = rest.split_once(": ")?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_naming_an_image_are_understood() {
        assert_eq!(reference("Loaded image: host:5000/a:b").as_deref(), Some("host:5000/a:b"));
        assert_eq!(reference("Loaded image ID: sha256:00ff").as_deref(), Some("sha256:00ff"));
        assert_eq!(reference("The image a:b already exists, renaming the old one"), None);
    }
}
