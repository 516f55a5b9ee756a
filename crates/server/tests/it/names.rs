//! Names that look alike: one account, or none; and lists that are found, sorted and filtered by names.

use gantry_testkit::{Database, Options};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, column},
    team::{PASSWORD, Team, id, make_key, make_org, make_user},
};

/// As Linux and Windows type it, and as macOS does.
const COMPOSED: &str = "Zo\u{eb}";
const APART: &str = "Zoe\u{308}";

fn user(username: &str) -> Value {
    json!({ "username": username, "password": PASSWORD })
}

#[tokio::test]
async fn names_that_look_alike_are_one_or_none() {
    for database in Database::all("names_that_look_alike") {
        let team = Team::on(database).await;
        for (first, second) in [(COMPOSED, APART), ("Rene\u{301}", "ren\u{e9}")] {
            let made = team.owner.post("/admin/users", &user(first)).await.expect(201);
            let path = format!("/admin/users/{}", id(&made));
            assert_error(&team.owner.post("/admin/users", &user(second)).await, 409, "name_conflict");
            let uwe = format!("/admin/users/{}", team.owner.get("/admin/users?q=uwe").await.json[0]["id"]);
            assert_error(&team.owner.patch(&uwe, &json!({ "username": second })).await, 409, "name_conflict");
            for name in [first, second] {
                team.gateway.sign_in(name, PASSWORD).await;
                let found = team.owner.get(&format!("/admin/users?q={name}")).await.expect(200);
                assert_eq!(column(&found, "id"), [&made["id"]], "{name:?}");
            }
            team.owner.patch(&path, &json!({ "username": second })).await.expect(200);
            let name = format!("Org {first}");
            make_org(&team.owner, &name).await;
            let twin = json!({ "name": format!("Org {second}") });
            assert_error(&team.owner.post("/admin/orgs", &twin).await, 409, "name_conflict");
            let tenant = format!("/admin/orgs/{}", team.tenant);
            assert_error(&team.owner.patch(&tenant, &twin).await, 409, "name_conflict");
        }
        assert_eq!(team.owner.get("/admin/users?q=zo").await.json[0]["username"], COMPOSED);
        // What nobody sees is in no name.
        let key = format!("/admin/keys/{}", id(&make_key(&team.owner, &json!({ "name": "k" })).await));
        let model = json!({ "engine_type": "vllm", "local_path": "m" });
        for bad in ["ada\u{200b}", "\u{202e}ada", "a\u{ad}da", "ada\u{e0041}", "\u{3164}"] {
            assert_invalid(&team.owner.post("/admin/users", &user(bad)).await, &["username"]);
            assert_invalid(&team.owner.post("/admin/orgs", &json!({ "name": bad })).await, &["name"]);
            assert_invalid(&team.owner.post("/admin/keys", &json!({ "name": bad })).await, &["name"]);
            assert_invalid(&team.owner.patch(&key, &json!({ "name": bad })).await, &["name"]);
            let mut served = model.clone();
            served["served_name"] = json!(bad);
            assert_invalid(&team.owner.post("/admin/models", &served).await, &["served_name"]);
            let engine = json!({ "served_name": bad, "url": "http://127.0.0.1:9" });
            assert_invalid(&team.owner.post("/admin/models/registry", &engine).await, &["served_name"]);
        }
    }
}

#[tokio::test]
async fn the_first_owner_is_found_however_his_name_is_typed() {
    let options = Options { owner: false, ..Options::default() };
    let gateway = crate::support::start(options).await;
    let first = json!({ "username": APART, "password": PASSWORD, "org_name": "Acme" });
    gateway.client().post("/admin/bootstrap-owner", &first).await.expect(201);
    let owner = gateway.sign_in(COMPOSED, PASSWORD).await;
    assert_eq!(owner.get("/auth/me").await.expect(200)["user"]["username"], COMPOSED);
}

