//! `gantry package`: keys, signatures, verification and what is in a package; without a gateway and without settings.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use gantry_package::{
    checksums::Sha256Sum,
    manifest::{CHECKSUMS, MANIFEST, Manifest, SIGNATURE},
};
use gantry_testkit::skip;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Shell, terminal::at_terminal};

/// A SHA-256 that no file has.
const NO_SUM: &str = "3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351";
/// Clears the screen in three ways.
const EVIL: &str = "\u{1b}[2J\u{9b}2J\u{7f}";

fn shell() -> Shell {
    Shell::at("http://127.0.0.1:1")
}

/// Writes the manifest and the checksums of a package whose files are there.
fn write_manifest(dir: &Path, manifest: &Value) {
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    let text = manifest.to_json().unwrap();
    fs::write(dir.join(CHECKSUMS), manifest.checksums(Sha256Sum(Sha256::digest(&text).into()))).unwrap();
    fs::write(dir.join(MANIFEST), text).unwrap();
}

/// A package of three files in the folder `package` of the shell's home.
fn package(shell: &Shell) -> PathBuf {
    let dir = shell.home.path().join("package");
    let mut files = serde_json::Map::new();
    for (name, content) in [("db/dump.sql", "x"), ("models/a.gguf", "weights"), ("models/b/c", "more")] {
        let file = dir.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
        let sum = Sha256Sum(Sha256::digest(content).into()).to_string();
        files.insert(name.to_owned(), json!({ "size": content.len(), "sha256": sum }));
    }
    let model = json!({
        "id": 7, "name": EVIL, "served_name": "small", "manifest": "manifests/model-7.json", "weights": ["models"],
    });
    let manifest = json!({
        "format_version": 1, "id": "0190f0f0-0000-7000-8000-000000000001", "created_at": "2026-01-02T03:04:05Z",
        "gateway_version": "0.1.0", "files": files,
        "contents": {
            "models": [model],
            "programs": [{ "engine": "llamacpp", "command": "llama-server", "version": "b11434" }],
            "settings": true,
        },
    });
    write_manifest(&dir, &manifest);
    dir
}

/// Makes a key pair without a password in the shell's home, and returns the public key.
fn key(shell: &Shell, name: &str) -> Value {
    shell.run(&["package", "key", "--out", name, "--no-password", "--json"]).ends(0).json()
}

#[test]
fn a_package_that_was_signed_is_verified_with_the_key_as_a_file_or_as_text() {
    let shell = shell();
    package(&shell);
    let made = key(&shell, "my.key");
    let id = made["key_id"].as_str().unwrap();
    let rights = fs::metadata(shell.home.path().join("my.key")).unwrap().permissions().mode();
    assert_eq!(rights & 0o777, 0o600);
    let unsigned = shell.run(&["package", "verify", "package"]).ends(0);
    assert_eq!(unsigned.out, "verified: 3 files, 12 bytes, origin not proven: the package is not signed\n");
    shell.run(&["package", "sign", "package", "--key", "my.key"]).ends(0);
    let unproven = shell.run(&["package", "verify", "package"]).ends(0).out;
    assert!(unproven.contains("origin not proven") && unproven.contains(id), "{unproven}");
    for public in ["my.key.pub", made["public_key"].as_str().unwrap()] {
        let proven = shell.run(&["package", "verify", "package", "--key", public]).ends(0).out;
        let wanted = format!("verified: 3 files, 12 bytes, signed by {id} (package 0190f0f0-");
        assert!(proven.starts_with(&wanted) && proven.lines().count() == 1, "{proven}");
    }
    let json = shell.run(&["package", "verify", "package", "--key", "my.key.pub", "--json"]).ends(0).json();
    assert_eq!((&json["whole"], &json["signature"]["verified"]), (&json!(true), &json!(true)));
    assert_eq!((&json["files"], &json["bytes"], &json["problems"]), (&json!(3), &json!(12), &json!([])));
}

