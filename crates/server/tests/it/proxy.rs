//! The reverse proxies of `deploy/proxy/`, as the real programs run them: nginx and Caddy with TLS in front of a gateway.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use gantry_testkit::{Gateway, Options, PATIENCE, eventually, on_a_port, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{simulator::Simulator, support::start};

/// The name in the files.
const NAME: &str = "ai.example.org";
const PASSWORD: &str = "correct horse battery";

/// A proxy of one test; ends with this value.
struct Proxy {
    child: Child,
    port: u16,
    dir: PathBuf,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx's master ends its workers when it is asked, not when it is killed.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn certificate(dir: &Path) -> bool {
    let mut command = Command::new("openssl");
    command.args(["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-x509"]);
    command.args(["-days", "2", "-subj", "/CN=ai", "-addext", &format!("subjectAltName=DNS:{NAME}")]);
    command.args(["-keyout", "key.pem", "-out", "cert.pem"]).current_dir(dir);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
}

/// The file in `deploy/proxy/` with a free port, the gateway's address and a certificate of this test.
fn config(name: &str, gateway: &Gateway, dir: &Path, port: u16) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/proxy").join(name);
    let upstream = gateway.client().url.replace("http://", "");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains("127.0.0.1:8084"), "{name}");
    let folder = dir.display();
    text.replace("127.0.0.1:8084", &upstream)
        .replace("listen 443 ssl", &format!("listen 127.0.0.1:{port} ssl"))
        .replace(&format!("/etc/ssl/{NAME}.pem"), &format!("{folder}/cert.pem"))
        .replace(&format!("/etc/ssl/{NAME}.key"), &format!("{folder}/key.pem"))
        .replace(
            &format!("\n{NAME} {{"),
            &format!("\nhttps://{NAME}:{port} {{\n\ttls {folder}/cert.pem {folder}/key.pem"),
        )
}

fn nginx(gateway: &Gateway, dir: &Path, port: u16) -> Option<Proxy> {
    let site = dir.join("site.conf");
    std::fs::write(&site, config("nginx.conf", gateway, dir, port)).unwrap();
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|it| format!("{it}_temp_path {}/{it};", dir.display()));
    let whole = format!(
        "daemon off; pid {0}/pid; error_log {0}/error.log; events {{}}\nhttp {{ access_log off; {1} include {0}/site.conf; }}\n",
        dir.display(),
        places.join(" "),
    );
    // Workers of another user must reach the folders.
    let whole = if root() { format!("user root;\n{whole}") } else { whole };
    let file = dir.join("nginx.conf");
    std::fs::write(&file, whole).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-c").arg(&file).arg("-e").arg(dir.join("start.log"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    Some(Proxy { child, port, dir: dir.to_owned() })
}

fn caddy(gateway: &Gateway, dir: &Path, port: u16) -> Option<Proxy> {
    // Its own port for administration is not wanted, and neither is the redirection at port 80.
    let options = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n";
    let file = dir.join("Caddyfile");
    std::fs::write(&file, format!("{options}{}", config("Caddyfile", gateway, dir, port))).unwrap();
    let mut command = Command::new("caddy");
    command.arg("run").arg("--config").arg(&file).args(["--adapter", "caddyfile"]);
    command.env("HOME", dir).env("XDG_DATA_HOME", dir).env("XDG_CONFIG_HOME", dir);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    Some(Proxy { child, port, dir: dir.to_owned() })
}

fn root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n")
}

impl Proxy {
    /// curl, which knows the name and the certificate.
    fn curl(&self, path: &str) -> Command {
        let mut command = Command::new("curl");
        command.arg("--cacert").arg(self.dir.join("cert.pem"));
        command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]);
        command.arg("--resolve").arg(format!("{NAME}:{}:127.0.0.1", self.port));
        command.arg(format!("https://{NAME}:{}{path}", self.port));
        command
    }

    /// Status, and the body as JSON.
    fn ask(&self, path: &str, arguments: &[&str]) -> (u16, Value) {
        let output =
            self.curl(path).args(["--write-out", "\n%{http_code}"]).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    fn post(&self, path: &str, body: &Value, arguments: &[&str]) -> (u16, Value) {
        let body = body.to_string();
        let json = ["-H", "content-type: application/json", "-d", &body];
        self.ask(path, &[&json[..], arguments].concat())
    }

    /// Waits until it answers. Returns `false` if it ended, as it does if somebody else has its port.
    async fn answers(&mut self) -> bool {
        eventually("the proxy answers", PATIENCE, async || {
            if let Some(ended) = self.child.try_wait().unwrap() {
                let log = std::fs::read_to_string(self.dir.join("start.log")).unwrap_or_default();
                println!("the proxy ended with {ended}: {log}");
                return Some(false);
            }
            let Output { status, .. } = self.curl("/health").output().unwrap();
            status.success().then_some(true)
        })
        .await
    }
}

