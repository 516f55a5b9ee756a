//! How long questions about usage take in the store alone, on a database that `usage_fill` made.
//!
//! `cargo run --release -p gantry-store --example usage_ask -- URL [DAYS]`

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use gantry_domain::{Clock, KeyId, OrgId, Timestamp, UserId, model::Task, usage::Outcome};
use gantry_store::{
    Bucket, GroupBy, GroupColumn, Order, Sort, StatusFilter, Store, StoreResult, TimeKind, UsageFilter,
};

const N_CALLS: u32 = 5;

async fn time(what: &str, mut ask: impl AsyncFnMut() -> StoreResult<()>) -> Result<(), Box<dyn Error>> {
    ask().await?;
    let mut times = Vec::new();
    for _ in 0..N_CALLS {
        let start = Instant::now();
        ask().await?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    writeln!(
        stdout(),
        "{what:<40} {:>9.1} ms, at most {:.1}",
        times[times.len() / 2],
        times[times.len() - 1]
    )?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage_ask URL [DAYS]")?;
    let days: i64 = args.next().map_or(Ok(30), |it| it.parse())?;
    let store = Store::open(&url).await?;
    let now = Clock::default().now();
    let all = UsageFilter {
        from: Timestamp(now.0 - (days + 1) * 86_400_000),
        to: Timestamp(now.0 + 1),
        ..UsageFilter::default()
    };
    let sort = Sort { by: GroupColumn::TotalTokens, order: Order::Desc };
    for by in [GroupBy::Model, GroupBy::Key, GroupBy::User, GroupBy::Org] {
        time(&format!("groups, {by:?}"), async || {
            store.read().await?.usage_groups(&all, by, sort, 100, 0, None).await.map(drop)
        })
        .await?;
    }
    for bucket in [Bucket::Hour, Bucket::Day] {
        time(&format!("series, {bucket:?}"), async || {
            store.read().await?.usage_series(&all, bucket).await.map(drop)
        })
        .await?;
    }
    for kind in [TimeKind::Latency, TimeKind::Ttft] {
        time(&format!("{kind:?}"), async || store.read().await?.usage_times(&all, kind).await.map(drop))
            .await?;
    }
    let some = || all.clone();
    let filters = [
        ("no filter", some(), 0),
        ("model", UsageFilter { model: Some("acme/model-03-instruct".into()), ..some() }, 0),
        ("key", UsageFilter { key_id: Some(KeyId(150)), ..some() }, 0),
        ("user", UsageFilter { user_id: Some(UserId(42)), ..some() }, 0),
        ("organisation", UsageFilter { org_id: Some(OrgId(3)), ..some() }, 0),
        ("task", UsageFilter { task: Some(Task::Embed), ..some() }, 0),
        ("status", UsageFilter { status: Some(StatusFilter::Exact(504)), ..some() }, 0),
        ("outcome", UsageFilter { outcome: Some(Outcome::Timeout), ..some() }, 0),
        (
            "rare: key and status",
            UsageFilter { key_id: Some(KeyId(150)), status: Some(StatusFilter::Exact(504)), ..some() },
            0,
        ),
        ("no filter, page far away", some(), 400_000),
        ("organisation, page far away", UsageFilter { org_id: Some(OrgId(3)), ..some() }, 40_000),
    ];
    for (what, filter, offset) in filters {
        time(&format!("page, {what}"), async || {
            store.read().await?.usage(&filter, 100, offset).await.map(drop)
        })
        .await?;
    }
    store.close().await;
    Ok(())
}
