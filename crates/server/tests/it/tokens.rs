//! Tokens of people for the admin API: what they open and what never, what ends them, and what is written down.

use std::{collections::HashMap, time::Duration};

use futures_util::future::join_all;
use gantry_admin_api::{
    policy::{AREAS, Access, area, right_of},
    routes::routes,
};
use gantry_domain::{Clock, Timestamp};
use gantry_testkit::{Client, Database, PATIENCE, eventually};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    matrix::{call, filled},
    support::{assert_error, assert_invalid, column},
    team::{PASSWORD, Team, id, make_key, make_model, make_token, make_user},
};

/// Every 10 s is when uses are written.
const WRITTEN: Duration = PATIENCE;

/// Returns the time in `seconds` seconds, as RFC 3339.
fn in_seconds(seconds: u64) -> String {
    Clock::default().now().plus(Duration::from_secs(seconds)).rfc3339()
}

/// Returns a new token of the user `by`, and a client that uses only this token.
async fn script(by: &Client, scopes: &str) -> (Value, Client) {
    let made = make_token(by, scopes).await;
    let client = by.with_key(made["token"].as_str().unwrap());
    (made, client)
}

#[tokio::test]
async fn a_script_works_with_a_token_and_the_log_says_so() {
    for database in Database::one("a_script_works_with_a_token") {
        let team = Team::on(database).await;
        let (made, script) = script(&team.admin, "keys:write,people:read").await;
        let token = made["token"].as_str().unwrap();
        assert!(token.starts_with("gta_") && token.len() == 50, "{made}");
        assert_eq!(
            (&made["prefix"], &made["scopes"], &made["status"], &made["last_used_at"]),
            (&json!(token[..12]), &json!("keys:write,people:read"), &json!("active"), &Value::Null)
        );

        // A request with a token needs no page of the gateway around it, and gets no cookie.
        let request = script.request(reqwest::Method::POST, "/admin/keys");
        let request = request.header("origin", "https://ci.example").json(&json!({ "name": "ci" }));
        let answer = script.send(request).await;
        assert_eq!((answer.status, answer.header("set-cookie")), (201, None), "{}", answer.text);
        let row = team.owner.get("/admin/audit?limit=1&action=key.create").await.expect(200)[0].clone();
        assert_eq!((&row["actor"], &row["actor_type"]), (&json!("ada"), &json!("user")), "{row}");
        let via = json!({ "id": made["id"], "prefix": made["prefix"] });
        assert_eq!((&row["after"]["via_token"], &row["after"]["name"]), (&via, &json!("ci")), "{row}");
        // What has no fields of its own says it too.
        script.delete(&format!("/admin/keys/{}", id(&answer.json))).await.expect(200);
        let row = team.owner.get("/admin/audit?limit=1").await.expect(200)[0].clone();
        assert_eq!((&row["action"], &row["after"]["via_token"]), (&json!("key.revoke"), &via), "{row}");
        // By a session nothing of it.
        make_key(&team.admin, &json!({})).await;
        let row = team.owner.get("/admin/audit?limit=1").await.expect(200)[0].clone();
        assert!(row["after"]["via_token"].is_null(), "{row}");

        let me = script.get("/auth/me").await.expect(200);
        assert_eq!(me["user"]["username"], "ada");
        eventually("when it was used last", WRITTEN, async || {
            let list = team.admin.get("/auth/tokens").await.expect(200);
            (!list[0]["last_used_at"].is_null()).then_some(())
        })
        .await;
        let rows = team.owner.get("/admin/audit?limit=1000").await.text;
        assert!(!rows.contains(token), "the token itself is written nowhere");
        assert!(!team.admin.get("/auth/tokens").await.text.contains(token));
        assert!(rows.contains("token.create"));
    }
}

