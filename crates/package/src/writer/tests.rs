//! Exports on real files: whole, repeated, interrupted anywhere, in parts, and as differences.

mod differences;
mod rewritten;
mod stopped;

use std::{collections::BTreeMap, os::unix::fs::MetadataExt, process::Command};

use tempfile::TempDir;

use super::*;
use crate::{contents::Image, hashing::Hasher, images::ImageSink, manifest::CHECKSUMS, verify::verify};

/// A tree of weights: name and content.
type Tree = BTreeMap<String, Vec<u8>>;

struct Export<'a> {
    weights: &'a Path,
    to: &'a Path,
    part_size: Option<u64>,
    base: Option<&'a Path>,
    id: &'a str,
    dump: &'a [u8],
}

fn path(name: &str) -> PackagePath {
    PackagePath::new(name).unwrap()
}

fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn tree(dir: &Path) -> Tree {
    let files = ["models/a/config.json", "models/a/model.safetensors", "models/b.gguf", "models/c/empty"];
    let mut tree = Tree::new();
    for (n, name) in files.into_iter().enumerate() {
        let content = match n {
            3 => Vec::new(),
            n => noise(1000 + n * 3_000_000, n as u32 + 1),
        };
        let file = dir.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &content).unwrap();
        tree.insert(name.to_owned(), content);
    }
    tree
}

/// An image of one blob.
fn image() -> Image {
    let mut hasher = Hasher::default();
    hasher.update(&noise(700_000, 77));
    let image_digest = hasher.finish();
    Image {
        reference: "engine:1".to_owned(),
        config: format!("sha256:{image_digest}"),
        layers: Vec::new(),
        size: 700_000,
        version: None,
        architecture: "amd64".to_owned(),
        manifest: image_digest,
        manifest_size: 700_000,
    }
}

fn base_of(dir: &Path) -> BaseManifest {
    let package = Package::open(dir).unwrap();
    BaseManifest { manifest: package.manifest().clone(), sha256: package.manifest_sha256() }
}

