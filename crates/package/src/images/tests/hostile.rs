//! Archives and blobs that are not what they say.

use std::io::Write;

use proptest::prelude::*;

use super::*;

/// Returns the error for the archive of one image, after a change to its entries.
fn refused(change: impl FnOnce(&mut Items)) -> String {
    let mut items = classic(&three()[1..2]);
    change(&mut items);
    take(&pack(&items)).unwrap_err().to_string()
}

fn find<'a>(items: &'a mut Items, end: &str) -> &'a mut (String, Item) {
    items.iter_mut().find(|(name, _)| name.ends_with(end)).unwrap()
}

fn file(bytes: &[u8]) -> Item {
    Item::File(bytes.to_vec())
}

fn list(config: &str, tags: &Value, layers: &Value) -> Item {
    text(&json!([{ "Config": config, "RepoTags": tags, "Layers": layers }]))
}

#[test]
fn names_and_links_that_lead_out_are_refused_by_name() {
    for name in ["/etc/passwd", "../x", "a/../../x", "a/..", "", "a\nb", "..", "x/./../y"] {
        let error = refused(|items| items.push((name.to_owned(), file(b"x"))));
        assert!(error.contains(&format!("the entry {name:?} ")), "{name:?}: {error}");
        assert!(error.contains("leads out"), "{name:?}: {error}");
    }
    for target in ["/etc/passwd", "../../x", "..", ""] {
        let error = refused(|items| items.push(("a/link".to_owned(), Item::Link(target.to_owned()))));
        assert!(
            error.contains("\"a/link\"") && error.contains("a link that leads out"),
            "{target:?}: {error}"
        );
    }
    let long = "n".repeat(300);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header(tar::EntryType::Regular, 1), &long, &b"x"[..]).unwrap();
    let error = take(&archive.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.contains("too long") && error.len() < 400, "{error}");
}

#[test]
fn only_files_folders_and_symbolic_links_are_taken() {
    for kind in [
        tar::EntryType::Link,
        tar::EntryType::Char,
        tar::EntryType::Block,
        tar::EntryType::Fifo,
        tar::EntryType::Continuous,
        tar::EntryType::XGlobalHeader,
    ] {
        let mut header = header(kind, 0);
        header.set_path("node").unwrap();
        header.set_cksum();
        let mut archive = tar::Builder::new(Vec::new());
        archive.append(&header, &b""[..]).unwrap();
        let error = take(&archive.into_inner().unwrap()).unwrap_err().to_string();
        assert!(error.contains("\"node\"") && error.contains("neither a file"), "{kind:?}: {error}");
    }
}

