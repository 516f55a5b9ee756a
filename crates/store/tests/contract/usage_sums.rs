//! Sums of the usage ledger: every query on them gives the same result as on the rows.

use std::collections::BTreeMap;

use gantry_domain::{
    KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, histogram::Histogram},
};
use gantry_store::{
    Bucket, DatabaseKind, GroupBy, GroupColumn, Order, RegistryEntry, Sort, StatusFilter, Store, TimeKind,
    Tx, UsageFilter, UsageGroup, UsageSpan, UsageSums,
};
use tokio::task::JoinSet;

use crate::{
    harness::{Database, at, on_both},
    usage::row,
};

const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;

/// Numbers that look random and are the same in each run (splitmix64, Steele et al. 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as i64
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as i64) as usize].clone()
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.roll(3) == 0).then_some(value)
    }
}

const ENDINGS: [(u16, Outcome); 8] = [
    (200, Outcome::Ok),
    (200, Outcome::Ok),
    (200, Outcome::Ok),
    (200, Outcome::UpstreamError),
    (404, Outcome::ClientError),
    (429, Outcome::Rejected),
    (499, Outcome::ClientClosed),
    (504, Outcome::Timeout),
];

fn model(n: i64) -> String {
    ["qwen", "bge", "org/llama-3", "näme, \"x\""][n as usize].to_owned()
}

/// Returns a row within some days, of few models, keys, users and organisations.
pub(crate) fn any_row(dice: &mut Dice, number: u128, days: i64) -> UsageRow {
    let when = Timestamp(at(0).0 / DAY * DAY + dice.roll(days * DAY));
    let key = dice.roll(6);
    let (status_code, outcome) = dice.of(&ENDINGS);
    let task = dice.of(&[Task::Generate, Task::Generate, Task::Embed]);
    let size = 1 << dice.roll(20);
    // Only refused requests share a row.
    let requests = if status_code == 429 { 1 + dice.roll(50) } else { 1 };
    UsageRow {
        key_id: (key > 0).then_some(KeyId(key)),
        key_prefix: (key > 0).then(|| format!("gty_{key:08}")),
        user_id: dice.of(&[None, Some(UserId(1)), Some(UserId(2))]),
        org_id: dice.of(&[None, Some(OrgId(1)), Some(OrgId(2))]),
        model_name: model(dice.roll(4)),
        task,
        endpoint: dice.of(&Endpoint::ALL),
        prompt_tokens: dice.roll(2000),
        completion_tokens: dice.roll(500),
        cached_tokens: dice.of(&[None, Some(3)]),
        estimated: dice.roll(9) == 0,
        latency_ms: dice.roll(size),
        ttft_ms: dice.of(&[None, Some(dice.0 as i64 & 0xfff)]),
        status_code,
        outcome,
        requests,
        ..row(when, number)
    }
}

/// Returns a filter that more often than not matches something.
fn any_filter(dice: &mut Dice, days: i64) -> UsageFilter {
    let begin = at(0).0 / DAY * DAY;
    let unit = dice.of(&[1, 1000, HOUR, DAY]);
    let mut time = || Timestamp(begin + (dice.roll((days + 2) * DAY) - DAY) / unit * unit);
    let (a, b) = (time(), time());
    let (from, to) =
        if dice.roll(6) == 0 { (Timestamp(0), Timestamp(i64::MAX)) } else { (a.min(b), a.max(b)) };
    let (model, task, outcome) =
        (model(dice.roll(4)), dice.of(&[Task::Generate, Task::Embed]), dice.of(&ENDINGS).1);
    let status = dice.of(&[
        StatusFilter::Class(2),
        StatusFilter::Class(4),
        StatusFilter::Exact(429),
        StatusFilter::Exact(504),
    ]);
    let (key, user, org) = (KeyId(1 + dice.roll(5)), UserId(1 + dice.roll(2)), OrgId(1 + dice.roll(2)));
    UsageFilter {
        from,
        to,
        model: dice.maybe(model),
        task: dice.maybe(task),
        key_id: dice.maybe(key),
        user_id: dice.maybe(user),
        org_id: dice.maybe(org),
        status: dice.maybe(status),
        outcome: dice.maybe(outcome),
    }
}

