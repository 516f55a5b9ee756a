//! Blobs → archive.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
};

use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::{
    BLOBS, ImageError, ImageSource, LARGEST_DOCUMENT,
    layout::saved_manifest,
    parse_digest,
    saved::{Config, MANIFEST},
};
use crate::{checksums::Sha256Sum, contents::Image};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;
/// The unit of a tar archive, in bytes.
const BLOCK: usize = 512;

/// Writes an archive of these images that every Docker since 1.10 loads, and Podman too: `manifest.json`, then each
/// configuration and each layer once. It depends on the images alone.
///
/// # Errors
/// A blob is missing or is not what its digest says; or the archive can't be written. What was written until then has no end,
/// so that nobody takes it for an archive.
pub fn put_together(
    images: &[Image],
    source: &dyn ImageSource,
    to: &mut dyn Write,
) -> Result<(), ImageError> {
    let mut blobs = Vec::new();
    for image in images {
        for text in std::iter::once(&image.config).chain(&image.layers) {
            let digest = parse_digest(text)
                .ok_or_else(|| ImageError::image(&image.reference, "has a digest that is not SHA-256"))?;
            blobs.push(digest);
        }
    }
    let manifest = saved_manifest(images);
    begin_entry(to, MANIFEST, manifest.len() as u64)?;
    to.write_all(manifest.as_bytes()).map_err(ImageError::Write)?;
    end_entry(to, manifest.len() as u64)?;
    let (mut written, mut buffer) = (HashSet::new(), vec![0; PIECE]);
    for digest in blobs {
        if written.insert(digest) {
            add_blob(to, digest, source, &mut buffer)?;
        }
    }
    to.write_all(&[0; 2 * BLOCK]).and_then(|()| to.flush()).map_err(ImageError::Write)
}

/// Returns the digests of an image's layers without compression, lowest first, `sha256:…`. They tell whether an image of a
/// container runtime is this one, even if the runtime has its own ids.
///
/// # Errors
/// Its configuration is missing, or is not what its digest says.
pub fn diff_ids(image: &Image, source: &dyn ImageSource) -> Result<Vec<String>, ImageError> {
    let digest = parse_digest(&image.config)
        .ok_or_else(|| ImageError::image(&image.reference, "has a digest that is not SHA-256"))?;
    let (size, mut content) = open(digest, source)?;
    if size > LARGEST_DOCUMENT {
        return Err(ImageError::image(&image.reference, "has too large a configuration"));
    }
    let mut text = Vec::new();
    copy(&mut *content, digest, size, &mut vec![0; PIECE], &mut |piece| {
        text.extend_from_slice(piece);
        Ok(())
    })?;
    let config: Config = serde_json::from_slice(&text)
        .map_err(|_| ImageError::image(&image.reference, "has a configuration that can't be read"))?;
    Ok(config.diff_ids().to_vec())
}

fn open(digest: Sha256Sum, source: &dyn ImageSource) -> Result<(u64, Box<dyn Read + '_>), ImageError> {
    source.blob(digest).map_err(|error| unreadable(digest, &error))
}

fn unreadable(digest: Sha256Sum, error: &io::Error) -> ImageError {
    ImageError::Blob { digest, why: format!("can't be read: {error}") }
}

fn add_blob(
    to: &mut dyn Write,
    digest: Sha256Sum,
    source: &dyn ImageSource,
    buffer: &mut [u8],
) -> Result<(), ImageError> {
    let (size, mut content) = open(digest, source)?;
    begin_entry(to, &format!("{BLOBS}/{digest}"), size)?;
    copy(&mut *content, digest, size, buffer, &mut |piece| to.write_all(piece).map_err(ImageError::Write))?;
    end_entry(to, size)
}

fn begin_entry(to: &mut dyn Write, name: &str, size: u64) -> Result<(), ImageError> {
    let mut header = Header::new_gnu();
    header.set_path(name).map_err(ImageError::Write)?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    to.write_all(header.as_bytes()).map_err(ImageError::Write)
}

/// Fills the last block.
fn end_entry(to: &mut dyn Write, size: u64) -> Result<(), ImageError> {
    let used = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    let padding = (BLOCK - used) % BLOCK;
    to.write_all(&[0; BLOCK][..padding]).map_err(ImageError::Write)
}

/// Hands the blob to `each`, piece by piece.
///
/// # Errors
/// Errors of `each`; or the blob has another size or another digest.
fn copy(
    content: &mut dyn Read,
    digest: Sha256Sum,
    size: u64,
    buffer: &mut [u8],
    each: &mut dyn FnMut(&[u8]) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let (mut hasher, mut left) = (Sha256::new(), size);
    loop {
        let piece = match content.read(buffer) {
            Ok(0) => break,
            Ok(n) => &buffer[..n],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(digest, &error)),
        };
        left = left
            .checked_sub(piece.len() as u64)
            .ok_or_else(|| ImageError::Blob { digest, why: format!("has more than its {size} bytes") })?;
        hasher.update(piece);
        each(piece)?;
    }
    if left > 0 {
        return Err(ImageError::Blob { digest, why: format!("has {left} bytes less than {size}") });
    }
    if Sha256Sum(hasher.finalize().into()) != digest {
        return Err(ImageError::Blob { digest, why: "has another content than its digest says".to_owned() });
    }
    Ok(())
}
