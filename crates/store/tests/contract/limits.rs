//! Limits of organisations, and what counts against budgets.

use std::collections::BTreeMap;

use gantry_domain::{
    KeyId, OrgId, Role, Timestamp, UserId,
    endpoint::Endpoint,
    limit::{LimitMode, Limits, period::Period},
    usage::{UsageRow, id_at},
};
use gantry_store::{NewKey, OrgChange, OrgFilter, Sort, TokensSpent, Tx, UserChange};

use crate::{
    harness::{Database, NOW, at, new_key, on_both},
    usage::row,
    usage_sums::{DAY, Dice, any_row, compact, insert},
};

async fn db_org(tx: &mut Tx, name: &str) -> OrgId {
    tx.insert_org(name, NOW).await.unwrap().id
}

/// Asks what was spent, as a gateway does, at some time within the history.
async fn assert_spent(db: &Database, rows: &[&UsageRow], dice: &mut Dice) {
    let Some(now) = rows.first().map(|_| dice.of(rows).created_at) else { return };
    let [day, month] = [Period::Day, Period::Month].map(|it| it.start(now)..it.end(now));
    let mut want: BTreeMap<_, (i64, i64)> = BTreeMap::new();
    for row in rows.iter().filter(|it| month.contains(&it.created_at)) {
        let tokens = if row.endpoint.runs_model() { row.prompt_tokens + row.completion_tokens } else { 0 };
        let sum = want.entry((row.key_id, row.user_id, row.org_id)).or_default();
        sum.0 += if day.contains(&row.created_at) { tokens } else { 0 };
        sum.1 += tokens;
    }
    let mut tx = db.store.read().await.unwrap();
    let spent = tx.tokens_spent(month, day).await.unwrap();
    let found =
        spent.into_iter().map(|it| ((it.key_id, it.user_id, it.org_id), (it.day, it.month))).collect();
    assert_eq!(want, found, "{now}");
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
        assert_eq!(tx.orgs(&OrgFilter::default(), Sort::default(), 1, 0).await.unwrap().0[0].org.limits, limits);
        let key = tx.key(key.id).await.unwrap().unwrap();
        assert_eq!((key.org_limits, key.settings.limits), (limits, Limits::default()));

        let idle = db_org(&mut tx, "Idle").await;
        assert_eq!(tx.limited_orgs().await.unwrap(), [(org.id, limits)]);
        assert_ne!(idle, org.id);
        let fewer = Limits { tpm_limit: Some(9), ..Limits::default() };
        let change = OrgChange { limits: Some(fewer), ..OrgChange::default() };
        assert_eq!(tx.update_org(org.id, &change).await.unwrap().unwrap().limits, fewer);
    }

    async fn limits_and_models_of_a_user_are_kept_and_seen_with_the_keys(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        assert_eq!((ann.limits, &ann.models), (Limits::default(), &None));
        let mut tx = db.store.write().await.unwrap();
        let of_ann = NewKey { user_id: Some(ann.id), ..new_key(org.id, 1, "") };
        let key = tx.insert_key(&of_ann, NOW).await.unwrap();
        let limits = Limits { rpm_limit: Some(3), budget_tokens_month: Some(9), ..Limits::default() };
        let models = Some(vec!["a, \"b\"".to_owned(), "c".to_owned()]);
        let change = UserChange { limits: Some(limits), models: Some(models.clone()), ..UserChange::default() };
        let changed = tx.update_user(ann.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.limits, &changed.models), (limits, &models));
        let key = tx.key(key.id).await.unwrap().unwrap();
        assert_eq!((key.user_limits, &key.user_models), (limits, &models));
        // Fields that a change does not contain stay as they are.
        let renamed = UserChange { username: Some("anne".to_owned()), ..UserChange::default() };
        let renamed = tx.update_user(ann.id, &renamed).await.unwrap().unwrap();
        assert_eq!((renamed.limits, &renamed.models), (limits, &models));
        let free = UserChange { limits: Some(Limits::default()), models: Some(None), ..UserChange::default() };
        let free = tx.update_user(ann.id, &free).await.unwrap().unwrap();
        assert_eq!((free.limits, free.models), (Limits::default(), None));
    }

    async fn tokens_are_summed_by_holder_and_period(db: &Database) {
        let of = |ms, number, key: Option<i64>, org| UsageRow {
            key_id: key.map(KeyId),
            // User of the key; key 2 belongs to the organisation itself.
            user_id: key.filter(|it| *it != 2).map(UserId),
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
        let spent = tx.tokens_spent(at(0)..at(10_000), at(5_000)..at(6_500)).await.unwrap();
        let want = |key: Option<i64>, org, day, month| TokensSpent {
            key_id: key.map(KeyId), user_id: key.filter(|it| *it != 2).map(UserId), org_id: Some(OrgId(org)), day, month,
        };
        assert_eq!(spent, [
            want(None, 1, 0, 11), want(None, 2, 0, 11), want(Some(1), 1, 11, 33), want(Some(2), 1, 11, 11),
        ]);
    }

    /// Batches come late, twice or in any order, sums are added up or made anew, rows are too old to be kept. In each
    /// case what was spent of a day and a month of UTC is the plain sum of all rows that ever existed.
    async fn what_was_spent_is_the_sum_of_all_rows_whatever_became_of_them(db: &Database) {
        for history in 0..8 {
            let mut dice = Dice(history);
            // Each history is in a year of its own, and covers the ends of at least two months.
            let shift = history as i64 * 366 * DAY;
            let rows: Vec<UsageRow> = (0..200).map(|n| {
                let row = any_row(&mut dice, n, 70);
                let when = Timestamp(row.created_at.0 + shift);
                UsageRow { id: id_at(when, n), created_at: when, ..row }
            }).collect();
            let mut left: Vec<&[UsageRow]> = rows.chunks(20).collect();
            let mut sent: Vec<&[UsageRow]> = Vec::new();
            while !left.is_empty() {
                match dice.roll(10) {
                    0..=4 => {
                        let batch = left.swap_remove(dice.roll(left.len() as i64) as usize);
                        assert_eq!(insert(&db.store, batch).await, 20);
                        sent.push(batch);
                    }
                    5 if !sent.is_empty() => {
                        insert(&db.store, dice.of(&sent)).await;
                    }
                    6 => compact(&db.store, 2, dice.roll(2) == 0).await,
                    _ => {
                        let inserted = |it: &&UsageRow| !left.iter().any(|batch| batch.contains(it));
                        assert_spent(db, &rows.iter().filter(inserted).collect::<Vec<_>>(), &mut dice).await;
                    }
                }
            }
            if history % 2 == 0 {
                let before = dice.of(&rows).created_at;
                let mut tx = db.store.write().await.unwrap();
                while tx.delete_usage_before(before, 50).await.unwrap() > 0 {}
                tx.commit().await.unwrap();
            }
            for _ in 0..4 {
                assert_spent(db, &rows.iter().collect::<Vec<_>>(), &mut dice).await;
            }
        }
    }
}
