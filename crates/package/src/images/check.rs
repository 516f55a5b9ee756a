//! Verifies images before anything is done with them.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Read, Write},
};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use sha2::{Digest, Sha256};

use super::{
    ImageError, ImageSource,
    layout::Compression,
    parse_digest,
    put_together::{diff_ids, put_together},
};
use crate::{checksums::Sha256Sum, contents::Image};

/// Most times that a compressed layer may be larger when it is unpacked. Programs and libraries become 2 to 4 times as large, and
/// files of zeros a thousand times.
const RATIO: u64 = 100;
/// A layer that is no larger than this when it is unpacked may have any ratio.
const HARMLESS: u64 = 64 << 20;
/// Bytes that are unpacked at a time.
const PIECE: usize = 256 << 10;

/// Reads everything that [`put_together`] would write, and compares it with its digests; `to` counts the bytes, and ends it
/// by an error. Then compares the layers, unpacked, with what the configurations say of them. Returns how many bytes they take
/// unpacked.
///
/// # Errors
/// Those of [`put_together`]; or a configuration names other layers than the image has, or a layer becomes far too large when it is
/// unpacked.
pub fn check(images: &[Image], source: &dyn ImageSource, to: &mut dyn Write) -> Result<u64, ImageError> {
    put_together(images, source, to)?;
    let (mut known, mut layers) = (HashSet::new(), HashMap::new());
    for image in images {
        if known.insert((&image.config, &image.layers)) {
            check_layers(image, source, &mut layers, to)?;
        }
    }
    Ok(layers.values().map(|it| it.size).sum())
}

/// A layer without compression.
struct Unpacked {
    diff_id: String,
    size: u64,
}

fn check_layers<'a>(
    image: &'a Image,
    source: &dyn ImageSource,
    known: &mut HashMap<&'a str, Unpacked>,
    to: &mut dyn Write,
) -> Result<(), ImageError> {
    let named = diff_ids(image, source)?;
    let differs = || ImageError::image(&image.reference, "has a configuration that names other layers");
    if named.len() != image.layers.len() {
        return Err(differs());
    }
    for (layer, named) in image.layers.iter().zip(&named) {
        if !known.contains_key(layer.as_str()) {
            let digest = parse_digest(layer).ok_or_else(differs)?;
            known.insert(layer, unpacked(digest, source, to)?);
        }
        if known.get(layer.as_str()).is_none_or(|it| it.diff_id != *named) {
            return Err(differs());
        }
    }
    Ok(())
}

/// Unpacks a layer, within the bounds, and keeps nothing of it. `to` gets nothing and ends it by an error of `flush`.
fn unpacked(layer: Sha256Sum, source: &dyn ImageSource, to: &mut dyn Write) -> Result<Unpacked, ImageError> {
    let wrong = |why: String| ImageError::Blob { digest: layer, why };
    let unreadable = |error: io::Error| wrong(format!("can't be unpacked: {error}"));
    let (size, mut content) = source.blob(layer).map_err(unreadable)?;
    let mut head = Vec::new();
    content.by_ref().take(4).read_to_end(&mut head).map_err(unreadable)?;
    let whole = io::Cursor::new(head.clone()).chain(content);
    let mut reader: Box<dyn Read + '_> = match Compression::of(&head) {
        // It was compared with its digest already.
        Compression::None => return Ok(Unpacked { diff_id: format!("sha256:{layer}"), size }),
        Compression::Gzip => Box::new(MultiGzDecoder::new(whole)),
        Compression::Zstd => Box::new(Frames { rest: Some(whole), frame: None }),
    };
    let most = size.saturating_mul(RATIO).max(HARMLESS);
    let (mut sum, mut unpacked, mut piece) = (Sha256::new(), 0_u64, vec![0; PIECE]);
    loop {
        to.flush().map_err(ImageError::Write)?;
        let n = match reader.read(&mut piece).map_err(unreadable)? {
            0 => break,
            n => n,
        };
        unpacked += n as u64;
        if unpacked > most {
            return Err(wrong(format!("becomes more than {RATIO} times as large when it is unpacked")));
        }
        sum.update(&piece[..n]);
    }
    let sum: [u8; 32] = sum.finalize().into();
    Ok(Unpacked { diff_id: format!("sha256:{}", Sha256Sum(sum)), size: unpacked })
}

/// Begins a frame of zstd that has no data of the file (RFC 8878, 3.1.2): the lowest of 16 numbers.
const SKIPPABLE: u32 = 0x184d_2a50;

type Frame<R> = StreamingDecoder<io::Chain<io::Cursor<[u8; 4]>, R>, FrameDecoder>;

/// Unpacks a file of zstd, which has one frame or several; the decoder knows one.
struct Frames<R: Read> {
    /// What follows the frame that is being read; with that frame meanwhile.
    rest: Option<R>,
    frame: Option<Box<Frame<R>>>,
}

impl<R: Read> Frames<R> {
    /// Begins the next frame; there is none at the end.
    fn begin(&mut self) -> io::Result<()> {
        while let Some(mut rest) = self.rest.take() {
            let mut head = Vec::new();
            rest.by_ref().take(4).read_to_end(&mut head)?;
            if head.is_empty() {
                return Ok(());
            }
            let head: [u8; 4] = head.try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            if u32::from_le_bytes(head) & !0xf != SKIPPABLE {
                let frame = StreamingDecoder::new(io::Cursor::new(head).chain(rest));
                self.frame = Some(Box::new(frame.map_err(io::Error::other)?));
                return Ok(());
            }
            let mut length = [0; 4];
            rest.read_exact(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            if io::copy(&mut rest.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.rest = Some(rest);
        }
        Ok(())
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.frame.is_none() {
                self.begin()?;
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let n = frame.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            self.rest = self.frame.take().map(|it| it.into_inner().into_inner().1);
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression as Level, write::GzEncoder};
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// One layer.
    struct One(Vec<u8>);

    impl ImageSource for One {
        fn blob(&self, _: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
            Ok((self.0.len() as u64, Box::new(self.0.as_slice())))
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn look(layer: Vec<u8>) -> Result<Unpacked, ImageError> {
        unpacked(Sha256Sum::of(&layer), &One(layer), &mut io::sink())
    }

    #[test]
    fn a_layer_is_compared_unpacked_however_it_is_compressed() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
        let diff_id = format!("sha256:{}", Sha256Sum::of(&plain));
        let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let (one, other) = plain.split_at(70_001);
        let skipped = [&(SKIPPABLE + 3).to_le_bytes()[..], &5_u32.to_le_bytes(), b"12345"].concat();
        let frames = [zstd(one), skipped, zstd(other)].concat();
        for layer in [plain.clone(), gzip(&plain), zstd(&plain), frames] {
            let found = look(layer).unwrap();
            assert_eq!((found.diff_id.as_str(), found.size), (diff_id.as_str(), plain.len() as u64));
        }
        let mut cut = gzip(&plain);
        cut.truncate(cut.len() / 2);
        assert!(look(cut).is_err());
    }

    #[test]
    fn a_layer_of_zeros_is_unpacked_no_further_than_its_bound() {
        let zeros = |n: usize| vec![0; n];
        look(gzip(&zeros(60 << 20))).unwrap();
        for bomb in [gzip(&zeros(80 << 20)), compress_to_vec(&zeros(80 << 20)[..], CompressionLevel::Fastest)]
        {
            let error = look(bomb).err().unwrap().to_string();
            assert!(error.contains("times as large"), "{error}");
        }
    }
}