impl Export<'_> {
    fn begin(&self, progress: &Arc<Progress>) -> Result<PackageWriter, WriteError> {
        let options = WriterOptions {
            part_size: self.part_size,
            base: self.base.map(base_of),
            now_ms: 1_700_000_000_000,
            journal_secret: Some("of this gateway".into()),
        };
        PackageWriter::open(self.to, options, Arc::clone(progress))
    }

    /// Does everything but the end.
    fn fill(&self, writer: &mut PackageWriter, sums: &mut Sums) -> Result<(), WriteError> {
        if writer.take_image(&image().config, sums)?.is_none() {
            for _ in 0..2 {
                let (sum, size) = writer.blob(&mut &noise(700_000, 77)[..]).unwrap();
                assert_eq!((format!("sha256:{sum}"), size), (image().config, 700_000));
            }
            writer.image_done(&image());
        }
        let mut names: Vec<_> = names(self.weights);
        names.sort();
        for name in names {
            writer.copy(&path(&name), &self.weights.join(&name), sums)?;
        }
        writer.link(&path("hub-cache/x/link"), LinkTarget::new("../y"))?;
        let dump = |to: &mut (dyn Write + Send)| to.write_all(self.dump).map_err(at("db/dump.sql"));
        writer.put_in_pieces(&path("db/dump.sql"), &path("db/dump.pieces"), dump, |error| error)
    }

    fn run(&self, sums: &mut Sums) -> Package {
        let mut writer = self.begin(&Arc::default()).unwrap();
        self.fill(&mut writer, sums).unwrap();
        self.end(writer)
    }

    fn end(&self, writer: PackageWriter) -> Package {
        let origin = Origin {
            id: self.id.to_owned(),
            created_at: "2026-01-02T03:04:05Z".to_owned(),
            gateway_version: "0.1.0".to_owned(),
        };
        writer.finish(&origin, &Contents { images: vec![image()], ..Contents::default() }, None).unwrap()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

fn content(package: &Package, name: &str) -> Vec<u8> {
    let mut read = Vec::new();
    package.content(&path(name)).unwrap().read_to_end(&mut read).unwrap();
    read
}

fn assert_whole(package: &Package, tree: &Tree) {
    assert_eq!(verify(package, 2, &Progress::default()).unwrap(), []);
    for (name, wanted) in tree {
        assert!(content(package, name) == *wanted, "{name}");
    }
    let mut command = Command::new("sha256sum");
    let checked = command.args(["-c", "--strict", "--quiet", CHECKSUMS]).current_dir(package.dir());
    assert!(checked.status().unwrap().success());
}

fn folders() -> (TempDir, TempDir) {
    (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap())
}

#[test]
fn a_second_export_writes_what_changed_and_removes_what_is_gone() {
    let (weights, to) = folders();
    let mut tree = tree(weights.path());
    let dir = to.path().join("p");
    let export =
        Export { weights: weights.path(), to: &dir, part_size: None, base: None, id: "1", dump: b"x" };
    let package = export.run(&mut Sums::default());
    assert_whole(&package, &tree);
    assert_eq!(package.manifest().links.len(), 1);
    let inode = |name: &str| fs::metadata(dir.join(name)).unwrap().ino();
    let before: BTreeMap<_, _> = tree.keys().map(|it| (it.clone(), inode(it))).collect();

    // Same size, another content.
    let changed = noise(tree["models/b.gguf"].len(), 99);
    fs::write(weights.path().join("models/b.gguf"), &changed).unwrap();
    tree.insert("models/b.gguf".to_owned(), changed);
    fs::remove_file(weights.path().join("models/a/config.json")).unwrap();
    tree.remove("models/a/config.json");
    let package = Export { id: "2", ..export }.run(&mut Sums::default());
    assert_whole(&package, &tree);
    assert!(!dir.join("models/a/config.json").exists());
    assert_eq!(
        inode("models/a/model.safetensors"),
        before["models/a/model.safetensors"],
        "it was not written"
    );
    assert_ne!(inode("models/b.gguf"), before["models/b.gguf"]);
    assert_eq!(names(&dir).iter().filter(|it| it.contains("export")).count(), 0, "nothing else is left");
}

#[test]
fn a_file_of_the_package_that_was_changed_since_is_written_again() {
    let (weights, to) = folders();
    let tree = tree(weights.path());
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    export.run(&mut Sums::default());
    fs::write(to.path().join("models/b.gguf"), noise(tree["models/b.gguf"].len(), 5)).unwrap();
    let modified = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_hours(1);
    File::options()
        .write(true)
        .open(to.path().join("models/b.gguf"))
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_whole(&export.run(&mut Sums::default()), &tree);
}

/// Flips a bit in the middle of a file, whose size and time stay as they are.
fn damage(file: &Path) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    let mut content = fs::read(file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(file, content).unwrap();
    File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
}

#[test]
fn a_file_of_the_package_that_was_damaged_is_written_again() {
    let blob = format!("images/blobs/sha256/{}", image().manifest);
    for (part_size, name) in [
        (None, "models/b.gguf"),
        (None, blob.as_str()),
        (Some(1 << 20), "parts/000001"),
        (Some(1 << 20), "parts/000004"),
    ] {
        let (weights, to) = folders();
        let (tree, dir) = (tree(weights.path()), to.path().join("p"));
        let export = Export { weights: weights.path(), to: &dir, part_size, base: None, id: "1", dump: b"x" };
        let mut sums = Sums::load(&to.path().join("sums"), 4_102_444_800_000);
        export.run(&mut sums);
        // What was read once is known, and noticed all the same when it is changed.
        assert_whole(&export.run(&mut sums), &tree);
        damage(&dir.join(name));
        assert_whole(&export.run(&mut sums), &tree);
        // So is what an export wrote that was interrupted.
        let dir = to.path().join("fresh");
        let export = Export { to: &dir, ..export };
        let mut writer = export.begin(&Arc::default()).unwrap();
        export.fill(&mut writer, &mut sums).unwrap();
        writer.journal.flush().unwrap();
        drop(writer);
        damage(&dir.join(STAGING).join("files").join(name));
        assert_whole(&export.run(&mut sums), &tree);
    }
}

#[test]
fn a_part_whose_sum_the_manifest_does_not_have_is_not_taken_with_that_sum() {
    let (weights, to) = folders();
    let tree = tree(weights.path());
    let part_size = Some(1 << 20);
    let export =
        Export { weights: weights.path(), to: to.path(), part_size, base: None, id: "1", dump: b"x" };
    let right = export.run(&mut Sums::default()).manifest().parts.clone().unwrap().sha256[1];
    let file = to.path().join(crate::manifest::MANIFEST);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(&right.to_string(), &"0".repeat(64))).unwrap();
    let problems = verify(&Package::open(to.path()).unwrap(), 2, &Progress::default()).unwrap();
    let wrong = crate::verify::Problem::Content(path("parts/000002"));
    assert_eq!(problems, [wrong, crate::verify::Problem::Checksums]);
    let package = export.run(&mut Sums::default());
    assert_eq!(package.manifest().parts.as_ref().unwrap().sha256[1], right);
    assert_whole(&package, &tree);
}

