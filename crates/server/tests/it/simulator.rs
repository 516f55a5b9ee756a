//! An engine simulator as a process of its own, reached through the registry: for tests that need no container.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use gantry_testkit::{Client, Gateway, eventually};
use serde_json::json;

use crate::support::GANTRY;

pub(crate) struct Simulator {
    child: Child,
    addr: SocketAddr,
}

impl Simulator {
    /// With options such as `--sim-tokens-per-sec 20`; serves the model `m`.
    pub(crate) async fn start(options: &str) -> Self {
        // Between finding the port and using it another process may take it: then the simulator ends.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let child = Command::new(GANTRY)
            .args(["engine-sim", "sim:m", "--served-model-name", "m", "--host", "127.0.0.1"])
            .args(["--port", &port.to_string()])
            .args(options.split_whitespace())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the simulator listens", Duration::from_secs(30), async || TcpStream::connect(addr).ok())
            .await;
        Self { child, addr }
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
