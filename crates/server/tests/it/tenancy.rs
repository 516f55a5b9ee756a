//! Disabled and deleted users are locked out: at once, with all sessions and keys, and on every gateway of the
//! database.

use std::time::Duration;

use gantry_testkit::{Client, Database, Gateway, Options, eventually};
use serde_json::json;

use crate::{
    events::Stream,
    gate::{Begun, Gate, TOKENS},
    support::{GANTRY, assert_error},
    team::{PASSWORD, Team, id, make_key, make_org, make_user},
};

/// A gateway looks twice a second for what another one changed; by itself it reads everything each 5 s. Long enough for
/// a machine that is busy.
const ELSEWHERE: Duration = gantry_testkit::PATIENCE;
const SECRET: &str = "the-session-secret-of-both-gateways-0123456789";

/// An organisation with a user, the user's session and key, and a key of the organisation itself.
struct Tenant {
    org: i64,
    user: i64,
    session: Client,
    key_id: i64,
    key: Client,
    org_key: Client,
}

impl Tenant {
    async fn make(gateway: &Gateway, owner: &Client, name: &str) -> Self {
        let org = make_org(owner, name).await;
        let user = make_user(owner, org, name, "user").await;
        let session = gateway.sign_in(name, PASSWORD).await;
        let token = |record: &serde_json::Value| record["token"].as_str().unwrap().to_owned();
        let key = make_key(owner, &json!({ "user_id": user })).await;
        let (key_id, key) = (id(&key), owner.with_key(&token(&key)));
        let org_key = owner.with_key(&token(&make_key(owner, &json!({ "org_id": org })).await));
        Self { org, user, session, key_id, key, org_key }
    }

    /// Returns the same tenant at another gateway.
    fn at(self, gateway: &Gateway) -> Self {
        let [session, key, org_key] =
            [&self.session, &self.key, &self.org_key].map(|it| it.moved(&gateway.url));
        Self { session, key, org_key, ..self }
    }

    async fn statuses(&self) -> [u16; 4] {
        [
            self.session.get("/auth/me").await.status,
            self.session.get("/v1/models").await.status,
            self.key.get("/v1/models").await.status,
            self.org_key.get("/v1/models").await.status,
        ]
    }
}

#[tokio::test]
async fn who_is_disabled_or_deleted_is_out_when_the_answer_comes() {
    for database in Database::one("who_is_disabled_or_deleted_is_out") {
        let gateway = crate::support::gateway(database).await;
        let owner = gateway.owner().await;
        let off = json!({ "enabled": false });
        for (name, org, delete) in
            [("a", false, false), ("b", false, true), ("c", true, false), ("d", true, true)]
        {
            let tenant = Tenant::make(&gateway, &owner, name).await;
            assert_eq!(tenant.statuses().await, [200; 4], "{name}");
            let path = if org {
                format!("/admin/orgs/{}", tenant.org)
            } else {
                format!("/admin/users/{}", tenant.user)
            };
            if delete {
                owner.delete(&path).await.expect(200);
            } else {
                owner.patch(&path, &off).await.expect(200);
            }
            let own = if org { 401 } else { 200 };
            assert_eq!(tenant.statuses().await, [401, 401, 401, own], "{name}");
            if !delete {
                // Coming back does not bring the session back.
                owner.patch(&path, &json!({ "enabled": true })).await.expect(200);
                assert_eq!(tenant.statuses().await, [401, 401, 200, 200], "{name}");
            }
        }
    }
}

#[tokio::test]
async fn what_one_gateway_ends_ends_on_the_other() {
    if Database::all("what_one_gateway_ends_ends_on_the_other").len() < 2 {
        return;
    }
    let options =
        Options::default().env("SESSION_SECRET", SECRET).env("CONTAINER_HOST", "unix:///nonexistent.sock");
    let one = Gateway::start(GANTRY, options.clone().on(Database::Postgres)).await;
    let url = one.database_url().unwrap();
    let two = Gateway::start(GANTRY, options.env("DATABASE_URL", &url)).await;
    let owner = one.owner().await;
    // By itself a gateway reads everything each 5 s; that can't come just in time for all of them.
    for (case, ends) in [
        ("user disabled", [true, true, true, false]),
        ("user deleted", [true, true, true, false]),
        ("org disabled", [true; 4]),
        ("org deleted", [true; 4]),
        ("key revoked", [false, false, true, false]),
        ("password changed", [true, true, false, false]),
    ] {
        // Made on one: the other knows them, too.
        let name = case.replace(' ', "-");
        let tenant = Tenant::make(&one, &owner, &name).await.at(&two);
        eventually("what is new counts elsewhere", ELSEWHERE, async || {
            (tenant.statuses().await == [200; 4]).then_some(())
        })
        .await;
        let (user, org) = (format!("/admin/users/{}", tenant.user), format!("/admin/orgs/{}", tenant.org));
        let off = json!({ "enabled": false });
        match case {
            "user disabled" => owner.patch(&user, &off).await,
            "user deleted" => owner.delete(&user).await,
            "org disabled" => owner.patch(&org, &off).await,
            "org deleted" => owner.delete(&org).await,
            "key revoked" => owner.delete(&format!("/admin/keys/{}", tenant.key_id)).await,
            _ => owner.patch(&user, &json!({ "password": "another-horse-battery" })).await,
        }
        .expect(200);
        // The admin API asks the database itself.
        assert_eq!(tenant.session.get("/auth/me").await.status == 401, ends[0], "{case}");
        let wanted = ends.map(|it| if it { 401 } else { 200 });
        eventually(&format!("{case}: what was ended ends elsewhere"), ELSEWHERE, async || {
            (tenant.statuses().await == wanted).then_some(())
        })
        .await;
    }

    // A stream of events is somebody's who was signed in.
    let home = owner.get("/auth/me").await.expect(200)["user"]["org_id"].as_i64().unwrap();
    let ada = make_user(&owner, home, "ada", "admin").await;
    let mut stream = Stream::open(&two.sign_in("ada", PASSWORD).await, "", None).await;
    owner.patch(&format!("/admin/users/{ada}"), &json!({ "enabled": false })).await.expect(200);
    stream.ends().await;
    drop(two);
    drop(one);
}

