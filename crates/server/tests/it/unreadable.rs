//! Rows that this program can't read, as another version or somebody by hand wrote them: they work for nobody, and
//! all else goes on.

use std::time::Duration;

use gantry_testkit::{Database, Gateway, eventually};
use serde_json::json;
use sqlx::Connection as _;

use crate::{
    support::{column, gateway},
    team::{id, make_key, make_model},
};

const SOON: Duration = gantry_testkit::PATIENCE;

pub(crate) async fn sql(gateway: &Gateway, text: &'static str) {
    if let Some(url) = gateway.database_url() {
        let mut conn = sqlx::PgConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(text).execute(&mut conn).await.unwrap();
    } else {
        let url = format!("sqlite://{}", gateway.data_dir().join("gantry.db").display());
        let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
        sqlx::raw_sql(text).execute(&mut conn).await.unwrap();
    }
}

#[tokio::test]
async fn one_row_that_can_t_be_read_stops_no_revocation() {
    for database in Database::all("unreadable: rows") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let (_, odd) = owner.new_key(&json!({ "name": "odd" })).await;
        let (record, good) = owner.new_key(&json!({ "name": "good" })).await;
        make_model(&owner, "odd").await;
        sql(
            &gateway,
            "UPDATE api_keys SET scopes = 'chat,newscope' WHERE name = 'odd'; \
             UPDATE models SET phase = '{\"phase\":\"dreaming\"}' WHERE served_name = 'odd'",
        )
        .await;
        assert_eq!(good.get("/v1/models").await.status, 200);
        owner.delete(&format!("/admin/keys/{}", id(&record))).await.expect(200);
        assert_eq!(good.get("/v1/models").await.status, 401, "it ends before it is said that it has");
        assert_eq!(odd.get("/v1/models").await.status, 401);

        let ready = gateway.client().get("/readyz").await;
        assert_eq!((ready.status, &ready.json["status"]), (200, &json!("degraded")), "{}", ready.text);
        let said = ready.json["checks"]["catalog"].as_str().unwrap();
        assert!(said.contains("left out: 2") && !said.contains("newscope"), "{said}");
        let metrics = crate::monitoring::page(&gateway).await;
        assert!(metrics.contains("\ngantry_catalog_unreadable_rows 2\n"), "{metrics}");
        // Others go on to come and go, and the log says once what is wrong.
        let next = owner.new_key(&json!({ "name": "next" })).await.1;
        assert_eq!(next.get("/v1/models").await.status, 200);
        let log = gateway.log();
        for table in ["api_keys", "models"] {
            let says = |it: &&str| it.contains("left out of the catalog") && it.contains(table);
            assert_eq!(log.lines().filter(says).count(), 1, "{log}");
        }

        sql(
            &gateway,
            "UPDATE api_keys SET scopes = 'chat' WHERE name = 'odd'; DELETE FROM models WHERE served_name = 'odd'",
        )
        .await;
        make_key(&owner, &json!({ "name": "another" })).await;
        assert_eq!(gateway.client().get("/readyz").await.json["checks"]["catalog"], "ok");
        assert_eq!(odd.get("/v1/models").await.status, 200);
    }
}

#[tokio::test]
async fn lists_come_without_rows_that_can_t_be_read() {
    for database in Database::all("unreadable: lists") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        for name in ["odd", "good"] {
            make_model(&owner, name).await;
            make_key(&owner, &json!({ "name": name })).await;
            let chat = json!({ "model_name": name, "engine_type": "vllm" });
            owner.post("/v1/chat/sessions", &chat).await.expect(201);
        }
        sql(
            &gateway,
            "UPDATE api_keys SET scopes = 'newscope' WHERE name = 'odd'; \
             UPDATE models SET config = '[]' WHERE served_name = 'odd'; \
             UPDATE chat_sessions SET constraints = '[]' WHERE model_name = 'odd'",
        )
        .await;
        for _ in 0..2 {
            for (list, name, left) in [
                ("/admin/models", "served_name", vec!["good"]),
                ("/admin/keys", "name", vec!["good"]),
                ("/v1/chat/sessions", "model_name", vec!["good"]),
            ] {
                let found = owner.get(list).await.expect(200);
                assert_eq!(column(&found, name), left, "{list}");
            }
        }
        // Others are made as before, and the name of the one that can't be read stays its own.
        make_model(&owner, "next").await;
        let twin = json!({ "served_name": "odd", "engine_type": "vllm", "local_path": "m" });
        assert_eq!(owner.post("/admin/models", &twin).await.code(), "served_name_conflict");
        // The log mentions each once, and a counter shows how many there are.
        let log = gateway.log();
        let told = log.lines().filter(|it| it.contains("left out of lists")).count();
        assert_eq!(told, 3, "{log}");
        let metrics = crate::monitoring::page(&gateway).await;
        assert!(metrics.contains("\ngantry_lists_unreadable_rows_total 3\n"), "{metrics}");
    }
}

#[tokio::test]
async fn a_catalog_that_can_t_be_read_for_long_is_told() {
    let gateway = gateway(Database::Sqlite).await;
    let owner = gateway.owner().await;
    let (record, key) = owner.new_key(&json!({ "name": "k" })).await;
    sql(&gateway, "ALTER TABLE registry RENAME TO registry_away").await;
    owner.delete(&format!("/admin/keys/{}", id(&record))).await.expect(200);
    let said = eventually("it is told", SOON, async || {
        let ready = gateway.client().get("/readyz").await;
        (ready.json["status"] == "degraded").then(|| ready.json["checks"]["catalog"].clone())
    })
    .await;
    assert!(said.as_str().unwrap().contains("could not be read for"), "{said}");
    sql(&gateway, "ALTER TABLE registry_away RENAME TO registry").await;
    eventually("all is read", SOON, async || {
        let ready = gateway.client().get("/readyz").await;
        (ready.json["status"] == "ready" && key.get("/v1/models").await.status == 401).then_some(())
    })
    .await;
}
