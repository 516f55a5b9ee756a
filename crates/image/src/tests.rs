//! What is in an archive.

use std::collections::HashMap;

use super::*;

fn pack() -> Vec<u8> {
    let image = Image {
        reference: "example/program:1",
        program: std::env::current_exe().unwrap(),
        place: "usr/bin/program",
        created: Some("2026-11-28T10:00:00Z".to_owned()),
        links: vec![("app/other".to_owned(), "/usr/bin/program".to_owned())],
        folders: vec![("tmp".to_owned(), 0o1777), ("models".to_owned(), 0o755)],
        files: vec![("etc/passwd".to_owned(), b"me:x:10001:10001::/:\n".to_vec())],
        config: json!({"Entrypoint": ["/usr/bin/program"], "Env": ["A=b"], "Labels": {"a": "b"}}),
    };
    let mut archive = Vec::new();
    write(&image, &mut archive).unwrap();
    archive
}

fn files(archive: &[u8]) -> HashMap<String, Vec<u8>> {
    let mut tar = tar::Archive::new(archive);
    let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).unwrap();
        (entry.path().unwrap().display().to_string(), data)
    };
    tar.entries().unwrap().map(read).collect()
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// The content that a descriptor names, after a look at its digest and size.
fn followed<'a>(files: &'a HashMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let content = &files[&format!("blobs/sha256/{digest}")];
    assert_eq!(digest, hex(&Sha256::digest(content)));
    assert_eq!(descriptor["size"], content.len());
    content
}

#[test]
fn the_archive_is_an_oci_layout_and_what_docker_loads() {
    let files = files(&pack());
    assert_eq!(parsed(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
    let index = parsed(&files["index.json"]);
    let listed = &index["manifests"][0];
    assert_eq!(listed["annotations"]["org.opencontainers.image.ref.name"], "1");
    let manifest = parsed(followed(&files, listed));
    let config = parsed(followed(&files, &manifest["config"]));
    let layer = followed(&files, &manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", hex(&Sha256::digest(layer)))]));
    assert_eq!(config["created"], "2026-11-28T10:00:00Z");
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/program"]));
    assert_eq!(config["config"]["Env"].as_array().unwrap().last().unwrap(), "A=b");

    let saved = parsed(&files["manifest.json"]);
    assert_eq!(saved[0]["RepoTags"], json!(["example/program:1"]));
    assert_eq!(parsed(&files[saved[0]["Config"].as_str().unwrap()]), config);
    assert_eq!(files[saved[0]["Layers"][0].as_str().unwrap()], layer);
}

#[test]
fn the_layer_holds_the_program_its_loader_and_what_else_was_given() {
    let files = files(&pack());
    let saved = parsed(&files["manifest.json"]);
    let layer = &files[saved[0]["Layers"][0].as_str().unwrap()];
    let mut names = Vec::new();
    for entry in tar::Archive::new(layer.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0);
        let target = entry.link_name().unwrap().map(|target| target.display().to_string());
        let mode = entry.header().mode().unwrap();
        names.push((entry.path().unwrap().display().to_string(), target, mode));
    }
    let mut sorted = names.clone();
    sorted.sort_by(|a, b| a.0.trim_end_matches('/').cmp(b.0.trim_end_matches('/')));
    assert_eq!(names, sorted, "a folder comes before what is in it");
    let has = |name: &str, mode: u32| names.iter().any(|it| it.0 == name && it.2 == mode);
    assert!(has("usr/bin/program", 0o755) && has("tmp/", 0o1777) && has("models/", 0o755), "{names:?}");
    assert!(has("etc/passwd", 0o644) && has("usr/", 0o755), "{names:?}");
    assert!(names.contains(&("app/other".to_owned(), Some("/usr/bin/program".to_owned()), 0o777)));
    let interpreter = libraries::interpreter(&std::env::current_exe().unwrap()).unwrap().unwrap();
    assert!(has(interpreter.trim_start_matches('/'), 0o755), "{interpreter} in {names:?}");
    assert!(names.iter().any(|it| it.0.ends_with("/libc.so.6")), "{names:?}");
}

#[test]
fn the_same_program_gives_the_same_archive() {
    assert_eq!(hex(&Sha256::digest(pack())), hex(&Sha256::digest(pack())));
}

#[test]
fn a_program_that_is_not_running_is_packed_too() {
    let shell = Path::new("/bin/sh");
    let libraries = libraries::of(&shell.canonicalize().unwrap()).unwrap();
    assert!(libraries.files.keys().any(|name| name.ends_with("/libc.so.6")), "{:?}", libraries.files);
    assert!(matches!(libraries::of(Path::new("/etc/hostname")), Err(ImageError::Libraries(_))));
}
