//! Packages that somebody made to do harm. `gantry package verify` and the import refuse them with the reason, nothing
//! outside the quarantine is written, and the gateway goes on.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use gantry_package::{
    checksums::{Sha256Sum, line},
    manifest::{CHECKSUMS, MANIFEST, SIGNATURE},
};
use gantry_testkit::{Answer, Client, Database, Gateway, Options, root_with};
use serde_json::{Map, Value, json};

use super::{IMPORT, IMPORT_MODEL, JOBS, RESTORE, ended, files, folder, gantry, site};
use crate::support::{assert_error, start};

/// What the package's own files hold.
const FILES: [(&str, &str); 3] =
    [("models/a.gguf", "weights"), ("models/b/c", "more"), ("hub-cache/x", "cached")];

fn sum(text: &[u8]) -> String {
    Sha256Sum::of(text).to_string()
}

/// Writes a small package, and returns its manifest.
pub(super) fn package(dir: &Path) -> Value {
    let model = json!({
        "format_version": 1, "created_at": "2026-01-02T03:04:05Z", "gateway_version": "0.1.0", "id": 1,
        "model": {
            "name": "a", "served_name": "a", "task": "generate", "engine_type": "llamacpp", "local_path": "a.gguf",
            "device": "cpu",
        },
        "weights": ["models/a.gguf"],
    });
    let mut manifest = json!({
        "format_version": 1, "id": "0190f0f0-0000-7000-8000-000000000001", "created_at": "2026-01-02T03:04:05Z",
        "gateway_version": "0.1.0", "files": {},
        "contents": {
            "models": [{
                "id": 1, "name": "a", "served_name": "a", "manifest": "manifests/model-1.json", "weights": ["models/a.gguf"],
            }],
        },
    });
    for (name, text) in FILES {
        put(dir, &mut manifest, name, text.as_bytes());
    }
    put(dir, &mut manifest, "manifests/model-1.json", model.to_string().as_bytes());
    write(dir, &manifest);
    manifest
}

/// Adds a file to the folder and to the manifest.
pub(super) fn put(dir: &Path, manifest: &mut Value, name: &str, text: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    manifest["files"][name] = json!({ "size": text.len(), "sha256": sum(text) });
}

/// Writes the manifest, whatever it says, and the checksums that belong to it.
pub(super) fn write(dir: &Path, manifest: &Value) {
    write_text(dir, manifest, &manifest.to_string());
}

fn write_text(dir: &Path, manifest: &Value, text: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(MANIFEST), text).unwrap();
    let none = Map::new();
    let files = manifest["files"].as_object().unwrap_or(&none).iter();
    let sums = files.filter_map(|(name, it)| Some((name.clone(), it["sha256"].as_str()?.parse().ok()?)));
    let own = (MANIFEST.to_owned(), Sha256Sum::of(text.as_bytes()));
    let sums: BTreeMap<String, Sha256Sum> = sums.chain([own]).collect();
    let lines = sums.iter().map(|(name, sum)| line(name, *sum));
    fs::write(dir.join(CHECKSUMS), lines.collect::<String>()).unwrap();
}

fn verify(dir: &Path, more: &[&str]) -> (bool, String) {
    let ran = gantry(&[&["package", "verify", dir.to_str().unwrap()], more].concat());
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (ran.status.success(), said)
}

/// A gateway that hostile packages are brought to, and what it had before.
struct Target {
    gateway: Gateway,
    owner: Client,
}

impl Target {
    async fn new() -> Self {
        let gateway = start(Options::processes()).await;
        fs::write(gateway.models_dir().join("own.gguf"), "mine").unwrap();
        let owner = gateway.owner().await;
        Self { gateway, owner }
    }

    fn dir(&self) -> std::path::PathBuf {
        folder(&self.gateway, "evil")
    }

    /// A new package in place of the one before.
    fn package(&self) -> Value {
        let _ = fs::remove_dir_all(self.dir());
        package(&self.dir())
    }

