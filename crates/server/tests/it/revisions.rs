//! `If-Match`: of two people who change one record, the later one learns of it before the earlier change is lost.

use gantry_testkit::{Answer, Client, Database};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    models::{create, llamacpp},
    support::assert_error,
    team::{Team, make_key},
};

async fn change(by: &Client, path: &str, if_match: &str, body: &Value) -> Answer {
    by.send(by.request(Method::PATCH, path).header("if-match", if_match).json(body)).await
}

/// The record with this path, from the list that has it.
async fn read(by: &Client, path: &str) -> Value {
    let (list, id) = path.rsplit_once('/').unwrap();
    let all = by.get(list).await.expect(200);
    let is_it = |it: &&Value| it["id"].as_i64() == id.parse().ok();
    all.as_array().unwrap().iter().find(is_it).unwrap().clone()
}

fn tag(record: &Value) -> String {
    format!("\"{}\"", record["revision"].as_str().unwrap())
}

/// Changes the record by two people who both read it first.
async fn two_people(team: &Team, path: &str, first: Value, second: Value) {
    let (by_owner, by_admin) = (read(&team.owner, path).await, read(&team.admin, path).await);
    let changed = change(&team.owner, path, &tag(&by_owner), &first).await.expect(200);
    assert_ne!(changed["revision"], by_owner["revision"], "{path}");

    let late = change(&team.admin, path, &tag(&by_admin), &second).await;
    assert_error(&late, 412, "changed_meanwhile");
    assert_eq!(read(&team.owner, path).await, changed, "nothing of it was done");

    // The message leads to this: look again, then send the change.
    let seen = read(&team.admin, path).await;
    let tags = format!("\"of another time\", {}", tag(&seen));
    let both = change(&team.admin, path, &tags, &second).await.expect(200);
    for (name, value) in first.as_object().unwrap().iter().chain(second.as_object().unwrap()) {
        assert_eq!(both[name], *value, "{path}");
    }
    // A change that changes nothing leaves the revision; without the header, and with `*`, the last change wins.
    let same = change(&team.admin, path, &tag(&both), &second).await.expect(200);
    assert_eq!(same["revision"], both["revision"], "{path}");
    change(&team.admin, path, "*", &first).await.expect(200);
    team.admin.patch(path, &second).await.expect(200);
    assert_error(&change(&team.admin, path, "", &second).await, 412, "changed_meanwhile");
    assert_error(
        &change(&team.admin, path, &format!("W/{}", tag(&both)), &second).await,
        412,
        "changed_meanwhile",
    );
}

#[tokio::test]
async fn a_change_of_a_record_that_somebody_changed_meanwhile_is_refused() {
    for database in Database::one("a_change_of_a_record_that_somebody_changed") {
        let team = Team::on(database).await;
        let model = create(&team.owner, &llamacpp("m")).await.expect(201);
        let key = make_key(&team.owner, &json!({ "org_id": team.home })).await;
        let user = team.owner.get("/admin/users?q=uwe").await.expect(200)[0].clone();
        for (path, first, second) in [
            (format!("/admin/models/{}", model["id"]), json!({ "seed": 7 }), json!({ "context_size": 1024 })),
            (format!("/admin/orgs/{}", team.tenant), json!({ "rpm_limit": 7 }), json!({ "name": "Other" })),
            (format!("/admin/users/{}", user["id"]), json!({ "rpm_limit": 7 }), json!({ "username": "udo" })),
            (format!("/admin/keys/{}", key["id"]), json!({ "rpm_limit": 7 }), json!({ "name": "other" })),
        ] {
            two_people(&team, &path, first, second).await;
        }
    }
}

#[tokio::test]
async fn a_revision_changes_with_what_people_change_and_with_nothing_else() {
    for database in Database::one("a_revision_changes_with_what_people_change") {
        let team = Team::on(database).await;
        let path = format!("/admin/orgs/{}", team.tenant);
        let before = read(&team.owner, &path).await;
        make_key(&team.owner, &json!({ "org_id": team.tenant })).await;
        let counted = read(&team.owner, &path).await;
        assert_ne!(counted["key_count"], before["key_count"]);
        assert_eq!(counted["revision"], before["revision"]);

        // Values of the environment are secrets: who does not see them sees that they were changed, and no more.
        let body = json!({
            "served_name": "m", "engine_type": "llamacpp", "local_path": "m.gguf", "force": true,
            "extra_env": { "APP_TOKEN": "hf_one" },
        });
        let path = format!("/admin/models/{}", create(&team.owner, &body).await.expect(201)["id"]);
        let before = read(&team.admin, &path).await;
        assert_eq!(before["revision"], read(&team.owner, &path).await["revision"]);
        team.owner.patch(&path, &json!({ "extra_env": { "APP_TOKEN": "hf_two" } })).await.expect(200);
        let after = read(&team.admin, &path).await;
        assert_eq!(after["extra_env"], before["extra_env"]);
        assert_ne!(after["revision"], before["revision"]);
        assert_error(
            &change(&team.admin, &path, &tag(&before), &json!({ "seed": 1 })).await,
            412,
            "changed_meanwhile",
        );
    }
}