fn matches(filter: &UsageFilter, row: &UsageRow) -> bool {
    let status = match filter.status {
        None => true,
        Some(StatusFilter::Exact(code)) => row.status_code == code,
        Some(StatusFilter::Class(digit)) => row.status_code / 100 == u16::from(digit),
    };
    (filter.from..filter.to).contains(&row.created_at)
        && status
        && filter.model.as_ref().is_none_or(|it| *it == row.model_name)
        && filter.task.is_none_or(|it| it == row.task)
        && filter.key_id.is_none_or(|it| row.key_id == Some(it))
        && filter.user_id.is_none_or(|it| row.user_id == Some(it))
        && filter.org_id.is_none_or(|it| row.org_id == Some(it))
        && filter.outcome.is_none_or(|it| it == row.outcome)
}

pub(crate) fn sums<'a>(rows: impl IntoIterator<Item = &'a UsageRow>) -> UsageSums {
    let mut sums = UsageSums::default();
    for row in rows {
        let counted = row.prompt_tokens + row.completion_tokens;
        sums.add(&UsageSums {
            rows: 1,
            requests: row.requests,
            errors: if row.status_code >= 400 { row.requests } else { 0 },
            prompt_tokens: row.prompt_tokens,
            completion_tokens: row.completion_tokens,
            cached_tokens: row.cached_tokens.unwrap_or(0),
            free_tokens: if row.endpoint.runs_model() { 0 } else { counted },
            estimated: if row.estimated { row.requests } else { 0 },
            latency_ms: row.latency_ms * row.requests,
            streamed: if row.ttft_ms.is_some() { row.requests } else { 0 },
            ttft_ms: row.ttft_ms.unwrap_or(0) * row.requests,
        });
    }
    sums
}

/// Returns the histogram of values, each with how often it was seen.
fn histogram(values: impl Iterator<Item = (i64, i64)>) -> Histogram {
    let mut histogram = Histogram::default();
    values.for_each(|(it, n)| (0..n).for_each(|_| histogram.record(it)));
    histogram
}

pub(crate) const BY_REQUESTS: Sort<GroupColumn> = Sort { by: GroupColumn::Requests, order: Order::Desc };

async fn groups(tx: &mut Tx, filter: &UsageFilter, by: GroupBy) -> Vec<UsageGroup> {
    let (groups, total) = tx.usage_groups(filter, by, BY_REQUESTS, 1000, 0, None).await.unwrap();
    assert_eq!(groups.len() as i64, total);
    groups
}

