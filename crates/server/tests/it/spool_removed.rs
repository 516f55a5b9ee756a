//! Somebody removes files of the usage spool while the gateway runs.

use std::{fs, path::Path};

use gantry_testkit::{Options, PATIENCE, Postgres, eventually};
use serde_json::json;

use crate::{faults::ask, monitoring, simulator::Simulator, support::start};

fn segments(spool: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(spool).into_iter().flatten().map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "log")).collect()
}

/// Removes a folder at once, so that nobody makes a file in it meanwhile.
fn remove(folder: &Path) {
    let gone = folder.with_extension("gone");
    fs::rename(folder, &gone).unwrap();
    fs::remove_dir_all(gone).unwrap();
}

#[tokio::test]
async fn no_row_is_lost_when_the_lock_or_the_folder_of_the_spool_is_removed() {
    let simulator = Simulator::start("").await;
    let gateway = start(Options::default()).await;
    let client = simulator.join(&gateway).await;
    let owner = gateway.owner().await;
    let spool = gateway.data_dir().join("spool");
    for n in 0..60 {
        match n {
            20 => fs::remove_file(spool.join("lock")).unwrap(),
            40 => {
                remove(&spool);
                eventually("the spool is there again", PATIENCE, async || {
                    spool.join("lock").exists().then_some(())
                })
                .await;
            }
            _ => {}
        }
        assert_eq!(ask(&client, &format!("r-{n}")).await.status, 200, "{n}");
    }
    eventually("all rows are there", PATIENCE, async || {
        let rows = owner.get("/admin/usage?limit=1000").await.expect(200);
        (rows.as_array().unwrap().len() == 60).then_some(())
    })
    .await;
    eventually("nothing is said to be missing", PATIENCE, async || {
        let report = owner.get("/admin/usage/integrity").await.expect(200);
        (report["ok"] == true && report["spool"]["missing"] == 0).then_some(())
    })
    .await;
    assert_eq!(client.get("/readyz").await.json["checks"]["usage_spool"], "ok");
}

#[tokio::test]
async fn rows_that_are_lost_with_a_removed_segment_are_reported() {
    let Some(database) = Postgres::start("spool_removed: the database is away") else { return };
    let simulator = Simulator::start("").await;
    let gateway =
        start(Options::default().env("DATABASE_URL", &database.url()).env("DATAPLANE_THREADS", "1")).await;
    let client = simulator.join(&gateway).await;
    let owner = gateway.owner().await;
    let spool = gateway.data_dir().join("spool");
    database.down();
    for n in 0..3 {
        assert_eq!(ask(&client, &format!("away-{n}")).await.status, 200);
    }
    // It is put back once, and closed with that. Nobody watches over a closed one.
    let open = segments(&spool);
    for segment in &open {
        fs::remove_file(segment).unwrap();
    }
    eventually("the segment is back", PATIENCE, async || (segments(&spool) == open).then_some(())).await;
    for segment in &open {
        fs::remove_file(segment).unwrap();
    }
    // The shipper may hold the rows in memory, and still bring them to the database.
    eventually("the shipper has no rows", PATIENCE, async || {
        let page = monitoring::page(&gateway).await;
        (monitoring::value(&page, "gantry_spool_backlog_bytes") == 0.0).then_some(())
    })
    .await;
    database.up();
    eventually("the loss is reported", PATIENCE, async || {
        let ready = client.get("/readyz").await.json;
        (ready["checks"]["usage_spool"] == "3 usage rows were lost: files of the usage spool were removed")
            .then_some(())
    })
    .await;
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, &ready.json["status"]), (200, &json!("degraded")), "{}", ready.text);
    let report = owner.get("/admin/usage/integrity").await.expect(200);
    assert_eq!((&report["ok"], &report["spool"]["missing"]), (&json!(false), &json!(3)), "{report}");
    assert_eq!(ask(&client, "after").await.status, 200);
}
