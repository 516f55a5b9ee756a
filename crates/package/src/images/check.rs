//! Verifies images before anything is done with them.

use std::{
    collections::HashSet,
    io::{self, Read, Write},
};

use super::{
    ImageError, ImageSource,
    layout::Compression,
    parse_digest,
    put_together::{diff_ids, put_together},
};
use crate::contents::Image;

/// Reads everything that [`put_together`] would write, and compares it with its digests; `to` counts the bytes, and ends it
/// by an error. Then compares the layers with what the configurations say of them.
///
/// A compressed layer is compared with its own digest only: Docker compares its content when it loads it.
///
/// # Errors
/// Those of [`put_together`]; or a configuration names other layers than the image has.
pub fn check(images: &[Image], source: &dyn ImageSource, to: &mut dyn Write) -> Result<(), ImageError> {
    put_together(images, source, to)?;
    let mut known = HashSet::new();
    for image in images {
        if known.insert((&image.config, &image.layers)) {
            check_layers(image, source)?;
        }
    }
    Ok(())
}

fn check_layers(image: &Image, source: &dyn ImageSource) -> Result<(), ImageError> {
    let named = diff_ids(image, source)?;
    let differs = || ImageError::image(&image.reference, "has a configuration that names other layers");
    if named.len() != image.layers.len() {
        return Err(differs());
    }
    for (layer, named) in image.layers.iter().zip(&named) {
        if layer != named && !is_compressed(layer, source) {
            return Err(differs());
        }
    }
    Ok(())
}

fn is_compressed(layer: &str, source: &dyn ImageSource) -> bool {
    let head = || -> io::Result<Vec<u8>> {
        let digest = parse_digest(layer).ok_or(io::ErrorKind::InvalidInput)?;
        let mut head = Vec::new();
        source.blob(digest)?.1.take(4).read_to_end(&mut head)?;
        Ok(head)
    };
    head().is_ok_and(|it| Compression::of(&it) != Compression::None)
}