    /// Sends it to both imports, which must refuse it, at once or as a failed job. Returns what they said.
    async fn refuses(&self, what: &str) -> String {
        let whole = self.owner.post(IMPORT, &json!({ "output_dir": "evil" })).await;
        let said = self.end(what, whole).await;
        let body =
            json!({ "output_dir": "evil", "manifest_file": "model-1.json", "conflict_strategy": "rename" });
        let one = self.owner.post(IMPORT_MODEL, &body).await;
        assert!(
            one.status == 422 || one.status == 404 || one.status == 409,
            "{what}: {} {}",
            one.status,
            one.text
        );
        // A preview does not break either.
        let dry = self.owner.post(IMPORT, &json!({ "output_dir": "evil", "dry_run": true })).await;
        assert!(dry.status == 200 || dry.status == 422, "{what}: {}", dry.text);
        let list = self.owner.get("/admin/deployment/model-manifests?output_dir=evil").await;
        assert!(list.status == 200 || list.status == 422, "{what}: {}", list.text);
        self.unharmed(what).await;
        said
    }

    async fn end(&self, what: &str, answer: Answer) -> String {
        if answer.status != 202 {
            assert_eq!(answer.status, 422, "{what}: {}", answer.text);
            return answer.text;
        }
        let job = ended(&self.owner, &answer.json).await;
        assert_eq!(job["status"], "failed", "{what}: {job}");
        job["error"].as_str().unwrap().to_owned()
    }

    async fn unharmed(&self, what: &str) {
        let models = self.gateway.models_dir();
        assert_eq!(files(&models), [Path::new("own.gguf")], "{what}");
        assert_eq!(fs::read_to_string(models.join("own.gguf")).unwrap(), "mine", "{what}");
        assert_eq!(self.owner.get("/admin/models").await.expect(200), json!([]), "{what}");
        let around = self.gateway.data_dir();
        let evil = files(around.parent().unwrap())
            .into_iter()
            .filter(|it| it.file_name().unwrap().to_string_lossy().contains("canary"));
        assert_eq!(evil.collect::<Vec<_>>(), [""; 0].map(std::path::PathBuf::from), "{what}");
        assert!(!self.gateway.log().contains("panicked"), "{what}");
    }
}

/// Names that lead out, or are another file elsewhere.
const NAMES: [&str; 20] = [
    "../canary",
    "models/../../canary",
    "/tmp/canary",
    "models/./canary",
    "models//canary",
    "models/canary/",
    "",
    "models\\..\\canary",
    "C:canary",
    "models/con",
    "models/aux.gguf",
    "models/canary.",
    "models/canary ",
    "models/can\nary",
    "models/can\u{0}ary",
    "models/canary:stream",
    "models/cana*ry",
    "manifest.json",
    "Checksums.sha256/x",
    ".gantry-export/canary",
];

#[tokio::test]
async fn names_and_links_that_lead_out_are_refused() {
    let target = Target::new().await;
    for name in NAMES {
        let mut manifest = target.package();
        manifest["files"][name] = manifest["files"]["models/a.gguf"].clone();
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && said.contains("name"), "{name:?}: {said}");
        target.refuses(&format!("{name:?}")).await;
    }
    for (name, to) in [
        ("models/l", "/etc/passwd"),
        ("models/l", "../own"),
        ("models/l", "../../canary"),
        ("models/l", "b/../../../x"),
        ("hub-cache/l", "../models/a.gguf"),
        ("models/l", ""),
        ("models/b", "."),
        ("models/a.gguf", "b/c"),
        ("../l", "x"),
    ] {
        let mut manifest = target.package();
        manifest["links"] = json!({ name: to });
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole, "{name} -> {to}: {said}");
        target.refuses(&format!("{name} -> {to}")).await;
    }
    // Links that lead out by way of each other: of one package, and of one that was imported before.
    let deep = "models/c/p/q/A";
    for links in [
        json!({ "models/x/up": "..", "models/l": "x/up/../canary" }),
        json!({ deep: "../../..", "models/c/out": "p/q/A/../canary" }),
        json!({ "models/l": "x/up/../canary" }),
    ] {
        let mut manifest = target.package();
        manifest["links"] = links.clone();
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && said.contains("goes up behind a name"), "{links}: {said}");
        target.refuses(&links.to_string()).await;
    }
    let unknown = json!({ "output_dir": "evil", "manifest_file": "../../manifest.json" });
    target.package();
    let answer = target.owner.post(IMPORT_MODEL, &unknown).await;
    assert!(answer.status == 404 || answer.status == 422, "{}", answer.text);
}

