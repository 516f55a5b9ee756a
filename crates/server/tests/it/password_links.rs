//! One-time links with which users set their own password: invitations, and passwords that were forgotten.

use futures_util::future::{join, join_all};
use gantry_testkit::{Answer, Client, Database, PATIENCE, eventually};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, gateway},
    team::{PASSWORD, Team, id, make_token, make_user},
    unreadable::sql,
};

const USE: &str = "/auth/password-link";
const NEW: &str = "another-password";

/// Makes a link for the user and returns its token.
async fn link(by: &Client, user: i64) -> String {
    let made = by.command(&format!("/admin/users/{user}/password-link")).await.expect(201);
    made["token"].as_str().unwrap().to_owned()
}

async fn use_link(client: &Client, token: &str) -> Answer {
    client.post(USE, &json!({ "token": token, "password": NEW })).await
}

async fn sign_in(team: &Team, username: &str, password: &str) -> Answer {
    let body = json!({ "username": username, "password": password });
    team.gateway.client().post("/auth/login", &body).await
}

async fn is_signed_in(client: &Client) -> bool {
    client.get("/auth/me").await.status == 200
}

/// Id of the user with this name.
async fn user(team: &Team, username: &str) -> i64 {
    id(&team.owner.get(&format!("/admin/users?q={username}")).await.expect(200)[0])
}

#[tokio::test]
async fn who_is_invited_sets_their_password_once_and_is_signed_in() {
    for database in Database::all("password_links: invitation") {
        let team = Team::on(database).await;
        let body = json!({ "username": "ida", "org_id": team.tenant });
        let ida = id(&team.org_admin.post("/admin/users", &body).await.expect(201));
        for guess in [PASSWORD, ""] {
            assert_error(&sign_in(&team, "ida", guess).await, 401, "invalid_credentials");
        }
        let path = format!("/admin/users/{ida}/password-link");
        let made = team.org_admin.post(&path, &json!({ "hours": 168 })).await.expect(201);
        let token = made["token"].as_str().unwrap().to_owned();
        assert!(token.starts_with("gtl_") && token.len() == 50, "{made}");
        assert_eq!(made["path"], format!("/ui/welcome#{token}"));

        // A password that is too short uses nothing up.
        let short = json!({ "token": token, "password": "short" });
        assert_invalid(&team.gateway.client().post(USE, &short).await, &["password"]);
        let clients = [team.gateway.client(), team.gateway.client()];
        let (a, b) = join(use_link(&clients[0], &token), use_link(&clients[1], &token)).await;
        let (won, won_by, lost) = if a.status == 200 { (a, 0, b) } else { (b, 1, a) };
        assert_error(&lost, 401, "invalid_credentials");
        let request = won.header("x-request-id").unwrap().to_owned();
        let me = won.expect(200)["user"].clone();
        assert_eq!(me, json!({ "id": ida, "username": "ida", "role": "user", "org_id": team.tenant }));
        assert!(is_signed_in(&clients[won_by]).await && !is_signed_in(&clients[1 - won_by]).await);
        assert_eq!(sign_in(&team, "ida", NEW).await.status, 200);
        assert_error(&use_link(&team.gateway.client(), &token).await, 401, "invalid_credentials");

        let log = team.owner.get("/admin/audit?limit=1000").await;
        assert!(!log.text.contains(&token), "the token is in the audit log");
        let row = |action: &str| {
            let rows = log.json.as_array().unwrap().iter();
            let found: Vec<&Value> = rows.filter(|it| it["action"] == action).collect();
            assert_eq!(found.len(), 1, "{action}");
            found[0]
        };
        let row_of_link = row("user.password_link");
        assert_eq!(
            (&row_of_link["actor"], &row_of_link["object_id"]),
            (&json!("olga"), &json!(ida.to_string()))
        );
        assert_eq!(row_of_link["after"]["expires_at"], made["expires_at"]);
        let used = row("user.password_link_use");
        assert_eq!((&used["actor"], &used["object_id"]), (&json!("ida"), &json!(ida.to_string())));
        assert_eq!((&used["request_id"], &used["ip"]), (&json!(request), &json!("127.0.0.1")));
    }
}

#[tokio::test]
async fn a_link_for_who_forgot_their_password_changes_nothing_until_it_is_used() {
    for database in Database::one("password_links: reset") {
        let team = Team::on(database).await;
        let token = link(&team.org_admin, user(&team, "uwe").await).await;
        assert!(is_signed_in(&team.user).await);
        assert_eq!(sign_in(&team, "uwe", PASSWORD).await.status, 200);
        let here = team.gateway.client();
        use_link(&here, &token).await.expect(200);
        assert!(is_signed_in(&here).await && !is_signed_in(&team.user).await);
        assert!(is_signed_in(&team.org_admin).await);
        assert_error(&sign_in(&team, "uwe", PASSWORD).await, 401, "invalid_credentials");
        assert_eq!(sign_in(&team, "uwe", NEW).await.status, 200);
    }
}

