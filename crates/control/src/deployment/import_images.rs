//! Images of a package on their way into the container runtime.

use std::{
    io::{self, Write},
    sync::atomic::Ordering::Relaxed,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use gantry_domain::ApiError;
use gantry_package::{
    contents::{IMAGES, Image},
    images::{ImageError, check, put_together},
    stop::stopped,
};
use gantry_runtime::ImageInfo;
use tokio::sync::mpsc;

use super::{
    failed,
    images::as_loaded,
    plan::{available, unanswered},
    selection::{Blobs, Selection},
    thread::{Work, cancelled},
};

/// Bytes of an archive of images that are handed to the container runtime at a time.
const PIECE: usize = 1 << 20;
/// Pieces that wait for the container runtime.
const AHEAD: usize = 4;

/// Whether the container runtime has the image as it is in the package.
fn has(work: &Work, selection: &Selection, image: &Image) -> Result<bool, ApiError> {
    Ok(found(work, image)?.is_some_and(|it| selection.is_there(image, &it) == Some(true)))
}

/// Returns the image of this machine that has the image's name.
fn found(work: &Work, image: &Image) -> Result<Option<ImageInfo>, ApiError> {
    work.wait(work.control.runtime.image(&image.reference))?.map_err(|error| unanswered(&error))
}

/// Returns the images that are to be loaded.
pub(super) fn unloaded(work: &Work, selection: &Selection) -> Result<Vec<Image>, ApiError> {
    let mut wanted = Vec::new();
    for image in &selection.images {
        match found(work, image)?.map(|it| selection.is_there(image, &it)) {
            Some(Some(true)) => continue,
            Some(Some(false)) => {
                if let Some(why) = selection.name_is_taken(&work.control, image) {
                    return Err(failed(why));
                }
            }
            Some(None) | None => {}
        }
        wanted.push(image.clone());
    }
    Ok(wanted)
}

/// Compares images with their digests, before anything is put in place.
pub(super) fn verify(work: &Work, selection: &Selection, images: &[Image]) -> Result<(), ApiError> {
    if images.is_empty() {
        return Ok(());
    }
    // Asked first, so that nothing but the load needs the engine once they are verified.
    let storage = work.wait(work.control.runtime.storage())?.map_err(|error| unanswered(&error))?;
    work.job.step("verifying images");
    let checked = check(images, &Blobs(&selection.package), &mut Counted(work));
    let unpacked = checked.map_err(|error| match error {
        _ if work.is_cancelled() => cancelled(),
        ImageError::Blob { digest, why } => failed(format!("`{IMAGES}/blobs/sha256/{digest}` {why}")),
        error => failed(format!("the images of the package can't be used: {error}")),
    })?;
    // One on another machine says itself when its disk is full.
    let free = storage.filter(|it| it.exists()).map(|it| available(&it)).transpose()?;
    match free {
        Some(free) if unpacked > free => {
            Err(failed(format!("no space left: the images take {unpacked} bytes, and {free} are free")))
        }
        _ => Ok(()),
    }
}

/// Loads images, and returns their references.
pub(super) fn load(work: &Work, selection: &Selection, wanted: &[Image]) -> Result<Vec<String>, ApiError> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let runtime = &work.control.runtime;
    let names: Vec<String> = wanted.iter().map(|it| it.reference.clone()).collect();
    work.job.step(format!("loading images: {}", names.join(", ")));
    let (pieces, archive) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    let archive = stream::unfold(archive, async |mut it| Some((it.recv().await?, it))).boxed();
    let loaded = std::thread::scope(|scope| {
        let package = &selection.package;
        scope.spawn(|| {
            let mut to = Pieces { to: pieces, work, piece: Vec::with_capacity(PIECE) };
            if let Err(error) = put_together(&as_loaded(wanted), &Blobs(package), &mut to) {
                // The runtime is gone if nobody takes it.
                let _ = work.wait(to.to.send(Err(io::Error::other(error))));
            }
        });
        work.wait(runtime.load(archive))
    })?;
    loaded.map_err(|error| failed(format!("the images can't be loaded: {error}")))?;
    for image in wanted {
        if !has(work, selection, image)? {
            let reference = &image.reference;
            return Err(failed(format!(
                "the container runtime did not load {reference} as it is in the package"
            )));
        }
    }
    Ok(names)
}

/// Counts the bytes of what is verified, until the job is cancelled.
struct Counted<'a>(&'a Work);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.is_cancelled() {
            return Err(stopped());
        }
        self.0.progress.bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.0.is_cancelled() { Err(stopped()) } else { Ok(()) }
    }
}

/// Hands an archive to the container runtime, piece by piece.
struct Pieces<'a> {
    to: mpsc::Sender<io::Result<Bytes>>,
    work: &'a Work,
    piece: Vec<u8>,
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.work.is_cancelled() {
            return Err(stopped());
        }
        self.piece.extend_from_slice(bytes);
        self.work.progress.bytes.fetch_add(bytes.len() as u64, Relaxed);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        // A container runtime that takes nothing must not hold up a cancel.
        let sent = self.work.wait(self.to.send(Ok(piece.into()))).map_err(|_| stopped())?;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
