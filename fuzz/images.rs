//! What the fuzz target of the reader of image archives does with its input. The tests of `crates/package` run the same on
//! the corpus.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, Read},
};

use gantry_package::{
    checksums::Sha256Sum,
    images::{ImageSink, ImageSource, put_together, take_apart},
};

/// Blobs in memory.
#[derive(Default)]
struct Blobs(RefCell<HashMap<[u8; 32], Vec<u8>>>);

impl ImageSink for Blobs {
    fn blob(&mut self, content: &mut dyn Read) -> io::Result<(Sha256Sum, u64)> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let (digest, size) = (Sha256Sum::of(&bytes), bytes.len() as u64);
        self.0.borrow_mut().insert(digest.0, bytes);
        Ok((digest, size))
    }

    fn drop_blob(&mut self, digest: Sha256Sum) -> io::Result<()> {
        self.0.borrow_mut().remove(&digest.0);
        Ok(())
    }
}

impl ImageSource for Blobs {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let bytes = self.0.borrow().get(&digest.0).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok((bytes.len() as u64, Box::new(io::Cursor::new(bytes))))
    }
}

/// Reads `data` as an archive, and as what stands in one: entries that a line `=== name` begins.
pub(crate) fn images(data: &[u8]) {
    archive(data);
    archive(&written(data));
}

/// What can be taken apart can be put together, and is the same images then.
fn archive(bytes: &[u8]) {
    let mut blobs = Blobs::default();
    let taken = match take_apart(&mut &*bytes, &mut blobs) {
        Ok(taken) => taken,
        // Errors are shown to people, whatever the archive held.
        Err(error) => return assert!(error.to_string().len() < 4000, "{error}"),
    };
    let mut again = Vec::new();
    put_together(&taken, &blobs, &mut again).expect("what was taken apart can be put together");
    let taken_again = take_apart(&mut &*again, &mut Blobs::default()).expect("our own archive can be read");
    assert_eq!(taken, taken_again);
}

fn written(data: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut rest = data;
    while let Some(from) = rest.strip_prefix(b"=== ") {
        let line = from.iter().position(|it| *it == b'\n').unwrap_or(from.len());
        let (name, body) = from.split_at(line);
        let body = body.strip_prefix(b"\n").unwrap_or(body);
        let end = body.windows(5).position(|it| it == b"\n=== ").unwrap_or(body.len());
        let (content, more) = body.split_at(end);
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        // A name that tar can't hold is no entry.
        let _ = archive.append_data(&mut header, String::from_utf8_lossy(name).as_ref(), content);
        rest = more.strip_prefix(b"\n").unwrap_or(more);
    }
    archive.into_inner().unwrap_or_default()
}