#[test]
fn an_archive_that_contradicts_itself_is_refused_by_entry() {
    let cases: Vec<(&str, String)> = vec![
        (
            "is there twice",
            refused(|it| {
                let entry = find(it, ".json").clone();
                it.push(entry);
            }),
        ),
        ("is there twice", refused(|it| it.push(("manifest.json".to_owned(), Item::Link("x".to_owned()))))),
        (
            "\"manifest.json\" of the archive of images is missing",
            refused(|it| it.retain(|(name, _)| name != "manifest.json")),
        ),
        (
            "/layer.tar\" of the archive of images is missing",
            refused(|it| it.retain(|(name, _)| !name.ends_with("layer.tar"))),
        ),
        ("is not the layer that", refused(|it| find(it, "layer.tar").1 = file(&layer("other", b"x")))),
        ("is not the layer that", refused(|it| find(it, "layer.tar").1 = file(b""))),
        (
            "a link to a link",
            refused(|it| {
                let entry = find(it, "layer.tar");
                entry.1 = Item::Link("layer.tar".to_owned());
            }),
        ),
    ];
    for (wanted, error) in cases {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let twice = [Built::new(&["a:1"], &[layer("x", b"1")]), Built::new(&["a:1"], &[layer("x", b"2")])];
    let error = take(&pack(&classic(&twice))).unwrap_err().to_string();
    assert_eq!(error, "the image \"a:1\" is in the archive twice");
}

#[test]
fn a_list_of_images_that_does_not_fit_the_archive_is_refused() {
    let cases: Vec<(&str, String)> = vec![
        ("no list of images", refused(|it| find(it, "manifest.json").1 = file(b"{}"))),
        ("no list of images", refused(|it| find(it, "manifest.json").1 = file(&[b'['; 200_000]))),
        (
            "no list of images, or too large",
            refused(|it| find(it, "manifest.json").1 = file(&[b'['; 5 << 20])),
        ),
        ("names no images", refused(|it| find(it, "manifest.json").1 = file(b"[]"))),
        (
            "names no images, or too many",
            refused(|it| {
                let one = json!({ "Config": "x", "RepoTags": null, "Layers": [] });
                find(it, "manifest.json").1 = text(&json!(vec![one; 1001]));
            }),
        ),
        (
            "\"../x\" of the archive of images is missing",
            refused(|it| {
                find(it, "manifest.json").1 = list("../x", &json!(["a:1"]), &json!([]));
            }),
        ),
        (
            "no configuration",
            refused(|it| {
                let layer = find(it, "layer.tar").0.clone();
                find(it, "manifest.json").1 = list(&layer, &json!(["a:1"]), &json!([]));
            }),
        ),
        (
            "no configuration",
            refused(|it| {
                find(it, "manifest.json").1 = list("repositories", &json!(["a:1"]), &json!([]));
            }),
        ),
        (
            "another number of layers",
            refused(|it| {
                let config = find(it, ".json").0.clone();
                find(it, "manifest.json").1 = list(&config, &json!(["a:1"]), &json!([]));
            }),
        ),
        (
            "too many layers",
            refused(|it| {
                let (config, layer) = (find(it, ".json").0.clone(), find(it, "layer.tar").0.clone());
                find(it, "manifest.json").1 = list(&config, &json!(["a:1"]), &json!(vec![layer; 257]));
            }),
        ),
        (
            "a name that no image can have",
            refused(|it| {
                it.push(("config".to_owned(), file(&Built::new(&[], &[]).config)));
                find(it, "manifest.json").1 = list("config", &json!(["a\u{1b}[2J"]), &json!([]));
            }),
        ),
    ];
    for (wanted, error) in cases {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn blobs_and_configurations_must_be_what_their_names_say() {
    let error = refused(|it| find(it, ".json").1 = file(&three()[0].config));
    assert!(error.contains(".json\" of the archive of images has another content"), "{error}");

    let mut items = oci(&three());
    let (_, item) =
        items.iter_mut().find(|(_, item)| matches!(item, Item::File(it) if it.len() > 1000)).unwrap();
    let Item::File(bytes) = item else { panic!() };
    bytes[1000] ^= 1;
    let error = take(&pack(&items)).unwrap_err().to_string();
    assert!(error.contains("blobs/sha256/") && error.contains("another content than its name"), "{error}");
}

#[test]
fn an_archive_is_bounded_in_entries_and_headers() {
    let mut archive = tar::Builder::new(Vec::new());
    for n in 0..50_001 {
        add(&mut archive, &format!("{n}"), &Item::Folder);
    }
    let error = take(&archive.into_inner().unwrap()).unwrap_err().to_string();
    assert!(error.contains("more than 50000 entries"), "{error}");

    // A name of a gigabyte, of which nobody ever reads more than a little.
    let mut header = header(tar::EntryType::GNULongName, 1 << 30);
    header.set_cksum();
    let mut counted = Counted { read: 0, inner: header.as_bytes().chain(io::repeat(b'a')) };
    let error = take_apart(&mut counted, &mut Blobs::default()).unwrap_err().to_string();
    assert!(error.contains("headers of an entry are too long"), "{error}");
    assert!(counted.read < 1 << 20, "{}", counted.read);
}

struct Counted<R> {
    read: usize,
    inner: R,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.read += n;
        Ok(n)
    }
}

#[test]
fn an_archive_that_was_cut_anywhere_is_refused() {
    for archive in [pack(&classic(&three())), pack(&oci(&three()))] {
        // One block of zeros marks the end; the second one may be missing.
        for cut in (0..archive.len() - 1024).step_by(97).chain([archive.len() - 1024, archive.len() - 513]) {
            let error = take(&archive[..cut]).unwrap_err();
            assert!(matches!(error, ImageError::Cut), "{cut}: {error}");
        }
    }
}

/// Docker before 25 adds its error to what it has sent, when a save fails half-way.
#[test]
fn an_error_in_the_midst_of_the_archive_is_no_end() {
    let archive = pack(&classic(&three()));
    let error = br#"{"errorDetail":{"message":"no space left on device"},"error":"no space left on device"}"#;
    for cut in [512, 5120, archive.len() - 1024] {
        let mut spoiled = archive[..cut].to_vec();
        spoiled.extend(error);
        take(&spoiled).unwrap_err();
        spoiled.resize(spoiled.len() + 4096, b' ');
        take(&spoiled).unwrap_err();
    }
}

/// A stream that breaks off.
struct Fails;

impl Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the connection broke off"))
    }
}

