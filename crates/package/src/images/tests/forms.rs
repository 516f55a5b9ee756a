//! What is in archives of either form, and in those that are put together.

use proptest::prelude::*;

use super::*;

fn described(built: &[Built]) -> Vec<Image> {
    let id = |it: &Built| vec![it.described(&format!("sha256:{}", it.digest()))];
    let named = |it: &Built| it.tags.iter().map(|tag| it.described(tag)).collect();
    built.iter().flat_map(|it| if it.tags.is_empty() { id(it) } else { named(it) }).collect()
}

#[test]
fn both_forms_give_the_same_images_and_nothing_else_is_stored() {
    let built = three();
    for archive in [pack(&classic(&built)), pack(&oci(&built))] {
        let (taken, blobs) = take(&archive).unwrap();
        assert_eq!(images(&taken), described(&built));
        assert_eq!(blobs.0.keys().cloned().collect::<BTreeSet<_>>(), digests(&taken));
    }
}

#[test]
fn what_was_put_together_is_taken_apart_to_the_same_blobs() {
    let (taken, blobs) = take(&pack(&classic(&three()))).unwrap();
    let mut archive = Vec::new();
    put_together(&images(&taken), &blobs, &mut archive).unwrap();
    assert_eq!(take(&archive).unwrap(), (taken.clone(), blobs));
    let mut read = tar::Archive::new(archive.as_slice());
    let path = |it: io::Result<tar::Entry<'_, _>>| it.unwrap().path().unwrap().display().to_string();
    let names: Vec<String> = read.entries().unwrap().map(path).collect();
    // Three configurations, and four layers that differ.
    assert_eq!(names.len(), 1 + 3 + 4, "{names:?}");
    assert_eq!(names[0], "manifest.json");
}

