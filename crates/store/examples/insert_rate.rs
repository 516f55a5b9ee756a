//! How fast usage rows go in, and how long an existing database takes to open.
//!
//! `cargo run --release -p gantry-store --example insert_rate [postgres://…]`; without an address a SQLite file in a
//! temporary folder. A Postgres database keeps the rows.

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use gantry_domain::{
    KeyId, OrgId, Timestamp,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::{Store, UsageFilter};

const BATCH: usize = 500;
const BATCHES: usize = 400;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let sqlite = format!("sqlite://{}", dir.path().join("rate.db").display());
    let url = std::env::args().nth(1).unwrap_or(sqlite);
    let store = Store::open(&url).await?;
    let batches: Vec<Vec<UsageRow>> =
        (0..BATCHES).map(|n| (0..BATCH).map(|i| row(n * BATCH + i)).collect()).collect();

    let start = Instant::now();
    let mut n_new = 0;
    for batch in &batches {
        let mut tx = store.write().await?;
        n_new += tx.insert_usage(batch).await?;
        tx.commit().await?;
    }
    let seconds = start.elapsed().as_secs_f64();
    writeln!(stdout(), "{n_new} rows in {seconds:.2} s: {:.0} rows/s", n_new as f64 / seconds)?;

    let start = Instant::now();
    let (_, total) = store.read().await?.usage(&UsageFilter::default(), 50, 0).await?;
    writeln!(stdout(), "first page of {total} rows: {:.1} ms", start.elapsed().as_secs_f64() * 1e3)?;

    store.close().await;
    let start = Instant::now();
    let store = Store::open(&url).await?;
    store.ping().await?;
    writeln!(stdout(), "opened again: {:.1} ms", start.elapsed().as_secs_f64() * 1e3)?;
    store.close().await;
    Ok(())
}

fn row(number: usize) -> UsageRow {
    let created_at = Timestamp(1_795_219_804_123 + number as i64 / 3);
    UsageRow {
        id: id_at(created_at, (number as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)),
        req_id: format!("01939f7e-0000-7000-8000-{number:012x}"),
        created_at,
        key_id: Some(KeyId(number as i64 % 50)),
        key_prefix: Some("gty_Ab000001".to_owned()),
        user_id: None,
        org_id: Some(OrgId(number as i64 % 5)),
        model_name: "Qwen/Qwen3-8B".to_owned(),
        task: Task::Generate,
        endpoint: Endpoint::ChatCompletions,
        stream: true,
        prompt_tokens: 812,
        completion_tokens: 240,
        cached_tokens: Some(512),
        estimated: false,
        latency_ms: 2_310,
        ttft_ms: Some(87),
        status_code: 200,
        outcome: Outcome::Ok,
    }
}
