//! Fills a database with usage rows as the shipper does, and says how fast that went.
//!
//! `cargo run --release -p gantry-store --example usage_fill -- URL [ROWS] [DAYS]`, `sqlite://<path>` or `postgres://…`.
//! The rows lie in the past DAYS (30), evenly. Prints what the gateway must say about them, as JSON: `make bench-admin`
//! compares it with the answers of the real endpoints.

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use gantry_domain::{
    Clock, KeyId, OrgId, Timestamp, UserId,
    endpoint::Endpoint,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::{Store, StoreResult, UsageSpan};

/// As many as the shipper takes at once.
const BATCH: u64 = 4096;
/// The shipper adds up the sums so often.
const COMPACT_EVERY: u64 = 64;

const MODELS: u64 = 20;
const KEYS: u64 = 200;
const USERS: u64 = 100;
const ORGS: u64 = 10;

/// Numbers that look random (splitmix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From 0 to 1, the small ones more often.
    fn skewed(&mut self) -> f64 {
        let unit = self.below(1 << 53) as f64 / (1_u64 << 53) as f64;
        unit * unit
    }
}

fn row(dice: &mut Dice, at: Timestamp) -> UsageRow {
    let key = (dice.skewed() * KEYS as f64) as u64;
    // A key has its favourite models.
    let model = (key + (dice.skewed() * 4.0) as u64) % MODELS;
    let (status_code, outcome) = match dice.below(1000) {
        0 => (504, Outcome::Timeout),
        1..5 => (502, Outcome::UpstreamError),
        5..15 => (499, Outcome::ClientClosed),
        15..20 => (404, Outcome::ClientError),
        20..40 => (429, Outcome::Rejected),
        _ => (200, Outcome::Ok),
    };
    let embed = model >= MODELS - 2;
    let refused = matches!(outcome, Outcome::Rejected | Outcome::ClientError);
    let latency_ms = if refused { 0 } else { 20 + (dice.skewed() * dice.skewed() * 60_000.0) as i64 };
    let stream = !embed && !refused && dice.below(4) > 0;
    let tokens = |it: u64| if refused { 0 } else { it as i64 };
    UsageRow {
        id: id_at(at, u128::from(dice.next()) << 64 | u128::from(dice.next())),
        req_id: format!("{:016x}-{:08x}", dice.next(), dice.next() as u32),
        created_at: at,
        key_id: Some(KeyId(key as i64 + 1)),
        key_prefix: Some(format!("gty_Ab{key:06}")),
        user_id: (!key.is_multiple_of(5)).then_some(UserId((key % USERS) as i64 + 1)),
        org_id: Some(OrgId((key % ORGS) as i64 + 1)),
        model_name: format!("acme/model-{model:02}-instruct"),
        task: if embed { Task::Embed } else { Task::Generate },
        endpoint: if embed { Endpoint::Embeddings } else { Endpoint::ChatCompletions },
        stream,
        prompt_tokens: tokens(dice.below(3000)),
        completion_tokens: tokens(dice.below(800)),
        cached_tokens: (!refused).then(|| dice.below(1000) as i64),
        estimated: dice.below(100) == 0,
        latency_ms,
        ttft_ms: stream.then(|| 5 + latency_ms / (2 + dice.below(10) as i64)),
        status_code,
        outcome,
    }
}

/// Nearest rank, of sorted values.
fn percentiles(sorted: &[u32]) -> [u32; 3] {
    [0.5, 0.95, 0.99].map(|p| sorted[((sorted.len() as f64 * p).ceil() as usize).max(1) - 1])
}

async fn compact(store: &Store, at_least: i64, thorough: bool) -> StoreResult<()> {
    let mut place = Some(UsageSpan::default());
    while let Some(after) = place {
        let mut tx = store.write().await?;
        place = tx.compact_usage(at_least, thorough, after).await?;
        tx.commit().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("usage_fill URL [ROWS] [DAYS]")?;
    let n_rows: u64 = args.next().map_or(Ok(1_000_000), |it| it.parse())?;
    let days: u64 = args.next().map_or(Ok(30), |it| it.parse())?;
    let store = Store::open(&url).await?;
    // Ends a little ago: nothing lies in the future of a clock that is behind.
    let to = Clock::default().now().0 - 60_000;
    let span = days as i64 * 86_400_000;

    let mut dice = Dice(1);
    let (mut latencies, mut ttfts) = (Vec::new(), Vec::new());
    let (mut tokens, mut n_done, mut seconds, mut slowest) = (0, 0, 0.0, 0.0_f64);
    while n_done < n_rows {
        let batch: Vec<UsageRow> = (n_done..n_rows.min(n_done + BATCH))
            .map(|n| row(&mut dice, Timestamp(to - span + (span as f64 * n as f64 / n_rows as f64) as i64)))
            .collect();
        latencies.extend(batch.iter().map(|it| it.latency_ms as u32));
        ttfts.extend(batch.iter().filter_map(|it| Some(it.ttft_ms? as u32)));
        tokens += batch.iter().map(|it| it.prompt_tokens + it.completion_tokens).sum::<i64>();
        let start = Instant::now();
        let mut tx = store.write().await?;
        tx.insert_usage(&batch).await?;
        tx.commit().await?;
        if (n_done / BATCH).is_multiple_of(COMPACT_EVERY) {
            compact(&store, COMPACT_EVERY as i64 / 2, false).await?;
        }
        let took = start.elapsed().as_secs_f64();
        (seconds, slowest) = (seconds + took, slowest.max(took));
        n_done += batch.len() as u64;
    }
    let start = Instant::now();
    compact(&store, 2, true).await?;
    seconds += start.elapsed().as_secs_f64();
    latencies.sort_unstable();
    ttfts.sort_unstable();
    writeln!(
        stdout(),
        "{{\"rows\":{n_rows},\"days\":{days},\"rows_per_s\":{:.0},\"slowest_batch_ms\":{:.0},\"tokens\":{tokens},\
         \"latency\":{:?},\"ttft\":{:?},\"ttft_samples\":{}}}",
        n_rows as f64 / seconds,
        slowest * 1e3,
        percentiles(&latencies),
        percentiles(&ttfts),
        ttfts.len(),
    )?;
    store.close().await;
    Ok(())
}
