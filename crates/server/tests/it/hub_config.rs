//! `GET /admin/models/hub-config` against a hub of our own that behaves, and against one that does not.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use gantry_testkit::{Answer, Client, Options};
use serde_json::{Value, json};

use crate::{
    support::{GANTRY, assert_error, assert_invalid},
    team::{Team, id},
};

const CONFIG: &str = include_str!("../fixtures/hf/tiny-llama-chat/config.json");
const TOKEN: &str = "hf_aVerySecretToken";

/// An HTTP server that answers each path as its test says, and remembers what it was sent.
pub(crate) struct Hub {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

/// Writes the answer to a path with its query, given the whole head.
type Script = fn(&str, &str, &mut TcpStream);

impl Hub {
    fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream, &seen, script));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// A hub with the repositories of [`script`].
pub(crate) fn hub() -> Hub {
    Hub::start(script)
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, script: Script) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            // What begins otherwise is TLS.
            Ok(1) if head.is_empty() && byte != *b"G" => return,
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    seen.lock().unwrap().push(head.clone());
    let path = head.split(' ').nth(1).unwrap().to_owned();
    script(&path, &head, &mut stream);
}

fn reply(stream: &mut TcpStream, status: &str, more: &str, body: &str) {
    let length = body.len();
    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{more}\r\n{body}");
}

fn config_of(name: &str) -> String {
    format!("/me/{name}/resolve/main/config.json")
}

/// The hub's list of files, each with its size if the hub says it.
fn files_of(files: &[(&str, Option<u64>)]) -> String {
    let sibling = |(name, size): &(&str, Option<u64>)| match size {
        Some(size) => json!({ "rfilename": name, "size": size, "blobId": "x" }),
        None => json!({ "rfilename": name }),
    };
    json!({ "id": "x", "siblings": files.iter().map(sibling).collect::<Vec<_>>() }).to_string()
}

fn script(path: &str, head: &str, stream: &mut TcpStream) {
    let mut ok = |body: &str| reply(stream, "200 OK", "content-type: text/plain\r\n", body);
    let path = path.split('?').next().unwrap();
    match path {
        "/me/model/resolve/main/config.json" | "/gpt2/resolve/main/config.json" => ok(CONFIG),
        "/api/models/me/model" => ok(&files_of(&[
            ("config.json", Some(9)),
            ("model.safetensors", Some(4096)),
            ("README.md", Some(1)),
        ])),
        "/api/models/me/gguf" => ok(&files_of(&[
            ("a-Q4_K_M.gguf", Some(100)),
            ("a-Q8_0-00001-of-00002.gguf", Some(150)),
            ("a-Q8_0-00002-of-00002.gguf", Some(50)),
            ("b-F16.gguf", None),
            ("mmproj-F16.gguf", Some(7)),
        ])),
        "/me/alone/resolve/main/config.json" => ok(r#"{"architectures":["LlamaForCausalLM"],"n_layer":3}"#),
        "/me/html/resolve/main/config.json" => ok("<!doctype html><title>Sign in</title>"),
        "/me/list/resolve/main/config.json" => ok("[1,2]"),
        "/me/deep/resolve/main/config.json" => ok(&"[".repeat(100_000)),
        "/me/huge/resolve/main/config.json" => ok(&format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20))),
        "/me/endless/resolve/main/config.json" => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
        }
        "/me/slow/resolve/main/config.json" => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{");
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        "/me/cut/resolve/main/config.json" => {
            let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{");
        }
        "/me/garbage/resolve/main/config.json" => {
            let _ = stream.write_all(b"\x16\x03\x01 not HTTP\r\n\r\n");
        }
        "/me/gated/resolve/main/config.json" if head.contains(TOKEN) => ok(CONFIG),
        "/me/gated/resolve/main/config.json" => {
            reply(stream, "401 Unauthorized", "x-error-code: GatedRepo\r\n", "no");
        }
        "/me/forbidden/resolve/main/config.json" => reply(stream, "403 Forbidden", "", "no"),
        "/me/busy/resolve/main/config.json" => reply(stream, "503 Service Unavailable", "", "later"),
        "/me/moved/resolve/main/config.json" => {
            reply(
                stream,
                "307 Temporary Redirect",
                "location: /me/model/resolve/main/config.json?x=1\r\n",
                "",
            );
        }
        "/me/circle/resolve/main/config.json" => {
            reply(stream, "302 Found", &format!("location: {}\r\n", config_of("circle")), "");
        }
        _ if path.starts_with("/me/away") => {
            // The other host's address is in the repository's name.
            let port = path.split(['-', '/']).nth(3).unwrap();
            let to = format!("location: http://127.0.0.1:{port}/steal\r\n");
            reply(stream, "302 Found", &to, "");
        }
        _ => reply(stream, "404 Not Found", "", "Entry not found"),
    }
}

