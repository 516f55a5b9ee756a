//! What the gateway of the examples finds around it: engines' programs, a model, a GPU, a model hub, and for one request a
//! container engine.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use gantry_testkit::{Database, Options};
use serde_json::json;
use tempfile::TempDir;

use crate::support::GANTRY;

const CHECKPOINT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hf/tiny-llama-chat");

pub(super) struct Surroundings {
    dir: TempDir,
    hub: SocketAddr,
}

impl Surroundings {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let this = Self { dir, hub: serve(hub) };
        fs::create_dir_all(this.programs()).unwrap();
        // Called by these names, the program is a simulator.
        for name in ["vllm", "llama-server"] {
            symlink(GANTRY, this.programs().join(name)).unwrap();
        }
        let gpu = json!([{
            "index": 0, "name": "NVIDIA L40S", "mem_total_mb": 46068, "mem_used_mb": 1024, "compute_capability": "8.9",
        }]);
        fs::write(this.gpus(), gpu.to_string()).unwrap();
        let model = this.dir.path().join("models/qwen");
        fs::create_dir_all(&model).unwrap();
        for file in fs::read_dir(CHECKPOINT).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), model.join(file.file_name())).unwrap();
        }
        this
    }

    /// Where the engines' programs are.
    pub(super) fn programs(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    /// Where the model is.
    pub(super) fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    fn gpus(&self) -> PathBuf {
        self.dir.path().join("gpus.json")
    }

    /// Nobody is its owner yet.
    #[expect(
        clippy::disallowed_methods,
        reason = "the engines' own programs come before those of the machine"
    )]
    pub(super) fn options(&self) -> Options {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let path = format!("{}:{}", text(&self.programs()), std::env::var("PATH").unwrap_or_default());
        let options = Options::processes()
            .on(Database::Sqlite)
            .env("PATH", &path)
            .env("MODELS_DIR", &text(&self.models()))
            .env("GPU_INVENTORY_FILE", &text(&self.gpus()))
            .env("HUB_ENDPOINT", &format!("http://{}", self.hub));
        Options { owner: false, ..options }
    }

    /// With a container engine, and with an owner.
    pub(super) fn with_containers() -> Options {
        let engine = serve(container_engine);
        Options::default().on(Database::Sqlite).env("CONTAINER_HOST", &format!("tcp://{engine}"))
    }
}

/// Status and body of the answer to a path.
type Script = fn(&str) -> (&'static str, String);

fn hub(path: &str) -> (&'static str, String) {
    match path {
        "/me/model/resolve/main/config.json" => {
            ("200 OK", fs::read_to_string(Path::new(CHECKPOINT).join("config.json")).unwrap())
        }
        "/api/models/me/model" => (
            "200 OK",
            json!({ "id": "me/model", "siblings": [{ "rfilename": "model.safetensors", "size": 4096 }] })
                .to_string(),
        ),
        _ => ("404 Not Found", String::new()),
    }
}

/// As much of Docker's API as taking in an archive needs.
fn container_engine(path: &str) -> (&'static str, String) {
    let path = path.strip_prefix("/v").and_then(|it| it.split_once('/')).map_or(path, |it| it.1);
    let body = match path.trim_start_matches('/') {
        "_ping" => "OK".to_owned(),
        "version" => json!({
            "Version": "28.0.0", "ApiVersion": "1.48", "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64",
        })
        .to_string(),
        "images/load" => json!({ "stream": "Loaded image: gantry/llama-server:b11434\n" }).to_string(),
        "containers/json" => "[]".to_owned(),
        _ => return ("404 Not Found", json!({ "message": "there is none" }).to_string()),
    };
    ("200 OK", body)
}

/// A server that answers each request as `script` says.
fn serve(script: Script) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream, script));
        }
    });
    address
}

fn answer(mut stream: TcpStream, script: Script) {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut part).unwrap_or(0);
        request.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        // Only the body of an archive is sent in chunks here.
        let whole = text.contains("\r\n\r\n") && (!text.contains("chunked") || text.ends_with("0\r\n\r\n"));
        if n == 0 || whole {
            break;
        }
    }
    let head = String::from_utf8_lossy(&request).into_owned();
    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
    let (status, body) = script(path);
    let length = body.len();
    let head = "content-type: application/json\r\nconnection: close";
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}");
}
