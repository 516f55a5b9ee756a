//! Measures a dump and a restore against the tools of the databases, on a database that `usage_fill` filled.
//!
//! `cargo run --release -p gantry-store --example dump_speed -- URL FOLDER`, URL being `sqlite://<path>` or
//! `postgres://…`. Our restore goes into a new database of the same kind and is swapped in; for Postgres that is the
//! database itself. The tools are `sqlite3 .dump` with `sqlite3 <`, or `pg_dump` with `psql` into a new database. Prints
//! JSON: seconds of each part, and the ratio of the sums. Ours has the check of the dump that comes before every restore.

use std::{
    error::Error,
    fs::File,
    io::{BufReader, Write, stdout},
    path::Path,
    process::Command,
    time::Instant,
};

use gantry_domain::{Clock, Role};
use gantry_store::{DatabaseKind, DumpSecrets, NewUser, Store};

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Runs a line of a shell and returns how long it took.
fn shell(line: &str) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let status = Command::new("sh").arg("-c").arg(line).status()?;
    if status.success() { Ok(seconds(start)) } else { Err(format!("{line}: {status}").into()) }
}

async fn add_owner(store: &Store) -> Result<(), Box<dyn Error>> {
    let now = Clock::default().now();
    let mut tx = store.write().await?;
    if tx.user_by_name("owner").await?.is_none() {
        let org_id = tx.insert_org("Dump speed", now).await?.id;
        let user = NewUser {
            org_id,
            username: "owner".to_owned(),
            password_hash: "-".to_owned(),
            role: Role::Owner,
            enabled: true,
        };
        tx.insert_user(&user, now).await?;
    }
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (url, folder) = args.next().zip(args.next()).ok_or("dump_speed URL FOLDER")?;
    let folder = Path::new(&folder);
    let store = Store::open(&url).await?;
    add_owner(&store).await?;

    let path = folder.join("ours.sql");
    let start = Instant::now();
    let mut file = File::create(&path)?;
    let proof = store.dump(DumpSecrets::Redacted, Clock::default().now(), &mut file).await?;
    let dump = seconds(start);
    let start = Instant::now();
    let report = gantry_store::check_dump(File::open(&path)?);
    let check = seconds(start);
    if !report.problems.is_empty() {
        return Err(report.problems.join("; ").into());
    }
    let sqlite = store.kind() == DatabaseKind::Sqlite;
    let target = if sqlite {
        Store::open(&format!("sqlite://{}", folder.join("target.db").display())).await?
    } else {
        store.clone()
    };
    let start = Instant::now();
    let scratch = target.load(BufReader::new(File::open(&path)?), folder, "speed", Some(&proof)).await?;
    let load = seconds(start);
    let start = Instant::now();
    target.swap(scratch, true, None).await?;
    let swap = seconds(start);
    target.close().await;
    store.close().await;

    let theirs = folder.join("theirs.sql").display().to_string();
    let (their_dump, their_restore) = if sqlite {
        let source = url.trim_start_matches("sqlite://");
        let copy = folder.join("copy.db").display().to_string();
        (shell(&format!("sqlite3 {source} .dump > {theirs}"))?, shell(&format!("sqlite3 {copy} < {theirs}"))?)
    } else {
        shell(&format!(
            "psql -q '{url}' -c 'DROP DATABASE IF EXISTS dump_speed' -c 'CREATE DATABASE dump_speed'"
        ))?;
        let (base, _) = url.rsplit_once('/').ok_or("a URL with a database")?;
        (
            shell(&format!("pg_dump '{url}' > {theirs}"))?,
            shell(&format!("psql -q -o /dev/null -1 '{base}/dump_speed' -f {theirs}"))?,
        )
    };
    let bytes = std::fs::metadata(&path)?.len();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak =
        status.lines().find_map(|it| it.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    let peak_mib: f64 = peak.ok_or("no VmHWM")?;
    let peak_mib = peak_mib / 1024.0;
    let ratio = (dump + check + load + swap) / (their_dump + their_restore);
    writeln!(
        stdout(),
        "{{\"database\":\"{}\",\"usage_rows\":{},\"bytes\":{bytes},\"dump\":{dump:.2},\"check\":{check:.2},\"load\":{load:.2},\
         \"swap\":{swap:.2},\"their_dump\":{their_dump:.2},\"their_restore\":{their_restore:.2},\"ratio\":{ratio:.2},\"peak_mib\":{peak_mib:.1}}}",
        if sqlite { "sqlite" } else { "postgres" },
        proof.rows["usage"],
    )?;
    Ok(())
}