async fn ask(client: &Client, repo_id: &str) -> Answer {
    client.get(&format!("/admin/models/hub-config?repo_id={repo_id}")).await
}

async fn ask_with(client: &Client, repo_id: &str, token: &str) -> Answer {
    let path = format!("/admin/models/hub-config?repo_id={repo_id}");
    client.send(client.request(reqwest::Method::GET, &path).header("x-hub-token", token)).await
}

#[tokio::test]
async fn a_repository_is_summed_up_before_anything_is_downloaded() {
    let hub = Hub::start(script);
    let team = Team::with(Options::default().env("HUB_ENDPOINT", &hub.url())).await;
    let found = ask(&team.admin, "me/model").await.expect(200);
    let config: Value = serde_json::from_str(CONFIG).unwrap();
    assert_eq!((&found["repo_id"], &found["config"]), (&json!("me/model"), &config));
    let summary = &found["summary"];
    assert_eq!(
        *summary,
        json!({
            "architecture": "LlamaForCausalLM", "model_type": "llama",
            "context_length": config["max_position_embeddings"], "num_layers": config["num_hidden_layers"],
            "hidden_size": config["hidden_size"], "num_attention_heads": config["num_attention_heads"],
            "num_key_value_heads": config["num_key_value_heads"], "vocab_size": config["vocab_size"],
            "quantization": null, "task": "generate",
        })
    );
    let weights = json!([{ "path": "model.safetensors", "size_bytes": 4096 }]);
    assert_eq!(found["files"], json!({ "gguf": [], "safetensors": weights, "projectors": [] }));
    assert_eq!(found["engine_recommendation"]["recommended_engine"], "vllm");
    assert_eq!(found["engine_recommendation"]["recommended_format"], "safetensors");

    // Repositories of GGUF files have no configuration.
    let gguf = ask(&team.admin, "me/gguf").await.expect(200);
    assert_eq!((&gguf["config"], &gguf["summary"]["architecture"]), (&json!(null), &json!(null)));
    // Each is one model, with what names it in a record, and the size that the hub says.
    let model = |path: &str, parts: u32, size: Value, quant: &str| {
        json!({
            "path": path, "parts": parts, "size_bytes": size, "quant_type": quant, "repo_id": format!("me/gguf:{quant}"),
        })
    };
    assert_eq!(
        gguf["files"],
        json!({
            "gguf": [
                model("a-Q4_K_M.gguf", 1, json!(100), "Q4_K_M"),
                model("a-Q8_0-00001-of-00002.gguf", 2, json!(200), "Q8_0"),
                model("b-F16.gguf", 1, json!(null), "F16"),
            ],
            "safetensors": [],
            "projectors": [{ "path": "mmproj-F16.gguf", "size_bytes": 7 }],
        })
    );
    for one in gguf["files"]["gguf"].as_array().unwrap() {
        let body = json!({ "served_name": "m", "engine_type": "llamacpp", "repo_id": one["repo_id"] });
        let dry = team.admin.post("/admin/models/dry-run", &body).await.expect(200);
        let command = dry["command"].as_array().unwrap();
        assert!(command.contains(&one["repo_id"]), "{dry}");
        // What was not downloaded has no known memory.
        assert!(dry["vram_estimate_gb"].is_null(), "{dry}");
    }
    assert_eq!(gguf["engine_recommendation"]["recommended_engine"], "llamacpp");
    // The list of files is a courtesy.
    let alone = ask(&team.admin, "me/alone").await.expect(200);
    assert_eq!((&alone["files"], &alone["summary"]["num_layers"]), (&json!(null), &json!(3)));
    // Renamed repositories, and files behind the hub's own cache.
    assert_eq!(ask(&team.admin, "me/moved").await.expect(200)["config"], config);
    assert!(hub.heads().iter().all(|it| !it.to_lowercase().contains("authorization")), "nobody gave a token");
}

