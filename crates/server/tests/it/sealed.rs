//! Secrets in the database of a real gateway: they are never there in clear, keys change, and one that is missing is said
//! where it is needed and nowhere else.

use std::{fs, process::Command};

use gantry_testkit::{Client, Database, Gateway, Managed, Options, eventually, simulated};
use serde_json::{Value, json};

use crate::{
    simulator::Simulator,
    support::{GANTRY, assert_error, start},
    team::id,
};

const KEY: &str = "sk-very-secret";
const TOKEN: &str = "hf_very_secret";

/// A gateway that makes its own key, with a model that has a hub token and an engine that wants a key.
async fn filled(options: Options) -> (Gateway, Simulator, Client, i64) {
    let gateway = start(options.env("SECRETS_KEY", "")).await;
    let owner = gateway.owner().await;
    let simulator = Simulator::start(&format!("--api-key {KEY}")).await;
    let entry = json!({ "served_name": "m", "url": simulator.url(), "api_key": KEY });
    owner.post("/admin/models/registry", &entry).await.expect(201);
    let mut model = simulated("vllm", "q", &[]);
    model["hub_token"] = json!(TOKEN);
    let model = id(&owner.post("/admin/models", &model).await.expect(201));
    let (_, client) = owner.new_key(&json!({})).await;
    (gateway, simulator, client, model)
}

fn rotate(gateway: &Gateway, flags: &[&str]) -> (bool, String) {
    let mut command = Command::new(GANTRY);
    command.args(["secrets", "rotate", "--data-dir"]).arg(gateway.data_dir()).args(flags);
    if let Some(url) = gateway.database_url() {
        command.args(["--database-url", &url]);
    }
    let ran = command.current_dir(gateway.data_dir()).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Every file of the data directory but the keys' own.
fn has_in_clear(gateway: &Gateway) -> bool {
    let files = fs::read_dir(gateway.data_dir()).unwrap().map(|it| it.unwrap().path());
    files.filter(|it| it.is_file()).any(|it| {
        let bytes = fs::read(it).unwrap();
        [KEY, TOKEN].iter().any(|secret| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()))
    })
}

async fn model(owner: &Client, id: i64) -> Value {
    owner.get(&format!("/admin/models/{id}")).await.expect(200)
}

