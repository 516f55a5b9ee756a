//! Container images on their way into a package.

use std::io::{self, Read};

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use gantry_domain::{
    ApiError,
    image::{is_simulator, tag_of_digest},
};
use gantry_package::{
    contents::{IMAGES, Image},
    images::{full_name, layout, take_apart},
    path::PackagePath,
    stop::stopped,
    writer::{PackageWriter, Sums},
};
use gantry_runtime::{ImageInfo, RuntimeResult};

use super::{failed, plan::unanswered, thread::Work, unwritten};

/// Writes images into the package, each once. Those that an earlier run or the base has are not asked for again.
///
/// # Errors
/// One is not on the machine and may not be pulled, or the container runtime does not answer.
pub(super) fn export(
    work: &Work,
    references: &[String],
    may_pull: bool,
    (writer, sums): (&mut PackageWriter, &mut Sums),
) -> Result<Vec<Image>, ApiError> {
    let (mut images, mut wanted) = (Vec::new(), Vec::new());
    for reference in references {
        let found = there(work, reference, may_pull)?;
        let known = found.config.as_deref().map(|config| writer.take_image(config, sums)).transpose();
        match known.map_err(|error| unwritten(&error))?.flatten() {
            Some(known) => images.push(Image { reference: reference.clone(), ..known }),
            None => wanted.push(reference.clone()),
        }
    }
    // In an archive, an image that is named by a digest has no name that distinguishes it from others.
    let (alone, together): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|it| tag_of_digest(it).is_some());
    let archives = alone.into_iter().map(|it| vec![it]).chain([together]);
    for references in archives.filter(|it| !it.is_empty()) {
        images.extend(save(work, &references, writer)?);
    }
    images.sort_by(|a, b| a.reference.cmp(&b.reference));
    if !images.is_empty() {
        for (name, text) in layout(&as_loaded(&images)) {
            let path = PackagePath::new(&format!("{IMAGES}/{name}"));
            let path = path.map_err(|error| failed(error.to_string()))?;
            writer.put(&path, &mut text.as_bytes()).map_err(|error| unwritten(&error))?;
        }
    }
    Ok(images)
}

/// Writes the images of one archive into the package: one image that is named by a digest, or others.
fn save(work: &Work, references: &[String], writer: &mut PackageWriter) -> Result<Vec<Image>, ApiError> {
    work.job.step(format!("saving images: {}", references.join(", ")));
    let stream = work.wait(work.control.runtime.save(references))?.map_err(|error| unanswered(&error))?;
    let mut archive = Archive { work, stream, piece: Bytes::new() };
    let saved = take_apart(&mut archive, writer);
    let saved = saved.map_err(|error| failed(format!("the images can't be saved: {error}")))?;
    let mut images = Vec::new();
    for reference in references {
        let is_it = |it: &&Image| {
            tag_of_digest(reference).is_some() || full_name(&it.reference) == full_name(reference)
        };
        let image = saved.iter().find(is_it);
        let image = image.ok_or_else(|| failed(format!("the container runtime did not save {reference}")))?;
        let image = Image { reference: reference.clone(), ..image.clone() };
        writer.image_done(&image);
        images.push(image);
    }
    Ok(images)
}

/// Returns the images with the names that they have once they are loaded.
pub(super) fn as_loaded(images: &[Image]) -> Vec<Image> {
    let named = |it: &Image| Image {
        reference: tag_of_digest(&it.reference).unwrap_or_else(|| it.reference.clone()),
        ..it.clone()
    };
    images.iter().map(named).collect()
}

/// Returns an image of this machine, which is pulled if it is not there.
fn there(work: &Work, reference: &str, may_pull: bool) -> Result<ImageInfo, ApiError> {
    let control = &work.control;
    let look = || work.wait(control.runtime.image(reference))?.map_err(|error| unanswered(&error));
    if let Some(found) = look()? {
        return Ok(found);
    }
    let engines = &control.config.engines;
    let why = match () {
        () if is_simulator(reference) => "simulators are never pulled: `gantry engine-sim image` makes it",
        () if !may_pull => "`allow_pull_images` is false",
        () if engines.offline_mode => "the system is in offline mode",
        () if engines.require_image_precache => {
            "only images that are there already may be used (REQUIRE_IMAGE_PRECACHE)"
        }
        () => {
            work.job.step(format!("pulling {reference}"));
            let pull = control.runtime.pull(reference, engines.image_pull_timeout, Box::new(|_, _| {}));
            let pulled = work.wait(pull)?;
            pulled.map_err(|error| failed(format!("image {reference} could not be pulled: {error}")))?;
            return look()?.ok_or_else(|| failed(format!("pulling {reference} had no effect")));
        }
    };
    Err(failed(format!("image {reference} is not on this machine and can't be exported: {why}")))
}

/// An archive that comes in pieces, read on the job's thread.
struct Archive<'a> {
    work: &'a Work,
    stream: BoxStream<'static, RuntimeResult<Bytes>>,
    piece: Bytes,
}

impl Read for Archive<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.work.wait(self.stream.next()).map_err(|_| stopped())? {
                Some(piece) => self.piece = piece.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let n = buffer.len().min(self.piece.len());
        buffer[..n].copy_from_slice(&self.piece.split_to(n));
        Ok(n)
    }
}
