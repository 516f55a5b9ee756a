//! Container images in a package: blobs under their digests, as in an OCI image layout, each stored once.
//!
//! [`take_apart`] makes blobs of the archive that `docker save` writes, and [`put_together`] makes of blobs an archive that
//! `docker load` reads. Both pass every content on as it comes, whatever its size.

mod archive;
mod check;
mod layout;
mod put_together;
mod saved;
mod take_apart;
#[cfg(test)]
mod tests;

use std::io::{self, Read};

pub use self::{
    check::check,
    layout::{full_name, layout},
    put_together::{diff_ids, put_together},
    take_apart::take_apart,
};
use crate::checksums::Sha256Sum;

/// Where the blobs of an image layout lie in it, followed by `/` and the digest.
const BLOBS: &str = "blobs/sha256";
/// Largest configuration of an image and largest `manifest.json`, in bytes: they are held in memory. Registries have the same
/// limit.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// Stores blobs.
pub trait ImageSink {
    /// Reads `content` to its end and stores it under its digest. A blob that is there already is not stored twice. Returns
    /// digest and size.
    ///
    /// # Errors
    /// `content` failed, and then nothing of it is stored under any name; or it can't be stored.
    fn blob(&mut self, content: &mut dyn Read) -> io::Result<(Sha256Sum, u64)>;

    /// Removes a blob that was stored and turned out to belong to no image. This is rare, and a sink that can't remove
    /// anything does nothing: the blob is of no use and does no harm.
    ///
    /// # Errors
    /// It can't be removed.
    fn drop_blob(&mut self, _digest: Sha256Sum) -> io::Result<()> {
        Ok(())
    }
}

/// Hands out blobs.
pub trait ImageSource {
    /// Returns size and content of a blob. The caller compares the content with the digest.
    ///
    /// # Errors
    /// There is no such blob, or it can't be read.
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)>;
}

/// Why an archive of images can't be taken apart or put together. Names that come from the archive are quoted.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The archive itself is not readable any further.
    #[error("the archive of images can't be read: {0}")]
    Read(#[source] io::Error),
    #[error("the archive of images is not complete: it ends before its end mark")]
    Cut,
    #[error("the archive of images has more than {0} entries")]
    TooManyEntries(usize),
    /// One of the archive's entries is not as it must be.
    #[error("the entry {name:?} of the archive of images {why}")]
    Entry { name: String, why: &'static str },
    /// An entry's content could not be stored.
    #[error("the entry {name:?} of the archive of images could not be stored: {source}")]
    Store { name: String, source: io::Error },
    /// An image is not as it must be.
    #[error("the image {reference:?} {why}")]
    Image { reference: String, why: &'static str },
    /// A blob can't be read, or is not what its digest says.
    #[error("the blob sha256:{digest} {why}")]
    Blob { digest: Sha256Sum, why: String },
    #[error("the archive of images could not be written: {0}")]
    Write(#[source] io::Error),
}

/// Longest part of a text from an archive that an error repeats, in characters.
const LONGEST_QUOTE: usize = 200;

impl ImageError {
    fn entry(name: &str, why: &'static str) -> Self {
        Self::Entry { name: name.chars().take(LONGEST_QUOTE).collect(), why }
    }

    fn image(reference: &str, why: &'static str) -> Self {
        Self::Image { reference: reference.chars().take(LONGEST_QUOTE).collect(), why }
    }
}

/// Reads a digest as it stands in an [`Image`], `sha256:` and 64 hexadecimal digits.
fn parse_digest(text: &str) -> Option<Sha256Sum> {
    text.strip_prefix("sha256:")?.parse().ok()
}