#[test]
fn parts_are_equal_but_the_last_and_a_second_export_goes_on_after_what_is_the_same() {
    let (weights, to) = folders();
    let mut tree = tree(weights.path());
    let size = 1 << 20;
    let export = Export {
        weights: weights.path(),
        to: to.path(),
        part_size: Some(size),
        base: None,
        id: "1",
        dump: b"x",
    };
    let package = export.run(&mut Sums::default());
    assert_whole(&package, &tree);
    let parts = package.manifest().parts.as_ref().unwrap().sha256.len() as u64;
    let part = |index| fs::metadata(to.path().join(Manifest::part_name(index))).unwrap();
    assert!(parts > 5 && (0..parts - 1).all(|it| part(it).len() == size) && part(parts - 1).len() < size);
    let first = part(0).ino();

    fs::write(weights.path().join("models/b.gguf"), b"small now").unwrap();
    tree.insert("models/b.gguf".to_owned(), b"small now".to_vec());
    let package = Export { dump: b"longer than before", ..export }.run(&mut Sums::default());
    assert_whole(&package, &tree);
    assert_eq!(content(&package, "db/dump.sql"), b"longer than before");
    assert_eq!(part(0).ino(), first, "it was not written");
    assert!(!to.path().join(Manifest::part_name(parts - 1)).exists());
}

#[test]
fn a_difference_has_what_changed_and_is_whole_with_its_base_only() {
    for part_size in [None, Some(1 << 20)] {
        let (weights, to) = folders();
        let mut tree = tree(weights.path());
        let (base, other, dir) = (to.path().join("base"), to.path().join("other"), to.path().join("new"));
        let full =
            Export { weights: weights.path(), to: &base, part_size: None, base: None, id: "1", dump: b"x" };
        full.run(&mut Sums::default());
        Export { to: &other, id: "3", ..full }.run(&mut Sums::default());
        // A file that was moved is in the base, too.
        fs::rename(weights.path().join("models/b.gguf"), weights.path().join("models/d.gguf")).unwrap();
        let moved = tree.remove("models/b.gguf").unwrap();
        tree.insert("models/d.gguf".to_owned(), moved);
        let difference = Export {
            weights: weights.path(),
            to: &dir,
            part_size,
            base: Some(&base),
            id: "2",
            dump: b"changed",
        };
        let package = difference.run(&mut Sums::default());
        assert_eq!(package.manifest().size(), 7);
        assert_eq!(verify(&package, 2, &Progress::default()).unwrap(), [], "what is in it");
        let missing = package.content(&path("models/d.gguf")).unwrap_err();
        assert!(missing.to_string().contains("`models/d.gguf` is in the base package"), "{missing}");
        let package = package.with_base(Package::open(&base).unwrap()).unwrap();
        assert_whole(&package, &tree);

        let package = Package::open(&dir).unwrap();
        let refused = package.with_base(Package::open(&other).unwrap()).unwrap_err().to_string();
        assert!(refused.contains("is the package 3, and the difference needs the package 1"), "{refused}");
    }
}

