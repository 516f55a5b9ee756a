//! Several gateways on one Postgres: exactly one acts on the engines, and another follows where it sees the same ones.
//! And copies of a database, which have nothing to do with the engines of the original.

use std::{
    fs,
    process::{Command, Output},
    time::Duration,
};

use gantry_testkit::{
    Client, Database, Gateway, Managed, Options, engine_processes, eventually, lives, simulated, simulator,
};
use serde_json::{Value, json};

use crate::support::{GANTRY, start};

/// A silent supervisor is given up after 6 s; the machine may be busy.
const TAKEN_OVER: Duration = gantry_testkit::PATIENCE;

fn postgres(test: &str) -> bool {
    Database::all(test).contains(&Database::Postgres)
}

/// Another gateway on the same database, with a data directory of its own.
async fn beside(first: &Gateway, options: Options) -> Gateway {
    start(options.env("DATABASE_URL", &first.database_url().unwrap())).await
}

async fn supervision(owner: &Client) -> Value {
    owner.get("/admin/system/capabilities").await.expect(200)["supervision"].clone()
}

async fn has_role(owner: &Client, role: &str) -> Value {
    eventually(&format!("it is a {role}"), TAKEN_OVER, async || {
        let now = supervision(owner).await;
        (now["role"] == role).then_some(now)
    })
    .await
}

fn engine(gateway: &Gateway, model: &Managed) -> i64 {
    gateway.engine_state(&model.container).expect("it was started")["engine_pid"].as_i64().unwrap()
}

/// How often the model was launched, by its timeline.
async fn starts(owner: &Client, model: &Managed) -> usize {
    model.timeline(owner).await.iter().filter(|it| it.ends_with(">loading")).count()
}

fn release(database: &str, more: &[&str]) -> Output {
    let args = [&["supervisor", "release", "--database-url", database], more].concat();
    Command::new(GANTRY).args(args).output().unwrap()
}

