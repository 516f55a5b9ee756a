//! A thousand random bit flips and cuts, anywhere in a signed package: each is found, and named by its file.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use gantry_package::{
    contents::Contents,
    manifest::{CHECKSUMS, MANIFEST, SIGNATURE},
    package::Package,
    path::{LinkTarget, PackagePath},
    sign::{PublicKey, SecretKey, Signature, generate, sign},
    verify::{Progress, verify},
    writer::{Origin, PackageWriter, WriterOptions},
};
use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use tempfile::TempDir;

struct Signed {
    dir: TempDir,
    key: PublicKey,
    /// All files but empty ones, which have no bit, with what they hold.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Signed {
    fn new(part_size: Option<u64>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let keys = generate(None).unwrap();
        let secret = SecretKey::parse(&keys.secret, None).unwrap();
        let options = WriterOptions { part_size, ..WriterOptions::default() };
        let mut writer = PackageWriter::open(dir.path(), options, Arc::default()).unwrap();
        let path = |name: &str| PackagePath::new(name).unwrap();
        for (name, size) in [
            ("manifests/model-1.json", 300),
            ("db/dump.sql", 5_000),
            ("models/a/config.json", 64),
            ("models/a/model.safetensors", 70_000),
            ("models/b.gguf", 1),
            ("models/empty", 0),
        ] {
            writer.put(&path(name), &mut vec![b'x'; size].as_slice()).unwrap();
        }
        writer.link(&path("models/a/link"), LinkTarget::new("config.json")).unwrap();
        let origin = Origin {
            id: "0190f0f0-0000-7000-8000-000000000001".to_owned(),
            created_at: "2026-01-02T03:04:05Z".to_owned(),
            gateway_version: "0.1.0".to_owned(),
        };
        let by = |text: &mut dyn std::io::Read| {
            sign(text, &origin.id, &origin.created_at, &secret).map_err(std::io::Error::other)
        };
        writer.finish(&origin, &Contents::default(), Some(&by)).unwrap();
        let mut files = Vec::new();
        collect(dir.path(), &mut files);
        files.retain(|(_, content)| !content.is_empty());
        files.sort();
        Self { dir, key: PublicKey::parse(&keys.public).unwrap(), files }
    }

    /// Returns what a verification with the key finds, a line for each problem.
    fn problems(&self) -> Vec<String> {
        let package = match Package::open(self.dir.path()) {
            Ok(package) => package,
            Err(error) => return vec![format!("{MANIFEST}: {error}")],
        };
        let signed = Signature::read(self.dir.path()).map_err(|error| error.to_string()).and_then(|it| {
            let signature = it.ok_or("not signed")?;
            signature.verify_package(&package, &self.key).map_err(|error| error.to_string())
        });
        let mut found: Vec<String> = signed.err().into_iter().collect();
        let problems = verify(&package, 2, &Progress::default()).unwrap();
        found.extend(problems.iter().map(ToString::to_string));
        found
    }
}

fn collect(dir: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.push((entry.path(), fs::read(entry.path()).unwrap()));
        }
    }
}

/// Whether a problem names the file. A manifest that was changed is no longer the one that was signed, and parts are named
/// by the files that lie in them.
fn names(problem: &str, name: &str) -> bool {
    match name {
        MANIFEST => problem.contains("manifest"),
        name if name.starts_with("parts/") => {
            ["models/", "manifests/", "db/", "parts/"].iter().any(|it| problem.contains(&format!("`{it}")))
        }
        name => problem.contains(&format!("`{name}`")),
    }
}

/// Whether nothing depends on the place: the first line of a signature is free text, and its last line may end without a
/// line break.
fn is_free(name: &str, content: &[u8], at: usize, cut: bool) -> bool {
    let in_comment = content[..at].iter().all(|it| *it != b'\n');
    name == SIGNATURE && if cut { at + 1 == content.len() } else { in_comment }
}

fn every_damage_is_found(part_size: Option<u64>) {
    let package = Signed::new(part_size);
    assert_eq!(package.problems(), [""; 0]);
    let total: usize = package.files.iter().map(|(_, content)| content.len()).sum();
    // Half of the damages are drawn by file, so that small files get their share.
    let place = (any::<Index>(), any::<Index>(), any::<bool>());
    let damage = (place, 0..8_u8, any::<bool>());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(500));
    let done = runner.run(&damage, |((file, byte, by_file), bit, cut)| {
        let (path, content, at) = if by_file {
            let (path, content) = &package.files[file.index(package.files.len())];
            (path, content, byte.index(content.len()))
        } else {
            let mut at = byte.index(total);
            let found = package.files.iter().find(|(_, content)| {
                let here = at < content.len();
                at -= if here { 0 } else { content.len() };
                here
            });
            let (path, content) = found.unwrap();
            (path, content, at)
        };
        let name = path.strip_prefix(package.dir.path()).unwrap().display().to_string();
        prop_assume!(!is_free(&name, content, at, cut));
        let mut damaged = content.clone();
        if cut {
            damaged.truncate(at);
        } else {
            damaged[at] ^= 1 << bit;
        }
        fs::write(path, damaged).unwrap();
        let found = package.problems();
        fs::write(path, content).unwrap();
        prop_assert!(
            found.iter().any(|it| names(it, &name)),
            "{name}, byte {at}, bit {bit}, cut {cut}: {found:?}"
        );
        Ok(())
    });
    done.unwrap();
    assert_eq!(package.problems(), [""; 0], "nothing is left of the damages");
    assert!(package.files.iter().any(|(path, _)| path.ends_with(CHECKSUMS)));
}

#[test]
fn every_bit_flip_and_cut_is_named_by_its_file() {
    every_damage_is_found(None);
}

#[test]
fn every_bit_flip_and_cut_of_a_package_in_parts_is_named() {
    every_damage_is_found(Some(1 << 20));
}

/// The last digits of Base64 have bits that stand for nothing.
#[test]
fn every_bit_at_the_ends_of_the_signatures_lines_counts() {
    let package = Signed::new(None);
    let (path, content) = package.files.iter().find(|(path, _)| path.ends_with(SIGNATURE)).unwrap();
    let ends = content.iter().enumerate().filter(|(_, it)| **it == b'\n').map(|(at, _)| at).skip(1);
    for at in ends.flat_map(|end| end - 4..=end) {
        for bit in 0..8 {
            let mut damaged = content.clone();
            damaged[at] ^= 1 << bit;
            fs::write(path, damaged).unwrap();
            let found = package.problems();
            assert!(found.iter().any(|it| names(it, SIGNATURE)), "byte {at}, bit {bit}: {found:?}");
        }
    }
}