async fn serves(name: &str, begin: fn(&Gateway, &Path, u16) -> Option<Proxy>) {
    let test = &format!("proxy: {name}");
    let dir = TempDir::new().unwrap();
    if !certificate(dir.path()) {
        skip(test, "openssl is not installed");
        return;
    }
    let settings =
        [("TRUSTED_PROXIES", "127.0.0.1"), ("ALLOWED_HOSTS", NAME), ("SESSION_COOKIE_SECURE", "true")];
    let options = Options { owner: false, ..Options::default() };
    let options = settings.iter().fold(options, |it, (name, value)| it.env(name, value));
    let gateway = start(options).await;
    let proxy = on_a_port(name, async |port| match begin(&gateway, dir.path(), port) {
        Some(mut proxy) => proxy.answers().await.then_some(Some(proxy)),
        None => Some(None),
    });
    let Some(proxy) = proxy.await else {
        skip(test, &format!("{name} is not installed"));
        return;
    };

    // A load balancer on this machine.
    let (status, ready) = proxy.ask("/readyz", &[]);
    assert_eq!((status, &ready["status"]), (200, &json!("ready")), "{ready}");

    // A client that comes through a proxy does not count as a client on this machine.
    let first = json!({ "username": "ada", "password": PASSWORD, "org_name": "Acme" });
    let (status, refused) = proxy.post("/admin/bootstrap-owner", &first, &[]);
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("setup_token_required")), "{refused}");
    let mut with_token = first.clone();
    with_token["setup_token"] = json!(gateway.setup_token().await);
    assert_eq!(proxy.post("/admin/bootstrap-owner", &with_token, &[]).0, 201);

    // A session, whose cookie is for TLS only.
    let jar = proxy.dir.join("jar");
    let jar = jar.to_str().unwrap();
    let credentials = json!({ "username": "ada", "password": PASSWORD });
    assert_eq!(proxy.post("/auth/login", &credentials, &["-c", jar]).0, 200);
    let cookie = std::fs::read_to_string(jar).unwrap();
    let line = cookie.lines().find(|it| it.contains("svc_session")).unwrap();
    assert_eq!(line.split('\t').nth(3), Some("TRUE"), "secure: {line}");
    let origin = format!("origin: https://{NAME}:{}", proxy.port);
    let session = ["-b", jar, "-H", &origin];

    // An answer that stands still after three tokens: what came until then must not wait in the proxy.
    let engine = Simulator::start("--sim-hang-after-tokens 3").await;
    let entry = json!({ "served_name": "m", "url": engine.url() });
    assert_eq!(proxy.post("/admin/models/registry", &entry, &session).0, 201);
    let (status, key) = proxy.post("/admin/keys", &json!({ "name": "k" }), &session);
    assert_eq!(status, 201, "{key}");
    let bearer = format!("authorization: Bearer {}", key["token"].as_str().unwrap());
    let ask = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let mut stream = proxy.curl("/v1/chat/completions");
    stream.args([
        "--no-buffer",
        "-H",
        &bearer,
        "-H",
        "content-type: application/json",
        "-d",
        &ask.to_string(),
    ]);
    let mut stream = stream.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(stream.stdout.take().unwrap()).lines().map_while(Result::ok);
    let tokens = lines.filter(|it| it.contains("\"content\":\"") && !it.contains("\"content\":\"\"")).take(3);
    assert_eq!(tokens.count(), 3, "three tokens arrive while the engine is silent");
    stream.kill().unwrap();
    stream.wait().unwrap();

    // The address that counts is the one that the proxy saw, not the one that a client claims.
    let elsewhere = json!({ "name": "bound", "ip_allowlist": ["198.51.100.7"] });
    let (_, bound) = proxy.post("/admin/keys", &elsewhere, &session);
    let of_elsewhere = format!("authorization: Bearer {}", bound["token"].as_str().unwrap());
    let claims = ["-H", of_elsewhere.as_str(), "-H", "x-forwarded-for: 198.51.100.7"];
    let (status, refused) = proxy.post("/v1/chat/completions", &ask, &claims);
    assert_eq!((status, &refused["error"]["code"]), (403, &json!("ip_not_allowed")), "{refused}");

    // What is too large ends at the proxy or at the gateway, with 413.
    let large = proxy.dir.join("large");
    std::fs::write(&large, vec![b' '; 33 << 20]).unwrap();
    let data = format!("@{}", large.display());
    let json = ["--http1.1", "-H", "content-type: application/json", "--data-binary", &data];
    let arguments = [&["-H", bearer.as_str()], &json[..]].concat();
    eventually("too large a body is refused with 413", PATIENCE, async || {
        // Caddy resets some connections whose bodies it has not read, before curl has its answer: then there is none.
        let (status, answer) = proxy.ask("/v1/chat/completions", &arguments);
        assert!(matches!(status, 0 | 100 | 413), "{status}: {answer}");
        (status == 413).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_serves_with_tls_streams_and_addresses() {
    serves("nginx", nginx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn caddy_serves_with_tls_streams_and_addresses() {
    serves("caddy", caddy).await;
}