#[tokio::test]
async fn a_token_goes_to_the_hub_that_was_set_and_nowhere_else() {
    let hub = Hub::start(script);
    let other = Hub::start(|_, _, stream| reply(stream, "200 OK", "", CONFIG));
    let team = Team::with(Options::default().env("HUB_ENDPOINT", &hub.url())).await;
    let refused = ask(&team.admin, "me/gated").await;
    assert_error(&refused, 403, "hub_access_denied");
    assert_eq!(refused.json["error"]["param"], "hub_token");
    let message = refused.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("gated") && message.contains("`hub_token`"), "{message}");
    assert_error(&ask_with(&team.admin, "me/gated", "wrong").await, 403, "hub_access_denied");
    assert_error(&ask_with(&team.admin, "me/forbidden", TOKEN).await, 403, "hub_access_denied");
    ask_with(&team.admin, "me/gated", TOKEN).await.expect(200);
    for odd in ["", "a b", "ü", &"x".repeat(501)] {
        assert_eq!(ask_with(&team.admin, "me/gated", odd).await.status, 422, "{odd:?}");
    }
    // That of a record, which nobody gets to see.
    let body =
        json!({ "served_name": "g", "engine_type": "vllm", "repo_id": "me/gated", "hub_token": TOKEN });
    let model = id(&team.owner.post("/admin/models", &body).await.expect(201));
    let stored = ask(&team.admin, &format!("me/gated&model_id={model}")).await;
    assert!(stored.status == 200 && !stored.text.contains(TOKEN), "{}", stored.text);
    assert_error(&ask(&team.admin, "me/gated&model_id=999").await, 404, "not_found");

    // To another host: not with a token, and not without.
    let away = format!("me/away-{}", other.address.port());
    assert_error(&ask_with(&team.admin, &away, TOKEN).await, 502, "bad_upstream");
    assert_error(&ask(&team.admin, &away).await, 502, "bad_upstream");
    assert_eq!(other.heads(), Vec::<String>::new());
    assert_error(&ask(&team.admin, "me/circle").await, 502, "bad_upstream");
    // Within the host it goes along.
    ask_with(&team.admin, "me/moved", TOKEN).await.expect(200);
    assert!(hub.heads().last().unwrap().contains(TOKEN));
    assert!(!team.gateway.log().contains(TOKEN));
}

#[tokio::test]
async fn what_is_no_name_of_a_repository_reaches_nobody() {
    let hub = Hub::start(script);
    let team = Team::with(Options::default().env("HUB_ENDPOINT", &hub.url())).await;
    let long = format!("{}/x", "a".repeat(97));
    for wrong in [
        "",
        "x--y",
        "a/b/c",
        "/b",
        "a/",
        "/",
        "../b",
        "a/..",
        "a/.",
        "./b",
        "a/..b",
        "a/b..c",
        "a/.b",
        "a/b.",
        "-a/b",
        "a/b-",
        "a--b/c",
        "a%252Fb",
        "a/b%252Fc",
        "a/b%253F",
        "a/b%3Fx",
        "a/b%23x",
        "a%5Cb/c",
        "a/b%20c",
        "a/b%0d%0aHost:%20x",
        "a/b%00",
        "a/b.git",
        "http://evil/a",
        "evil.example:80/a",
        "a@evil/b",
        "%C3%BC/b",
        "a/b;c",
        "a/%2e%2e",
        &long,
    ] {
        assert_invalid(&ask(&team.admin, wrong).await, &["repo_id"]);
    }
    assert_invalid(&team.admin.get("/admin/models/hub-config?repo_id=a/b&host=evil").await, &["host"]);
    assert_error(&ask(&team.org_admin, "me/model").await, 403, "forbidden");
    assert_eq!(hub.heads(), Vec::<String>::new());
    // Records take one word, too: the oldest repositories have no owner.
    for (fine, repo) in [("me/model", "me/model"), ("me%2Fmodel", "me/model"), ("gpt2", "gpt2")] {
        assert_eq!(ask(&team.admin, fine).await.expect(200)["repo_id"], repo);
        let online = json!({ "served_name": fine, "engine_type": "vllm", "repo_id": repo });
        team.admin.post("/admin/models", &online).await.expect(201);
    }
    let twice = json!({ "served_name": "t", "engine_type": "vllm", "local_path": "t", "repo_id": "x--y" });
    assert_invalid(&team.admin.post("/admin/models", &twice).await, &["repo_id"]);
}