async fn answers(client: &Client, model: &Managed) {
    eventually("it answers", gantry_testkit::PATIENCE, async || {
        (client.chat(&model.served_name).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_second_gateway_leaves_the_engines_of_the_first_alone_and_passes_commands_on() {
    if !postgres("supervision: second gateway") {
        return;
    }
    let one = start(Options::processes().on(Database::Postgres)).await;
    let owner = one.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    let (_, key) = owner.new_key(&json!({})).await;
    let pid = engine(&one, &model);

    let two = beside(&one, Options::processes()).await;
    let other = two.owner().await;
    let seen = has_role(&other, "follower").await;
    assert_eq!(seen["supervisor"], supervision(&owner).await["gateway"], "{seen}");
    assert_eq!(
        (&seen["reaches_engines"], &two.client().get("/readyz").await.json["status"]),
        (&json!(true), &json!("ready"))
    );
    assert_eq!(supervision(&owner).await["role"], "supervisor");
    // Its engines are of one key, whichever gateway asks.
    answers(&key, &model).await;
    answers(&two.client_of(&key), &model).await;
    assert!(lives(pid) && engine(&one, &model) == pid);
    assert!(!two.log().contains("ending a process"), "{}", two.log());

    // The follower's commands are the supervisor's work, each once.
    model.command(&other, "stop").await.expect(202);
    model.reaches(&other, "stopped").await;
    eventually("the engine ends", TAKEN_OVER, async || (!lives(pid)).then_some(())).await;
    let before = starts(&owner, &model).await;
    model.start(&other).await;
    model.reaches(&other, "running").await;
    answers(&two.client_of(&key), &model).await;
    assert_eq!(starts(&owner, &model).await, before + 1);
    let second = engine(&one, &model);
    assert!(second != pid && lives(second));

    // Two at once are one start.
    model.command(&other, "stop").await.expect(202);
    model.reaches(&other, "stopped").await;
    let (a, b) = tokio::join!(model.command(&owner, "start"), model.command(&other, "start"));
    assert!([a.status, b.status].contains(&202), "{a:?} {b:?}");
    model.reaches(&owner, "running").await;
    assert_eq!(starts(&owner, &model).await, before + 2);
}

/// One that was given to the follower waits for no tick of the supervisor, however much that is asked itself.
#[tokio::test]
async fn a_command_is_not_lost_among_the_supervisor_s_own_changes() {
    if !postgres("supervision: a command among changes") {
        return;
    }
    let rare = |options: Options| options.env("MODEL_RECONCILE_SEC", "3600");
    let one = start(rare(Options::processes().on(Database::Postgres))).await;
    let owner = one.owner().await;
    let model = Managed::create(&owner, &simulated("llamacpp", "m", &[])).await;
    let two = beside(&one, rare(Options::processes())).await;
    let other = two.owner().await;
    has_role(&other, "follower").await;
    let (made, key) = owner.new_key(&json!({})).await;
    let path = format!("/admin/keys/{}", made["id"]);
    let changing = async {
        for n in 0.. {
            owner.patch(&path, &json!({ "name": format!("key {n}") })).await.expect(200);
        }
    };
    let commanding = async {
        model.start(&other).await;
        model.reaches(&other, "running").await;
    };
    tokio::select! {
        () = changing => {}
        () = commanding => {}
    }
    answers(&key, &model).await;
}

#[tokio::test]
async fn a_gateway_that_does_not_see_the_engines_changes_nothing_until_it_is_told_to() {
    let test = "supervision: another runtime";
    if !postgres(test) {
        return;
    }
    let mut one = start(Options::processes().on(Database::Postgres)).await;
    let database = one.database_url().unwrap();
    let owner = one.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    let later = Managed::create(&owner, &simulated("llamacpp", "later", &[])).await;
    let pid = engine(&one, &model);
    let two = beside(&one, Options::processes()).await;
    let other = two.owner().await;
    has_role(&other, "follower").await;

    let refused = release(&database, &[]);
    assert!(!refused.status.success() && lives(pid));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("stop that gateway first"), "{refused:?}");

    one.kill();
    let seen = has_role(&other, "stranger").await;
    assert!(seen["detail"].as_str().unwrap().contains("gantry supervisor release"), "{seen}");
    let ready = two.client().get("/readyz").await;
    assert_eq!((ready.status, &ready.json["status"]), (200, &json!("degraded")), "{}", ready.text);
    assert_eq!(ready.json["checks"]["supervision"], seen["detail"]);
    // A command waits until the supervising gateway carries it out.
    later.start(&other).await;
    let record = model.record(&other).await;
    assert_eq!((&record["state"], &record["state_reason"]), (&json!("running"), &Value::Null));
    assert!(lives(pid));

    one.restart().await;
    let owner = one.owner().await;
    has_role(&owner, "supervisor").await;
    has_role(&other, "follower").await;
    later.reaches(&other, "running").await;
    assert_eq!(model.record(&other).await["state"], "running");
    assert_eq!(engine(&one, &model), pid, "the same engine");
    assert_eq!(starts(&owner, &model).await, 1);

    one.kill();
    has_role(&other, "stranger").await;
    let released = release(&database, &[]);
    assert!(released.status.success(), "{released:?}");
    has_role(&other, "supervisor").await;
    let record = model.reaches(&other, "stopped").await;
    assert_eq!(record["state_reason"], "container_not_found");
    // What was left of the first one on this machine is of nobody's use.
    eventually("the engine ends", TAKEN_OVER, async || (!lives(pid)).then_some(())).await;
    model.start(&other).await;
    model.reaches(&other, "running").await;
    // The first one comes too late.
    one.restart().await;
    let owner = one.owner().await;
    has_role(&owner, "follower").await;
    assert_eq!(model.record(&owner).await["state"], "running");
    assert!(lives(engine(&two, &model)));
}

#[tokio::test]
async fn who_only_asks_who_supervises_does_not_change_the_schema() {
    if !postgres("supervision: another schema") {
        return;
    }
    let mut gateway = start(Options::processes().on(Database::Postgres)).await;
    let database = gateway.database_url().unwrap();
    assert!(gateway.terminate());
    let sql = |text: &str| {
        let output = Command::new("psql").args([&database, "-Atqc", text]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let tables = || sql("SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1");
    let said = |verb: &str| {
        let ran = Command::new(GANTRY).args(["supervisor", verb, "--database-url", &database]).output();
        let ran = ran.unwrap();
        (ran.status.success(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    };
    let (well, text) = said("show");
    assert!(well && text.contains("did so last; no gateway does now"), "{text}");

    // As an older program left it, whose gateways may run on it.
    sql("DROP TABLE supervisor; DELETE FROM _sqlx_migrations WHERE version >= 7");
    let (before, version) = (tables(), sql("SELECT MAX(version) FROM _sqlx_migrations"));
    for verb in ["show", "release"] {
        let (well, text) = said(verb);
        assert!(!well && text.contains("it is of version 6"), "{verb}: {text}");
        assert_eq!(
            (tables(), sql("SELECT MAX(version) FROM _sqlx_migrations")),
            (before.clone(), version.clone())
        );
    }
    // And one that is nobody's yet.
    sql(
        "DO $$ DECLARE it text; BEGIN FOR it IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() \
         LOOP EXECUTE format('DROP TABLE %I CASCADE', it); END LOOP; END $$",
    );
    for verb in ["show", "release"] {
        let (well, text) = said(verb);
        assert!(!well && text.contains("no tables of Gantry"), "{verb}: {text}");
        assert_eq!(tables(), "");
    }
}

#[tokio::test]
async fn who_loses_the_lock_s_connection_takes_it_again_and_touches_nothing() {
    if !postgres("supervision: connection lost") {
        return;
    }
    let one = start(Options::processes().on(Database::Postgres)).await;
    let owner = one.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    let pid = engine(&one, &model);
    for _ in 0..3 {
        let before = has_role(&owner, "supervisor").await["since"].clone();
        // The tests' own database has other gateways too: the one that holds the lock of this schema.
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted \
                   AND classid = 1196314707 AND CAST(objid AS BIGINT) = \
                   (CAST(hashtext(current_schema()) AS BIGINT) & 4294967295)";
        let done = Command::new("psql").args([&one.database_url().unwrap(), "-Atqc", cut]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "t", "{done:?}");
        eventually("it supervises again", TAKEN_OVER, async || {
            let now = supervision(&owner).await;
            (now["role"] == "supervisor" && now["since"] != before).then_some(())
        })
        .await;
    }
    assert_eq!((model.record(&owner).await["state"].clone(), engine(&one, &model)), (json!("running"), pid));
    assert_eq!(starts(&owner, &model).await, 1);
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    assert!(!lives(pid));
}

#[tokio::test]
async fn when_the_supervisor_is_killed_another_one_takes_its_containers_over() {
    let test = "supervision: take-over";
    if !postgres(test) || !simulator(GANTRY, test) {
        return;
    }
    let mut one = start(Options::containers().on(Database::Postgres)).await;
    let owner = one.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    let (_, key) = owner.new_key(&json!({})).await;
    let container = model.container_id();
    let two = beside(&one, Options::containers()).await;
    let other = two.owner().await;
    has_role(&other, "follower").await;
    let key = two.client_of(&key);
    answers(&key, &model).await;

    one.kill();
    let killed = std::time::Instant::now();
    has_role(&other, "supervisor").await;
    println!("taken over after {:?}", killed.elapsed());
    answers(&key, &model).await;
    assert_eq!((model.container_id(), two.containers().len()), (container.clone(), 1));

    one.restart().await;
    let owner = one.owner().await;
    has_role(&owner, "follower").await;
    assert_eq!(
        (model.record(&owner).await["state"].clone(), model.container_id()),
        (json!("running"), container)
    );
    model.command(&owner, "stop").await.expect(202);
    model.reaches(&owner, "stopped").await;
    model.start(&owner).await;
    model.reaches(&owner, "running").await;
    assert_eq!((starts(&owner, &model).await, two.containers().len()), (2, 1));
    // In order, too.
    drop(two);
    has_role(&owner, "supervisor").await;
}

#[tokio::test]
async fn a_supervisor_that_was_frozen_finds_out_before_it_acts() {
    let test = "supervision: frozen";
    if !postgres(test) || !simulator(GANTRY, test) {
        return;
    }
    let one = start(Options::containers().on(Database::Postgres)).await;
    let owner = one.owner().await;
    let model = Managed::run(&owner, &simulated("llamacpp", "m", &[])).await;
    let slow = Managed::create(&owner, &simulated("llamacpp", "slow", &[("LOAD_SECONDS", "2")])).await;
    let two = beside(&one, Options::containers()).await;
    let other = two.owner().await;
    has_role(&other, "follower").await;

    // In the middle of a start.
    slow.start(&owner).await;
    one.signal("STOP");
    let frozen = std::time::Instant::now();
    has_role(&other, "supervisor").await;
    println!("taken over after {:?}", frozen.elapsed());
    slow.reaches(&other, "running").await;
    model.command(&other, "stop").await.expect(202);
    model.reaches(&other, "stopped").await;
    model.start(&other).await;
    model.reaches(&other, "running").await;
    let containers = [model.container_id(), slow.container_id()];
    one.signal("CONT");
    // Its connections have been closed meanwhile.
    let owner = one.owner().await;
    has_role(&owner, "follower").await;
    // Some rounds of both.
    eventually("the frozen one has looked again", TAKEN_OVER, async || {
        one.log().contains("another gateway supervises the models").then_some(())
    })
    .await;
    answers(&other, &model).await;
    for model in [&model, &slow] {
        assert_eq!(model.record(&owner).await["state"], "running");
        assert!(!model.timeline(&owner).await.iter().any(|it| it.ends_with(">failed")));
    }
    assert_eq!([model.container_id(), slow.container_id()], containers);
    assert_eq!(two.containers().len(), 2);
    assert_eq!((starts(&owner, &model).await, starts(&owner, &slow).await), (2, 1));
}

/// A gateway on a copy of the database of `one`, which is killed for it and runs again.
async fn copy(one: &mut Gateway, at: &tempfile::TempDir, options: Options) -> Gateway {
    one.kill();
    for file in ["gantry.db", "gantry.db-wal", "gantry.db-shm"] {
        // Those beside the first one need not be there.
        let _ = fs::copy(one.data_dir().join(file), at.path().join(file));
    }
    one.restart().await;
    start(options.env("DATABASE_URL", &format!("sqlite://{}", at.path().join("gantry.db").display()))).await
}

async fn is_left_alone(one: &mut Gateway, model: &Managed, options: Options) {
    let dir = tempfile::tempdir().unwrap();
    let two = copy(one, &dir, options).await;
    let (owner, other) = (one.owner().await, two.owner().await);
    let record = model.reaches(&other, "stopped").await;
    assert_eq!(record["state_reason"], "container_not_found");
    assert_ne!(two.instance(), one.instance());
    assert!(two.log().contains("was copied from another data directory"), "{}", two.log());
    // Start and delete the model on the copy.
    model.command(&other, "start").await.expect(202);
    eventually("the copy has tried", TAKEN_OVER, async || {
        let state = model.record(&other).await["state"].clone();
        (state == "running" || state == "failed").then_some(())
    })
    .await;
    other.delete(&format!("/admin/models/{}", model.id)).await.expect(200);
    eventually("the copy has deleted it", TAKEN_OVER, async || {
        let log = two.log();
        log.contains("the record is deleted").then_some(())
    })
    .await;
    assert_eq!(model.record(&owner).await["state"], "running");
    assert_eq!(owner.chat(&model.served_name).await.status, 200);
    // It is the same instance after a restart.
    let (instance, mut two) = (two.instance(), two);
    two.kill_and_restart().await;
    assert_eq!(two.instance(), instance);
}

#[tokio::test]
async fn a_copied_database_leaves_the_processes_of_the_original_alone() {
    let mut one = start(Options::processes()).await;
    let model = Managed::run(&one.owner().await, &simulated("llamacpp", "m", &[])).await;
    let (pid, instance) = (engine(&one, &model), one.instance());
    is_left_alone(&mut one, &model, Options::processes()).await;
    assert!(lives(pid) && engine(&one, &model) == pid && one.instance() == instance);
    assert!(engine_processes(&instance).contains(&pid));
}

#[tokio::test]
async fn a_copied_database_leaves_the_containers_of_the_original_alone() {
    if !simulator(GANTRY, "supervision: copied database") {
        return;
    }
    let mut one = start(Options::containers()).await;
    let model = Managed::run(&one.owner().await, &simulated("llamacpp", "m", &[])).await;
    let container = model.container_id();
    is_left_alone(&mut one, &model, Options::containers()).await;
    assert_eq!(model.container_id(), container);
    assert_eq!(model.inspect().unwrap()["State"]["Running"], true);
}

#[tokio::test]
async fn an_upgrade_keeps_what_runs() {
    if Command::new("sqlite3").arg("-version").output().is_err() {
        gantry_testkit::skip("supervision: upgrade", "`sqlite3` is not installed");
        return;
    }
    // What earlier versions left: an id in the database and in the directory, and no word of whose the database is.
    let mut one = start(Options::processes()).await;
    let model = Managed::run(&one.owner().await, &simulated("llamacpp", "m", &[])).await;
    let (pid, instance) = (engine(&one, &model), one.instance());
    assert!(one.terminate());
    fs::remove_file(one.data_dir().join("gateway-id")).unwrap();
    let database = one.data_dir().join("gantry.db");
    let done = Command::new("sqlite3").arg(database).arg("DELETE FROM meta WHERE key = 'home'").status();
    assert!(done.unwrap().success());
    one.restart().await;
    let owner = one.owner().await;
    assert_eq!((model.record(&owner).await["state"].clone(), one.instance()), (json!("running"), instance));
    assert_eq!(engine(&one, &model), pid);
    assert!(lives(pid));
}

#[tokio::test]
async fn a_sqlite_file_belongs_to_one_gateway_wherever_it_lies() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", dir.path().join("gantry.db").display());
    let one = start(Options::default().env("DATABASE_URL", &url)).await;
    let second = Command::new(GANTRY)
        .args([
            "serve",
            "--database-url",
            &url,
            "--gateway-listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ])
        .arg("--data-dir")
        .arg(dir.path().join("second"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another gateway uses the database"), "{said}");
    assert_eq!(one.client().get("/readyz").await.status, 200);
}
