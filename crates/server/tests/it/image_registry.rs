//! Debian's registry of images on loopback, and images for it that no Docker engine has.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use gantry_testkit::{Client, PATIENCE, docker_cli, eventually, on_a_port, sim_vllm, skip};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A blob in a file, as registries know it.
pub(crate) struct Blob {
    pub(crate) path: PathBuf,
    pub(crate) digest: String,
    pub(crate) size: u64,
}

impl Blob {
    fn of(path: &Path) -> Self {
        let output = Command::new("sha256sum").arg(path).output().unwrap();
        let digest = String::from_utf8(output.stdout).unwrap()[..64].to_owned();
        Self {
            path: path.to_owned(),
            digest: format!("sha256:{digest}"),
            size: fs::metadata(path).unwrap().len(),
        }
    }

    fn describe(&self, kind: &str) -> Value {
        json!({ "mediaType": kind, "size": self.size, "digest": self.digest })
    }
}

/// An image that no Docker engine has a layer of: the first one is random.
pub(crate) struct Image {
    pub(crate) config: Blob,
    pub(crate) layers: Vec<Blob>,
    pub(crate) manifest: Vec<u8>,
}

impl Image {
    /// Makes an image of `mib` random MiB, with the config and layers of `upper` added.
    pub(crate) fn new(dir: &Path, mib: usize, upper: Option<(Value, Vec<Blob>)>) -> Self {
        let root = dir.join("root");
        fs::create_dir_all(&root).unwrap();
        let count = format!("count={mib}");
        let of = format!("of={}", root.join("random").display());
        run("dd", &["if=/dev/urandom", &of, "bs=1M", &count]);
        let layer = dir.join("layer.tar");
        run("tar", &["-cf", layer.to_str().unwrap(), "-C", root.to_str().unwrap(), "random"]);
        let mut layers = vec![Blob::of(&layer)];
        let mut config = json!({
            "architecture": "amd64", "os": "linux", "config": {},
        });
        if let Some((it, more)) = upper {
            config = it;
            layers.extend(more);
        }
        config["history"] = json!([]);
        // A layer that is not compressed has the same digest in both places.
        let ids: Vec<_> = layers.iter().map(|it| it.digest.clone()).collect();
        config["rootfs"] = json!({ "type": "layers", "diff_ids": ids });
        fs::write(dir.join("config.json"), config.to_string()).unwrap();
        let config = Blob::of(&dir.join("config.json"));
        let described: Vec<_> =
            layers.iter().map(|it| it.describe("application/vnd.docker.image.rootfs.diff.tar")).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": described,
            "config": config.describe("application/vnd.docker.container.image.v1+json"),
        });
        Self { config, layers, manifest: manifest.to_string().into_bytes() }
    }

    /// The engine simulator on top of a random layer.
    pub(crate) fn simulator(dir: &Path) -> Self {
        let saved = dir.join("saved");
        fs::create_dir_all(&saved).unwrap();
        let archive = dir.join("saved.tar");
        docker_cli(&["save", "-o", archive.to_str().unwrap(), sim_vllm()]);
        run("tar", &["-xf", archive.to_str().unwrap(), "-C", saved.to_str().unwrap()]);
        let read =
            |name: &str| -> Value { serde_json::from_slice(&fs::read(saved.join(name)).unwrap()).unwrap() };
        let index = &read("manifest.json")[0];
        let layers = index["Layers"].as_array().unwrap().iter();
        let layers = layers.map(|it| Blob::of(&saved.join(it.as_str().unwrap()))).collect();
        // To a gateway it is an engine: nobody else has simulators.
        let mut config = read(index["Config"].as_str().unwrap());
        config["config"]["Labels"].as_object_mut().unwrap().remove("gantry.simulator");
        Self::new(dir, 8, Some((config, layers)))
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Debian's `docker-registry` on loopback.
pub(crate) struct Registry {
    child: Child,
    url: String,
    _dir: TempDir,
}

impl Registry {
    /// Starts the registry. Returns `None`, and notes that the test was skipped, where there is none.
    pub(crate) async fn start(test: &str) -> Option<Self> {
        if Command::new("docker-registry").arg("--version").output().is_err() {
            skip(test, "docker-registry is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let (child, url) = on_a_port("the registry", async |port| {
            let config = json!({
                "version": 0.1, "log": { "level": "error" }, "http": { "addr": format!("127.0.0.1:{port}") },
                "storage": { "filesystem": { "rootdirectory": dir.path().join("data") } },
            });
            // JSON is YAML.
            let path = dir.path().join("config.yml");
            fs::write(&path, config.to_string()).unwrap();
            let mut command = Command::new("docker-registry");
            command.arg("serve").arg(&path).stdout(Stdio::null()).stderr(Stdio::null());
            let (mut child, url) = (command.spawn().unwrap(), format!("http://127.0.0.1:{port}"));
            let client = Client::new(&url);
            let listens = eventually("the registry listens", PATIENCE, async || {
                let ended = child.try_wait().unwrap().map(|_| false);
                let answered = client.request(Method::GET, "/v2/").send().await.ok().map(|_| true);
                ended.or(answered)
            });
            listens.await.then_some((child, url))
        })
        .await;
        Some(Self { child, url, _dir: dir })
    }

    /// Returns the name of its repository.
    pub(crate) fn repository(&self) -> String {
        format!("{}/engine", self.url.trim_start_matches("http://"))
    }

    /// Takes in an image under the tag `1`, and returns the digest by which it names the image too.
    pub(crate) async fn take(&self, image: &Image) -> String {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        for blob in image.layers.iter().chain([&image.config]) {
            let begun = http.post(format!("{}/v2/engine/blobs/uploads/", self.url)).send().await.unwrap();
            let place = begun.headers()["location"].to_str().unwrap();
            let join = if place.contains('?') { '&' } else { '?' };
            let put =
                http.put(format!("{place}{join}digest={}", blob.digest)).body(fs::read(&blob.path).unwrap());
            assert_eq!(put.send().await.unwrap().status(), 201);
        }
        let put = http.put(format!("{}/v2/engine/manifests/1", self.url)).header("content-type", MANIFEST);
        let answer = put.body(image.manifest.clone()).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.headers()["docker-content-digest"].to_str().unwrap().to_owned()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
