//! A managed model of a gateway under test: made, commanded and watched over HTTP.

use serde_json::{Value, json};

use crate::{Answer, Client, PATIENCE, docker_cli, eventually, inspect};

/// A managed model. It outlives its gateway's restarts, so its functions take a client.
#[derive(Debug, Clone)]
pub struct Managed {
    pub id: i64,
    pub served_name: String,
    /// Name of its container.
    pub container: String,
}

/// Returns the body of a model on a simulator; `faults` are its options without `GANTRY_SIM_`.
pub fn simulated(engine: &str, served_name: &str, faults: &[(&str, &str)]) -> Value {
    let env: serde_json::Map<String, Value> =
        faults.iter().map(|(name, value)| (format!("GANTRY_SIM_{name}"), (*value).into())).collect();
    let (image, path) = match engine {
        "vllm" => (crate::sim_vllm(), "simulated"),
        _ => (crate::sim_llamacpp(), "simulated.gguf"),
    };
    json!({
        "served_name": served_name, "engine_type": engine, "engine_image": image, "local_path": path,
        "device": "cpu", "extra_env": env,
        // A test may set another image, for which this file does not exist.
        "force": true,
    })
}

impl Managed {
    /// Creates a model with these fields. Fails the test if it is refused.
    pub async fn create(owner: &Client, body: &Value) -> Self {
        Self::of(&owner.post("/admin/models", body).await.expect(201))
    }

    /// Returns the model of this record.
    pub fn of(record: &Value) -> Self {
        let id = record["id"].as_i64().unwrap();
        let kind = if record["engine_type"] == "vllm" { "primary" } else { "secondary" };
        Self {
            id,
            served_name: record["served_name"].as_str().unwrap().to_owned(),
            container: format!("{kind}-model-{id}"),
        }
    }

    /// Creates and starts the model, and waits until it runs.
    pub async fn run(owner: &Client, body: &Value) -> Self {
        let model = Self::create(owner, body).await;
        model.start(owner).await;
        model.reaches(owner, "running").await;
        model
    }

    /// `/admin/models/{id}/{rest}`
    pub fn path(&self, rest: &str) -> String {
        format!("/admin/models/{}/{rest}", self.id)
    }

    /// Sends `POST …/start`, which must be accepted.
    pub async fn start(&self, owner: &Client) -> Value {
        self.command(owner, "start").await.expect(202)
    }

    /// Sends `POST /admin/models/{id}/{command}`.
    pub async fn command(&self, owner: &Client, command: &str) -> Answer {
        owner.command(&self.path(command)).await
    }

    /// Returns the model's record.
    pub async fn record(&self, owner: &Client) -> Value {
        owner.get(&format!("/admin/models/{}", self.id)).await.expect(200)
    }

    /// Waits for the state and returns the record.
    pub async fn reaches(&self, owner: &Client, state: &str) -> Value {
        self.reaches_within(owner, state, PATIENCE).await
    }

    /// Waits for the state. If the model fails on its way up, fails the test with the reason.
    pub async fn reaches_within(&self, owner: &Client, state: &str, limit: std::time::Duration) -> Value {
        let what = format!("{} becomes {state}", self.served_name);
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let record = self.record(owner).await;
            if record["state"] == state {
                return record;
            }
            let failed = record["state"] == "failed" && state != "stopped";
            assert!(!failed, "{what}: {}", record["state_reason"]);
            if tokio::time::Instant::now() >= deadline {
                let readiness = owner.get(&self.path("readiness")).await.json;
                panic!("not within {limit:?}: {what}: {record}; {readiness}");
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Waits until the model has entered this state `times` times, even if it has left it since.
    pub async fn has_been(&self, owner: &Client, state: &str, times: usize) {
        let (what, to) =
            (format!("{} has been {state} {times} times", self.served_name), format!(">{state}"));
        eventually(&what, PATIENCE, async || {
            let steps = self.timeline(owner).await;
            (steps.iter().filter(|it| it.ends_with(&to)).count() >= times).then_some(())
        })
        .await;
    }

    /// Waits until the model has failed; returns the reason.
    pub async fn fails(&self, owner: &Client) -> String {
        let what = format!("{} fails", self.served_name);
        let record = eventually(&what, PATIENCE, async || {
            let record = self.record(owner).await;
            (record["state"] == "failed").then_some(record)
        });
        record.await["state_reason"].as_str().unwrap().to_owned()
    }

    /// Returns the output of `docker inspect`; `None` if the model has no container.
    pub fn inspect(&self) -> Option<Value> {
        inspect(&self.container)
    }

    /// Returns the id of its container, which must exist.
    pub fn container_id(&self) -> String {
        self.inspect().expect("the model has a container")["Id"].as_str().unwrap().to_owned()
    }

    /// Returns a client for the engine's address on loopback.
    pub fn engine(&self) -> Client {
        let address = docker_cli(&["port", &self.container, "8000/tcp"]);
        Client::of_engine(&format!("http://{}", address.lines().next().unwrap()))
    }

    /// Returns a number of the simulator's `/sim/stats`.
    pub async fn stat(&self, name: &str) -> u64 {
        self.engine().get("/sim/stats").await.expect(200)[name].as_u64().unwrap()
    }

    /// Returns its timeline as `from>to`, oldest first.
    pub async fn timeline(&self, owner: &Client) -> Vec<String> {
        let events = owner.get(&self.path("events")).await.expect(200);
        let word = |it: &Value| it.as_str().unwrap().to_owned();
        let steps = events.as_array().unwrap().iter().map(|it| word(&it["from"]) + ">" + &word(&it["to"]));
        let mut steps: Vec<_> = steps.collect();
        steps.reverse();
        steps
    }
}