#[test]
fn the_same_blobs_give_the_same_archive() {
    let (taken, blobs) = take(&pack(&oci(&three()))).unwrap();
    let archive = || {
        let mut archive = Vec::new();
        put_together(&images(&taken), &blobs, &mut archive).unwrap();
        archive
    };
    let bytes = archive();
    assert_eq!(bytes, archive());
    let mut entries = tar::Archive::new(bytes.as_slice());
    assert!(entries.entries().unwrap().all(|it| it.unwrap().header().mtime().unwrap() == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_order_of_the_entries_does_not_matter(
        items in prop_oneof![Just(classic(&three())), Just(oci(&three()))].prop_shuffle(),
    ) {
        let (taken, blobs) = take(&pack(&items)).unwrap();
        prop_assert_eq!(images(&taken), described(&three()));
        prop_assert_eq!(blobs.0.keys().cloned().collect::<BTreeSet<_>>(), digests(&taken));
    }
}

#[test]
fn names_may_begin_with_a_dot_as_tar_writes_them() {
    let mut items: Items =
        oci(&three()).into_iter().map(|(name, item)| (format!("./{name}"), item)).collect();
    items.insert(0, ("./".to_owned(), Item::Folder));
    assert_eq!(images(&take(&pack(&items)).unwrap().0), described(&three()));
}

/// Engines with the containerd image store keep layers as the registry has them, and write further blobs.
#[test]
fn compressed_layers_stay_as_they_are_and_blobs_of_other_images_are_dropped() {
    let small = [&[0x1f, 0x8b, 8, 0][..], &[1; 20]].concat();
    let layers = [small, [&[0x28, 0xb5, 0x2f, 0xfd][..], &[2; 5000]].concat(), layer("plain", b"x")];
    let diff_ids =
        [format!("sha256:{:064}", 1), format!("sha256:{:064}", 2), format!("sha256:{}", sum(&layers[2]))];
    let image = Built::with_diff_ids(&["a:1"], &layers, &diff_ids);
    let mut items = oci(std::slice::from_ref(&image));
    let foreign = layer("another platform", b"x");
    let attestation = json!({ "predicate": "x".repeat(3000) }).to_string().into_bytes();
    for bytes in [foreign, attestation] {
        items.insert(2, (format!("blobs/sha256/{}", sum(&bytes)), Item::File(bytes)));
    }
    let (taken, blobs) = take(&pack(&items)).unwrap();
    assert_eq!(images(&taken), [image.described("a:1")]);
    assert_eq!(blobs.0.keys().cloned().collect::<BTreeSet<_>>(), digests(&taken));
    assert_eq!(diff_ids.to_vec(), super::diff_ids(&taken[0], &blobs).unwrap());
    let manifest: Value = serde_json::from_slice(&blobs.0[&taken[0].manifest.to_string()]).unwrap();
    let kinds: Vec<&str> =
        manifest["layers"].as_array().unwrap().iter().map(|it| it["mediaType"].as_str().unwrap()).collect();
    let kind = "application/vnd.oci.image.layer.v1.tar";
    assert_eq!(kinds, [&format!("{kind}+gzip"), &format!("{kind}+zstd"), kind]);
}

#[test]
fn the_documents_of_the_layout_lead_to_every_blob() {
    let (taken, blobs) = take(&pack(&classic(&three()))).unwrap();
    let documents = BTreeMap::from(layout(&taken));
    let parsed = |name: &str| serde_json::from_str::<Value>(&documents[name]).unwrap();
    let followed = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
        assert_eq!(descriptor["size"], blobs.0[&digest].len());
        digest
    };
    let (index, mut reached) = (parsed("index.json"), BTreeSet::new());
    for listed in index["manifests"].as_array().unwrap() {
        reached.insert(followed(listed));
        let manifest: Value = serde_json::from_slice(&blobs.0[&followed(listed)]).unwrap();
        reached.insert(followed(&manifest["config"]));
        reached.extend(manifest["layers"].as_array().unwrap().iter().map(followed));
    }
    assert_eq!(reached, blobs.0.keys().cloned().collect());
    let names = |key: &str| -> Vec<Value> {
        index["manifests"].as_array().unwrap().iter().map(|it| it["annotations"][key].clone()).collect()
    };
    let full = ["docker.io/a/server:1", "docker.io/a/server:latest", "localhost:5000/other:2"];
    assert_eq!(names("io.containerd.image.name")[..3], full);
    assert_eq!(names("org.opencontainers.image.ref.name")[3], Value::Null);
    assert_eq!(parsed("oci-layout")["imageLayoutVersion"], "1.0.0");
    let saved = parsed("manifest.json");
    assert_eq!(saved.as_array().unwrap().len(), 3);
    assert_eq!(saved[0]["RepoTags"], json!(["a/server:1", "a/server:latest"]));
    assert_eq!(saved[2]["RepoTags"], Value::Null);
}

#[test]
fn a_full_name_has_registry_and_tag() {
    for (reference, full) in [
        ("gantry", "docker.io/library/gantry:latest"),
        ("gantry:1", "docker.io/library/gantry:1"),
        ("a/b", "docker.io/a/b:latest"),
        ("localhost/b:1", "localhost/b:1"),
        ("host:5000/a/b", "host:5000/a/b:latest"),
        ("ghcr.io/a/b@sha256:00", "ghcr.io/a/b@sha256:00"),
    ] {
        assert_eq!(full_name(reference), full);
        assert_eq!(full_name(full), full);
    }
}

/// Layers of engines with CUDA have several gigabytes. Docker writes their sizes in one way and Gantry in another.
#[test]
fn contents_beyond_eight_gigabytes_have_their_size() {
    let size: u64 = 9 << 30;
    let mut binary = header(tar::EntryType::Regular, size);
    binary.set_path("x").unwrap();
    binary.set_cksum();
    let mut pax = tar::Builder::new(Vec::new());
    pax.append_pax_extensions([("size", size.to_string().as_bytes())]).unwrap();
    let mut pax = pax.into_inner().unwrap();
    pax.truncate(1024);
    let mut plain = header(tar::EntryType::Regular, 0);
    plain.set_path("x").unwrap();
    plain.set_cksum();
    pax.extend(plain.as_bytes());
    for archive in [binary.as_bytes().to_vec(), pax] {
        let mut seen = 0;
        let cut = archive::for_each_entry(&mut archive.as_slice(), |it| {
            if let archive::Entry::File { content, .. } = it {
                seen = content.size;
            }
            Ok(())
        });
        assert_eq!(seen, size);
        assert!(matches!(cut, Err(ImageError::Cut)), "{cut:?}");
    }
}
