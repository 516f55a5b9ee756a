//! Parts that one export wrote and the next one writes again, both of which were interrupted.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{Export, Tree, assert_whole, folders, names, noise, path};
use crate::{
    package::Package,
    verify::Progress,
    writer::{Sums, WriteError},
};

/// Copies the files of a folder into parts of 1 MiB, behind a text. It is stopped after `most` bytes, if that is less.
fn in_parts(weights: &Path, to: &Path, text: &str, most: Option<u64>) -> Option<Package> {
    let export = Export { weights, to, part_size: Some(1 << 20), base: None, id: "1", dump: b"" };
    let progress: Arc<Progress> = Arc::default();
    let mut writer = export.begin(&progress).unwrap();
    let watcher = most.map(|most| {
        let seen = Arc::clone(&progress);
        std::thread::spawn(move || {
            while seen.bytes.load(Relaxed) < most {
                std::thread::yield_now();
            }
            seen.stop.store(true, Relaxed);
        })
    });
    let copied = (|| {
        if !text.is_empty() {
            writer.put(&path("about"), &mut text.as_bytes())?;
        }
        let mut names = names(weights);
        names.sort();
        names
            .iter()
            .try_for_each(|it| writer.copy(&path(it), &weights.join(it), &mut Sums::default()).map(drop))
    })();
    if let Some(watcher) = watcher {
        watcher.join().unwrap();
        assert!(matches!(copied, Err(WriteError::Stopped)), "{copied:?}");
        return None;
    }
    copied.unwrap();
    Some(export.end(writer))
}

#[test]
fn parts_that_were_written_again_are_not_taken_for_what_they_were() {
    let (weights, to) = folders();
    let mut tree = Tree::from([("large".to_owned(), noise(100 << 20, 3))]);
    fs::write(weights.path().join("large"), &tree["large"]).unwrap();
    // A text that stands before the large file is another one each time, and once an export is stopped behind it again.
    in_parts(weights.path(), to.path(), "first", Some(70 << 20));
    in_parts(weights.path(), to.path(), "other", Some(40 << 20));
    tree.insert("about".to_owned(), b"third".to_vec());
    assert_whole(&in_parts(weights.path(), to.path(), "third", None).unwrap(), &tree);

    // A file is changed for an export that dies before its journal has it, and is as it was for the next.
    let (weights, to) = folders();
    let small = weights.path().join("a");
    let [one, two] = [5, 6].map(|seed| noise(3 << 20, seed));
    let tree = Tree::from([("a".to_owned(), one.clone()), ("large".to_owned(), noise(100 << 20, 3))]);
    fs::write(weights.path().join("large"), &tree["large"]).unwrap();
    fs::write(&small, &one).unwrap();
    in_parts(weights.path(), to.path(), "", Some(70 << 20));
    fs::write(&small, &two).unwrap();
    in_parts(weights.path(), to.path(), "", Some(2 << 20));
    fs::write(&small, &one).unwrap();
    assert_whole(&in_parts(weights.path(), to.path(), "", None).unwrap(), &tree);
}
