//! User accounts: the record, who may make and change whom, and what goes with one.

use futures_util::future::join_all;
use gantry_testkit::{Client, Database};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, assert_missing, column},
    team::{PASSWORD, Team, id, make_key, make_org, make_user},
};

async fn find(owner: &Client, username: &str) -> Value {
    let found = owner.get(&format!("/admin/users?q={username}")).await.expect(200);
    found[0].clone()
}

fn user(username: &str) -> Value {
    json!({ "username": username, "password": PASSWORD })
}

#[tokio::test]
async fn a_user_is_made_changed_and_deleted_with_his_keys() {
    for database in Database::one("a_user_is_made_changed_and_deleted") {
        let team = Team::on(database).await;
        let body = json!({
            "username": "Zoë", "password": "ÄÖÜäöüßẞ", "role": "org_admin", "org_id": team.tenant, "enabled": false,
        });
        let made = team.owner.post("/admin/users", &body).await;
        assert!(!made.text.contains("password"), "{}", made.text);
        let made = made.expect(201);
        let (path, created_at) = (format!("/admin/users/{}", id(&made)), made["created_at"].clone());
        assert!(created_at.as_str().unwrap().ends_with('Z'));
        let mut record = json!({
            "id": id(&made), "username": "Zoë", "role": "org_admin", "org_id": team.tenant, "org_name": "Tenant",
            "enabled": false, "created_at": created_at, "last_login_at": null, "models": null,
            "rpm_limit": null, "tpm_limit": null, "max_concurrency": null, "max_streams": null,
            "budget_tokens_day": null, "budget_tokens_month": null, "budget": null,
            "revision": made["revision"],
        });
        assert_eq!(made, record);
        // The least: a user of the caller's organisation.
        let plain = team.admin.post("/admin/users", &user("plain")).await.expect(201);
        assert_eq!(
            (&plain["role"], &plain["org_name"], &plain["enabled"]),
            (&json!("user"), &json!("Default"), &json!(true))
        );

        let key = make_key(&team.owner, &json!({ "user_id": id(&made) })).await;
        let change = json!({ "username": "zoe", "role": "user", "org_id": team.home, "enabled": true });
        for (name, value) in change.as_object().unwrap() {
            record[name] = value.clone();
        }
        record["org_name"] = json!("Default");
        let changed = team.owner.patch(&path, &change).await.expect(200);
        record["revision"] = changed["revision"].clone();
        assert_eq!(changed, record);
        assert_eq!(team.owner.patch(&path, &json!({})).await.expect(200), record);
        let moved = team.owner.get(&format!("/admin/keys?user_id={}", id(&made))).await.expect(200);
        assert_eq!((&moved[0]["org_name"], &moved[0]["username"]), (&json!("Default"), &json!("zoe")));

        let session = team.gateway.sign_in("ZOE", "ÄÖÜäöüßẞ").await;
        assert!(find(&team.owner, "zoe").await["last_login_at"].is_string());
        let done = team.owner.delete(&path).await.expect(200);
        assert_eq!(done, json!({ "id": id(&made), "status": "deleted" }));
        assert_error(&team.owner.delete(&path).await, 404, "not_found");
        assert_eq!(session.get("/auth/me").await.status, 401);
        let bearer = team.gateway.client().with_key(key["token"].as_str().unwrap());
        assert_eq!(bearer.get("/v1/models").await.status, 401);
        assert_eq!(team.owner.get("/admin/keys").await.text, "[]");
    }
}

