//! How far a role and an organisation reach: a record that moved to another organisation has no name here, one that was
//! deleted keeps its last name, and nobody can change the keys of a user with a higher role.

use gantry_testkit::{Client, Database, eventually};
use serde_json::{Value, json};

use crate::{
    support::assert_error,
    team::{Team, id, make_key, make_org, make_user},
};

/// The groups of the last day by their ids, and by the labels that they have.
async fn groups(client: &Client, by: &str) -> Vec<(Value, Value, Value)> {
    let groups = client.get(&format!("/admin/usage/aggregate?group_by={by}")).await.expect(200);
    let groups = groups.as_array().unwrap().iter();
    groups.map(|it| (it["group_id"].clone(), it["group"].clone(), it["deleted"].clone())).collect()
}

#[tokio::test]
async fn what_moved_to_another_organisation_has_no_name_in_this_one() {
    for database in Database::one("what_moved_to_another_organisation") {
        let team = Team::on(database).await;
        let other = make_org(&team.owner, "Other").await;
        let sam = make_user(&team.owner, team.tenant, "sam", "user").await;
        let key = make_key(&team.owner, &json!({ "user_id": sam, "name": "of sam" })).await;
        let prefix = key["prefix"].as_str().unwrap();
        let bearer = team.gateway.client().with_key(key["token"].as_str().unwrap());
        bearer.chat("no such model").await;
        eventually("the row is there", gantry_testkit::PATIENCE, async || {
            (!groups(&team.org_admin, "user").await.is_empty()).then_some(())
        })
        .await;
        let here = (json!(sam), json!("sam"), json!(false));
        assert_eq!(groups(&team.org_admin, "user").await, std::slice::from_ref(&here));
        let own_key = (key["id"].clone(), json!(format!("{prefix} of sam")), json!(false));
        assert_eq!(groups(&team.org_admin, "key").await, [own_key]);

        let (user_path, key_path) = (format!("/admin/users/{sam}"), format!("/admin/keys/{}", id(&key)));
        team.owner.patch(&user_path, &json!({ "org_id": other, "username": "secret-sam" })).await.expect(200);
        team.owner.patch(&key_path, &json!({ "name": "secret project" })).await.expect(200);
        let by_id = (json!(sam), json!(format!("user {sam}")), json!(true));
        assert_eq!(groups(&team.org_admin, "user").await, [by_id]);
        assert_eq!(groups(&team.org_admin, "key").await, [(key["id"].clone(), json!(prefix), json!(true))]);
        assert_eq!(groups(&team.org_admin, "org").await[0].1, "Tenant");
        for path in ["", "/export", "/aggregate?group_by=user", "/aggregate?group_by=key"] {
            let text = team.org_admin.get(&format!("/admin/usage{path}")).await.text;
            assert!(text.contains(prefix) || path.ends_with("user"), "{path}: {text}");
            assert!(!text.contains("secret"), "{path}: {text}");
        }
        // A caller who sees all organisations sees the user's name.
        let there = (json!(sam), json!("secret-sam"), json!(false));
        assert_eq!(groups(&team.owner, "user").await, [there]);
        // Back in the organisation, the user has a name again.
        team.owner.patch(&user_path, &json!({ "org_id": team.tenant, "username": "sam" })).await.expect(200);
        assert_eq!(groups(&team.org_admin, "user").await, [here]);
    }
}