/// Compares the results of all queries with this filter with the rows themselves.
async fn assert_says_what_the_rows_say(
    tx: &mut Tx,
    rows: &[UsageRow],
    filter: &UsageFilter,
    dice: &mut Dice,
) {
    let mut matching: Vec<&UsageRow> = rows.iter().filter(|it| matches(filter, it)).collect();
    matching.sort_by_key(|it| std::cmp::Reverse(it.id));
    let all = sums(matching.iter().copied());

    let (limit, offset) = (1 + dice.roll(40), dice.of(&[0, 0, 7, 300, 2000]));
    let (page, total) = tx.usage(filter, limit, offset).await.unwrap();
    let expected: Vec<UsageRow> =
        matching.iter().skip(offset as usize).take(limit as usize).map(|it| (*it).clone()).collect();
    assert_eq!((page, total), (expected, all.rows), "{filter:?}");

    let mut walked = Vec::new();
    let mut before = None;
    while let Some(last) = tx
        .usage_before(filter, before, 97, |it| walked.push((it.id, it.latency_ms, it.requests)))
        .await
        .unwrap()
    {
        before = Some(last);
    }
    assert_eq!(
        walked,
        matching.iter().map(|it| (it.id, it.latency_ms, it.requests)).collect::<Vec<_>>(),
        "{filter:?}"
    );

    for (by, id) in [
        (GroupBy::Key, (|it: &UsageRow| it.key_id.map(|it| it.0)) as fn(&UsageRow) -> Option<i64>),
        (GroupBy::User, |it| it.user_id.map(|it| it.0)),
        (GroupBy::Org, |it| it.org_id.map(|it| it.0)),
    ] {
        let mut expected: BTreeMap<Option<i64>, Vec<&UsageRow>> = BTreeMap::new();
        for row in &matching {
            expected.entry(id(row)).or_default().push(row);
        }
        let found = groups(tx, filter, by).await;
        assert_eq!(found.len(), expected.len(), "{by:?} {filter:?}");
        for group in found {
            let members = &expected[&group.id];
            assert_eq!(group.sums, sums(members.iter().copied()), "{by:?} {filter:?}");
            let times = members.iter().filter(|it| filter.has_latency_of(it.outcome));
            let times = histogram(times.map(|it| (it.latency_ms, it.requests)));
            let percentiles = (times.percentile(0.5).unwrap_or(0), times.percentile(0.95).unwrap_or(0));
            assert_eq!((group.p50_ms, group.p95_ms), percentiles);
        }
    }
    for group in groups(tx, filter, GroupBy::Model).await {
        let name = group.name.unwrap();
        assert_eq!(group.sums, sums(matching.iter().copied().filter(|it| it.model_name == name)));
    }

    for (kind, value) in [
        (TimeKind::Latency, (|it: &UsageRow| Some(it.latency_ms)) as fn(&UsageRow) -> Option<i64>),
        (TimeKind::Ttft, |it| it.ttft_ms),
    ] {
        let counts = |it: &UsageRow| kind == TimeKind::Ttft || filter.has_latency_of(it.outcome);
        let times = tx.usage_times(filter, kind).await.unwrap();
        let values: Vec<(i64, i64)> = matching
            .iter()
            .filter(|it| counts(it))
            .filter_map(|it| Some((value(it)?, it.requests)))
            .collect();
        assert_eq!(times.sum_ms, values.iter().map(|(it, n)| it * n).sum::<i64>(), "{filter:?}");
        assert_eq!(times.histogram, histogram(values.into_iter()), "{kind:?} {filter:?}");
    }

    for bucket in [Bucket::Minute, Bucket::Hour, Bucket::Day] {
        let n = bucket.count(filter.from, filter.to);
        if n > 3000 {
            continue;
        }
        let series = tx.usage_series(filter, bucket).await.unwrap();
        assert_eq!(series.len() as i64, if filter.from < filter.to { n } else { 0 });
        for (start, step) in series {
            let end = Timestamp(start.0 + bucket.length());
            let expected = sums(matching.iter().copied().filter(|it| (start..end).contains(&it.created_at)));
            // Minutes have no more than what series show.
            let shown = |it: &UsageSums| (it.requests, it.errors, it.prompt_tokens, it.completion_tokens);
            assert_eq!(shown(&step), shown(&expected), "{bucket:?} {start} {filter:?}");
        }
    }
}

pub(crate) async fn insert(store: &Store, rows: &[UsageRow]) -> u64 {
    let mut tx = store.write().await.unwrap();
    let n = tx.insert_usage(rows).await.unwrap();
    tx.commit().await.unwrap();
    n
}