/// Reads like a file, and fails after so many bytes.
struct Unplugged<'a>(&'a [u8], usize);

impl Read for Unplugged<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(self.0.len()).min(self.1);
        if n == 0 && !self.0.is_empty() {
            return Err(io::Error::other("unplugged"));
        }
        buffer[..n].copy_from_slice(&self.0[..n]);
        (self.0, self.1) = (&self.0[n..], self.1 - n);
        Ok(n)
    }
}

#[test]
fn an_export_that_was_interrupted_goes_on_and_a_stale_rest_is_not_taken() {
    for part_size in [None, Some(1 << 20)] {
        let (weights, to) = folders();
        let mut tree = tree(weights.path());
        let large = noise(100 << 20, 3);
        fs::write(weights.path().join("models/large"), &large).unwrap();
        tree.insert("models/large".to_owned(), large);
        let export =
            Export { weights: weights.path(), to: to.path(), part_size, base: None, id: "1", dump: b"x" };
        // It is stopped in the large file.
        let progress: Arc<Progress> = Arc::default();
        let mut writer = export.begin(&progress).unwrap();
        let at_bytes = 9_000_000 + (70 << 20);
        let seen = Arc::clone(&progress);
        let watcher = std::thread::spawn(move || {
            while seen.bytes.load(Relaxed) < at_bytes {
                std::thread::yield_now();
            }
            seen.stop.store(true, Relaxed);
        });
        let stopped = export.fill(&mut writer, &mut Sums::default()).unwrap_err();
        assert!(matches!(stopped, WriteError::Stopped), "{stopped}");
        watcher.join().unwrap();
        drop(writer);
        assert!(matches!(Package::open(to.path()), Err(crate::package::OpenError::Incomplete(_))));

        let progress: Arc<Progress> = Arc::default();
        let mut writer = export.begin(&progress).unwrap();
        let mut partial = writer.partial.clone().unwrap();
        assert_eq!(partial.path.as_str(), "models/large");
        assert!(partial.done >= 32 << 20, "{}", partial.done);
        // One whose source is another file now, is not gone on with.
        partial.source = Ident::of(&fs::metadata(weights.path().join("models/b.gguf")).unwrap());
        export.fill(&mut writer, &mut Sums::default()).unwrap();
        assert_whole(&export.end(writer), &tree);

        // What lay in the staging folder of an export of another kind is not taken either.
        let mut writer = Export { part_size: Some(2 << 20), ..export }.begin(&progress).unwrap();
        let torn = writer.put(&path("db/dump.sql"), &mut Unplugged(&[1; 100], 50)).unwrap_err();
        assert!(torn.to_string().contains("unplugged"), "{torn}");
        drop(writer);
        assert_whole(&Package::open(to.path()).unwrap(), &tree);
        assert_whole(&Export { id: "4", ..export }.run(&mut Sums::default()), &tree);
    }
}

#[test]
fn an_export_does_not_go_on_with_a_journal_that_somebody_else_wrote() {
    let (weights, to) = folders();
    let tree = tree(weights.path());
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    let interrupted = || {
        let mut writer = export.begin(&Arc::default()).unwrap();
        export.fill(&mut writer, &mut Sums::default()).unwrap();
        writer.journal.flush().unwrap();
    };
    let file = to.path().join(STAGING).join("journal");
    interrupted();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.split_inclusive('\n').collect();

    // The last line is cut: those before it count, and so do those that are added then.
    fs::write(&file, &text[..text.len() - 5]).unwrap();
    let writer = export.begin(&Arc::default()).unwrap();
    assert_eq!(writer.known.len(), lines.len() - 3, "no `begin`, no image, and not the last file");
    drop(writer);
    assert_eq!(fs::read_to_string(&file).unwrap(), lines[..lines.len() - 1].concat());
    interrupted();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    let (mac, json) = lines[1].split_once(' ').unwrap();
    let with_sum = json.replacen("\"sha256\":\"", "\"sha256\":\"0", 1).replacen("0\",", "\",", 1);
    let mut by_other = Vec::new();
    let other = Key::new(Some(&"of another gateway".into())).unwrap();
    other.write(&Line::Image(image()), &mut by_other).unwrap();
    let by_other = String::from_utf8(by_other).unwrap();
    for line in [format!("{mac} {with_sum}"), json.to_owned(), by_other, "\n".to_owned()] {
        fs::write(&file, [lines[0], &line, &lines[1..].concat()].concat()).unwrap();
        let writer = export.begin(&Arc::default()).unwrap();
        assert_eq!((writer.known.len(), writer.known_images.len()), (0, 0), "{line}");
        drop(writer);
        assert_eq!(fs::read_to_string(&file).unwrap(), lines[0], "{line}");
    }
    assert_whole(&export.run(&mut Sums::default()), &tree);
}

