//! A real Prometheus scrapes a real gateway, evaluates the alert rules that are shipped and what the dashboard asks for.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use gantry_testkit::{Client, Gateway, Options, eventually, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    monitoring::{address, folder, page},
    system::{chat, with_engine},
};

/// It scrapes each second.
const PATIENCE: Duration = gantry_testkit::PATIENCE;

struct Prometheus {
    child: Child,
    client: Client,
    dir: TempDir,
}

impl Prometheus {
    /// With the rules that are shipped, but for the time that an alert has to hold. `None`, and a note of it, where there
    /// is no such program.
    async fn start(test: &str, target: &str) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let rules = fs::read_to_string(folder().join("alerts.yml")).unwrap();
        let rules =
            rules.lines().map(|it| if it.trim().starts_with("for: ") { "        for: 0s" } else { it });
        fs::write(dir.path().join("alerts.yml"), rules.collect::<Vec<_>>().join("\n")).unwrap();
        let shipped = fs::read_to_string(folder().join("prometheus.yml")).unwrap();
        let config = shipped.replace("15s", "1s").replace("127.0.0.1:9084", target);
        assert!(config.contains(target) && config.contains("scrape_interval: 1s"), "{config}");
        fs::write(dir.path().join("prometheus.yml"), config).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", path("data")))
            .arg("--web.listen-address=127.0.0.1:0")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let Ok(child) = child else {
            skip(test, "prometheus is not installed (Debian's package `prometheus`)");
            return None;
        };
        let mut started = Self { child, client: Client::new("http://127.0.0.1:1"), dir };
        let log = started.dir.path().join("log");
        let at = eventually("Prometheus listens", PATIENCE, async || {
            assert!(started.child.try_wait().unwrap().is_none(), "{}", fs::read_to_string(&log).unwrap());
            listens(&log)
        });
        let at = at.await;
        started.client = Client::new(&format!("http://{at}"));
        eventually("Prometheus is ready", PATIENCE, async || {
            (started.client.get("/-/ready").await.status == 200).then_some(())
        })
        .await;
        Some(started)
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.client.get(path).await;
        assert_eq!(
            (answer.status, &answer.json["status"]),
            (200, &json!("success")),
            "{path}: {}",
            answer.text
        );
        answer.json["data"].clone()
    }

    /// Series that an expression gives now.
    async fn query(&self, expression: &str) -> Vec<Value> {
        let mut path = "/api/v1/query?query=".to_owned();
        expression.bytes().for_each(|it| write!(path, "%{it:02X}").unwrap());
        self.get(&path).await["result"].as_array().unwrap().clone()
    }

    async fn rules(&self) -> Vec<Value> {
        let groups = self.get("/api/v1/rules").await["groups"].as_array().unwrap().clone();
        groups.iter().flat_map(|it| it["rules"].as_array().unwrap().clone()).collect()
    }

    /// Names of the alerts that fire.
    async fn firing(&self) -> BTreeSet<String> {
        let rules = self.rules().await;
        let firing = rules.iter().filter(|it| it["state"] == "firing");
        firing.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `… msg="Listening on" address=127.0.0.1:40123`, once it is there.
fn listens(log: &Path) -> Option<String> {
    let log = fs::read_to_string(log).unwrap();
    let line = log.lines().find(|it| it.contains("msg=\"Listening on\""))?;
    line.split_once(" address=").map(|it| it.1.split_whitespace().next().unwrap().to_owned())
}

/// What the dashboard asks for, with what Grafana puts in.
fn panels() -> Vec<(String, String)> {
    let text = fs::read_to_string(folder().join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |it| (title.to_owned(), it["expr"].as_str().unwrap().to_owned()))
    });
    let filled = targets.map(|(title, expression)| {
        let expression = expression.replace("$__rate_interval", "30s").replace("$model", ".*");
        assert!(!expression.contains('$'), "{expression}");
        (title, expression)
    });
    filled.collect()
}

