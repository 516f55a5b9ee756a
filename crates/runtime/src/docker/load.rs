//! Loads images from a file.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bollard::query_parameters::ImportImageOptionsBuilder;
use futures_util::{StreamExt, TryStreamExt};
use tokio::{fs::File, time::timeout};
use tokio_util::io::ReaderStream;

use super::Docker;
use crate::{RuntimeError, RuntimeResult};

const ACTION: &str = "load the image";
/// Longest time between two pieces of the engine's answer: unpacking one layer of a large image takes minutes.
const SILENCE: std::time::Duration = std::time::Duration::from_mins(30);
const CHUNK: usize = 256 << 10;

impl Docker {
    pub(super) async fn load_archive(
        &self,
        archive: &Path,
        sent: Arc<AtomicU64>,
    ) -> RuntimeResult<Vec<String>> {
        let refused = |detail: String| RuntimeError::Refused { action: ACTION, detail };
        let file = File::open(archive).await.map_err(|error| refused(error.kind().to_string()))?;
        let options = ImportImageOptionsBuilder::default().quiet(true).build();
        let bytes = ReaderStream::with_capacity(file, CHUNK).inspect_ok(move |piece| {
            sent.fetch_add(piece.len() as u64, Relaxed);
        });
        let mut messages = self.client().await?.import_image_stream(options, bytes, None);
        let mut loaded = Vec::new();
        while let Some(message) =
            timeout(SILENCE, messages.next()).await.map_err(|_| RuntimeError::Timeout { action: ACTION })?
        {
            let message = message.map_err(|error| self.meaning(ACTION, &error))?;
            if let Some(detail) = message.error_detail.and_then(|it| it.message) {
                return Err(refused(detail));
            }
            loaded.extend(message.stream.iter().flat_map(|text| text.lines()).filter_map(reference));
        }
        if loaded.is_empty() {
            return Err(refused("the file holds no image".to_owned()));
        }
        Ok(loaded)
    }
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
