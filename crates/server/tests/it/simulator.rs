//! An engine simulator as a process of its own, reached through the registry: for tests that need no container.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use gantry_testkit::{Client, Gateway, PATIENCE};
use serde_json::json;

use crate::support::GANTRY;

pub(crate) struct Simulator {
    child: Child,
    addr: SocketAddr,
}

impl Simulator {
    /// With options such as `--sim-tokens-per-sec 20`; serves the model `m`.
    pub(crate) async fn start(options: &str) -> Self {
        let mut child = Command::new(GANTRY)
            .args(["engine-sim", "sim:m", "--served-model-name", "m", "--host", "127.0.0.1", "--port", "0"])
            .args(options.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let (tell, told) = tokio::sync::oneshot::channel();
        // Reads to the end, so that it never blocks on a full pipe.
        std::thread::spawn(move || {
            let mut tell = Some(tell);
            for line in said.lines().map_while(Result::ok) {
                let addr = line.split_once("server on http://").and_then(|it| it.1.trim().parse().ok());
                if let Some((addr, tell)) = addr.and_then(|it| Some((it, tell.take()?))) {
                    let _ = tell.send(addr);
                }
            }
        });
        let mut it = Self { child, addr: SocketAddr::from(([127, 0, 0, 1], 0)) };
        it.addr =
            tokio::time::timeout(PATIENCE, told).await.unwrap().expect("the simulator says where it is");
        it
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Adds it to a gateway as model `m`; gives a client with a key.
    pub(crate) async fn join(&self, gateway: &Gateway) -> Client {
        let owner = gateway.owner().await;
        let entry = json!({ "served_name": "m", "url": self.url() });
        owner.post("/admin/models/registry", &entry).await.expect(201);
        owner.new_key(&json!({})).await.1
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