#[tokio::test]
async fn names_that_collide_and_fields_that_mislead_are_refused() {
    let target = Target::new().await;
    for (what, change, reason) in [
        (
            "case",
            (|it| it["files"]["models/A.gguf"] = it["files"]["models/a.gguf"].clone()) as fn(&mut Value),
            "case",
        ),
        (
            "a file and a folder",
            |it| it["files"]["models/b"] = it["files"]["models/a.gguf"].clone(),
            "folder",
        ),
        (
            "accents",
            |it| {
                for name in ["models/\u{e9}", "models/e\u{301}"] {
                    it["files"][name] = it["files"]["models/a.gguf"].clone();
                }
            },
            "accent",
        ),
        ("no version", |it| it["format_version"] = json!(0), "format version 0"),
        ("newer", |it| it["format_version"] = json!(2), "format version 2"),
        ("unknown field", |it| it["post_install"] = json!("touch canary"), "post_install"),
        ("unknown field of a file", |it| it["files"]["models/a.gguf"]["mode"] = json!(0o4755), "mode"),
        ("unknown content", |it| it["contents"]["scripts"] = json!(["x"]), "scripts"),
        ("negative size", |it| it["files"]["models/a.gguf"]["size"] = json!(-1), "invalid value"),
        ("size of another type", |it| it["files"]["models/a.gguf"]["size"] = json!("7"), "invalid type"),
        ("short sum", |it| it["files"]["models/a.gguf"]["sha256"] = json!("abc"), "SHA-256"),
        ("no base", |it| it["files"]["models/a.gguf"]["in_base"] = json!(true), "base"),
        ("no parts", |it| it["files"]["models/a.gguf"]["at"] = json!(0), "begin"),
        ("files are a list", |it| it["files"] = json!([]), "invalid type"),
    ] {
        let mut manifest = target.package();
        change(&mut manifest);
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && said.contains(reason), "{what}: {said}");
        target.refuses(what).await;
    }
    let manifest = target.package();
    let entry = manifest["files"]["models/a.gguf"].to_string();
    let twice =
        manifest.to_string().replacen("\"files\":{", &format!("\"files\":{{\"models/a.gguf\":{entry},"), 1);
    for (what, text) in
        [("twice", twice.as_str()), ("no JSON", "\u{0}"), ("deep", &"[".repeat(100_000)), ("empty", "")]
    {
        write_text(&target.dir(), &manifest, text);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole, "{what}: {said}");
        target.refuses(what).await;
    }
}