#[tokio::test]
async fn what_a_user_may_not_be_is_refused_with_every_reason() {
    for database in Database::one("what_a_user_may_not_be") {
        let team = Team::on(database).await;
        let path = format!("/admin/users/{}", id(&find(&team.owner, "uwe").await));
        let before = team.owner.get("/admin/users").await.json;
        for (field, value) in [
            ("username", json!("")),
            ("username", json!(" uwe")),
            ("username", json!("u\u{0}we")),
            ("username", json!("u\u{1b}[2Jwe")),
            ("username", json!("x".repeat(65))),
            ("username", json!(7)),
            ("password", json!("seven77")),
            ("password", json!("x".repeat(257))),
            ("password", json!(12_345_678)),
            ("role", json!("root")),
            ("role", json!("Owner")),
            ("role", json!(1)),
            ("org_id", json!(0)),
            ("org_id", json!("1")),
            ("enabled", json!(1)),
            ("password_hash", json!("$argon2id$")),
            ("id", json!(1)),
        ] {
            let mut body = user("somebody");
            body[field] = value.clone();
            assert_invalid(&team.owner.post("/admin/users", &body).await, &[field]);
            assert_invalid(&team.owner.patch(&path, &json!({ field: value })).await, &[field]);
        }
        let mut body = user("somebody");
        body["org_id"] = json!(999_999);
        assert_missing(&team.owner.post("/admin/users", &body).await, "org_id");
        assert_missing(&team.owner.patch(&path, &json!({ "org_id": 999_999 })).await, "org_id");
        let many = json!({
            "username": "", "password": "short", "role": "king", "enabled": "yes", "colour": "red",
        });
        let all = ["username", "password", "role", "enabled", "colour"];
        assert_invalid(&team.owner.post("/admin/users", &many).await, &all);
        // Names are unique over all organisations, in any case.
        for name in ["UWE", "owner", "Ada"] {
            let answer = team.org_admin.post("/admin/users", &user(name)).await;
            assert_error(&answer, 409, "name_conflict");
            assert_eq!(answer.json["error"]["param"], "username");
        }
        assert_error(&team.owner.patch(&path, &json!({ "username": "ADA" })).await, 409, "name_conflict");
        assert_eq!(team.owner.get("/admin/users").await.json, before);
        team.owner.patch(&path, &json!({ "username": "UWE" })).await.expect(200);
    }
}

#[tokio::test]
async fn nobody_makes_changes_or_removes_a_user_above_himself() {
    for database in Database::one("nobody_makes_changes_or_removes_a_user_above_himself") {
        let team = Team::on(database).await;
        // All in one organisation, so that only the role stands between them.
        for (name, role) in [("boss", "owner"), ("chief", "admin"), ("peer", "org_admin"), ("staff", "user")]
        {
            make_user(&team.owner, team.tenant, name, role).await;
        }
        let ranks = [("user", "staff"), ("org_admin", "peer"), ("admin", "chief"), ("owner", "boss")];
        for (client, own) in [(&team.org_admin, 1), (&team.admin, 2)] {
            for (rank, (role, name)) in ranks.iter().enumerate() {
                let path = format!("/admin/users/{}", id(&find(&team.owner, name).await));
                let mut body = user(&format!("{role}-by-{own}"));
                body["role"] = json!(role);
                if rank <= own {
                    let made = id(&client.post("/admin/users", &body).await.expect(201));
                    client.patch(&path, &json!({ "enabled": false })).await.expect(200);
                    client.patch(&path, &json!({ "enabled": true, "role": role })).await.expect(200);
                    client.delete(&format!("/admin/users/{made}")).await.expect(200);
                } else {
                    let staff = format!("/admin/users/{}", id(&find(&team.owner, "staff").await));
                    assert_error(&client.post("/admin/users", &body).await, 403, "forbidden");
                    assert_error(&client.patch(&staff, &json!({ "role": role })).await, 403, "forbidden");
                    for change in
                        [json!({ "password": "taken-over" }), json!({ "enabled": false }), json!({})]
                    {
                        assert_error(&client.patch(&path, &change).await, 403, "forbidden");
                    }
                    assert_error(&client.delete(&path).await, 403, "forbidden");
                }
            }
        }
        let list = team.owner.get("/admin/users?sort=username").await.json;
        let names = ["ada", "boss", "chief", "olga", "owner", "peer", "staff", "uwe"];
        assert_eq!(column(&list, "username"), names);
        let roles = ["admin", "owner", "admin", "org_admin", "owner", "org_admin", "user", "user"];
        assert_eq!(column(&list, "role"), roles);
        team.gateway.sign_in("boss", PASSWORD).await;
    }
}