/// Its row says so, and what it had used.
#[tokio::test]
async fn a_stream_in_progress_ends_with_its_key() {
    let gateway = crate::support::gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let gate = Gate::open(&owner, "gated").await;
    let (_, key) = owner.new_key(&json!({})).await;
    let other = Begun::of(&key, "gated").await;
    for (n, case) in ["key", "user", "org"].into_iter().enumerate() {
        let tenant = Tenant::make(&gateway, &owner, case).await;
        let running = Begun::of(&tenant.key, "gated").await;
        match case {
            "key" => owner.delete(&format!("/admin/keys/{}", tenant.key_id)).await,
            "user" => {
                owner.patch(&format!("/admin/users/{}", tenant.user), &json!({ "enabled": false })).await
            }
            _ => owner.delete(&format!("/admin/orgs/{}", tenant.org)).await,
        }
        .expect(200);
        assert_error(&tenant.key.chat("gated").await, 401, "invalid_api_key");
        running.ends("invalid_api_key").await;
        eventually("it is counted", ELSEWHERE, async || {
            let rows = owner.get("/admin/usage?model=gated&outcome=client_error").await.expect(200);
            let rows = rows.as_array().unwrap();
            assert!(rows.iter().all(|it| it["stream"] == true && it["estimated"] == true), "{rows:?}");
            assert!(rows.iter().all(|it| it["prompt_tokens"].as_i64() > Some(0)), "{rows:?}");
            (rows.len() == n + 1).then_some(())
        })
        .await;
    }
    // Nobody else's.
    gate.end_one();
    other.ends_well().await;
    eventually("the other one is counted", ELSEWHERE, async || {
        let rows = owner.get("/admin/usage?model=gated&outcome=ok").await.expect(200);
        rows.as_array().unwrap().first().map(|it| assert_eq!(it["total_tokens"], TOKENS))
    })
    .await;
}

#[tokio::test]
async fn another_organisations_objects_do_not_exist() {
    for database in Database::one("another_organisations_objects_do_not_exist") {
        let team = Team::on(database).await;
        let other = make_org(&team.owner, "Other").await;
        let zoe = make_user(&team.owner, other, "zoe", "user").await;
        let key = id(&make_key(&team.owner, &json!({ "org_id": other })).await);
        let own = id(&make_key(&team.owner, &json!({ "user_id": zoe })).await);
        for (method, path) in [
            ("PATCH", format!("/admin/users/{zoe}")),
            ("DELETE", format!("/admin/users/{zoe}")),
            ("PATCH", format!("/admin/keys/{key}")),
            ("DELETE", format!("/admin/keys/{key}")),
            ("PATCH", format!("/admin/keys/{own}")),
            ("DELETE", format!("/auth/keys/{own}")),
        ] {
            let request = team.org_admin.request(method.parse().unwrap(), &path).json(&json!({}));
            assert_error(&team.org_admin.send(request).await, 404, "not_found");
        }
        for list in ["users", "keys", "usage"] {
            for query in [format!("org_id={other}"), format!("user_id={zoe}"), "q=zoe".to_owned()] {
                let answer = team.org_admin.get(&format!("/admin/{list}?{query}")).await;
                assert!(answer.status == 422 || answer.text == "[]", "{list} {query}: {}", answer.text);
            }
        }
        let orgs = team.org_admin.get("/admin/orgs").await.expect(200);
        assert_eq!(orgs.as_array().unwrap().len(), 1);
        for lookup in ["users", "orgs"] {
            let found = team.org_admin.get(&format!("/admin/{lookup}/lookup")).await.text;
            assert!(!found.contains("zoe") && !found.contains("Other"), "{found}");
        }
        // Neither can objects be made or moved there.
        let user = json!({ "username": "new", "password": PASSWORD, "org_id": other });
        assert_eq!(team.org_admin.post("/admin/users", &user).await.status, 404);
        assert_eq!(team.org_admin.post("/admin/keys", &json!({ "org_id": other })).await.status, 404);
        assert_eq!(team.org_admin.post("/admin/keys", &json!({ "user_id": zoe })).await.status, 404);
    }
}
