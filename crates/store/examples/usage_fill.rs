//! Fills a database with usage rows as the shipper does, and says how fast that went.
//!
//! `cargo run --release -p gantry-store --example usage_fill -- URL [ROWS] [DAYS] [ORGS USERS]`, URL being `sqlite://<path>`
//! or `postgres://…`. The rows lie in the past DAYS (30), evenly. With ORGS and USERS it makes that many organisations and
//! users too, with two keys each, and the rows are theirs (`make demo-usage`); without, the rows name ids that nobody has.
//! Prints what the gateway must say about the rows, as JSON: `make bench-admin` compares it with the answers of the real
//! endpoints.

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use gantry_domain::{
    Clock, KeyId, OrgId, Role, Timestamp, UserId,
    endpoint::Endpoint,
    key::KeySettings,
    model::Task,
    usage::{Outcome, UsageRow, id_at},
};
use gantry_store::{NewKey, NewUser, Store, StoreResult, UsageSpan};

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

/// Whose rows they are.
struct Holder {
    key: KeyId,
    prefix: String,
    user: Option<UserId>,
    org: OrgId,
}

/// Ids that nobody has; every fifth key is of an organisation as a whole.
fn nobody() -> Vec<Holder> {
    let holder = |key: u64| Holder {
        key: KeyId(key as i64 + 1),
        prefix: format!("gty_Ab{key:06}"),
        user: (!key.is_multiple_of(5)).then_some(UserId((key % USERS) as i64 + 1)),
        org: OrgId((key % ORGS) as i64 + 1),
    };
    (0..KEYS).map(holder).collect()
}

const NAMES: [&str; 20] = [
    "ada",
    "alan",
    "barbara",
    "charles",
    "donald",
    "edsger",
    "frances",
    "grace",
    "hedy",
    "ivan",
    "jean",
    "ken",
    "leslie",
    "margaret",
    "niklaus",
    "ole",
    "radia",
    "shafi",
    "tony",
    "whitfield",
];
const ORG_NAMES: [&str; 3] = ["Acme", "Globex", "Initech"];
/// Hash of a password that was thrown away: none of them can sign in.
const NO_PASSWORD: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$Wgp2aStt/XOyNhHO9CZ2UA$GohPXxmvgozi/H02gfB+dXRSfgy2JtpyMCKRtDFFZDU";

/// Makes organisations and users with two keys each; the keys of one user are not neighbours, so that users of all
/// organisations are heavy and light.
async fn team(store: &Store, n_orgs: usize, n_users: usize) -> Result<Vec<Holder>, Box<dyn Error>> {
    let now = Clock::default().now();
    let mut tx = store.write().await?;
    let mut orgs = Vec::new();
    for n in 0..n_orgs {
        let name = ORG_NAMES.get(n).map_or_else(|| format!("Organisation {}", n + 1), |it| (*it).to_owned());
        orgs.push(tx.insert_org(&name, now).await?.id);
    }
    let mut users = Vec::new();
    for n in 0..n_users {
        let username = NAMES.get(n).map_or_else(|| format!("user-{:02}", n + 1), |it| (*it).to_owned());
        let org_id = orgs[n % orgs.len()];
        let password_hash = NO_PASSWORD.to_owned();
        let user = NewUser { org_id, username, password_hash, role: Role::User, enabled: true };
        users.push(tx.insert_user(&user, now).await?);
    }
    let mut dice = Dice(2);
    let mut holders = Vec::new();
    for name in ["laptop", "service"] {
        for user in &users {
            let mut token_hash = [0; 32];
            token_hash.chunks_mut(8).for_each(|it| it.copy_from_slice(&dice.next().to_le_bytes()));
            let prefix = format!("gty_{:08x}", dice.next() as u32);
            let settings = KeySettings { name: name.to_owned(), ..KeySettings::default() };
            let (org_id, user_id) = (user.org_id, Some(user.id));
            let key = NewKey { settings, prefix: prefix.clone(), token_hash, org_id, user_id };
            let key = tx.insert_key(&key, now).await?.id;
            holders.push(Holder { key, prefix, user: user_id, org: org_id });
        }
    }
    tx.commit().await?;
    Ok(holders)
}

fn row(dice: &mut Dice, at: Timestamp, holders: &[Holder]) -> UsageRow {
    let key = (dice.skewed() * holders.len() as f64) as u64;
    let holder = &holders[key as usize];
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
        key_id: Some(holder.key),
        key_prefix: Some(holder.prefix.clone()),
        user_id: holder.user,
        org_id: Some(holder.org),
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
        requests: 1,
    }
}

/// CPU time of this process in seconds, from Linux's counters of 1/100 s.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may hold spaces; user and system time are the 14th and 15th field.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
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
    let url = args.next().ok_or("usage_fill URL [ROWS] [DAYS] [ORGS USERS]")?;
    let n_rows: u64 = args.next().map_or(Ok(1_000_000), |it| it.parse())?;
    let days: u64 = args.next().map_or(Ok(30), |it| it.parse())?;
    let n_orgs: usize = args.next().map_or(Ok(0), |it| it.parse())?;
    let n_users: usize = args.next().map_or(Ok(n_orgs), |it| it.parse())?;
    let store = Store::open(&url).await?;
    let holders = if n_orgs == 0 { nobody() } else { team(&store, n_orgs, n_users).await? };
    // Ends a little ago: nothing lies in the future of a clock that is behind.
    let to = Clock::default().now().0 - 60_000;
    let span = days as i64 * 86_400_000;

    let mut dice = Dice(1);
    let (mut latencies, mut ttfts) = (Vec::new(), Vec::new());
    let (mut tokens, mut n_done, mut seconds, mut slowest) = (0, 0, 0.0, 0.0_f64);
    while n_done < n_rows {
        let batch: Vec<UsageRow> = (n_done..n_rows.min(n_done + BATCH))
            .map(|n| {
                row(
                    &mut dice,
                    Timestamp(to - span + (span as f64 * n as f64 / n_rows as f64) as i64),
                    &holders,
                )
            })
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
    let cpu = cpu_seconds().unwrap_or(f64::NAN);
    latencies.sort_unstable();
    ttfts.sort_unstable();
    writeln!(
        stdout(),
        "{{\"rows\":{n_rows},\"days\":{days},\"rows_per_s\":{:.0},\"rows_per_cpu_s\":{:.0},\"slowest_batch_ms\":{:.0},\"tokens\":{tokens},\
         \"latency\":{:?},\"ttft\":{:?},\"ttft_samples\":{}}}",
        n_rows as f64 / seconds,
        n_rows as f64 / cpu,
        slowest * 1e3,
        percentiles(&latencies),
        percentiles(&ttfts),
        ttfts.len(),
    )?;
    store.close().await;
    Ok(())
}