#[test]
fn an_export_that_was_interrupted_in_a_hole_goes_on_there() {
    let (weights, to) = folders();
    let file = weights.path().join("models/sparse");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, noise(40 << 20, 9)).unwrap();
    File::options().write(true).open(&file).unwrap().set_len(640 << 20).unwrap();
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    let progress: Arc<Progress> = Arc::default();
    let mut writer = export.begin(&progress).unwrap();
    let seen = Arc::clone(&progress);
    let watcher = std::thread::spawn(move || {
        while seen.bytes.load(Relaxed) < 540 << 20 {
            std::thread::yield_now();
        }
        seen.stop.store(true, Relaxed);
    });
    let stopped = export.fill(&mut writer, &mut Sums::default()).unwrap_err();
    assert!(matches!(stopped, WriteError::Stopped), "{stopped}");
    watcher.join().unwrap();
    drop(writer);

    let read = || {
        let io = fs::read_to_string("/proc/thread-self/io").unwrap();
        io.lines().next().unwrap().trim_start_matches("rchar: ").parse::<u64>().unwrap()
    };
    let before = read();
    let package = export.run(&mut Sums::default());
    let again = (read() - before) >> 20;
    assert!(again <= 640 - 540 + 64 + 2, "{again} of 640 MiB were read again");
    assert_eq!(verify(&package, 2, &Progress::default()).unwrap(), []);
}

#[test]
fn putting_in_place_is_completed_by_the_next_run() {
    let (weights, to) = folders();
    let first = tree(weights.path());
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    export.run(&mut Sums::default());
    fs::write(weights.path().join("models/b.gguf"), b"new").unwrap();
    fs::remove_file(weights.path().join("models/a/config.json")).unwrap();
    let mut second = first.clone();
    second.insert("models/b.gguf".to_owned(), b"new".to_vec());
    second.remove("models/a/config.json");

    let mut writer = Export { id: "2", ..export }.begin(&Arc::default()).unwrap();
    export.fill(&mut writer, &mut Sums::default()).unwrap();
    assert_whole(&Package::open(to.path()).unwrap(), &first);
    // A folder where a file is to go: putting in place fails after the point of no return.
    let obstacle = to.path().join("db/dump.sql");
    fs::remove_file(&obstacle).unwrap();
    fs::create_dir_all(obstacle.join("x")).unwrap();
    let origin = Origin { id: "2".to_owned(), created_at: String::new(), gateway_version: String::new() };
    writer.finish(&origin, &Contents::default(), None).unwrap_err();
    assert!(matches!(Package::open(to.path()), Err(crate::package::OpenError::Incomplete(_))));
    fs::remove_dir_all(&obstacle).unwrap();

    let writer = export.begin(&Arc::default()).unwrap();
    writer.discard().unwrap();
    let package = Package::open(to.path()).unwrap();
    assert_eq!(package.manifest().id, "2");
    assert_whole(&package, &second);
}

