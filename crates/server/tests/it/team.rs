//! A gateway with one person of each role, and a key: the starting point of most stories about the admin API.

use gantry_testkit::{Client, Database, Gateway, Options};
use serde_json::{Value, json};

use crate::support::start;

pub(crate) const PASSWORD: &str = "correct-horse-battery";

/// Organisation `Default` has the owner and `ada` (admin); `Tenant` has `olga` (org admin) and `uwe` (user).
pub(crate) struct Team {
    pub(crate) gateway: Gateway,
    pub(crate) owner: Client,
    pub(crate) admin: Client,
    pub(crate) org_admin: Client,
    pub(crate) user: Client,
    /// Id of `Default`.
    pub(crate) home: i64,
    /// Id of `Tenant`.
    pub(crate) tenant: i64,
}

impl Team {
    pub(crate) async fn on(database: Database) -> Self {
        Self::with(Options::default().on(database)).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let gateway = start(options).await;
        let owner = gateway.owner().await;
        let home = owner.get("/auth/me").await.expect(200)["user"]["org_id"].as_i64().unwrap();
        let tenant = make_org(&owner, "Tenant").await;
        make_user(&owner, home, "ada", "admin").await;
        make_user(&owner, tenant, "olga", "org_admin").await;
        make_user(&owner, tenant, "uwe", "user").await;
        let admin = gateway.sign_in("ada", PASSWORD).await;
        let org_admin = gateway.sign_in("olga", PASSWORD).await;
        let user = gateway.sign_in("uwe", PASSWORD).await;
        Self { gateway, owner, admin, org_admin, user, home, tenant }
    }
}

pub(crate) fn id(object: &Value) -> i64 {
    object["id"].as_i64().unwrap()
}

pub(crate) async fn make_org(owner: &Client, name: &str) -> i64 {
    id(&owner.post("/admin/orgs", &json!({ "name": name })).await.expect(201))
}

/// With the password [`PASSWORD`].
pub(crate) async fn make_user(by: &Client, org: i64, username: &str, role: &str) -> i64 {
    let body = json!({ "username": username, "password": PASSWORD, "role": role, "org_id": org });
    id(&by.post("/admin/users", &body).await.expect(201))
}

pub(crate) async fn make_key(by: &Client, body: &Value) -> Value {
    by.post("/admin/keys", body).await.expect(201)
}

/// Makes a token of the user `by` with these scopes. Returns the record with the token itself.
pub(crate) async fn make_token(by: &Client, scopes: &str) -> Value {
    by.post("/auth/tokens", &json!({ "name": "script", "scopes": scopes })).await.expect(201)
}

/// A model that nobody starts.
pub(crate) async fn make_model(by: &Client, served_name: &str) -> i64 {
    let body = json!({ "served_name": served_name, "engine_type": "vllm", "local_path": "m" });
    id(&by.post("/admin/models", &body).await.expect(201))
}

/// All that a request which was refused could have changed.
pub(crate) async fn everything(owner: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in
        ["keys?limit=1000", "orgs?limit=1000", "users?limit=1000", "models?limit=1000", "models/registry"]
    {
        all.push(owner.get(&format!("/admin/{path}")).await.expect(200));
    }
    all
}