#[tokio::test]
async fn what_was_deleted_keeps_its_last_name_in_reports_of_its_organisation() {
    for database in Database::all("what_was_deleted_keeps_its_last_name") {
        let team = Team::on(database).await;
        let other = make_org(&team.owner, "Other").await;
        let (mut users, mut keys, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
        for name in ["sam", "tom"] {
            let user = make_user(&team.owner, team.tenant, name, "user").await;
            let key = make_key(&team.owner, &json!({ "user_id": user, "name": format!("of {name}") })).await;
            team.gateway.client().with_key(key["token"].as_str().unwrap()).chat("no such model").await;
            prefixes.push(key["prefix"].as_str().unwrap().to_owned());
            keys.push(key["id"].clone());
            users.push(user);
        }
        eventually("the rows are there", gantry_testkit::PATIENCE, async || {
            (groups(&team.org_admin, "user").await.len() == 2).then_some(())
        })
        .await;
        let sorted = async |client: &Client, by: &str| {
            let mut groups = groups(client, by).await;
            groups.sort_by_key(|it| it.0.as_i64());
            groups
        };
        let [sam, tom] = users[..] else { panic!("{users:?}") };
        // The one is renamed and deleted here, the other in another organisation.
        team.owner.patch(&format!("/admin/users/{sam}"), &json!({ "username": "samuel" })).await.expect(200);
        team.owner.patch(&format!("/admin/users/{tom}"), &json!({ "org_id": other })).await.expect(200);
        for user in [sam, tom] {
            team.owner.delete(&format!("/admin/users/{user}")).await.expect(200);
        }
        let gone = |id: &Value, name: &str| (id.clone(), json!(name), json!(true));
        let (sam_key, tom_key) = (format!("{} of sam", prefixes[0]), format!("{} of tom", prefixes[1]));
        let seen = [gone(&json!(sam), "samuel"), gone(&json!(tom), "tom")];
        assert_eq!(sorted(&team.owner, "user").await, seen);
        assert_eq!(sorted(&team.owner, "key").await, [gone(&keys[0], &sam_key), gone(&keys[1], &tom_key)]);
        let seen = [gone(&json!(sam), "samuel"), gone(&json!(tom), &format!("user {tom}"))];
        assert_eq!(sorted(&team.org_admin, "user").await, seen);
        let seen = [gone(&keys[0], &sam_key), gone(&keys[1], &prefixes[1])];
        assert_eq!(sorted(&team.org_admin, "key").await, seen);
        team.owner.delete(&format!("/admin/orgs/{}", team.tenant)).await.expect(200);
        assert_eq!(sorted(&team.owner, "org").await, [gone(&json!(team.tenant), "Tenant")]);
        assert_eq!(sorted(&team.owner, "user").await[0], gone(&json!(sam), "samuel"));
    }
}

#[tokio::test]
async fn nobody_touches_the_keys_of_one_above_himself() {
    for database in Database::one("nobody_touches_the_keys_of_one_above") {
        let team = Team::on(database).await;
        // All in one organisation, so that only the role stands between them.
        let ranks = ["user", "org_admin", "admin", "owner"];
        let mut holders = Vec::new();
        for role in ranks {
            holders.push(make_user(&team.owner, team.tenant, &format!("{role}-holder"), role).await);
        }
        for (client, own) in [(&team.org_admin, 1), (&team.admin, 2), (&team.owner, 3)] {
            for (rank, holder) in holders.iter().enumerate() {
                let key = make_key(&team.owner, &json!({ "user_id": holder, "name": "kept" })).await;
                let path = format!("/admin/keys/{}", id(&key));
                let answers = [
                    client.post("/admin/keys", &json!({ "user_id": holder })).await,
                    client.patch(&path, &json!({ "name": "mine", "scopes": "chat" })).await,
                    client.delete(&path).await,
                ];
                let shown =
                    team.owner.get(&format!("/admin/keys?user_id={holder}&sort=id:desc")).await.expect(200);
                if rank <= own {
                    assert_eq!(answers.map(|it| it.status), [201, 200, 200], "{own} {rank}");
                } else {
                    for answer in &answers {
                        assert_error(answer, 403, "forbidden");
                    }
                    let key = (&shown[0]["id"], &shown[0]["name"], &shown[0]["status"]);
                    assert_eq!(
                        key,
                        (&json!(path[12..].parse::<i64>().unwrap()), &json!("kept"), &json!("active"))
                    );
                }
            }
            // That of an organisation is nobody's in particular.
            let key = make_key(&team.owner, &json!({ "org_id": team.tenant })).await;
            client.patch(&format!("/admin/keys/{}", id(&key)), &json!({ "name": "ours" })).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_revoked_key_stays_as_it_was() {
    for database in Database::one("a_revoked_key_stays_as_it_was") {
        let team = Team::on(database).await;
        let key = make_key(&team.owner, &json!({ "name": "old" })).await;
        let path = format!("/admin/keys/{}", id(&key));
        team.owner.delete(&path).await.expect(200);
        let before = team.owner.get("/admin/keys").await.json;
        for change in [json!({ "name": "new" }), json!({ "expires_at": null }), json!({})] {
            assert_error(&team.owner.patch(&path, &change).await, 409, "invalid_state");
        }
        assert_eq!(team.owner.get("/admin/keys").await.json, before);
    }
}