#[tokio::test]
async fn lists_are_found_and_sorted_by_name_in_one_way_everywhere() {
    for database in Database::all("lists_are_found_and_sorted_by_name") {
        let team = Team::on(database).await;
        make_org(&team.owner, "acme").await;
        let names = async |path: &str, field: &str| {
            let list = team.owner.get(path).await.expect(200);
            let names = column(&list, field).into_iter().map(|it| it.as_str().unwrap().to_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        for (path, field, wanted) in [
            ("/admin/orgs", "name", "Default Tenant acme"),
            ("/admin/orgs?sort=name", "name", "acme Default Tenant"),
            ("/admin/orgs?sort=-name", "name", "Tenant Default acme"),
            ("/admin/orgs?sort=name:desc&limit=1", "name", "Tenant"),
            ("/admin/orgs?sort=-id", "name", "acme Tenant Default"),
            ("/admin/orgs?sort=created_at:asc", "name", "Default Tenant acme"),
            ("/admin/orgs?sort=-created_at", "name", "acme Tenant Default"),
            ("/admin/orgs/lookup?q=EN", "name", "Tenant"),
            ("/admin/orgs/lookup?q=%25", "name", ""),
            ("/admin/users?sort=-username", "username", "uwe owner olga ada"),
            ("/admin/users/lookup?q=O", "username", "olga owner"),
            ("/admin/users/lookup?q=_", "username", ""),
        ] {
            assert_eq!(names(path, field).await, wanted, "{path}");
        }
        assert_eq!(team.org_admin.get("/admin/orgs/lookup?q=ac").await.text, "[]");
        assert_eq!(team.org_admin.get("/admin/users/lookup?q=ada").await.text, "[]");
        let found = team.owner.get("/admin/users/lookup?q=o&limit=1").await;
        assert_eq!(found.header("x-total-count"), Some("2"));
        // In the log people are found in any case, and under each of their names.
        let olga = team.owner.get("/admin/users?q=olga").await.json[0]["id"].clone();
        let rows = async |actor: &str| {
            let answer = team.owner.get(&format!("/admin/audit?limit=1&actor={actor}")).await;
            answer.header("x-total-count").unwrap().parse::<i64>().unwrap()
        };
        assert_eq!([rows("olga").await, rows("OLGA").await, rows("Olg").await], [1, 1, 0]);
        team.owner.patch(&format!("/admin/users/{olga}"), &json!({ "username": "OLGA" })).await.expect(200);
        team.gateway.sign_in("olga", PASSWORD).await;
        assert_eq!([rows("olga").await, rows("OLGA").await, rows("Olga").await], [2, 2, 2]);
    }
}

#[tokio::test]
async fn keys_are_filtered_by_their_status() {
    for database in Database::one("keys_are_filtered_by_their_status") {
        let team = Team::on(database).await;
        let away = make_user(&team.owner, team.tenant, "away", "user").await;
        for (name, user) in [("works", None), ("gone", None), ("asleep", Some(away)), ("both", Some(away))] {
            make_key(&team.owner, &json!({ "name": name, "user_id": user })).await;
        }
        // That it is in the past is refused, as it may be on a busy machine.
        gantry_testkit::eventually("a key that expires soon is made", gantry_testkit::PATIENCE, async || {
            let soon = gantry_domain::Timestamp(gantry_testkit::now().0 + 1500).rfc3339();
            let body = json!({ "name": "late", "expires_at": soon, "user_id": away });
            let made = team.owner.post("/admin/keys", &body).await;
            assert!(matches!(made.status, 201 | 422), "{made:?}");
            (made.status == 201).then_some(())
        })
        .await;
        let never = json!({ "name": "never", "expires_at": "9999-12-31T23:59:59Z" });
        let never = make_key(&team.owner, &never).await;
        assert_eq!(never["expires_at"], "9999-12-31T23:59:59.000Z");
        team.owner.patch(&format!("/admin/users/{away}"), &json!({ "enabled": false })).await.expect(200);
        let keys = team.owner.get("/admin/keys").await.expect(200);
        for name in ["gone", "both"] {
            let key = keys.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
            team.owner.delete(&format!("/admin/keys/{}", id(key))).await.expect(200);
        }
        gantry_testkit::eventually("the key expires", gantry_testkit::PATIENCE, async || {
            let late = team.owner.get("/admin/keys?q=late").await.expect(200);
            (late[0]["status"] == "expired").then_some(())
        })
        .await;
        let mut n = 0;
        for (status, wanted) in [
            ("active", vec!["works", "never"]),
            ("expired", vec!["late"]),
            ("revoked", vec!["gone", "both"]),
            ("holder_disabled", vec!["asleep"]),
        ] {
            let answer = team.owner.get(&format!("/admin/keys?status={status}")).await;
            assert_eq!(answer.header("x-total-count"), Some(&*wanted.len().to_string()), "{status}");
            assert_eq!(column(&answer.json, "name"), wanted, "{status}");
            assert!(column(&answer.json, "status").iter().all(|it| *it == status), "{}", answer.text);
            n += wanted.len();
        }
        assert_eq!(n, keys.as_array().unwrap().len());
        team.user.post("/auth/keys", &json!({ "name": "own" })).await.expect(201);
        assert_eq!(column(&team.user.get("/auth/keys?status=active").await.json, "name"), ["own"]);
        assert_eq!(team.user.get("/auth/keys?status=revoked").await.text, "[]");
        assert_invalid(&team.owner.get("/admin/keys?status=ended").await, &["status"]);
        // The last day that can be written is a time like others.
        for path in ["/admin/usage?to=", "/admin/audit?to=", "/admin/usage?from=2020-01-01T00:00:00Z&to="] {
            team.owner.get(&format!("{path}9999-12-31T23:59:59Z")).await.expect(200);
        }
    }
}