/// A manifest may claim anything; nothing is allocated or begun on its word.
#[tokio::test]
async fn claims_of_many_files_and_of_huge_ones_are_refused() {
    let target = Target::new().await;
    let huge = json!(u64::MAX);
    for names in
        [vec!["models/a.gguf"], vec!["models/a.gguf", "hub-cache/x"], vec!["models/a.gguf", "models/b/c"]]
    {
        let mut manifest = target.package();
        for name in &names {
            manifest["files"][name]["size"] = huge.clone();
        }
        manifest["contents"]["models"][0]["weights"] = json!(["models"]);
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && names.iter().all(|it| said.contains(&format!("`{it}` has "))), "{said}");
        let said = target.refuses("huge sizes").await;
        assert!(said.contains("are free") || said.contains("no space left"), "{said}");
        gantry(&["package", "show", target.dir().to_str().unwrap()]);
    }
    let manifest = target.package();
    let entry = json!({ "size": 0, "sha256": sum(b"") });
    let many: Vec<String> = (0..500_001).map(|n| format!("\"models/{n}\":{entry}")).collect();
    let text = manifest.to_string().replacen("\"files\":{", &format!("\"files\":{{{},", many.join(",")), 1);
    write_text(&target.dir(), &manifest, &text);
    let (whole, said) = verify(&target.dir(), &[]);
    assert!(!whole && said.contains("at most 500000"), "{said}");
    // The connection from before may be closed by now.
    let owner = target.gateway.owner().await;
    let answer = owner.post(IMPORT, &json!({ "output_dir": "evil" })).await;
    assert_error(&answer, 422, "validation_error");
    // Larger than what is read at all.
    fs::File::create(target.dir().join(MANIFEST)).unwrap().set_len(1 << 40).unwrap();
    let (whole, said) = verify(&target.dir(), &[]);
    assert!(!whole && said.contains("more than"), "{said}");
    Target { owner, ..target }.refuses("a manifest of a terabyte").await;
}

#[tokio::test]
async fn damaged_missing_extra_and_renamed_files_are_named() {
    let target = Target::new().await;
    let file = target.dir().join("models/a.gguf");
    for (what, change, named) in [
        (
            "wrong content",
            (|dir: &Path| fs::write(dir.join("models/a.gguf"), "Weights").unwrap()) as fn(&Path),
            "`models/a.gguf` has another content",
        ),
        ("cut", |dir| fs::write(dir.join("models/a.gguf"), "weigh").unwrap(), "`models/a.gguf` has 5 bytes"),
        ("missing", |dir| fs::remove_file(dir.join("models/a.gguf")).unwrap(), "`models/a.gguf` is missing"),
        (
            "renamed",
            |dir| fs::rename(dir.join("models/a.gguf"), dir.join("models/z.gguf")).unwrap(),
            "`models/z.gguf` is not in",
        ),
        (
            "a folder instead",
            |dir| {
                fs::remove_file(dir.join("models/a.gguf")).unwrap();
                fs::create_dir(dir.join("models/a.gguf")).unwrap();
            },
            "`models/a.gguf`",
        ),
        (
            "a link instead",
            |dir| {
                fs::rename(dir.join("models/a.gguf"), dir.parent().unwrap().join("elsewhere")).unwrap();
                std::os::unix::fs::symlink("../../elsewhere", dir.join("models/a.gguf")).unwrap();
            },
            "`models/a.gguf` is neither",
        ),
        (
            "a pipe instead",
            |dir| {
                fs::remove_file(dir.join("models/a.gguf")).unwrap();
                let made = Command::new("mkfifo").arg(dir.join("models/a.gguf")).status().unwrap();
                assert!(made.success());
            },
            "`models/a.gguf` is neither",
        ),
        (
            "the manifest of a model was changed",
            |dir| {
                let path = dir.join("manifests/model-1.json");
                let text = fs::read_to_string(&path).unwrap();
                fs::write(path, text.replace("\"cpu\"", "\"gpu\"")).unwrap();
            },
            "`manifests/model-1.json` has another content",
        ),
    ] {
        target.package();
        change(&target.dir());
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && said.contains(named), "{what}: {said}");
        target.refuses(what).await;
    }
    // What does not belong to it is never read by an import, and named by a verification.
    target.package();
    fs::write(target.dir().join("models/extra.gguf"), "x").unwrap();
    Command::new("mkfifo").arg(target.dir().join("pipe")).status().unwrap();
    let (whole, said) = verify(&target.dir(), &[]);
    assert!(
        !whole && said.contains("`models/extra.gguf` is not in") && said.contains("`pipe` is neither"),
        "{said}"
    );
    if root_with("deployment: devices in a package", &["mknod"]) {
        target.package();
        fs::remove_file(&file).unwrap();
        Command::new("mknod").arg(&file).args(["c", "1", "5"]).status().unwrap();
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole && said.contains("`models/a.gguf` is neither"), "{said}");
        target.refuses("a device").await;
    }
    // The whole one is taken.
    target.package();
    let (whole, said) = verify(&target.dir(), &[]);
    assert!(whole, "{said}");
    super::completes(&target.owner, IMPORT, &json!({ "output_dir": "evil" })).await;
    assert_eq!(fs::read_to_string(target.gateway.models_dir().join("a.gguf")).unwrap(), "weights");
}

