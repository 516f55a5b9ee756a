//! Organisations: the record, who sees which, and what goes with one.

use gantry_testkit::Database;
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid, column},
    team::{PASSWORD, Team, id, make_key, make_org, make_user},
};

#[tokio::test]
async fn an_organisation_is_made_renamed_counted_and_deleted() {
    for database in Database::one("an_organisation_is_made_renamed_counted_and_deleted") {
        let team = Team::on(database).await;
        let mut org = team.owner.post("/admin/orgs", &json!({ "name": "Größe & Co" })).await.expect(201);
        let path = format!("/admin/orgs/{}", id(&org));
        let created_at = org["created_at"].clone();
        assert!(created_at.as_str().unwrap().ends_with('Z'));
        let record = json!({
            "id": id(&org), "name": "Größe & Co", "enabled": true, "user_count": 0, "key_count": 0,
            "created_at": created_at, "rpm_limit": null, "tpm_limit": null, "max_concurrency": null,
            "max_streams": null, "budget_tokens_day": null, "budget_tokens_month": null, "budget": null,
            "revision": org["revision"],
        });
        assert_eq!(org, record);
        assert_eq!(team.owner.patch(&path, &json!({})).await.expect(200), record);

        let user = make_user(&team.owner, id(&org), "gus", "user").await;
        let key = make_key(&team.owner, &json!({ "user_id": user })).await;
        make_key(&team.owner, &json!({ "org_id": id(&org) })).await;
        org = team.owner.patch(&path, &json!({ "name": "Nova", "enabled": false })).await.expect(200);
        let changed = json!({
            "id": id(&org), "name": "Nova", "enabled": false, "user_count": 1, "key_count": 2,
            "created_at": created_at, "rpm_limit": null, "tpm_limit": null, "max_concurrency": null,
            "max_streams": null, "budget_tokens_day": null, "budget_tokens_month": null, "budget": null,
            "revision": org["revision"],
        });
        assert_eq!(org, changed);
        assert_eq!(team.owner.get("/admin/orgs?q=NOV").await.expect(200), json!([changed]));

        let done = team.owner.delete(&path).await.expect(200);
        assert_eq!(done, json!({ "id": id(&org), "status": "deleted" }));
        assert_error(&team.owner.delete(&path).await, 404, "not_found");
        // Its users and keys went with it.
        assert_eq!(team.owner.get("/admin/users?q=gus").await.text, "[]");
        assert_eq!(team.owner.get("/admin/keys").await.text, "[]");
        let bearer = team.gateway.client().with_key(key["token"].as_str().unwrap());
        assert_eq!(bearer.get("/v1/models").await.status, 401);
        // Its name is free again, its id is never given out again.
        let again = make_org(&team.owner, "Nova").await;
        assert!(again > id(&org));
    }
}

#[tokio::test]
async fn names_are_unique_in_any_case_and_bad_ones_are_refused() {
    for database in Database::one("names_are_unique_in_any_case") {
        let team = Team::on(database).await;
        make_org(&team.owner, "Ökonomie").await;
        let before = team.owner.get("/admin/orgs").await.json;
        let path = format!("/admin/orgs/{}", team.tenant);
        for name in ["TENANT", "default", "öKONOMIE"] {
            let answer = team.owner.post("/admin/orgs", &json!({ "name": name })).await;
            assert_error(&answer, 409, "name_conflict");
            assert_eq!(answer.json["error"]["param"], "name");
        }
        assert_error(&team.owner.patch(&path, &json!({ "name": "Default" })).await, 409, "name_conflict");
        for bad in [json!(""), json!(" x"), json!("x\u{0}y"), json!("x".repeat(101)), json!(7), json!(["x"])]
        {
            assert_invalid(&team.owner.post("/admin/orgs", &json!({ "name": bad })).await, &["name"]);
            assert_invalid(&team.owner.patch(&path, &json!({ "name": bad })).await, &["name"]);
        }
        assert_invalid(&team.owner.post("/admin/orgs", &json!({ "name": null })).await, &["name"]);
        let answer = team.owner.patch(&path, &json!({ "enabled": "no", "id": 1 })).await;
        assert_invalid(&answer, &["enabled", "id"]);
        assert_eq!(team.owner.get("/admin/orgs").await.json, before);
        // A hundred characters are a hundred, whatever their bytes; its own name in another case is no conflict.
        make_org(&team.owner, &"ü".repeat(100)).await;
        team.owner.patch(&path, &json!({ "name": "TENANT" })).await.expect(200);
    }
}

#[tokio::test]
async fn an_org_admin_sees_his_own_organisation_only() {
    for database in Database::one("an_org_admin_sees_his_own_organisation_only") {
        let team = Team::on(database).await;
        for query in ["", "?q=tenant", "?limit=1"] {
            let list = team.org_admin.get(&format!("/admin/orgs{query}")).await;
            assert_eq!(column(&list.json, "name"), ["Tenant"], "{query}");
            assert_eq!(list.header("x-total-count"), Some("1"), "{query}");
        }
        assert_eq!(team.org_admin.get("/admin/orgs?q=default").await.text, "[]");
        assert_eq!(team.org_admin.get("/admin/orgs?offset=1").await.text, "[]");
        let tenant = json!([{ "id": team.tenant, "name": "Tenant" }]);
        assert_eq!(team.org_admin.get("/admin/orgs/lookup").await.expect(200), tenant);
        let both = json!([{ "id": team.home, "name": "Default" }, { "id": team.tenant, "name": "Tenant" }]);
        assert_eq!(team.admin.get("/admin/orgs/lookup").await.expect(200), both);
        let window = team.admin.get("/admin/orgs/lookup?limit=1&offset=1").await;
        assert_eq!((window.header("x-total-count"), &window.json[0]), (Some("2"), &both[1]));
        let page = team.admin.get("/admin/orgs?limit=1&offset=1").await;
        assert_eq!(
            (column(&page.json, "name"), page.header("x-total-count")),
            (vec![&json!("Tenant")], Some("2"))
        );
    }
}

/// Nobody may delete a user of a higher role than their own. Deleting the whole organisation is no way around that.
#[tokio::test]
async fn an_admin_may_not_take_an_owner_away_with_his_organisation() {
    for database in Database::one("an_admin_may_not_take_an_owner_away") {
        let team = Team::on(database).await;
        make_user(&team.owner, team.tenant, "second", "owner").await;
        let second = team.gateway.sign_in("second", PASSWORD).await;
        for org in [team.home, team.tenant] {
            let path = format!("/admin/orgs/{org}");
            assert_error(&team.admin.delete(&path).await, 403, "forbidden");
            assert_error(&team.admin.patch(&path, &json!({ "enabled": false })).await, 403, "forbidden");
            team.admin.patch(&path, &json!({ "name": format!("renamed {org}") })).await.expect(200);
        }
        assert_eq!(second.get("/auth/me").await.status, 200);
        let orgs = team.owner.get("/admin/orgs").await.json;
        assert_eq!(column(&orgs, "enabled"), [&Value::Bool(true); 2]);
        // An owner may.
        second.delete(&format!("/admin/orgs/{}", team.home)).await.expect(200);
    }
}
