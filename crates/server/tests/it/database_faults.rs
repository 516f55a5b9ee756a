//! Faults of the database that are worse than being away: it is locked, read-only, frozen, lost without a word, cut off
//! between a commit and its reply, damaged, or of a newer program.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use gantry_store::Store;
use gantry_testkit::{Answer, Client, Gateway, Options, Postgres, Wire, eventually, now};
use serde_json::{Value, json};

use crate::{
    faults::ask,
    simulator::Simulator,
    support::{GANTRY, assert_error, start},
};

const SOON: Duration = gantry_testkit::PATIENCE;

/// A gateway on a Postgres of its own with the model `m`, its owner, and a client that has a key.
struct Fixture {
    gateway: Gateway,
    owner: Client,
    client: Client,
    /// Requests that were answered.
    answered: usize,
    _engine: Simulator,
}

impl Fixture {
    async fn new(url: &str) -> Self {
        let engine = Simulator::start("").await;
        let gateway = start(Options::default().env("DATABASE_URL", url)).await;
        let client = engine.join(&gateway).await;
        let owner = gateway.owner().await;
        let mut it = Self { gateway, owner, client, answered: 0, _engine: engine };
        it.serves(1).await;
        it.rows().await;
        it
    }

    /// Inference goes on.
    async fn serves(&mut self, n: usize) {
        // On a new connection: those that nobody uses are closed.
        let client = self.client.at(&self.client.url);
        for _ in 0..n {
            let answer = ask(&client, &format!("request-{}", self.answered)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            self.answered += 1;
        }
    }

    /// Waits until each request has its row; then there is exactly one for each, and the sums say so as well.
    async fn rows(&self) {
        let all = eventually("all rows are there", SOON * 2, async || {
            let rows = self.owner.get("/admin/usage?limit=1000").await;
            let n = rows.json.as_array().map_or(0, Vec::len);
            (rows.status == 200 && n >= self.answered).then_some(rows.json)
        })
        .await;
        let mut ids: Vec<_> = all.as_array().unwrap().iter().map(|it| it["req_id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), all.as_array().unwrap().len()), (self.answered, self.answered));
        let sums = self.owner.get("/admin/usage/aggregate").await.expect(200);
        assert_eq!(sums[0]["requests"], json!(self.answered), "{sums}");
    }

    async fn new_key(&self) -> Answer {
        self.owner.post("/admin/keys", &json!({ "name": "written" })).await
    }

    /// How long it takes from now until writes are accepted.
    async fn writes_again(&self) -> Duration {
        let begun = Instant::now();
        eventually("it writes again", SOON, async || (self.new_key().await.status == 201).then_some(()))
            .await;
        begun.elapsed()
    }
}

#[tokio::test]
async fn a_database_that_is_locked_holds_up_no_inference_and_no_admin_for_long() {
    let Some(database) = Postgres::start("database_faults: locked") else { return };
    let mut it = Fixture::new(&database.url()).await;
    let locks = database.lock_all();
    it.serves(20).await;
    let asked = Instant::now();
    assert_error(&it.new_key().await, 503, "database_busy");
    println!("locked: an admin request is refused after {:?}", asked.elapsed());
    it.serves(20).await;
    drop(locks);
    println!("locked: writes are accepted {:?} after it is unlocked", it.writes_again().await);
    it.rows().await;
}

#[tokio::test]
async fn a_database_that_is_read_only_is_read() {
    let Some(database) = Postgres::start("database_faults: read-only") else { return };
    let mut it = Fixture::new(&database.url()).await;
    let read_only = |on: &str| {
        database.sql(&format!("ALTER SYSTEM SET default_transaction_read_only = {on}"));
        database.sql("SELECT pg_reload_conf()");
    };
    read_only("on");
    let refused = eventually("writes are refused", SOON, async || {
        let answer = it.new_key().await;
        (answer.status != 201).then_some(answer)
    });
    assert_error(&refused.await, 503, "database_unavailable");
    it.serves(20).await;
    assert_eq!(it.owner.get("/admin/keys").await.status, 200, "reading goes on");
    // The superuser may write still.
    database.sql("SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only");
    database.sql("SELECT pg_reload_conf()");
    println!("read-only: writes are accepted {:?} after it may be written", it.writes_again().await);
    it.rows().await;
}

// The wire goes on while this test waits for other programs.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_freezes_or_is_lost_without_a_word_is_done_without() {
    let Some(database) = Postgres::start("database_faults: frozen, lost") else { return };
    let wire = Wire::to(database.addr(), b"COMMIT").await;
    let mut it = Fixture::new(&format!("postgres://postgres@{}/postgres", wire.addr)).await;

    wire.hold();
    it.serves(20).await;
    let asked = Instant::now();
    assert_error(&it.new_key().await, 503, "database_unavailable");
    println!("frozen: an admin request is refused after {:?}", asked.elapsed());
    wire.release();
    println!("frozen: writes are accepted {:?} after it goes on", it.writes_again().await);
    it.rows().await;

    // In the middle of statements to which nobody will ever reply.
    let locks = database.lock_all();
    it.serves(20).await;
    eventually("statements wait", SOON, async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO usage%'";
        (database.sql(sql) != "0").then_some(())
    })
    .await;
    wire.lose();
    drop(locks);
    println!("lost: writes are accepted {:?} after its connections died", it.writes_again().await);
    it.serves(5).await;
    let begun = Instant::now();
    it.rows().await;
    println!("lost: all usage is there {:?} later", begun.elapsed());
    assert_eq!(it.gateway.client().get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_freezes_does_not_hold_up_the_end() {
    let Some(database) = Postgres::start("database_faults: frozen at the end") else { return };
    let wire = Wire::to(database.addr(), b"COMMIT").await;
    let mut it = Fixture::new(&format!("postgres://postgres@{}/postgres", wire.addr)).await;
    // In the middle of statements to which nobody replies before the gateway is gone.
    let locks = database.lock_all();
    it.serves(20).await;
    assert_error(&it.new_key().await, 503, "database_busy");
    wire.hold();
    let asked = Instant::now();
    it.gateway.signal("TERM");
    it.gateway.ended().await;
    println!("frozen: it ends {:?} after SIGTERM", asked.elapsed());
    // Nothing is lost.
    drop(locks);
    wire.release();
    it.gateway.restart().await;
    it.owner = it.gateway.owner().await;
    it.client = it.client.at(&it.gateway.url);
    it.rows().await;
}

/// Asks so often at once, and hands the answers over when they are there.
#[expect(clippy::disallowed_methods, reason = "tests have no supervisor")]
fn ask_often(client: &Client, path: &'static str, n: usize) -> tokio::task::JoinHandle<Vec<Answer>> {
    let client = client.clone();
    tokio::spawn(async move {
        futures_util::future::join_all((0..n).map(|_| async { client.get(path).await })).await
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_lost_in_the_middle_of_statements_are_replaced() {
    let Some(database) = Postgres::start("database_faults: all of a pool are lost") else { return };
    let wire = Wire::to(database.addr(), b"COMMIT").await;
    let mut it = Fixture::new(&format!("postgres://postgres@{}/postgres", wire.addr)).await;
    // Those that say whether a session holds, and the others.
    for (table, path, statement, n) in
        [("sessions", "/auth/me", "FROM sessions s", 3), ("api_keys", "/admin/keys", "FROM api_keys", 6)]
    {
        let locks = database.lock(table);
        let asked = ask_often(&it.owner, path, 3 * n);
        eventually("statements wait", SOON, async || (database.waiting(statement) >= n).then_some(())).await;
        wire.lose();
        drop(locks);
        let lost = Instant::now();
        eventually("it is answered", SOON, async || (it.owner.get(path).await.status == 200).then_some(()))
            .await;
        println!("lost in the middle of statements: {path} is answered {:?} later", lost.elapsed());
        for answer in asked.await.unwrap().iter().filter(|it| it.status != 200) {
            // Those that got no turn meanwhile find it busy.
            let code =
                if answer.code() == "database_busy" { "database_busy" } else { "database_unavailable" };
            assert_error(answer, 503, code);
        }
        eventually("it is ready", SOON, async || {
            let ready = it.gateway.client().get("/readyz").await;
            (ready.json["status"] == "ready").then_some(())
        })
        .await;
    }
    it.serves(5).await;
    it.rows().await;
}

#[tokio::test]
async fn an_old_session_reads_on_while_nothing_can_be_written() {
    let Some(database) = Postgres::start("database_faults: sessions can't be extended") else { return };
    let it = Fixture::new(&database.url()).await;
    // As if it was not used for an hour: its end would be moved.
    database.sql("UPDATE sessions SET expires_at = expires_at - 3600000, created_at = created_at - 3600000");
    let ends = || database.sql("SELECT max(expires_at) FROM sessions");
    let before = ends();
    let locks = database.lock("changes");
    assert_eq!(it.owner.get("/admin/keys").await.status, 200);
    drop(locks);
    database.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    database.sql("SELECT pg_reload_conf()");
    // The server informs all sessions before it accepts a new one.
    eventually("the server knows", SOON, async || {
        (database.sql("SHOW default_transaction_read_only") == "on").then_some(())
    })
    .await;
    eventually("writes are refused", SOON, async || (it.new_key().await.status == 503).then_some(())).await;
    assert_eq!(it.owner.get("/admin/keys").await.status, 200);
    assert_eq!(ends(), before);
    database.sql("SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only");
    database.sql("SELECT pg_reload_conf()");
    eventually("it is extended", SOON, async || {
        it.owner.get("/admin/keys").await.expect(200);
        (ends() != before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_old_session_reads_on_while_another_program_writes() {
    let gateway = start(Options::default()).await;
    let owner = gateway.owner().await;
    let file = gateway.data_dir().join("gantry.db");
    let store = Store::open(&format!("sqlite://{}", file.display())).await.unwrap();
    let mut tx = store.write().await.unwrap();
    let sessions = tx.live_sessions(now()).await.unwrap().rows;
    let (session, _) = sessions.last().unwrap();
    let early = session.expires_at.minus(Duration::from_hours(1));
    assert!(tx.touch_session(&session.id_hash, early).await.unwrap());
    tx.commit().await.unwrap();
    // A copy or a clean-up by hand, say, that takes longer than SQLite waits.
    let long = store.write().await.unwrap();
    assert_eq!(owner.get("/admin/keys").await.status, 200);
    long.rollback().await.unwrap();
    eventually("it is extended", SOON, async || {
        owner.get("/admin/keys").await.expect(200);
        let mut tx = store.read().await.unwrap();
        let (now, ..) = tx.session(&session.id_hash).await.unwrap().unwrap();
        (now.expires_at > early).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_session_of_a_clock_that_was_ahead_is_none() {
    let Some(database) = Postgres::start("database_faults: sessions of another time") else { return };
    let it = Fixture::new(&database.url()).await;
    let years = 10_i64 * 365 * 24 * 3600 * 1000;
    database.sql(&format!(
        "UPDATE sessions SET expires_at = expires_at + {years}, created_at = created_at + {years}"
    ));
    assert_error(&it.owner.get("/auth/me").await, 401, "unauthenticated");
    assert_eq!(it.gateway.owner().await.get("/auth/me").await.status, 200);
}

/// `gantry serve` with nothing but this.
fn program(dir: &Path, url: &str) -> Command {
    let mut command = Command::new(GANTRY);
    command.arg("serve").current_dir(dir).env_clear().env("DATA_DIR", dir.join("data"));
    command.env("DATABASE_URL", url).env("MODELS_DIR", dir);
    command.env("GATEWAY_LISTEN", "127.0.0.1:0").env("METRICS_LISTEN", "127.0.0.1:0");
    command
}

/// The lines that it logs while it runs.
fn serve(dir: &Path, url: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = program(dir, url).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    (child, log)
}

#[tokio::test]
async fn who_starts_before_its_database_waits_for_it() {
    let Some(database) = Postgres::start("database_faults: not there yet") else { return };
    let dir = tempfile::tempdir().unwrap();
    let term = |child: &Child| {
        let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    database.down();
    let (mut child, mut log) = serve(dir.path(), &database.url());
    assert!(log.any(|it| it.contains("the database does not answer yet")), "{:?}", child.wait());
    term(&child);
    assert!(!child.wait().unwrap().success(), "a signal ends the waiting");

    let (mut child, mut log) = serve(dir.path(), &database.url());
    assert!(log.any(|it| it.contains("the database does not answer yet")), "{:?}", child.wait());
    database.up();
    let ready = log.any(|it| it.contains("ready addr="));
    term(&child);
    // It must not be held up by a full pipe.
    log.for_each(drop);
    let ended = child.wait().unwrap();
    assert!(ready && ended.success(), "{ended}");
    // An error that waiting does not fix.
    let said = refused(dir.path(), &database.url().replace("/postgres", "/absent"));
    assert!(said.contains("can't open the database") && !said.contains("does not answer yet"), "{said}");
}

/// A frozen server, or the port of something else: the connection is taken, and nothing comes.
#[tokio::test]
async fn a_server_that_says_nothing_is_told_of_while_it_is_waited_for() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut log) =
        serve(dir.path(), &format!("postgres://gantry@{}/gantry", silent.local_addr().unwrap()));
    let told = log.find(|it| it.contains("the database does not answer yet"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.unwrap().contains("says nothing"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_reply_is_lost_counts_once() {
    let Some(database) = Postgres::start("database_faults: replies to commits are lost") else { return };
    let wire = Wire::to(database.addr(), b"COMMIT").await;
    let mut it = Fixture::new(&format!("postgres://postgres@{}/postgres", wire.addr)).await;
    for n in 1..=5 {
        wire.cut_next();
        it.serves(10).await;
        eventually("a reply is lost", SOON, async || (wire.cuts() == n).then_some(())).await;
        it.rows().await;
    }
    // A request may be carried out although its answer says that the database is unavailable.
    let keys = async || {
        let all = it.owner.get("/admin/keys?limit=1000").await.expect(200);
        all.as_array().unwrap().iter().filter(|it| it["name"] == "written").count()
    };
    eventually("one of its own is cut", SOON, async || {
        wire.cut_next();
        let before = keys().await;
        let answer = it.new_key().await;
        let told = answer.status != 201;
        if told {
            assert_error(&answer, 503, "database_unavailable");
        }
        assert_eq!(keys().await, before + 1, "{}", answer.text);
        told.then_some(())
    })
    .await;
    it.rows().await;
}

/// What `gantry serve` says before it gives up.
fn refused(dir: &Path, url: &str) -> String {
    let output = program(dir, url).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_damaged_database_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gantry.db");
    let url = format!("sqlite://{}", file.display());
    let mut gateway = start(Options::default().env("DATABASE_URL", &url)).await;
    gateway.owner().await.new_key(&json!({})).await;
    assert!(gateway.terminate());
    drop(gateway);
    let good = fs::read(&file).unwrap();
    // Garbage behind the header, garbage everywhere but there, and the first half.
    let mut head = good.clone();
    head[100..4096].fill(0xa5);
    let mut rest = good.clone();
    rest[4096..].fill(0xa5);
    let half = good[..good.len() / 2].to_vec();
    for (what, bytes) in [("its first page", head), ("all pages but the first", rest), ("its end", half)] {
        fs::write(&file, &bytes).unwrap();
        let said = refused(dir.path(), &url);
        assert!(
            said.contains("gantry: can't open the database") && said.contains("because: "),
            "{what}: {said}"
        );
        assert!(!said.contains("panicked"), "{what}: {said}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "{what}: nothing was changed");
    }
    fs::write(&file, good).unwrap();
    let gateway = start(Options::default().env("DATABASE_URL", &url)).await;
    let keys = gateway.owner().await.get("/admin/keys").await.expect(200);
    assert_eq!(keys.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused_and_kept() {
    let Some(database) = Postgres::start("database_faults: a newer schema") else { return };
    let mut gateway = start(Options::default().env("DATABASE_URL", &database.url())).await;
    assert!(gateway.terminate());
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 SELECT 9999, 'newer', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1";
    database.sql(newer);
    let content =
        || database.sql("SELECT (SELECT count(*) FROM users), (SELECT max(version) FROM _sqlx_migrations)");
    let before = content();
    let dir = tempfile::tempdir().unwrap();
    let said = refused(dir.path(), &database.url());
    assert!(said.contains("can't open the database") && said.contains("version 9999"), "{said}");
    assert_eq!(content(), before);
    database.sql("DELETE FROM _sqlx_migrations WHERE version = 9999");
    gateway.restart().await;
    assert_ne!(gateway.owner().await.get("/auth/me").await.json["user"], Value::Null);
}