/// What macOS and Windows leave on a disk is named, and is no damage.
#[tokio::test]
async fn files_that_an_operating_system_left_are_named_as_litter() {
    let target = Target::new().await;
    target.package();
    for name in [".DS_Store", "models/Thumbs.db", "models/._a.gguf"] {
        fs::write(target.dir().join(name), "x").unwrap();
    }
    let (whole, said) = verify(&target.dir(), &[]);
    assert!(whole && said.contains("`models/._a.gguf` was left by an operating system"), "{said}");
    super::completes(&target.owner, IMPORT, &json!({ "output_dir": "evil" })).await;
}

/// The manifest of a model is the body of a create request, and is checked like one.
#[tokio::test]
async fn models_that_the_admin_api_refuses_are_not_imported_either() {
    let target = Target::new().await;
    for (what, field, value) in [
        ("a path out", "local_path", json!("../../etc/passwd")),
        ("an absolute path", "local_path", json!("/etc/passwd")),
        ("an unknown field", "post_start", json!("touch canary")),
        ("an image that is not allowed", "engine_image", json!("evil.example/x:1")),
        ("a name with control characters", "served_name", json!("a\u{1b}[2J")),
        ("an unknown engine", "engine_type", json!("sh")),
        ("an option that the gateway sets itself", "extra_args", json!(["--host", "0.0.0.0"])),
        ("a number out of bounds", "startup_timeout_sec", json!(-1)),
    ] {
        let mut manifest = target.package();
        let path = target.dir().join("manifests/model-1.json");
        let mut model: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        model["model"][field] = value;
        put(&target.dir(), &mut manifest, "manifests/model-1.json", model.to_string().as_bytes());
        write(&target.dir(), &manifest);
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(whole, "its maker says so: {said}");
        target.refuses(what).await;
    }
    for (what, text) in [
        ("a field beside the model", r#"{"format_version":1,"run":"x"}"#.to_owned()),
        ("a newer format", r#"{"format_version":9}"#.to_owned()),
        ("no JSON", "x".to_owned()),
        ("two megabytes", " ".repeat(2 << 20)),
    ] {
        let mut manifest = target.package();
        put(&target.dir(), &mut manifest, "manifests/model-1.json", text.as_bytes());
        write(&target.dir(), &manifest);
        target.refuses(what).await;
    }
}

/// With `PACKAGE_TRUSTED_KEY`, only what its owner signed is taken in.
#[tokio::test]
async fn a_package_that_the_trusted_key_did_not_sign_is_refused() {
    let keys = tempfile::tempdir().unwrap();
    let key = |name: &str| {
        let path = keys.path().join(name).display().to_string();
        assert!(gantry(&["package", "key", "--out", &path, "--no-password"]).status.success());
        path
    };
    let (ours, theirs) = (key("ours"), key("theirs"));
    let public = fs::read_to_string(format!("{ours}.pub")).unwrap().lines().last().unwrap().to_owned();
    let (mut gateway, owner) = site(Database::Sqlite).await;
    let packaged = super::completes(&owner, super::EXPORT, &json!({ "output_dir": "own" })).await;
    assert_eq!(packaged["artifacts"]["signed"], false);
    fs::remove_file(gateway.models_dir().join("tiny.gguf")).unwrap();
    fs::write(gateway.models_dir().join("own.gguf"), "mine").unwrap();
    assert!(gateway.terminate());
    gateway.set_env("PACKAGE_TRUSTED_KEY", &public);
    gateway.set_env("PACKAGE_SIGNING_KEY", &ours);
    gateway.restart().await;
    let owner = gateway.owner().await;
    let target = Target { gateway, owner };
    let sign = |key: &str| gantry(&["package", "sign", target.dir().to_str().unwrap(), "--key", key]);

    target.package();
    assert!(target.refuses("unsigned").await.contains("not signed"));
    assert!(sign(&theirs).status.success());
    assert!(target.refuses("signed by others").await.contains("key"));
    let mut manifest = target.package();
    assert!(sign(&ours).status.success());
    manifest["contents"]["settings"] = json!(true);
    write(&target.dir(), &manifest);
    assert!(
        target.refuses("changed after it was signed").await.contains("origin of the package is not proven")
    );
    target.package();
    for text in ["", "untrusted comment: x\nAAAA\ntrusted comment: x\nAAAA\n", "x\nx\nx\nx"] {
        fs::write(target.dir().join(SIGNATURE), text).unwrap();
        target.refuses("no signature").await;
    }
    // A dump is part of what was signed, too.
    let body = json!({ "output_dir": "own", "drop_existing": true });
    assert!(super::fails(&target.owner, RESTORE, &body).await.contains("not signed"));
    fs::write(target.dir().join("dump.sql"), "x").unwrap();
    let beside = json!({ "output_dir": "evil", "drop_existing": true, "db_file": "dump.sql" });
    let said = super::fails(&target.owner, RESTORE, &beside).await;
    assert!(said.contains("PACKAGE_TRUSTED_KEY"), "{said}");

    target.package();
    assert!(sign(&ours).status.success());
    let (whole, said) = verify(&target.dir(), &["--key", &format!("{ours}.pub")]);
    assert!(whole && said.contains("signed by"), "{said}");
    super::completes(&target.owner, IMPORT, &json!({ "output_dir": "evil" })).await;
    // What the gateway writes itself is signed with its key, and comes back.
    let job = super::completes(&target.owner, super::EXPORT, &json!({ "output_dir": "signed" })).await;
    assert_eq!(job["artifacts"]["signed"], true, "{job}");
    let (whole, said) = verify(&folder(&target.gateway, "signed"), &["--key", &public]);
    assert!(whole, "{said}");
    let body = json!({ "output_dir": "signed", "drop_existing": true });
    let (_, job) = super::restored(&target.gateway, &target.owner, &body).await;
    assert_eq!(job["status"], "completed", "{job}");
}

/// A pipe in place of a dump or a manifest holds nobody up.
#[tokio::test]
async fn a_pipe_in_place_of_a_file_that_is_read_first_does_not_hang() {
    let target = Target::new().await;
    for name in [MANIFEST, SIGNATURE, CHECKSUMS, "manifests/model-1.json"] {
        target.package();
        let _ = fs::remove_file(target.dir().join(name));
        assert!(Command::new("mkfifo").arg(target.dir().join(name)).status().unwrap().success());
        let (whole, said) = verify(&target.dir(), &[]);
        assert!(!whole, "{name}: {said}");
        let list = target.owner.get("/admin/deployment/model-manifests?output_dir=evil");
        tokio::time::timeout(gantry_testkit::PATIENCE, list).await.expect("it answers");
    }
    target.package();
    fs::create_dir(target.dir().join("db")).unwrap();
    assert!(Command::new("mkfifo").arg(target.dir().join("db/dump.sql")).status().unwrap().success());
    let check = json!({ "output_dir": "evil" });
    let told = target.owner.post("/admin/deployment/check-database-dump", &check).await.expect(200);
    assert_eq!((&told["exists"], &told["valid"]), (&json!(false), &json!(false)), "{told}");
    let refused = target.owner.post(RESTORE, &json!({ "output_dir": "evil", "drop_existing": true })).await;
    assert_error(&refused, 404, "not_found");
    assert_eq!(target.owner.get(JOBS).await.expect(200), json!([]));
}