#[tokio::test]
async fn a_link_that_ended_looks_like_one_that_never_was() {
    for database in Database::one("password_links: ended") {
        let team = Team::on(database).await;
        let (owner, here) = (&team.owner, team.gateway.client());
        let uwe = user(&team, "uwe").await;
        let path = format!("/admin/users/{uwe}");
        let never = use_link(&here, "gtl_00000000000000000000000000000000000000000000000").await;
        assert_error(&never, 401, "invalid_credentials");
        let ended = async |what: &str, token: &str| {
            let answer = use_link(&here, token).await;
            assert_eq!((answer.status, &answer.json["error"]), (401, &never.json["error"]), "{what}");
        };
        let change = async |change: Value| {
            owner.patch(&path, &change).await.expect(200);
        };

        let old = link(owner, uwe).await;
        let token = link(owner, uwe).await;
        ended("replaced", &old).await;
        change(json!({ "password": PASSWORD })).await;
        ended("another password was set", &token).await;
        let token = link(owner, uwe).await;
        change(json!({ "role": "org_admin" })).await;
        ended("another role", &token).await;
        let token = link(owner, uwe).await;
        change(json!({ "enabled": false })).await;
        let refused = owner.command(&format!("{path}/password-link")).await;
        assert_error(&refused, 409, "invalid_state");
        change(json!({ "enabled": true })).await;
        ended("disabled and enabled", &token).await;
        let token = link(owner, uwe).await;
        sql(&team.gateway, "UPDATE password_links SET expires_at = 1").await;
        ended("expired", &token).await;

        // While the organisation is disabled, nobody of it signs in; that does not end the link.
        let token = link(owner, uwe).await;
        let org = format!("/admin/orgs/{}", team.tenant);
        owner.patch(&org, &json!({ "enabled": false })).await.expect(200);
        ended("the organisation is disabled", &token).await;
        owner.patch(&org, &json!({ "enabled": true })).await.expect(200);
        use_link(&here, &token).await.expect(200);

        let token = link(owner, uwe).await;
        owner.delete(&path).await.expect(200);
        ended("deleted", &token).await;
    }
}

#[tokio::test]
async fn who_may_set_a_password_may_make_a_link_and_nobody_else() {
    let team = Team::on(Database::Sqlite).await;
    let path = |user: i64| format!("/admin/users/{user}/password-link");
    let (uwe, olga) = (user(&team, "uwe").await, user(&team, "olga").await);
    let above = make_user(&team.owner, team.tenant, "above", "admin").await;
    let elsewhere = make_user(&team.owner, team.home, "elsewhere", "user").await;
    assert_error(&team.user.command(&path(uwe)).await, 403, "forbidden");
    assert_error(&team.org_admin.command(&path(elsewhere)).await, 404, "not_found");
    assert_error(&team.org_admin.command(&path(above)).await, 403, "forbidden");
    assert_error(&team.admin.command(&path(1)).await, 403, "forbidden");
    // A token must not be as good as the password of its user.
    let token = make_token(&team.org_admin, "people:write").await;
    let script = team.org_admin.with_key(token["token"].as_str().unwrap());
    script.command(&path(uwe)).await.expect(201);
    assert_error(&script.command(&path(olga)).await, 403, "forbidden");
    team.org_admin.command(&path(olga)).await.expect(201);
    for hours in [json!(0), json!(169), json!("72")] {
        assert_invalid(&team.owner.post(&path(uwe), &json!({ "hours": hours })).await, &["hours"]);
    }
}

#[tokio::test]
async fn an_owner_who_was_only_invited_does_not_count_as_one() {
    let team = Team::on(Database::Sqlite).await;
    let heir = json!({ "username": "heir", "role": "owner" });
    let heir = id(&team.owner.post("/admin/users", &heir).await.expect(201));
    let demoted = json!({ "role": "admin" });
    assert_error(&team.owner.patch("/admin/users/1", &demoted).await, 409, "last_owner");
    use_link(&team.gateway.client(), &link(&team.owner, heir).await).await.expect(200);
    team.owner.patch("/admin/users/1", &demoted).await.expect(200);
}

#[tokio::test]
async fn guessing_links_is_slowed_down() {
    let gateway = gateway(Database::Sqlite).await;
    let client = gateway.client();
    let slowed = eventually("guesses are slowed down", PATIENCE, async || {
        let guesses: Vec<_> = (0..15).map(|n| format!("gtl_{n}")).collect();
        let answers = join_all(guesses.iter().map(|it| use_link(&client, it))).await;
        answers.into_iter().find(|it| it.status == 429)
    });
    let answer = slowed.await;
    assert_error(&answer, 429, "too_many_attempts");
    assert!(answer.header("retry-after").is_some(), "{}", answer.text);
}
