//! Limits of organisations, and what counts against budgets.

use gantry_domain::{
    KeyId, OrgId,
    endpoint::Endpoint,
    limit::{LimitMode, Limits},
    usage::UsageRow,
};
use gantry_store::{OrgChange, OrgFilter, TokensSpent, Tx};

use crate::{
    harness::{Database, NOW, at, new_key, on_both},
    usage::row,
};

async fn db_org(tx: &mut Tx, name: &str) -> OrgId {
    tx.insert_org(name, NOW).await.unwrap().id
}

on_both! {
    async fn limits_of_an_organisation_are_kept_and_seen_with_its_keys(db: &Database) {
        let org = db.org("Acme").await;
        assert_eq!(org.limits, Limits::default());
        let mut tx = db.store.write().await.unwrap();
        let key = tx.insert_key(&new_key(org.id, 1, ""), NOW).await.unwrap();
        assert_eq!((key.org_limits, key.settings.limits), (Limits::default(), Limits::default()));
        assert_eq!(key.settings.limit_mode, LimitMode::Enforce);

        let limits = Limits {
            rpm_limit: Some(1),
            tpm_limit: Some(2),
            max_concurrency: Some(3),
            max_streams: Some(4),
            budget_tokens_day: Some(5),
            budget_tokens_month: Some(i64::MAX),
        };
        let change = OrgChange { limits: Some(limits), ..OrgChange::default() };
        let changed = tx.update_org(org.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.limits, changed.name.as_str()), (limits, "Acme"));
        let renamed = OrgChange { name: Some("Acme 2".to_owned()), ..OrgChange::default() };
        assert_eq!(tx.update_org(org.id, &renamed).await.unwrap().unwrap().limits, limits);
        assert_eq!(tx.org(org.id).await.unwrap().unwrap().limits, limits);
        assert_eq!(tx.orgs(&OrgFilter::default(), 1, 0).await.unwrap().0[0].org.limits, limits);
        let key = tx.key(key.id).await.unwrap().unwrap();
        assert_eq!((key.org_limits, key.settings.limits), (limits, Limits::default()));

        let idle = db_org(&mut tx, "Idle").await;
        assert_eq!(tx.limited_orgs().await.unwrap(), [(org.id, limits)]);
        assert_ne!(idle, org.id);
        let fewer = Limits { tpm_limit: Some(9), ..Limits::default() };
        let change = OrgChange { limits: Some(fewer), ..OrgChange::default() };
        assert_eq!(tx.update_org(org.id, &change).await.unwrap().unwrap().limits, fewer);
    }

    async fn tokens_are_summed_by_holder_and_period(db: &Database) {
        let of = |ms, number, key: Option<i64>, org| UsageRow {
            key_id: key.map(KeyId),
            org_id: Some(OrgId(org)),
            prompt_tokens: 10,
            completion_tokens: 1,
            ..row(at(ms), number)
        };
        let free = |endpoint, number| UsageRow { endpoint, ..of(5_000, number, Some(1), 1) };
        let rows = [
            of(-1, 1, Some(1), 1),
            of(0, 2, Some(1), 1),
            of(4_999, 3, Some(1), 1),
            of(5_000, 4, Some(1), 1),
            of(6_000, 5, Some(2), 1),
            of(7_000, 6, None, 1),
            of(1_000, 7, None, 2),
            free(Endpoint::Tokenize, 8),
            free(Endpoint::Detokenize, 9),
            free(Endpoint::CountTokens, 10),
        ];
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&rows).await.unwrap();
        let mut spent = tx.tokens_since(at(0), at(5_000)).await.unwrap();
        spent.sort_by_key(|it| (it.org_id.map(|it| it.0), it.key_id.map(|it| it.0)));
        let want = |key: Option<i64>, org, day, month| TokensSpent {
            key_id: key.map(KeyId), org_id: Some(OrgId(org)), day, month,
        };
        assert_eq!(spent, [
            want(None, 1, 11, 11), want(Some(1), 1, 11, 33), want(Some(2), 1, 11, 11), want(None, 2, 0, 11),
        ]);
    }
}