/// A gateway with a GPU on paper, a model that answers and one whose engine is away.
async fn gateway(dir: &TempDir) -> (Gateway, Client) {
    let gpus = json!([{
        "index": 0, "name": "NVIDIA Test", "mem_total_mb": 24_000, "mem_used_mb": 1_000, "compute_capability": "8.9",
    }]);
    let file = dir.path().join("gpus.json");
    fs::write(&file, gpus.to_string()).unwrap();
    let options = Options::default()
        .env("GPU_INVENTORY_FILE", file.to_str().unwrap())
        .env("BREAKER_FAILURES", "2")
        .env("HEALTH_POLL_SEC", "1");
    let (gateway, owner, engine, key) = with_engine(options).await;
    // The thread of the engine stays as long as the test.
    drop(engine);
    let entry = json!({ "served_name": "gone", "url": "http://127.0.0.1:9" });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    (gateway, key)
}

/// One request to each model.
async fn traffic(key: &Client) {
    assert_eq!(key.post("/v1/chat/completions", &chat("far", true)).await.status, 200);
    assert_eq!(key.post("/v1/chat/completions", &chat("gone", false)).await.status, 502);
}

#[tokio::test]
async fn a_real_prometheus_reads_the_gateway_and_its_alerts_fire() {
    let dir = TempDir::new().unwrap();
    let (mut gateway, key) = gateway(&dir).await;
    traffic(&key).await;
    let test = "a real Prometheus reads the gateway";
    let Some(prometheus) = Prometheus::start(test, &address(&gateway)).await else { return };
    eventually("it is scraped", PATIENCE, async || {
        let targets = prometheus.get("/api/v1/targets").await["activeTargets"].clone();
        (targets[0]["health"] == "up").then_some(())
    })
    .await;

    // Each family of the page arrives with its help and type, and nothing else does.
    let told: BTreeSet<String> = page(&gateway)
        .await
        .lines()
        .filter_map(|it| it.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned))
        .collect();
    let known = eventually("the families are known", PATIENCE, async || {
        let known = prometheus.get("/api/v1/metadata").await;
        let known: BTreeSet<String> = known.as_object().unwrap().keys().cloned().collect();
        (!known.is_empty()).then_some(known)
    })
    .await;
    assert_eq!(known, told);

    // What the dashboard asks for has answers; a rate takes two scrapes, and traffic between them.
    for (title, expression) in panels() {
        // A file of GPUs says nothing of their load, and no model is being applied.
        let blank = ["gantry_gpu_utilisation_ratio", "gantry_gpu_temperature_celsius"]
            .contains(&&*expression)
            || expression.starts_with("gantry_waiting_requests");
        if blank {
            assert_eq!(prometheus.query(&expression).await, Vec::<Value>::new(), "{title}");
            continue;
        }
        eventually(&format!("{title}: {expression}"), PATIENCE, async || {
            traffic(&key).await;
            (!prometheus.query(&expression).await.is_empty()).then_some(())
        })
        .await;
    }
    let models = prometheus.get("/api/v1/label/model/values").await;
    assert_eq!(models, json!(["far", "gone", "other"]));

    let rules = prometheus.rules().await;
    assert!(rules.len() >= 14, "{rules:#?}");
    for rule in &rules {
        assert_eq!((&rule["health"], rule["lastError"].as_str()), (&json!("ok"), None), "{rule:#?}");
    }
    for alert in ["GantryEngineFailures", "GantryEngineUnhealthy", "GantryBreakerOpen"] {
        eventually(&format!("{alert} fires"), PATIENCE, async || {
            traffic(&key).await;
            prometheus.firing().await.contains(alert).then_some(())
        })
        .await;
    }
    // On a machine that stops for seconds a probe, or a look at the gateway, may fail for a moment.
    eventually("nothing is wrong with what works", PATIENCE, async || {
        traffic(&key).await;
        let firing = prometheus.query("ALERTS{alertstate=\"firing\",model=\"far\"}").await;
        (firing.is_empty() && !prometheus.firing().await.contains("GantryDown")).then_some(())
    })
    .await;
    assert!(gateway.terminate());
    eventually("GantryDown fires", PATIENCE, async || {
        prometheus.firing().await.contains("GantryDown").then_some(())
    })
    .await;
}