#[tokio::test]
async fn every_route_takes_the_tokens_of_its_scope_and_no_others() {
    let team = Team::on(Database::Sqlite).await;
    let all = AREAS;
    assert!(
        ["account", "audit", "deployment", "keys", "models", "people", "system", "usage"]
            .iter()
            .all(|it| all.contains(it)),
        "{all:?}"
    );
    let (_, everything) = script(&team.owner, "*:write").await;
    // One for each set of scopes: nobody makes any number of tokens a day.
    let mut scripts = HashMap::new();
    let mut checked = 0;
    for route in routes() {
        let (method, path) = (route.method.as_str(), filled(route.path, "999999", "no/such"));
        let anything = call(&everything, method, &path, None).await;
        match route.policy.access {
            Access::Public => {}
            Access::InPerson(_) => assert_error(&anything, 403, "forbidden"),
            Access::AtLeast(_) => {
                assert!(![401, 403].contains(&anything.status), "{method} {path}: {}", anything.text);
                let (area, right) = (area(route.path).unwrap(), right_of(&route.method));
                let others: Vec<_> =
                    all.iter().filter(|it| **it != area).map(|it| format!("{it}:write")).collect();
                let mut short = vec![others.join(",")];
                if right.as_str() == "write" {
                    short.push("*:read".to_owned());
                }
                for scopes in short.into_iter().filter(|_| route.path != "/auth/me") {
                    let client = match scripts.remove(&scopes) {
                        Some(made) => made,
                        None => script(&team.owner, &scopes).await.1,
                    };
                    let refused = call(&client, method, &path, None).await;
                    scripts.insert(scopes, client);
                    assert_error(&refused, 403, "insufficient_scope");
                    let wanted = format!("{area}:{}", right.as_str());
                    assert!(refused.text.contains(&wanted), "{}", refused.text);
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "{checked}");
    // Not for the data plane, which says what is.
    let chat = everything.chat("m").await;
    assert_error(&chat, 401, "invalid_api_key");
    assert!(chat.text.contains("gty_"), "{}", chat.text);
}

#[tokio::test]
async fn a_token_is_never_above_its_user_and_ends_with_the_user() {
    for database in Database::one("a_token_is_never_above_its_user") {
        let team = Team::on(database).await;
        // No way round by which it becomes a session.
        let me = id(&team.admin.get("/auth/me").await.expect(200)["user"]);
        let (_, token) = script(&team.admin, "*:write").await;
        let new = json!({ "password": "another-secret-1" });
        assert_error(&token.patch(&format!("/admin/users/{me}"), &new).await, 403, "forbidden");
        // A role that is too low, whatever the scopes say.
        let (_, low) = script(&team.user, "*:write").await;
        assert_error(&low.get("/admin/models").await, 403, "forbidden");
        low.get("/auth/keys").await.expect(200);
        // The role of the moment.
        let olga = team.owner.get("/admin/users?q=olga").await.expect(200)[0].clone();
        let path = format!("/admin/users/{}", id(&olga));
        let (_, token) = script(&team.org_admin, "people:read").await;
        token.get("/admin/users").await.expect(200);
        team.owner.patch(&path, &json!({ "role": "user" })).await.expect(200);
        assert_error(&token.get("/admin/users").await, 403, "forbidden");
        team.owner.patch(&path, &json!({ "role": "org_admin" })).await.expect(200);
        let users = token.get("/admin/users").await.expect(200);
        assert!(column(&users, "org_id").iter().all(|it| **it == json!(team.tenant)), "{users}");
        // Disabled: gone for good, as sessions are.
        team.owner.patch(&path, &json!({ "enabled": false })).await.expect(200);
        assert_error(&token.get("/admin/users").await, 401, "unauthenticated");
        team.owner.patch(&path, &json!({ "enabled": true })).await.expect(200);
        assert_error(&token.get("/admin/users").await, 401, "unauthenticated");
        // Disabling the whole organisation has the same effect, and so has deleting it.
        let (_, of_uwe) = script(&team.user, "account:read").await;
        let org = format!("/admin/orgs/{}", team.tenant);
        team.owner.patch(&org, &json!({ "enabled": false })).await.expect(200);
        assert_error(&of_uwe.get("/auth/me").await, 401, "unauthenticated");
        team.owner.patch(&org, &json!({ "enabled": true })).await.expect(200);
        assert_error(&of_uwe.get("/auth/me").await, 401, "unauthenticated");
        let gone = make_user(&team.owner, team.home, "gone", "admin").await;
        let (_, of_gone) = script(&team.gateway.sign_in("gone", PASSWORD).await, "*:write").await;
        of_gone.get("/admin/models").await.expect(200);
        team.owner.delete(&format!("/admin/users/{gone}")).await.expect(200);
        assert_error(&of_gone.get("/admin/models").await, 401, "unauthenticated");
    }
}

#[tokio::test]
async fn a_token_expires_and_its_form_is_checked() {
    for database in Database::one("a_token_expires") {
        let team = Team::on(database).await;
        let with =
            |scopes: Value, expires: Value| json!({ "name": "t", "scopes": scopes, "expires_at": expires });
        for (body, param) in [
            (with(json!("roads:read"), Value::Null), "scopes"),
            (with(json!("keys"), Value::Null), "scopes"),
            (with(json!(""), Value::Null), "scopes"),
            (with(json!("keys:read"), json!(in_seconds(367 * 86_400))), "expires_at"),
            (with(json!("keys:read"), json!("2020-01-01T00:00:00Z")), "expires_at"),
            (json!({ "scopes": "keys:read" }), "name"),
            (json!({ "name": "t" }), "scopes"),
            (json!({ "name": "t", "scopes": "keys:read", "role": "owner" }), "role"),
        ] {
            assert_invalid(&team.owner.post("/auth/tokens", &body).await, &[param]);
        }
        let list =
            team.owner.post("/auth/tokens", &with(json!(["keys:read", "audit:read"]), Value::Null)).await;
        let list = list.expect(201);
        assert_eq!(list["scopes"], "audit:read,keys:read");
        // 90 days, unless it says otherwise.
        let days = |at: &Value| {
            let end = Timestamp::parse_rfc3339(at.as_str().unwrap()).unwrap();
            end.since(Timestamp::parse_rfc3339(list["created_at"].as_str().unwrap()).unwrap()).as_secs()
                / 86_400
        };
        assert_eq!(days(&list["expires_at"]), 90);

        let short = with(json!("*:read"), json!(in_seconds(3)));
        let made = team.owner.post("/auth/tokens", &short).await.expect(201);
        let token = made["token"].as_str().unwrap();
        let client = team.gateway.client().with_key(token);
        client.get("/admin/keys").await.expect(200);
        eventually("its end", WRITTEN, async || {
            (client.get("/admin/keys").await.status == 401).then_some(())
        })
        .await;
        assert!(client.get("/admin/keys").await.text.contains("expired"));
        let shown = team.owner.get("/auth/tokens").await.expect(200);
        assert_eq!(shown[1]["status"], "expired", "{shown}");

        // The error for a mistyped token differs from the error for an unknown token.
        let mut typo = token.to_owned();
        typo.replace_range(20..21, if &token[20..21] == "a" { "b" } else { "a" });
        let typo = team.gateway.client().with_key(&typo).get("/admin/keys").await;
        assert_error(&typo, 401, "unauthenticated");
        assert!(typo.text.contains("checksum"), "{}", typo.text);
        // A stale cookie beside a good token does no harm, nor the other way round: the token counts.
        let request = team.owner.request(reqwest::Method::GET, "/admin/keys").bearer_auth(token);
        assert_error(&team.owner.send(request).await, 401, "unauthenticated");
    }
}

#[tokio::test]
async fn administrators_see_and_revoke_the_tokens_of_those_they_manage() {
    for database in Database::one("administrators_see_and_revoke_tokens") {
        let team = Team::on(database).await;
        make_user(&team.owner, team.tenant, "anna", "admin").await;
        let anna = team.gateway.sign_in("anna", PASSWORD).await;
        let (of_uwe, uwe) = script(&team.user, "account:write").await;
        let (of_anna, _) = script(&anna, "*:read").await;
        let (of_owner, _) = script(&team.owner, "*:read").await;
        let seen = team.org_admin.get("/admin/tokens").await.expect(200);
        assert_eq!(column(&seen, "username"), [&json!("uwe"), &json!("anna")], "{seen}");
        assert!(seen[0].get("token").is_none());
        let path = |it: &Value| format!("/admin/tokens/{}", it["id"]);
        assert_error(&team.org_admin.delete(&path(&of_owner)).await, 404, "not_found");
        assert_error(&team.org_admin.delete(&path(&of_anna)).await, 403, "forbidden");
        assert_error(&team.user.delete(&format!("/auth/tokens/{}", of_anna["id"])).await, 404, "not_found");
        uwe.get("/auth/keys").await.expect(200);
        team.org_admin.delete(&path(&of_uwe)).await.expect(200);
        assert_error(&uwe.get("/auth/keys").await, 401, "unauthenticated");
        assert_error(&team.org_admin.delete(&path(&of_uwe)).await, 404, "not_found");
        let row = team.owner.get("/admin/audit?action=token.revoke").await.expect(200)[0].clone();
        assert_eq!((&row["actor"], &row["before"]["prefix"]), (&json!("olga"), &of_uwe["prefix"]), "{row}");
        // A script may end its own token.
        let (made, own) = script(&team.user, "account:write").await;
        own.delete(&format!("/auth/tokens/{}", made["id"])).await.expect(200);
        assert_error(&own.get("/auth/me").await, 401, "unauthenticated");
        // Nobody has any number of them.
        for _ in 0..50 {
            make_token(&team.user, "account:read").await;
        }
        let more = json!({ "name": "one more", "scopes": "account:read" });
        assert_error(&team.user.post("/auth/tokens", &more).await, 409, "invalid_state");
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let team = Team::on(Database::Sqlite).await;
    let (made, client) = script(&team.admin, "system:read").await;
    let stream = events(&client).await;
    team.admin.delete(&format!("/auth/tokens/{}", made["id"])).await.expect(200);
    ends(stream).await;
}

#[tokio::test]
async fn a_stream_of_a_token_ends_with_the_role_and_the_organisation_that_it_was_opened_with() {
    for database in Database::one("a_stream_of_a_token_ends_with_the_role") {
        let team = Team::on(database).await;
        let ada = format!("/admin/users/{}", id(&team.admin.get("/auth/me").await.expect(200)["user"]));
        let (_, client) = script(&team.admin, "system:read").await;
        for (there, back) in [
            (json!({ "role": "user" }), json!({ "role": "admin" })),
            (json!({ "org_id": team.tenant }), json!({ "org_id": team.home })),
        ] {
            let stream = events(&client).await;
            team.owner.patch(&ada, &there).await.expect(200);
            ends(stream).await;
            team.owner.patch(&ada, &back).await.expect(200);
        }
        // The token itself stays.
        events(&client).await;
    }
}

/// A stream that has begun.
async fn events(client: &Client) -> reqwest::Response {
    let mut stream = client.request(reqwest::Method::GET, "/admin/events").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    stream.chunk().await.unwrap().unwrap();
    stream
}

async fn ends(mut stream: reqwest::Response) {
    let end = async { while stream.chunk().await.is_ok_and(|it| it.is_some()) {} };
    timeout(PATIENCE, end).await.expect("it ends");
}

#[tokio::test]
async fn the_log_of_an_engine_needs_the_scope_of_models_among_the_events_too() {
    let team = Team::on(Database::Sqlite).await;
    let path = format!("/admin/events?logs={}", make_model(&team.owner, "quiet").await);
    let (_, system) = script(&team.admin, "system:write").await;
    let refused = system.get(&path).await;
    assert_error(&refused, 403, "insufficient_scope");
    assert!(refused.text.contains("models:read"), "{}", refused.text);
    // Nor does it learn which models there are.
    assert_error(&system.get("/admin/events?logs=999999").await, 403, "insufficient_scope");
    // With both it gets as far as a session does: the model does not run.
    let (_, both) = script(&team.admin, "models:read,system:read").await;
    assert_error(&both.get(&path).await, 409, "invalid_state");
    assert_error(&team.admin.get(&path).await, 409, "invalid_state");
}

#[tokio::test]
async fn tokens_are_made_and_revoked_only_so_often_a_day() {
    for database in Database::one("tokens_are_made_and_revoked") {
        let team = Team::on(database).await;
        let come_and_go = async |_| {
            let made = make_token(&team.user, "account:read").await;
            team.user.delete(&format!("/auth/tokens/{}", made["id"])).await.expect(200);
        };
        for _ in 0..8 {
            join_all((0..25).map(come_and_go)).await;
        }
        let more = json!({ "name": "one more", "scopes": "account:read" });
        let one_more = team.user.post("/auth/tokens", &more).await;
        assert_error(&one_more, 409, "invalid_state");
        assert_eq!(
            one_more.json["error"]["message"],
            "200 tokens were made by you within a day: make the next one tomorrow"
        );
        // Others still make theirs.
        make_token(&team.org_admin, "account:read").await;
    }
}