#[tokio::test]
async fn a_hub_that_misbehaves_gets_one_clear_answer() {
    let hub = Hub::start(script);
    let team = Team::with(Options::default().env("HUB_ENDPOINT", &hub.url())).await;
    for (name, status, code) in [
        ("html", 502, "bad_upstream"),
        ("list", 502, "bad_upstream"),
        ("deep", 502, "bad_upstream"),
        ("huge", 502, "bad_upstream"),
        ("endless", 502, "bad_upstream"),
        ("cut", 503, "hub_unavailable"),
        ("garbage", 503, "hub_unavailable"),
        ("busy", 503, "hub_unavailable"),
        ("none", 404, "not_found"),
        ("slow", 504, "upstream_timeout"),
    ] {
        let answer = ask(&team.admin, &format!("me/{name}")).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{name}: {}", answer.text);
        assert_error(&answer, status, code);
        assert!(!answer.text.contains("doctype"), "{}", answer.text);
    }
}

#[tokio::test]
async fn without_a_hub_to_ask_it_says_so_and_asks_nobody() {
    let hub = Hub::start(script);
    let offline = Options::default().env("HUB_ENDPOINT", &hub.url()).env("OFFLINE_MODE", "true");
    let team = Team::with(offline).await;
    let answer = ask(&team.admin, "me/model").await;
    assert_error(&answer, 503, "hub_unavailable");
    assert!(answer.text.contains("OFFLINE_MODE"), "{}", answer.text);
    assert_eq!(hub.heads(), Vec::<String>::new());

    // Nor is the public hub asked, which is the default (a unit test of the hub's says which it is).
    let team = Team::with(Options::default().env("OFFLINE_MODE", "true")).await;
    let answer = ask(&team.admin, "me/model").await;
    assert_error(&answer, 503, "hub_unavailable");
    assert!(answer.text.contains("OFFLINE_MODE"), "{}", answer.text);

    // Nobody listens; and one that speaks no TLS.
    for (url, what) in
        [("http://127.0.0.1:9".to_owned(), "refused"), (hub.url().replace("http", "https"), "TLS")]
    {
        let team = Team::with(Options::default().env("HUB_ENDPOINT", &url)).await;
        let answer = ask(&team.admin, "me/model").await;
        assert_error(&answer, 503, "hub_unavailable");
        assert!(answer.text.contains(what), "{}", answer.text);
    }
}

#[test]
fn an_address_that_is_none_is_told_at_start() {
    for wrong in ["hub.example", "ftp://hub.example", "https://user:word@hub.example"] {
        let dir = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(GANTRY)
            .arg("serve")
            .current_dir(dir.path())
            .env_clear()
            .env("DATA_DIR", dir.path())
            .env("GATEWAY_LISTEN", "127.0.0.1:0")
            .env("METRICS_LISTEN", "127.0.0.1:0")
            .env("HUB_ENDPOINT", wrong)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("HUB_ENDPOINT"), "{wrong}: {text}");
        assert!(!text.contains("user:word"), "{text}");
    }
}
