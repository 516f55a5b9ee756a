//! The usage ledger.

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::{StatusFilter, Tx, UsageFilter};

use crate::harness::{Database, NOW, at, on_both};

pub(crate) fn row(created_at: Timestamp, number: u128) -> UsageRow {
    UsageRow {
        id: id_at(created_at, number),
        req_id: format!("req-{number}"),
        created_at,
        key_id: Some(KeyId(7)),
        key_prefix: Some("gty_Ab000001".to_owned()),
        user_id: None,
        org_id: Some(OrgId(1)),
        model_name: "qwen".to_owned(),
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: 12,
        completion_tokens: 34,
        cached_tokens: None,
        estimated: false,
        latency_ms: 56,
        ttft_ms: Some(7),
        status_code: 200,
        outcome: Outcome::Ok,
        requests: 1,
    }
}

async fn count(tx: &mut Tx, filter: UsageFilter) -> i64 {
    let (rows, total) = tx.usage(&filter, 1000, 0).await.unwrap();
    assert_eq!(rows.len() as i64, total);
    total
}

on_both! {
    async fn a_batch_may_be_repeated(db: &Database) {
        // 85 rows are 2 × 32 + 5 × 4 + 1, so they fill statements of several sizes.
        let rows: Vec<_> = (0..85).map(|n| row(at(n), n as u128)).collect();
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.insert_usage(&rows[..20]).await.unwrap(), 20);
        assert_eq!(tx.insert_usage(&rows).await.unwrap(), 65);
        assert_eq!(tx.insert_usage(&rows).await.unwrap(), 0);
        assert_eq!(tx.insert_usage(&[]).await.unwrap(), 0);
        let (mut found, total) = tx.usage(&UsageFilter::default(), 100, 0).await.unwrap();
        found.reverse();
        assert_eq!((found, total), (rows, 85));
    }

    async fn a_row_keeps_every_field(db: &Database) {
        let full = UsageRow {
            user_id: Some(UserId(3)),
            cached_tokens: Some(i64::MAX),
            task: Task::Embed,
            endpoint: Endpoint::Embeddings,
            status_code: 499,
            outcome: Outcome::ClientClosed,
            estimated: true,
            stream: false,
            ..row(NOW, 1)
        };
        let bare = UsageRow { key_id: None, key_prefix: None, org_id: None, ttft_ms: None, ..row(NOW, 2) };
        // A client may send what Postgres can't store.
        let evil = UsageRow { model_name: "a\0b".to_owned(), req_id: "\0".to_owned(), ..row(NOW, 3) };
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.insert_usage(&[full.clone(), bare.clone(), evil]).await.unwrap(), 3);
        let (found, _) = tx.usage(&UsageFilter::default(), 10, 0).await.unwrap();
        assert_eq!((&found[2], &found[1]), (&full, &bare));
        assert_eq!((found[0].model_name.as_str(), found[0].req_id.as_str()), ("a\u{fffd}b", "\u{fffd}"));
    }

    async fn a_request_is_found_by_the_id_that_its_client_saw(db: &Database) {
        let own = UsageRow { req_id: id_at(at(1), 1).to_string(), ..row(at(1), 1) };
        // Two clients sent the same id, one of them in the form that the gateway's have.
        let chosen = [UsageRow { req_id: "mine".to_owned(), ..row(at(2), 2) }, UsageRow { req_id: "mine".to_owned(), ..row(at(9), 3) }];
        let alike = UsageRow { req_id: id_at(at(5), 77).to_string(), user_id: Some(UserId(5)), ..row(at(4), 4) };
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&[own.clone(), chosen[0].clone(), chosen[1].clone(), alike.clone()]).await.unwrap();
        let all = UsageFilter::default();
        let mut find = async |filter: &UsageFilter, id: &str| -> Vec<_> {
            let rows = tx.usage_of_request(filter, id, 10).await.unwrap();
            rows.into_iter().map(|it| it.id).collect()
        };
        assert_eq!(find(&all, &own.req_id).await, [own.id]);
        assert_eq!(find(&all, "mine").await, [chosen[1].id, chosen[0].id]);
        assert_eq!(find(&all, &alike.req_id).await, [alike.id]);
        assert!(find(&all, "\0").await.is_empty());
        // Its own time finds it outside of the range, but not for somebody who may not see it.
        let late = UsageFilter { from: at(8), ..all.clone() };
        assert_eq!(find(&late, &own.req_id).await, [own.id]);
        assert_eq!(find(&late, "mine").await, [chosen[1].id]);
        for foreign in [UsageFilter { user_id: Some(UserId(6)), ..all.clone() }, UsageFilter { org_id: Some(OrgId(2)), ..all.clone() }] {
            assert!(find(&foreign, &own.req_id).await.is_empty());
            assert!(find(&foreign, &alike.req_id).await.is_empty());
        }
    }

    async fn rows_are_filtered_and_paged_newest_first(db: &Database) {
        let rows = [
            row(at(0), 0),
            UsageRow { model_name: "bge".to_owned(), task: Task::Embed, ..row(at(1), 1) },
            UsageRow { status_code: 404, outcome: Outcome::ClientError, ..row(at(2), 2) },
            UsageRow { status_code: 429, outcome: Outcome::Rejected, key_id: None, ..row(at(3), 3) },
            UsageRow { user_id: Some(UserId(5)), org_id: Some(OrgId(2)), ..row(at(4), 4) },
        ];
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&rows).await.unwrap();
        let all = UsageFilter::default();
        let (page, total) = tx.usage(&all, 2, 1).await.unwrap();
        assert_eq!((page, total), (vec![rows[3].clone(), rows[2].clone()], 5));

        assert_eq!(count(&mut tx, UsageFilter { from: at(1), to: at(3), ..all.clone() }).await, 2);
        assert_eq!(count(&mut tx, UsageFilter { from: at(5), ..all.clone() }).await, 0);
        assert_eq!(count(&mut tx, UsageFilter { model: Some("bge".into()), ..all.clone() }).await, 1);
        assert_eq!(count(&mut tx, UsageFilter { model: Some("%".into()), ..all.clone() }).await, 0);
        assert_eq!(count(&mut tx, UsageFilter { model: Some("\0".into()), ..all.clone() }).await, 0);
        assert_eq!(count(&mut tx, UsageFilter { task: Some(Task::Generate), ..all.clone() }).await, 4);
        assert_eq!(count(&mut tx, UsageFilter { key_id: Some(KeyId(7)), ..all.clone() }).await, 4);
        assert_eq!(count(&mut tx, UsageFilter { user_id: Some(UserId(5)), ..all.clone() }).await, 1);
        assert_eq!(count(&mut tx, UsageFilter { org_id: Some(OrgId(1)), ..all.clone() }).await, 4);
        assert_eq!(count(&mut tx, UsageFilter { outcome: Some(Outcome::Ok), ..all.clone() }).await, 3);
        for (status, n) in [
            (StatusFilter::Class(2), 3),
            (StatusFilter::Class(4), 2),
            (StatusFilter::Class(5), 0),
            (StatusFilter::Exact(429), 1),
        ] {
            let filter = UsageFilter { status: Some(status), ..all.clone() };
            assert_eq!(count(&mut tx, filter).await, n, "{status:?}");
        }
        let narrow = UsageFilter { status: Some(StatusFilter::Class(2)), org_id: Some(OrgId(1)), ..all };
        assert_eq!(count(&mut tx, narrow).await, 2);
    }

    async fn old_rows_go_in_batches_oldest_first(db: &Database) {
        const HOUR: i64 = 3_600_000;
        let rows: Vec<_> = (0..10).map(|n| row(at(n * HOUR), n as u128)).collect();
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&rows).await.unwrap();
        // Rows of the hour in which the limit lies stay.
        let limit = at(7 * HOUR + 1);
        assert_eq!(tx.delete_usage_before(limit, 5).await.unwrap(), 5);
        assert_eq!(tx.delete_usage_before(limit, 5).await.unwrap(), 2);
        assert_eq!(tx.delete_usage_before(limit, 5).await.unwrap(), 0);
        let (rest, _) = tx.usage(&UsageFilter::default(), 10, 0).await.unwrap();
        assert_eq!(rest.last(), Some(&rows[7]));
        assert_eq!(count(&mut tx, UsageFilter::default()).await, 3);
    }

    async fn the_ledger_outlives_its_organisation(db: &Database) {
        let org = db.org("Acme").await;
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&[UsageRow { org_id: Some(org.id), ..row(NOW, 1) }]).await.unwrap();
        tx.delete_org(org.id).await.unwrap();
        assert_eq!(count(&mut tx, UsageFilter { org_id: Some(org.id), ..UsageFilter::default() }).await, 1);
    }
}