#[test]
fn the_program_minisign_accepts_the_signature_and_makes_one_that_is_accepted() {
    if Command::new("minisign").arg("-v").output().is_err() {
        skip("cli: minisign", "there is no `minisign`");
        return;
    }
    let shell = shell();
    let dir = package(&shell);
    key(&shell, "my.key");
    shell.run(&["package", "sign", "package", "--key", "my.key"]).ends(0);
    let run = |args: &[&str]| {
        let ran = Command::new("minisign").args(args).current_dir(&dir).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let said = run(&["-V", "-p", "../my.key.pub", "-m", MANIFEST]);
    assert!(said.contains("package 0190f0f0-"), "{said}");
    fs::remove_file(dir.join(SIGNATURE)).unwrap();
    run(&["-S", "-s", "../my.key", "-m", MANIFEST]);
    let ours = shell.run(&["package", "verify", "package", "--key", "my.key.pub"]).ends(0).out;
    assert!(ours.contains("file:manifest.json"), "{ours}");
}

#[test]
fn a_missing_wrong_malformed_or_foreign_signature_is_an_error_that_says_which() {
    let shell = shell();
    let dir = package(&shell);
    let ours = key(&shell, "ours.key")["key_id"].as_str().unwrap().to_owned();
    let theirs = key(&shell, "theirs.key")["key_id"].as_str().unwrap().to_owned();
    let refused = |key: &str, why: &str| {
        let ran = shell.run(&["package", "verify", "package", "--key", key]).ends(9);
        assert!(ran.err.contains(why) && ran.out.is_empty(), "{why}: {}{}", ran.out, ran.err);
        ran.err
    };
    refused("ours.key.pub", "the package is not signed");
    shell.run(&["package", "sign", "package", "--key", "theirs.key"]).ends(0);
    let foreign = refused("ours.key.pub", &format!("was made with the key {theirs}"));
    assert!(foreign.contains(&ours), "{foreign}");
    let signature = fs::read_to_string(dir.join(SIGNATURE)).unwrap();
    let manifest = fs::read_to_string(dir.join(MANIFEST)).unwrap();
    fs::write(dir.join(MANIFEST), manifest.replace("\"small\"", "\"smell\"")).unwrap();
    refused("theirs.key.pub", "is not the signature of this manifest");
    fs::write(dir.join(MANIFEST), &manifest).unwrap();
    fs::write(dir.join(SIGNATURE), signature.replace("trusted comment: package", "trusted comment: packagf"))
        .unwrap();
    refused("theirs.key.pub", "is not the signature of this manifest");
    for (text, why) in [
        (format!("{signature}{signature}"), "four lines"),
        (" ".repeat(5000), "more than 4096 bytes"),
        (signature.replace("package", EVIL), "control characters"),
        (signature.replace("\nRU", "\nRW"), "legacy"),
        (signature.replace("\nRU", "\nXX"), "not known"),
        (String::new(), "four lines"),
    ] {
        fs::write(dir.join(SIGNATURE), text).unwrap();
        refused("theirs.key.pub", why);
        // Also without a key, a file that is no signature is a damage.
        shell.run(&["package", "verify", "package"]).ends(9);
    }
    fs::write(dir.join(SIGNATURE), &signature).unwrap();
    shell.run(&["package", "verify", "package", "--key", "theirs.key.pub"]).ends(0);
    for (key, why) in
        [("nothing.pub", "can't read"), ("ours.key", "secret key"), ("package/manifest.json", "no public")]
    {
        let ran = shell.run(&["package", "verify", "package", "--key", key]).ends(2);
        assert!(ran.err.contains(why), "{why}: {}", ran.err);
    }
}

#[test]
fn every_damage_is_named_with_its_file_and_has_its_exit_code() {
    let shell = shell();
    let dir = package(&shell);
    fs::write(dir.join("db/dump.sql"), "y").unwrap();
    fs::remove_file(dir.join("models/a.gguf")).unwrap();
    fs::write(dir.join("models/evil\u{1b}[2J"), "").unwrap();
    let ran = shell.run(&["package", "verify", "package"]).ends(9);
    for problem in
        ["`db/dump.sql` has another content", "`models/a.gguf` is missing", "`models/evil [2J` is not in"]
    {
        assert!(ran.out.lines().any(|it| it.starts_with(problem)), "{problem}: {}", ran.out);
    }
    assert!(!ran.out.contains('\u{1b}') && ran.err.contains("problems: 3"), "{}{}", ran.out, ran.err);
    let json = shell.run(&["package", "verify", "package", "--json"]).ends(9).json();
    assert_eq!((&json["whole"], json["problems"].as_array().unwrap().len()), (&json!(false), 3));

    fs::write(dir.join(MANIFEST), "{").unwrap();
    let malformed = shell.run(&["package", "verify", "package", "--json"]).ends(9).error();
    assert_eq!(malformed["error"]["code"], "damaged");
    fs::write(dir.join(MANIFEST), r#"{"format_version": 99, "new": true}"#).unwrap();
    let newer = shell.run(&["package", "verify", "package"]).ends(1).err;
    assert!(newer.contains("format version 99"), "{newer}");
    fs::remove_file(dir.join(MANIFEST)).unwrap();
    for verb in ["verify", "show"] {
        let none = shell.run(&["package", verb, "package"]).ends(5).err;
        assert!(none.contains("is not a package"), "{none}");
        shell.run(&["package", verb, "nowhere"]).ends(5);
    }
    std::os::unix::fs::symlink("/dev/zero", dir.join(MANIFEST)).unwrap();
    shell.run(&["package", "verify", "package"]).ends(1);
}

#[test]
fn a_difference_is_verified_with_its_base_or_says_what_was_not_checked() {
    let shell = shell();
    let base = package(&shell);
    let manifest: Value = serde_json::from_slice(&fs::read(base.join(MANIFEST)).unwrap()).unwrap();
    let sum = Sha256Sum(Sha256::digest(fs::read(base.join(MANIFEST)).unwrap()).into()).to_string();
    let dir = shell.home.path().join("difference");
    fs::create_dir(&dir).unwrap();
    let mut file = manifest["files"]["models/a.gguf"].clone();
    file["in_base"] = json!(true);
    let difference = json!({
        "format_version": 1, "id": "later", "created_at": "2026-01-03T03:04:05Z", "gateway_version": "0.1.0",
        "base": { "id": manifest["id"], "manifest_sha256": sum }, "files": { "models/a.gguf": file },
    });
    write_manifest(&dir, &difference);
    let alone = shell.run(&["package", "verify", "difference"]).ends(0);
    assert!(
        alone.err.contains("1 files are in the package 0190f0f0-") && alone.out.contains("0 files"),
        "{}",
        alone.err
    );
    let verify = ["package", "verify", "difference", "--base", "package"];
    let whole = shell.run(&verify).ends(0);
    assert!(
        whole.out.starts_with("verified: 1 files, 7 bytes") && whole.err.is_empty(),
        "{}{}",
        whole.out,
        whole.err
    );
    let shown = shell.run(&["package", "show", "difference"]).ends(0).out;
    assert!(shown.contains("0190f0f0-0000-7000-8000-000000000001: needed, it has 1 more files"), "{shown}");
    fs::write(base.join("models/a.gguf"), "Weights").unwrap();
    let damaged = shell.run(&verify).ends(9).out;
    assert!(damaged.contains("`models/a.gguf` has another content"), "{damaged}");
    let other = shell.run(&["package", "verify", "difference", "--base", "difference"]).ends(2).err;
    assert!(other.contains("needs the package 0190f0f0-"), "{other}");
}

#[test]
fn what_is_in_a_package_is_shown_for_people_and_for_programs() {
    let shell = shell();
    package(&shell);
    key(&shell, "my.key");
    let shown = shell.run(&["package", "show", "package"]).ends(0).out;
    for fact in [
        "package    0190f0f0-0000-7000-8000-000000000001",
        "12 bytes in 3 files",
        "signature  none",
        "database   not in it",
        "settings   in it",
        "small        a program  11 bytes",
        "programs that the other side must install: 1",
        "llamacpp  llama-server  b11434",
    ] {
        assert!(shown.contains(fact), "{fact}: {shown}");
    }
    assert!(!shown.contains(|it: char| it.is_control() && it != '\n'), "{shown:?}");
    shell.run(&["package", "sign", "package", "--key", "my.key"]).ends(0);
    let json = shell.run(&["package", "show", "package", "--json"]).ends(0);
    assert!(!json.out.contains('\u{9b}'), "{}", json.out);
    let json = json.json();
    assert_eq!(
        (&json["files"], &json["bytes"], &json["signature"]["signed"]),
        (&json!(3), &json!(12), &json!(true))
    );
    assert_eq!(json["weights"], json!([{ "model": 7, "bytes": 11 }]));
    assert_eq!(json["contents"]["models"][0]["name"], EVIL);
}

/// What is not read can't take time: the files of this package are not even there.
#[test]
fn a_package_with_a_hundred_thousand_files_is_shown_at_once() {
    let shell = shell();
    let dir = shell.home.path().join("package");
    fs::create_dir(&dir).unwrap();
    let files: serde_json::Map<_, _> = (0..100_000)
        .map(|n| (format!("hub-cache/{}/{n}", n % 100), json!({ "size": 1 << 30, "sha256": NO_SUM })))
        .collect();
    let manifest = json!({
        "format_version": 1, "id": "x", "created_at": "2026-01-02T03:04:05Z", "gateway_version": "0.1.0",
        "files": files,
    });
    fs::write(dir.join(MANIFEST), manifest.to_string()).unwrap();
    let shown = shell.run(&["package", "show", "package"]).ends(0).out;
    assert!(shown.contains("97.7 TiB in 100000 files"), "{shown}");
}

#[test]
fn a_key_overwrites_nothing_and_a_password_protects_it() {
    let shell = shell();
    package(&shell);
    let home = shell.home.path();
    fs::write(home.join("password"), "correct horse\n").unwrap();
    fs::write(home.join("wrong"), "wrong horse\n").unwrap();
    fs::write(home.join("empty"), "\n").unwrap();
    shell.run(&["package", "key", "--out", "k", "--password-file", "empty"]).ends(2);
    fs::create_dir(home.join("keys")).unwrap();
    shell.run(&["package", "key", "--out", "keys", "--password-file", "password"]).ends(0);
    let before = fs::read_to_string(home.join("keys/package.key")).unwrap();
    for out in ["keys", "keys/package.key"] {
        let again = shell.run(&["package", "key", "--out", out, "--no-password"]).ends(1);
        assert!(again.err.contains("is there already"), "{}", again.err);
    }
    fs::write(home.join("half.pub"), "").unwrap();
    shell.run(&["package", "key", "--out", "half", "--no-password"]).ends(1);
    assert!(!home.join("half").exists());
    assert_eq!(fs::read_to_string(home.join("keys/package.key")).unwrap(), before);
    let sign = |password| {
        shell.run(&["package", "sign", "package", "--key", "keys/package.key", "--password-file", password])
    };
    let wrong = sign("wrong").ends(1);
    assert!(wrong.err.contains("the password of the key is another one"), "{}", wrong.err);
    sign("password").ends(0);
    shell.run(&["package", "verify", "package", "--key", "keys/package.key.pub"]).ends(0);
    // A signature takes the place of an earlier one, also of a link.
    let signature = home.join("package").join(SIGNATURE);
    fs::remove_file(&signature).unwrap();
    std::os::unix::fs::symlink("../password", &signature).unwrap();
    sign("password").ends(0);
    assert_eq!(fs::read_to_string(home.join("password")).unwrap(), "correct horse\n");
    shell.run(&["package", "verify", "package", "--key", "keys/package.key.pub"]).ends(0);
}

#[tokio::test]
async fn the_password_of_a_key_is_asked_for_at_a_terminal_and_not_shown() {
    let shell = shell();
    package(&shell);
    let twice = |second| [("Password of the new key: ", "a-secret\n"), ("The same once more: ", second)];
    let make = "package key --out my.key";
    let Some((shown, well)) = at_terminal(&shell, make, &twice("other\n"), &[]).await else { return };
    assert!(!well && shown.contains("the two passwords differ"), "{shown}");
    let Some((shown, well)) = at_terminal(&shell, make, &twice("a-secret\n"), &[]).await else { return };
    assert!(well && !shown.contains("a-secret"), "{shown}");
    let keys = [("Password of my.key: ", "a-secret\n")];
    let sign = "package sign package --key my.key";
    let Some((shown, well)) = at_terminal(&shell, sign, &keys, &[]).await else { return };
    assert!(well && shown.contains("signed: package 0190f0f0-"), "{shown}");
    shell.run(&["package", "verify", "package", "--key", "my.key.pub"]).ends(0);
}

/// A terabyte that takes no place on the disk.
#[tokio::test]
async fn the_verification_shows_how_far_it_is_and_ends_at_once_with_ctrl_c() {
    const SIZE: u64 = 1 << 40;
    let shell = shell();
    let dir = shell.home.path().join("package");
    fs::create_dir_all(dir.join("models")).unwrap();
    File::create(dir.join("models/large")).unwrap().set_len(SIZE).unwrap();
    let manifest = json!({
        "format_version": 1, "id": "x", "created_at": "2026-01-02T03:04:05Z", "gateway_version": "0.1.0",
        "files": { "models/large": { "size": SIZE, "sha256": NO_SUM } },
    });
    write_manifest(&dir, &manifest);
    // To read all of it would take longer than is waited for the end.
    let keys = [(" s left, ", "\u{3}")];
    let Some((shown, well)) = at_terminal(&shell, "package verify package", &keys, &[]).await else { return };
    assert!(!well && shown.contains("[----"), "{shown}");
}
