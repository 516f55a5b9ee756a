//! Writing that is stopped ends with an error that no caller tries again.

use super::*;

/// What fills a file by `write_all`, as the dump of the database does, must get an error that is not tried again.
#[test]
fn a_file_that_is_filled_ends_when_it_is_stopped() {
    let to = tempfile::tempdir().unwrap();
    let progress: Arc<Progress> = Arc::default();
    let mut writer = PackageWriter::open(to.path(), WriterOptions::default(), Arc::clone(&progress)).unwrap();
    let fill = |to: &mut (dyn Write + Send)| {
        progress.stop.store(true, Relaxed);
        to.write_all(b"x").map_err(|error| error.to_string())
    };
    let path = PackagePath::new("db/dump.sql").unwrap();
    let error = writer.put_with(&path, fill, |error| error.to_string()).unwrap_err();
    assert_eq!(error, WriteError::Stopped.to_string());
}

/// Sets the flag that ends the work once it was read from.
struct Ends<'a>(&'a [u8], &'a Progress);

impl Read for Ends<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1.stop.store(true, Relaxed);
        self.0.read(buffer)
    }
}

/// A caller may store a blob within `io::copy`, which tries again after [`io::ErrorKind::Interrupted`].
#[test]
fn a_blob_that_is_stored_ends_with_an_error_that_nothing_tries_again() {
    for part_size in [None, Some(1 << 20)] {
        let to = tempfile::tempdir().unwrap();
        let progress: Arc<Progress> = Arc::default();
        let options = WriterOptions { part_size, ..WriterOptions::default() };
        let mut writer = PackageWriter::open(to.path(), options, Arc::clone(&progress)).unwrap();
        let error = writer.blob(&mut Ends(&noise(1 << 20, 7), &progress)).unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::Interrupted);
        assert!(is_stop(&error), "{error}");
    }
}