pub(crate) async fn compact(store: &Store, at_least: i64, thorough: bool) {
    let mut place = Some(UsageSpan::default());
    while let Some(after) = place {
        let mut tx = store.write().await.unwrap();
        place = tx.compact_usage(at_least, thorough, after).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn total(store: &Store) -> UsageSums {
    let mut tx = store.read().await.unwrap();
    let mut all = UsageSums::default();
    for group in groups(&mut tx, &UsageFilter::default(), GroupBy::Org).await {
        all.add(&group.sums);
    }
    all
}

on_both! {
    async fn they_say_what_the_rows_say(db: &Database) {
        const DAYS: i64 = 3;
        let mut dice = Dice(7);
        let rows: Vec<_> = (0..1500).map(|n| any_row(&mut dice, n, DAYS)).collect();
        for (n, batch) in rows.chunks(200).enumerate() {
            insert(&db.store, batch).await;
            if n == 4 {
                compact(&db.store, 3, false).await;
            }
        }
        let mut tx = db.store.read().await.unwrap();
        for _ in 0..25 {
            let filter = any_filter(&mut dice, DAYS);
            assert_says_what_the_rows_say(&mut tx, &rows, &filter, &mut dice).await;
        }
        drop(tx);
        compact(&db.store, 2, true).await;
        let mut tx = db.store.read().await.unwrap();
        for _ in 0..10 {
            let filter = any_filter(&mut dice, DAYS);
            assert_says_what_the_rows_say(&mut tx, &rows, &filter, &mut dice).await;
        }
    }

    async fn a_row_counts_once_however_often_it_comes(db: &Database) {
        let mut dice = Dice(1);
        let rows: Vec<_> = (0..300).map(|n| any_row(&mut dice, n, 2)).collect();
        assert_eq!(insert(&db.store, &rows[..100]).await, 100);
        assert_eq!(insert(&db.store, &rows).await, 200);
        let twice = [rows.as_slice(), &rows].concat();
        assert_eq!(insert(&db.store, &twice).await, 0);
        let news: Vec<_> = (300..310).map(|n| any_row(&mut dice, n, 2)).collect();
        assert_eq!(insert(&db.store, &[news.as_slice(), &news].concat()).await, 10);
        // Rows of a transaction that was rolled back are not counted.
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&[any_row(&mut dice, 999, 2)]).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(total(&db.store).await, sums(rows.iter().chain(&news)));
    }

    async fn several_gateways_write_and_compact_at_once(db: &Database) {
        let mut dice = Dice(2);
        let rows: Vec<_> = (0..800).map(|n| any_row(&mut dice, n, 1)).collect();
        let other = Store::open(&db.url).await.unwrap();
        let mut tasks = JoinSet::new();
        for n in 0..8_usize {
            let store = if n % 2 == 0 { db.store.clone() } else { other.clone() };
            // Each row is inserted by two tasks, in the same order.
            let own: Vec<_> = rows.iter().skip(n / 2 * 200).take(200).cloned().collect();
            tasks.spawn(async move {
                for batch in own.chunks(4) {
                    insert(&store, batch).await;
                    compact(&store, 2, true).await;
                }
            });
        }
        tasks.join_all().await;
        other.close().await;
        assert_eq!(total(&db.store).await, sums(&rows));
        compact(&db.store, 2, true).await;
        assert_eq!(total(&db.store).await, sums(&rows));
    }

    async fn sums_outlive_their_rows(db: &Database) {
        let mut dice = Dice(3);
        let rows: Vec<_> = (0..400).map(|n| any_row(&mut dice, n, 4)).collect();
        insert(&db.store, &rows).await;
        let begin = at(0).0 / DAY * DAY;
        // The limit is in the middle of an hour of the third day.
        let limit = Timestamp(begin + 2 * DAY + 5 * HOUR + 123);
        let mut tx = db.store.write().await.unwrap();
        while tx.delete_usage_before(limit, 50).await.unwrap() > 0 {}
        tx.commit().await.unwrap();
        assert_eq!(total(&db.store).await, sums(&rows));

        let mut tx = db.store.read().await.unwrap();
        let hour = Timestamp(begin + 2 * DAY + 5 * HOUR);
        assert_eq!(tx.usage_raw_since().await.unwrap(), hour);
        let kept = rows.iter().filter(|it| it.created_at >= hour).count() as i64;
        let (page, n) = tx.usage(&UsageFilter::default(), 1000, 0).await.unwrap();
        assert_eq!((page.len() as i64, n), (kept, kept));
        let hours = rows.iter().map(|it| it.created_at.0 / HOUR * HOUR);
        let extent = (Timestamp(hours.clone().min().unwrap()), Timestamp(hours.max().unwrap() + HOUR));
        assert_eq!(tx.usage_extent().await.unwrap(), Some(extent));
        // This also holds where only sums are left.
        for hour in [extent.0.0, extent.0.0 + 1, begin + 2 * DAY, extent.1.0 - HOUR, extent.1.0] {
            let hours = rows.iter().map(|it| it.created_at.0 / HOUR * HOUR);
            let next = hours.filter(|it| *it >= hour).min().map(Timestamp);
            assert_eq!(tx.next_usage(Timestamp(hour)).await.unwrap(), next, "{hour}");
        }
        // A range that cuts an hour without rows takes the whole hour.
        let cut = UsageFilter {
            from: Timestamp(begin + DAY + HOUR + 1),
            to: Timestamp(begin + DAY + 3 * HOUR - 1),
            ..UsageFilter::default()
        };
        let whole = rows.iter().filter(|it| {
            (begin + DAY + HOUR..begin + DAY + 3 * HOUR).contains(&it.created_at.0)
        });
        let mut found = UsageSums::default();
        for group in groups(&mut tx, &cut, GroupBy::Model).await {
            found.add(&group.sums);
        }
        assert_eq!(found, sums(whole));
    }

    async fn names_that_were_never_a_model_s_go_with_their_rows(db: &Database) {
        let begin = at(0).0 / DAY * DAY;
        let made_up = |n: u128| UsageRow {
            model_name: format!("made up {n}"),
            status_code: if n.is_multiple_of(2) { 404 } else { 429 },
            outcome: Outcome::ClientError,
            ..row(Timestamp(begin + n as i64 * 1_000_000), n)
        };
        let named = |n: u128, name: &str, status_code| UsageRow {
            model_name: name.to_owned(),
            status_code,
            ..row(Timestamp(begin + n as i64), 1000 + n)
        };
        let mut rows: Vec<_> = (0..80).map(made_up).collect();
        // A model without a record that answered; one with a record; one of the registry; one of the next day.
        rows.extend([named(1, "deleted", 404), named(2, "deleted", 200)]);
        rows.extend([named(3, "recorded", 404), named(4, "registered", 429), named(DAY as u128, "later", 404)]);
        for batch in rows.chunks(30) {
            insert(&db.store, batch).await;
        }
        let mut tx = db.store.write().await.unwrap();
        let entry = RegistryEntry {
            served_name: "registered".to_owned(),
            urls: vec!["http://127.0.0.1:1".to_owned()],
            task: Task::Generate,
            upstream_model: None,
            api_key: None,
            sealed_api_key: None,
            created_at: at(0),
        };
        tx.upsert_registry(&entry).await.unwrap();
        tx.insert_model(&crate::models::draft("recorded"), at(0)).await.unwrap();
        assert!(!tx.fold_usage_names().await.unwrap(), "there are rows with these names");
        while tx.delete_usage_before(Timestamp(begin + DAY + HOUR - 1), 50).await.unwrap() > 0 {}
        assert!(tx.fold_usage_names().await.unwrap());
        assert!(!tx.fold_usage_names().await.unwrap(), "the next day has rows");
        tx.commit().await.unwrap();

        let mut tx = db.store.read().await.unwrap();
        let both = [(begin, begin + DAY), (begin, begin + 23 * HOUR)];
        for (from, to) in both {
            let filter = UsageFilter { from: Timestamp(from), to: Timestamp(to), ..UsageFilter::default() };
            let mut found: Vec<_> = groups(&mut tx, &filter, GroupBy::Model)
                .await
                .into_iter()
                .map(|it| (it.name.unwrap_or_default(), it.sums.requests))
                .collect();
            found.sort();
            let all = [("", 80), ("deleted", 2), ("recorded", 1), ("registered", 1)];
            let all: Vec<_> = all.map(|(name, n)| (name.to_owned(), n)).into();
            assert_eq!(found, all);
        }
        assert_eq!(total(&db.store).await, sums(&rows));
        let later = UsageFilter { model: Some("later".to_owned()), ..UsageFilter::default() };
        assert_eq!(tx.usage(&later, 9, 0).await.unwrap().1, 1);
    }

    async fn spans_that_are_too_large_do_not_keep_others_from_being_added_up(db: &Database) {
        // Two roll-ups for each of eight hours before all others. Together they are more than is read at once.
        let large = match db.store.kind() {
            DatabaseKind::Sqlite => {
                "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 15) \
                 INSERT INTO usage_rollups (hours, start_at, requests, sums, times) \
                 SELECT 1, i / 2 * 3600000, 1, zeroblob(4300000), x'00' FROM n"
            }
            DatabaseKind::Postgres => {
                "INSERT INTO usage_rollups (hours, start_at, requests, sums, times) \
                 SELECT 1, i / 2 * 3600000, 1, decode(repeat('00', 4300000), 'hex'), '\\x00' \
                 FROM generate_series(0, 15) AS n (i)"
            }
        };
        assert_eq!(db.tamper(large).await.unwrap(), 16);
        for n in 0..3 {
            insert(&db.store, &[row(at(n as i64), n)]).await;
        }
        compact(&db.store, 2, true).await;
        // One roll-up of the hour and one of the day are deleted.
        assert_eq!(db.tamper("DELETE FROM usage_rollups WHERE start_at > 1000000000000").await.unwrap(), 2);
    }

    async fn rows_of_an_older_program_are_summed_up_when_it_is_opened(db: &Database) {
        let mut dice = Dice(4);
        let rows: Vec<_> = (0..300).map(|n| any_row(&mut dice, n, 3)).collect();
        insert(&db.store, &rows).await;
        // The migration leaves the database in this state.
        db.tamper("DELETE FROM usage_rollups").await.unwrap();
        db.tamper("INSERT INTO usage_unrolled SELECT DISTINCT created_at / 86400000 * 86400000 FROM usage").await.unwrap();
        assert_eq!(total(&db.store).await, UsageSums { ..sums(&[]) });
        Store::open(&db.url).await.unwrap().close().await;
        let mut tx = db.store.read().await.unwrap();
        for _ in 0..5 {
            let filter = any_filter(&mut dice, 3);
            assert_says_what_the_rows_say(&mut tx, &rows, &filter, &mut dice).await;
        }
    }

    async fn opening_a_database_waits_for_nobody_who_adds_usage(db: &Database) {
        // On SQLite a program that opens a file may have to make its schema, and waits for the writer.
        if db.store.kind() == DatabaseKind::Sqlite {
            return;
        }
        let mut tx = db.store.write().await.unwrap();
        tx.insert_usage(&[row(at(0), 1)]).await.unwrap();
        Store::open(&db.url).await.unwrap().close().await;
        tx.commit().await.unwrap();
    }

    async fn what_does_not_agree_is_found(db: &Database) {
        let mut dice = Dice(5);
        let rows: Vec<_> = (0..300).map(|n| any_row(&mut dice, n, 2)).collect();
        insert(&db.store, &rows).await;
        let begin = Timestamp(at(0).0 / DAY * DAY);
        let next = Timestamp(begin.0 + DAY);
        let mut tx = db.store.read().await.unwrap();
        let check = tx.check_usage(begin, Timestamp(i64::MAX)).await.unwrap();
        assert!(check.agrees() && check.days.is_some(), "{check:?}");
        assert_eq!((check.from, check.to), (begin, next));
        let first = sums(rows.iter().filter(|it| it.created_at < next));
        assert_eq!(check.hours, first);
        // A part of a day has no sums of days to compare with.
        let check = tx.check_usage(Timestamp(begin.0 + HOUR), next).await.unwrap();
        assert!(check.agrees() && check.days.is_none() && check.rows.requests < first.requests);
        drop(tx);
        let lost = rows.iter().filter(|it| it.created_at < next && it.status_code == 504).count();
        db.tamper("DELETE FROM usage WHERE status_code = 504").await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        let check = tx.check_usage(begin, next).await.unwrap();
        assert!(!check.agrees());
        assert_eq!(check.hours.requests - check.rows.requests, lost as i64);
    }
}
