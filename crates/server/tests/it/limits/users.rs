//! What an administrator allows a person: it binds all keys and sessions of the person together.

use gantry_testkit::{Client, Database, Options, eventually};
use serde_json::{Value, json};

use super::parts::{SOON, engine};
use crate::{
    support::{assert_error, assert_invalid, column},
    team::{Team, id, make_user},
};

async fn own_key(user: &Client, body: &Value) -> Client {
    let made = user.post("/auth/keys", body).await.expect(201);
    user.with_key(made["token"].as_str().unwrap())
}

/// The path of `uwe`, the plain user of the team.
async fn uwe(team: &Team) -> String {
    format!("/admin/users/{}", id(&team.owner.get("/admin/users?q=uwe").await.expect(200)[0]))
}

#[tokio::test]
async fn limits_and_models_of_a_user_bind_keys_and_sessions_that_the_user_makes() {
    for database in Database::one("limits_and_models_of_a_user_bind") {
        let team = Team::with(Options::default().on(database).env("RATE_LIMIT_RPM", "5")).await;
        for name in ["r", "secret"] {
            engine(&team.owner, name, "").await;
        }
        let path = uwe(&team).await;
        let mut keys = Vec::new();
        for _ in 0..3 {
            keys.push(own_key(&team.user, &json!({})).await);
        }
        let bounds = json!({ "models": ["r"], "rpm_limit": 4 });
        let changed = team.org_admin.patch(&path, &bounds).await.expect(200);
        assert_eq!((&changed["models"], &changed["rpm_limit"]), (&json!(["r"]), &json!(4)));
        // A key that is made afterwards, for more than its user may.
        let wide = json!({ "models": ["r", "secret"], "rpm_limit": 5 });
        keys.push(own_key(&team.user, &wide).await);
        let shown = team.user.get("/auth/keys").await.expect(200);
        assert!(column(&shown, "effective_limits").iter().all(|it| it["rpm_limit"] == 4), "{shown}");

        for client in keys.iter().chain([&team.user]) {
            assert_error(&client.chat("secret").await, 403, "model_not_allowed");
        }
        let listed = keys[3].get("/v1/models").await.expect(200);
        assert_eq!(column(&listed["data"], "id"), [&json!("r")]);
        let own = team.user.get("/auth/models").await.expect(200);
        assert_eq!(column(&own, "served_name"), [&json!("r")], "{own}");
        assert_eq!(column(&team.org_admin.get("/auth/models").await.expect(200), "served_name").len(), 2);

        // They share four requests a minute, whichever of them sends the requests.
        for client in [&keys[0], &keys[1], &keys[3], &team.user] {
            assert_eq!(client.chat("r").await.status, 200);
        }
        for client in [&keys[2], &team.user] {
            let refused = client.chat("r").await;
            assert_error(&refused, 429, "rate_limit_exceeded");
            assert!(refused.text.contains("this user's limit"), "{}", refused.text);
        }
        let left = team.user.get("/auth/limits").await.expect(200);
        let rpm = &left["user"]["rpm_limit"];
        assert_eq!(
            (&rpm["limit"], &rpm["used"], &rpm["remaining"]),
            (&json!(4), &json!(4), &json!(0)),
            "{left}"
        );
        assert!(rpm["reset_sec"].as_u64().is_some_and(|it| (1..=60).contains(&it)), "{left}");
        assert_eq!(column(&left["keys"], "id").len(), 4, "{left}");
        assert!(left["org"]["rpm_limit"].is_null() && left["user"]["tpm_limit"].is_null(), "{left}");

        // Taken back, each key has the gateway's default for itself again.
        let free = json!({ "models": null, "rpm_limit": null });
        team.owner.patch(&path, &free).await.expect(200);
        assert_eq!(keys[2].chat("secret").await.status, 200);
        assert_eq!(keys[2].chat("r").await.status, 200);
    }
}

#[tokio::test]
async fn a_budget_of_a_user_counts_what_all_keys_spent_and_survives_a_restart() {
    for database in Database::one("a_budget_of_a_user_counts") {
        let mut team = Team::with(Options::default().on(database).away_from_midnight().await).await;
        engine(&team.owner, "m", "").await;
        let path = uwe(&team).await;
        let (one, two) = (own_key(&team.user, &json!({})).await, own_key(&team.user, &json!({})).await);
        let first = one.chat("m").await;
        let each = first.json["usage"]["total_tokens"].as_i64().unwrap();
        team.owner.usage_of(first.header("x-request-id").unwrap()).await;
        team.owner.patch(&path, &json!({ "budget_tokens_day": 2 * each })).await.expect(200);
        let used = async |owner: &Client| {
            owner.get("/admin/users?q=uwe").await.expect(200)[0]["budget"]["day"]["used"].clone()
        };
        eventually("the budget knows of the past", SOON, async || {
            (used(&team.owner).await == each).then_some(())
        })
        .await;
        let second = two.chat("m").await;
        assert_eq!(second.status, 200);
        team.owner.usage_of(second.header("x-request-id").unwrap()).await;
        team.gateway.kill_and_restart().await;
        let (owner, one) = (team.gateway.owner().await, one.at(&team.gateway.url));
        assert_eq!(used(&owner).await, 2 * each);
        assert_error(&one.chat("m").await, 429, "budget_exceeded");
    }
}

#[tokio::test]
async fn nobody_below_an_admin_sets_what_binds_themselves_or_their_equals() {
    let team = Team::with(Options::default().on(Database::Sqlite)).await;
    let olga = id(&team.owner.get("/admin/users?q=olga").await.expect(200)[0]);
    let path = format!("/admin/users/{olga}");
    team.owner.patch(&path, &json!({ "rpm_limit": 10, "models": ["a"] })).await.expect(200);
    for body in [json!({ "rpm_limit": null }), json!({ "models": null }), json!({ "tpm_limit": 5 })] {
        assert_error(&team.org_admin.patch(&path, &body).await, 403, "forbidden");
    }
    let other = make_user(&team.owner, team.tenant, "otto", "org_admin").await;
    let other = format!("/admin/users/{other}");
    assert_error(&team.org_admin.patch(&other, &json!({ "rpm_limit": 1 })).await, 403, "forbidden");
    let made = json!({ "username": "new", "password": "correct-horse-1", "rpm_limit": 7, "models": ["a"] });
    let made = team.org_admin.post("/admin/users", &made).await.expect(201);
    assert_eq!((&made["rpm_limit"], &made["models"]), (&json!(7), &json!(["a"])));
    let row = team.owner.get("/admin/audit?action=user.create").await.expect(200)[0].clone();
    assert_eq!(row["after"]["rpm_limit"], 7, "{row}");
    for (body, param) in [(json!({ "rpm_limit": 0 }), "rpm_limit"), (json!({ "models": [] }), "models")] {
        assert_invalid(&team.owner.patch(&path, &body).await, &[param]);
    }
}