#[tokio::test]
async fn an_org_admin_sees_and_touches_the_users_of_his_organisation_only() {
    for database in Database::one("an_org_admin_sees_and_touches_the_users") {
        let team = Team::on(database).await;
        let olga = &team.org_admin;
        let other = make_org(&team.owner, "Other").await;
        let stranger = make_user(&team.owner, other, "stranger", "user").await;
        let before = team.owner.get("/admin/users?q=stranger").await.json;
        for query in ["", "?sort=username:desc", "?limit=2", "?q=e", &format!("?org_id={}", team.tenant)] {
            let list = olga.get(&format!("/admin/users{query}")).await;
            assert!(
                column(&list.json, "org_id").iter().all(|it| **it == team.tenant),
                "{query}: {}",
                list.text
            );
            let total = if query == "?q=e" { "1" } else { "2" };
            assert_eq!(list.header("x-total-count"), Some(total), "{query}");
        }
        for query in [format!("org_id={other}"), "q=stranger".to_owned(), "role=owner".to_owned()] {
            let list = olga.get(&format!("/admin/users?{query}")).await;
            assert_eq!((list.header("x-total-count"), list.text.as_str()), (Some("0"), "[]"), "{query}");
        }
        let lookup = column(&olga.get("/admin/users/lookup").await.json, "username").len();
        assert_eq!(
            (lookup, team.owner.get("/admin/users/lookup").await.json.as_array().unwrap().len()),
            (2, 5)
        );
        let path = format!("/admin/users/{stranger}");
        for change in [json!({}), json!({ "password": "taken-over" }), json!({ "org_id": team.tenant })] {
            assert_error(&olga.patch(&path, &change).await, 404, "not_found");
        }
        assert_error(&olga.delete(&path).await, 404, "not_found");
        // Nor in, nor out.
        let uwe = format!("/admin/users/{}", id(&find(&team.owner, "uwe").await));
        assert_missing(&olga.patch(&uwe, &json!({ "org_id": other })).await, "org_id");
        let mut body = user("spy");
        body["org_id"] = json!(other);
        assert_missing(&olga.post("/admin/users", &body).await, "org_id");
        assert_eq!(team.owner.get("/admin/users?q=stranger").await.json, before);
        assert_eq!(olga.post("/admin/users", &user("helper")).await.expect(201)["org_id"], team.tenant);
    }
}

#[tokio::test]
async fn lists_are_sorted_searched_filtered_and_paged() {
    for database in Database::one("users_lists_are_sorted_searched_filtered_and_paged") {
        let team = Team::on(database).await;
        make_user(&team.owner, team.home, "Änne_1", "user").await;
        let names = async |query: &str| {
            let answer = team.owner.get(&format!("/admin/users?{query}")).await;
            assert_eq!(answer.status, 200, "{query}: {}", answer.text);
            let names =
                column(&answer.json, "username").into_iter().map(|it| it.as_str().unwrap().to_owned());
            (names.collect::<Vec<_>>().join(" "), answer.header("x-total-count").unwrap().to_owned())
        };
        for (query, wanted, total) in [
            ("", "owner ada olga uwe Änne_1", "5"),
            ("sort=username", "ada olga owner uwe Änne_1", "5"),
            ("sort=username:desc&limit=2", "Änne_1 uwe", "5"),
            ("sort=id:desc&offset=3", "ada owner", "5"),
            ("sort=created_at&limit=1&offset=2", "olga", "5"),
            // A user who never signed in sorts as the earliest.
            ("sort=last_login_at&limit=1", "Änne_1", "5"),
            ("role=org_admin", "olga", "1"),
            ("role=user&sort=username", "uwe Änne_1", "2"),
            ("q=ÄNNE", "Änne_1", "1"),
            ("q=e_", "Änne_1", "1"),
            ("q=%25", "", "0"),
            (&format!("org_id={}&role=user", team.home), "Änne_1", "1"),
            ("org_id=999999", "", "0"),
        ] {
            assert_eq!(names(query).await, (wanted.to_owned(), total.to_owned()), "{query}");
        }
        let lookup = team.owner.get("/admin/users/lookup").await.expect(200);
        assert_eq!(lookup[0], json!({ "id": 2, "username": "ada", "org_id": team.home }));
        assert_eq!(column(&lookup, "username"), ["ada", "olga", "owner", "uwe", "Änne_1"]);
        let window = team.owner.get("/admin/users/lookup?limit=2&offset=1").await;
        assert_eq!(window.header("x-total-count"), Some("5"));
        assert_eq!(column(&window.json, "username"), ["olga", "owner"]);
    }
}

#[tokio::test]
async fn users_and_keys_made_while_their_organisation_goes_away_end_in_no_server_error() {
    for database in Database::all("users_and_keys_made_while_their_organisation_goes_away") {
        let team = Team::on(database).await;
        for round in 0..5 {
            let org = make_org(&team.owner, &format!("short-lived {round}")).await;
            let user = make_user(&team.owner, org, &format!("brief {round}"), "user").await;
            let own_key = json!({ "user_id": user });
            let keys = (0..12).map(|n| {
                let body = if n % 2 == 0 { json!({ "org_id": org }) } else { own_key.clone() };
                async {
                    let body = body;
                    team.admin.post("/admin/keys", &body).await
                }
            });
            let path = format!("/admin/orgs/{org}");
            let (answers, deleted) =
                futures_util::future::join(join_all(keys), team.owner.delete(&path)).await;
            assert_eq!(deleted.status, 200, "{}", deleted.text);
            for answer in answers {
                assert!(matches!(answer.status, 201 | 404 | 409), "{}", answer.text);
            }
        }
        assert_eq!(team.owner.get("/admin/keys").await.text, "[]");
    }
}