#[tokio::test]
async fn secrets_are_encrypted_and_their_key_changes_and_may_be_lost() {
    for database in Database::all("secrets_are_encrypted") {
        let (mut gateway, _simulator, client, id) = filled(Options::processes().on(database)).await;
        assert_eq!(client.chat("m").await.status, 200);
        let keys = gateway.data_dir().join("secrets/database-keys");
        assert_eq!(fs::read_to_string(&keys).unwrap().trim().len(), 64);

        // A gateway that runs would not know the new key.
        let (ok, said) = rotate(&gateway, &[]);
        assert!(!ok && said.contains("another gateway uses DATA_DIR"), "{said}");
        assert!(gateway.terminate());
        assert!(!has_in_clear(&gateway));
        let (ok, said) = rotate(&gateway, &[]);
        let n = if database == Database::Sqlite { 2 } else { 3 };
        assert!(ok && said.contains(&format!("{n} secrets are encrypted with the new key")), "{said}");
        assert_eq!(fs::read_to_string(&keys).unwrap().lines().count(), 2);
        gateway.restart().await;
        let client = client.at(&gateway.url);
        assert_eq!(client.chat("m").await.status, 200);
        assert_eq!(model(&gateway.owner().await, id).await["hub_token_set"], true);

        // Without the keys, as after a dump that was put back alone.
        assert!(gateway.terminate());
        fs::remove_file(&keys).unwrap();
        if database == Database::Postgres {
            let (ok, said) = serve(&gateway);
            assert!(!ok && said.contains("secret/engine-key") && said.contains("database-keys"), "{said}");
            let (ok, said) = rotate(&gateway, &["--forget-lost"]);
            assert!(ok && said.contains("the hub token of model"), "{said}");
            gateway.restart().await;
            assert_eq!(model(&gateway.owner().await, id).await["hub_token_set"], false);
            continue;
        }
        gateway.restart().await;
        let owner = gateway.owner().await;
        for lost in ["the hub token of model", "the api_key of the registry entry `m`"] {
            assert!(gateway.log().contains(&format!("can't decrypt {lost}")), "{lost}");
        }
        // Lists are whole; what needs the secret is refused, with the way out.
        assert_eq!(model(&owner, id).await["hub_token_set"], true);
        let registry = owner.get("/admin/models/registry").await.expect(200);
        assert!(registry.as_array().unwrap().iter().any(|it| it["served_name"] == "m"), "{registry}");
        let refused = owner.command(&format!("/admin/models/{id}/start")).await;
        assert_error(&refused, 409, "invalid_state");
        assert!(
            refused.text.contains("hub_token") && refused.text.contains("database-keys"),
            "{}",
            refused.text
        );
        assert_eq!(client.at(&gateway.url).chat("m").await.status, 404);
        // Another change keeps what is stored; the secrets given again make everything whole.
        let path = format!("/admin/models/{id}");
        owner.patch(&path, &json!({ "max_num_seqs": 4 })).await.expect(200);
        assert_eq!(model(&owner, id).await["hub_token_set"], true);
        owner.patch(&path, &json!({ "hub_token": TOKEN })).await.expect(200);
        let url =
            registry.as_array().unwrap().iter().find(|it| it["served_name"] == "m").unwrap()["url"].clone();
        let entry = json!({ "served_name": "m", "url": url, "api_key": KEY });
        owner.post("/admin/models/registry", &entry).await.expect(200);
        assert_eq!(client.at(&gateway.url).chat("m").await.status, 200);
        owner.command(&format!("{path}/start")).await.expect(202);
        let record = model(&owner, id).await;
        Managed::of(&record).reaches(&owner, "running").await;
        owner.command(&format!("{path}/stop")).await;
        let ready = async || (gateway.client().get("/readyz").await.json["status"] == "ready").then_some(());
        eventually("all rows can be read", gantry_testkit::PATIENCE, ready).await;
    }
}

/// Starts it where it can't start; what it said.
fn serve(gateway: &Gateway) -> (bool, String) {
    let ran = Command::new(GANTRY)
        .args(["serve", "--gateway-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data-dir"])
        .arg(gateway.data_dir())
        .args(["--database-url", &gateway.database_url().unwrap(), "--container-runtime", "process"])
        .current_dir(gateway.data_dir())
        .output()
        .unwrap();
    (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

#[tokio::test]
async fn a_second_gateway_with_another_key_says_which_file_it_needs() {
    if !Database::all("sealed: a second gateway").contains(&Database::Postgres) {
        return;
    }
    let (one, _simulator, client, _) = filled(Options::processes().on(Database::Postgres)).await;
    let url = one.database_url().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let other = |listen: &str| {
        let mut command = Command::new(GANTRY);
        command
            .args(["serve", "--metrics-listen", "127.0.0.1:0", "--container-runtime", "process"])
            .args(["--gateway-listen", listen, "--database-url", &url, "--data-dir"])
            .arg(dir.path().join("data"))
            .current_dir(dir.path());
        command
    };
    let ran = other("127.0.0.1:0").output().unwrap();
    let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
    assert!(!ran.status.success() && said.contains("DATA_DIR/secrets/database-keys"), "{said}");
    // With a copy of the file it is one of them.
    let file = "secrets/database-keys";
    let keys = fs::read_to_string(one.data_dir().join(file)).unwrap();
    let two = start(Options::default().env("DATABASE_URL", &url).env("SECRETS_KEY", keys.trim())).await;
    assert_eq!(two.client_of(&client).chat("m").await.status, 200);
}
