//! The usage of models, keys, users and organisations: names, also of what is gone, and order.

use gantry_domain::{
    KeyId, OrgId, Role, UserId,
    usage::{Outcome, UsageRow, time_of},
};
use gantry_store::{GroupBy, GroupColumn, Order, Sort, UsageFilter, UsageSums};

use crate::{
    harness::{Database, at, new_key, on_both},
    usage::row,
    usage_sums::{BY_REQUESTS, DAY, sums},
};

on_both! {
    async fn names_that_are_made_up_without_end_are_one_group(db: &Database) {
        const MADE_UP: i64 = 10_200;
        let mut tx = db.store.write().await.unwrap();
        let of = |n: i64, name: String, status_code, outcome| UsageRow {
            model_name: name,
            status_code,
            outcome,
            ..row(at(n), n as u128)
        };
        let mut rows: Vec<UsageRow> = (0..MADE_UP)
            .map(|n| of(n, format!("made-up-{n:05}"), 404, Outcome::ClientError))
            .collect();
        // After all of these come a name that is known by then, and two models.
        rows.push(of(DAY, "made-up-00000".to_owned(), 404, Outcome::ClientError));
        rows.push(of(DAY + 1, "qwen".to_owned(), 200, Outcome::Ok));
        rows.push(of(DAY + 2, "bge".to_owned(), 502, Outcome::UpstreamError));
        for batch in rows.chunks(1000) {
            tx.insert_usage(batch).await.unwrap();
        }
        let all = UsageFilter::default();
        let (found, n) = tx.usage_groups(&all, GroupBy::Model, BY_REQUESTS, 20_000, 0, None).await.unwrap();
        assert!(found.len() as i64 == n && n <= 10_003, "{n}");
        let of_name = |name: &str| found.iter().find(|it| it.name.as_deref() == Some(name)).unwrap().sums;
        for name in ["qwen", "bge", "made-up-00000"] {
            assert_eq!(of_name(name), sums(rows.iter().filter(|it| it.model_name == name)), "{name}");
        }
        assert!(of_name("").requests >= 200, "{:?}", of_name(""));
        let mut total = UsageSums::default();
        for group in &found {
            total.add(&group.sums);
        }
        assert_eq!(total, sums(&rows), "every request counts once");
    }

    async fn groups_have_names_and_an_order(db: &Database) {
        let org = db.org("Acme").await;
        let ada = db.user(org.id, "ada", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let key = tx.insert_key(&new_key(org.id, 1, "ci"), at(0)).await.unwrap();
        let of = |n: u128, key: Option<KeyId>, user, tokens| UsageRow {
            key_id: key,
            key_prefix: key.map(|_| "gty_Ab000001".to_owned()),
            user_id: user,
            org_id: Some(org.id),
            prompt_tokens: tokens,
            completion_tokens: 1,
            ..row(at(n as i64), n)
        };
        let gone = (Some(KeyId(999)), Some(UserId(999)));
        let rows = [
            of(0, Some(key.id), Some(ada.id), 5),
            of(1, Some(key.id), Some(ada.id), 5),
            of(2, gone.0, gone.1, 100),
            of(3, None, None, 1),
        ];
        tx.insert_usage(&rows).await.unwrap();
        let all = UsageFilter::default();
        let by_tokens = Sort { by: GroupColumn::TotalTokens, order: Order::Desc };
        let (users, n) = tx.usage_groups(&all, GroupBy::User, by_tokens, 2, 0, None).await.unwrap();
        let found: Vec<_> = users.iter().map(|it| (it.id, it.name.as_deref(), it.sums.total_tokens())).collect();
        assert_eq!(found, [(Some(999), None, 101), (Some(ada.id.0), Some("ada"), 12)]);
        assert_eq!(n, 3);
        let (users, _) = tx.usage_groups(&all, GroupBy::User, by_tokens, 2, 2, None).await.unwrap();
        assert_eq!(users.iter().map(|it| it.id).collect::<Vec<_>>(), [None]);
        let (keys, _) = tx.usage_groups(&all, GroupBy::Key, BY_REQUESTS, 9, 0, None).await.unwrap();
        let found: Vec<_> = keys.iter().map(|it| (it.id, it.name.as_deref(), it.key_prefix.as_deref())).collect();
        assert_eq!(found, [(Some(key.id.0), Some("ci"), Some("gty_Ab000001")), (None, None, None), (Some(999), None, Some("gty_Ab000001"))]);
        // None of them has a name in another organisation.
        for (by, name) in [(GroupBy::User, "ada"), (GroupBy::Key, "ci"), (GroupBy::Org, "Acme")] {
            for (scope, known) in [(Some(org.id), Some(name)), (Some(OrgId(org.id.0 + 1)), None)] {
                let (groups, _) = tx.usage_groups(&all, by, BY_REQUESTS, 9, 0, scope).await.unwrap();
                assert_eq!(groups.iter().find_map(|it| it.name.as_deref()), known, "{by:?} {scope:?}");
            }
        }
        let (orgs, _) = tx.usage_groups(&all, GroupBy::Org, BY_REQUESTS, 9, 0, None).await.unwrap();
        assert_eq!((orgs[0].name.as_deref(), orgs[0].sums), (Some("Acme"), sums(&rows)));
        let up = Sort { by: GroupColumn::P95, order: Order::Asc };
        assert_eq!(tx.usage_groups(&all, GroupBy::Model, up, 9, 0, None).await.unwrap().0[0].name.as_deref(), Some("qwen"));
        assert_eq!(time_of(rows[0].id), at(0));
        // They keep their last names when they are deleted, in their own organisation only.
        tx.delete_org(org.id).await.unwrap();
        for (by, name) in [(GroupBy::User, "ada"), (GroupBy::Key, "ci"), (GroupBy::Org, "Acme")] {
            let scopes = [(None, Some(name)), (Some(org.id), Some(name)), (Some(OrgId(org.id.0 + 1)), None)];
            for (scope, known) in scopes {
                let (groups, _) = tx.usage_groups(&all, by, BY_REQUESTS, 9, 0, scope).await.unwrap();
                assert_eq!(groups.iter().find_map(|it| it.name.as_deref()), known, "{by:?} {scope:?}");
                assert!(groups.iter().all(|it| it.deleted == it.id.is_some()), "{groups:?}");
            }
        }
    }
}