/// A disk without any space.
struct Full;

impl ImageSink for Full {
    fn blob(&mut self, _: &mut dyn Read) -> io::Result<(Sha256Sum, u64)> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_stream_or_the_sink_is_the_error() {
    let archive = pack(&classic(&three()));
    for cut in [0, 700, archive.len() / 2] {
        let error = take_apart(&mut archive[..cut].chain(Fails), &mut Blobs::default()).unwrap_err();
        assert!(error.to_string().contains("the connection broke off"), "{cut}: {error}");
    }
    let error = take_apart(&mut archive.as_slice(), &mut Full).unwrap_err();
    assert!(matches!(error, ImageError::Store { source, .. } if source.kind() == io::ErrorKind::StorageFull));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_bit_flips_nothing_is_named_that_is_not_whole(
        items in prop_oneof![Just(classic(&three())), Just(oci(&three()))],
        place in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let mut archive = pack(&items);
        let place = place.index(archive.len());
        archive[place] ^= 1 << bit;
        if let Ok((taken, blobs)) = take(&archive) {
            let found: BTreeSet<String> = blobs.0.keys().cloned().collect();
            prop_assert!(digests(&taken).is_subset(&found));
            let sent = three().map(|it| it.described(""));
            let nameless = |it: Image| Image { reference: String::new(), ..it };
            prop_assert!(images(&taken).into_iter().all(|it| sent.contains(&nameless(it))));
        }
    }
}

#[test]
fn a_blob_that_is_not_what_it_should_be_ends_the_archive_without_an_end() {
    let (taken, blobs) = take(&pack(&classic(&three()))).unwrap();
    let images = images(&taken);
    let victim = images[0].layers[0].strip_prefix("sha256:").unwrap().to_owned();
    let error = |change: fn(&mut Blobs, &str)| {
        let mut blobs = Blobs(blobs.0.clone());
        change(&mut blobs, &victim);
        let mut archive = Vec::new();
        let error = put_together(&images, &Sized(&blobs, victim.clone(), 4608), &mut archive).unwrap_err();
        assert!(take(&archive).is_err(), "nobody takes it for an archive");
        let error = error.to_string();
        assert!(error.contains(&victim), "{error}");
        error
    };
    assert_eq!(blobs.0[&victim].len(), 4608);
    assert!(error(|it, victim| drop(it.0.remove(victim))).contains("can't be read"));
    assert!(error(|it, victim| it.of(victim).truncate(4607)).contains("has 1 bytes less than 4608"));
    assert!(error(|it, victim| it.of(victim).push(0)).contains("more than its 4608 bytes"));
    assert!(error(|it, victim| it.of(victim)[0] ^= 1).contains("another content"));
    let foreign = Image { layers: vec!["md5:00".to_owned()], ..images[0].clone() };
    let error = put_together(&[foreign], &blobs, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "the image \"a/server:1\" has a digest that is not SHA-256");
}

/// Blobs of which one is said to have this size.
struct Sized<'a>(&'a Blobs, String, u64);

impl ImageSource for Sized<'_> {
    fn blob(&self, digest: Sha256Sum) -> io::Result<(u64, Box<dyn Read + '_>)> {
        let (size, content) = self.0.blob(digest)?;
        Ok((if digest.to_string() == self.1 { self.2 } else { size }, content))
    }
}

#[test]
fn a_place_that_is_full_fails_the_archive() {
    let (taken, blobs) = take(&pack(&classic(&three()))).unwrap();
    let error = put_together(&images(&taken), &blobs, &mut Full).unwrap_err();
    assert!(matches!(error, ImageError::Write(it) if it.kind() == io::ErrorKind::StorageFull));
}