#[test]
fn an_export_that_is_discarded_leaves_nothing_or_the_package_as_it_was() {
    let (weights, to) = folders();
    let tree = tree(weights.path());
    let dir = to.path().join("p");
    let export =
        Export { weights: weights.path(), to: &dir, part_size: None, base: None, id: "1", dump: b"x" };
    let mut writer = export.begin(&Arc::default()).unwrap();
    export.fill(&mut writer, &mut Sums::default()).unwrap();
    writer.discard().unwrap();
    assert!(!dir.exists());
    export.run(&mut Sums::default());
    let mut writer = Export { dump: b"other", ..export }.begin(&Arc::default()).unwrap();
    Export { dump: b"other", ..export }.fill(&mut writer, &mut Sums::default()).unwrap();
    let busy = export.begin(&Arc::default()).unwrap_err();
    assert!(matches!(busy, WriteError::Busy(_)), "{busy}");
    writer.discard().unwrap();
    assert_whole(&Package::open(&dir).unwrap(), &tree);
}

#[test]
fn a_folder_with_something_else_in_it_is_refused_and_stays_as_it_is() {
    let (weights, to) = folders();
    tree(weights.path());
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    fs::write(to.path().join("thesis.txt"), "x").unwrap();
    let refused = export.begin(&Arc::default()).unwrap_err().to_string();
    assert!(refused.contains("has something else in it") && refused.contains("thesis.txt"), "{refused}");
    assert_eq!(names(to.path()), ["thesis.txt"]);
    // What an operating system left is nobody's.
    fs::rename(to.path().join("thesis.txt"), to.path().join(".DS_Store")).unwrap();
    export.run(&mut Sums::default());
}

#[test]
fn holes_stay_holes_and_links_are_not_read() {
    let (weights, to) = folders();
    let sparse = weights.path().join("models/sparse");
    fs::create_dir_all(sparse.parent().unwrap()).unwrap();
    File::create(&sparse).unwrap().set_len(64 << 20).unwrap();
    let export =
        Export { weights: weights.path(), to: to.path(), part_size: None, base: None, id: "1", dump: b"x" };
    let package = export.run(&mut Sums::default());
    assert_eq!(verify(&package, 2, &Progress::default()).unwrap(), []);
    let copy = fs::metadata(to.path().join("models/sparse")).unwrap();
    assert_eq!((copy.len(), copy.blocks()), (64 << 20, 0));

    let mut writer = export.begin(&Arc::default()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", weights.path().join("models/link")).unwrap();
    let source = weights.path().join("models/link");
    assert!(writer.copy(&path("models/link"), &source, &mut Sums::default()).is_err());
}

#[test]
fn a_run_that_was_killed_has_remembered_the_sums_that_it_made() {
    let (weights, to) = folders();
    tree(weights.path());
    let ident = Ident::of(&fs::metadata(weights.path().join("models/b.gguf")).unwrap());
    let sum: Sha256Sum = "0".repeat(64).parse().unwrap();
    let (stored, in_2100) = (to.path().join("sums"), 4_102_444_800_000);
    // The run before was killed while it wrote a line.
    fs::write(&stored, "[{\"device\":1,\"in\n").unwrap();
    let mut sums = Sums::load(&stored, in_2100);
    sums.put(ident, sum);
    assert_eq!(Sums::load(&stored, in_2100).get(&ident), Some(sum));
    sums.store().unwrap();
    assert_eq!(Sums::load(&stored, in_2100).get(&ident), Some(sum));
    assert_eq!(fs::read_to_string(&stored).unwrap().lines().count(), 1, "what can't be read is gone");
}

#[test]
fn sums_of_files_that_did_not_change_are_not_read_again() {
    let (weights, to) = folders();
    tree(weights.path());
    let (file, stored) = (weights.path().join("models/b.gguf"), to.path().join("sums"));
    let ident = Ident::of(&fs::metadata(&file).unwrap());
    let sum: Sha256Sum = "0".repeat(64).parse().unwrap();
    let mut sums = Sums::load(&stored, 1_700_000_000_000);
    // The run begins in 2023, and the file is newer.
    sums.put(ident, sum);
    assert_eq!(sums.get(&ident), None, "it may still change without another time");
    sums.known.insert(ident, sum);
    sums.changed = true;
    sums.store().unwrap();
    assert_eq!(Sums::load(&stored, 1_700_000_000_000).get(&ident), Some(sum));
    fs::write(&file, "x").unwrap();
    assert_eq!(Sums::load(&stored, 1_700_000_000_000).get(&Ident::of(&fs::metadata(&file).unwrap())), None);
}
