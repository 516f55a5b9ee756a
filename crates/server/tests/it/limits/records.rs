//! What can be set, by whom, and how records show it.

use gantry_testkit::{Database, Options};
use serde_json::{Value, json};

use crate::{
    support::{assert_error, assert_invalid},
    team::{Team, id, make_key},
};

const FIELDS: [&str; 6] =
    ["rpm_limit", "tpm_limit", "max_concurrency", "max_streams", "budget_tokens_day", "budget_tokens_month"];

fn limits(record: &Value) -> Vec<&Value> {
    FIELDS.iter().map(|it| &record[*it]).collect()
}

#[tokio::test]
async fn limits_of_an_organisation_cap_those_of_its_keys() {
    for database in Database::one("limits_of_an_organisation_cap") {
        let team = Team::with(
            Options::default()
                .on(database)
                .env("RATE_LIMIT_RPM", "30")
                .env("RATE_LIMIT_TPM", "5000")
                .env("MAX_CONCURRENT_REQUESTS", "7"),
        )
        .await;
        let path = format!("/admin/orgs/{}", team.tenant);
        let body = json!({ "rpm_limit": 20, "max_streams": 3, "budget_tokens_month": 9000 });
        let org = team.admin.patch(&path, &body).await.expect(200);
        let null = json!(null);
        assert_eq!(limits(&org), [&json!(20), &null, &null, &json!(3), &null, &json!(9000)]);
        let month = json!({ "limit": 9000, "used": 0, "pct": 0, "warning": false });
        assert_eq!(org["budget"], json!({ "day": null, "month": month }));
        assert_eq!(team.owner.get("/admin/orgs?q=tenant").await.expect(200), json!([org]));
        // Renaming leaves them, null takes one away.
        let renamed = team.owner.patch(&path, &json!({ "name": "Tenants" })).await.expect(200);
        assert_eq!(limits(&renamed), limits(&org));
        let fewer = team.owner.patch(&path, &json!({ "max_streams": null })).await.expect(200);
        assert_eq!((&fewer["max_streams"], &fewer["rpm_limit"]), (&null, &json!(20)));

        let body =
            json!({ "org_id": team.tenant, "rpm_limit": 100, "max_streams": 2, "budget_tokens_day": 50 });
        let key = make_key(&team.owner, &body).await;
        assert_eq!(limits(&key), [&json!(100), &null, &null, &json!(2), &json!(50), &null]);
        assert_eq!(key["limit_mode"], "enforce");
        let effective = [json!(20), json!(5000), json!(7), json!(2), json!(50), json!(9000)];
        assert_eq!(limits(&key["effective_limits"]), effective.iter().collect::<Vec<_>>());
        let key_path = format!("/admin/keys/{}", id(&key));
        let body = json!({ "limit_mode": "shadow", "rpm_limit": null });
        let changed = team.owner.patch(&key_path, &body).await.expect(200);
        assert_eq!((&changed["limit_mode"], &changed["rpm_limit"]), (&json!("shadow"), &null));
        assert_eq!(limits(&changed["effective_limits"]), limits(&key["effective_limits"]));
        let listed = team.org_admin.get("/admin/keys").await.expect(200);
        assert_eq!(limits(&listed[0]["effective_limits"]), limits(&key["effective_limits"]));

        // An org admin can't change the limits of their organisation, though they manage its keys.
        assert_error(&team.org_admin.patch(&path, &json!({ "rpm_limit": 99 })).await, 403, "forbidden");
        team.org_admin.patch(&key_path, &json!({ "rpm_limit": 1000 })).await.expect(200);
        // Users give themselves no more than the gateway's defaults.
        let own = "/auth/keys";
        assert_invalid(&team.user.post(own, &json!({ "rpm_limit": 31 })).await, &["rpm_limit"]);
        assert_invalid(&team.user.post(own, &json!({ "limit_mode": "shadow" })).await, &["limit_mode"]);
        let made = team.user.post(own, &json!({ "rpm_limit": 30, "max_streams": 500 })).await.expect(201);
        assert_eq!(made["effective_limits"]["rpm_limit"], 20);
    }
}

#[tokio::test]
async fn limits_that_are_no_limits_are_refused() {
    let team = Team::on(Database::Sqlite).await;
    let key = make_key(&team.owner, &json!({})).await;
    let places =
        [("/admin/orgs".to_owned(), json!({ "name": "New" })), ("/admin/keys".to_owned(), json!({}))];
    let changes = [format!("/admin/orgs/{}", team.tenant), format!("/admin/keys/{}", id(&key))];
    for field in FIELDS {
        let max = if field.starts_with("budget") { 100_000_000_000_000_i64 } else { 1_000_000_000 };
        for bad in [json!(0), json!(-1), json!(1.5), json!("5"), json!(max + 1), json!([])] {
            for (path, body) in &places {
                let mut body = body.clone();
                body[field] = bad.clone();
                let answer = team.owner.post(path, &body).await;
                assert_invalid(&answer, &[field]);
                assert!(answer.text.contains(&format!("from 1 to {max}")), "{}", answer.text);
            }
            for path in &changes {
                assert_invalid(&team.owner.patch(path, &json!({ field: bad })).await, &[field]);
            }
        }
        for path in &changes {
            let record = team.owner.patch(path, &json!({ field: max })).await.expect(200);
            assert_eq!(record[field], max);
        }
    }
    for bad in [json!("off"), json!(true), json!("")] {
        assert_invalid(&team.owner.patch(&changes[1], &json!({ "limit_mode": bad })).await, &["limit_mode"]);
    }
    let org = team.owner.post("/admin/orgs", &json!({ "name": "Made so", "tpm_limit": 5 })).await.expect(201);
    assert_eq!(org["tpm_limit"], 5);
}
