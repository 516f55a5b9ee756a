//! Restores: what a dump held is in the database afterwards, or nothing has changed.

use std::{fs, process::Command};

use gantry_domain::{Role, audit::Action, job::JobState};
use gantry_store::{
    Candidate, DatabaseKind, DumpKind, DumpSecrets, LastRestore, Scratch, StoreError, check_dump, dump_file,
};

use crate::{
    audit,
    dump_hostile::{TOP, as_pg_dump},
    filled::{add_large, dump, fill, fill_small, name},
    harness::{Database, NOW, at, new_user, on_both, postgres_url},
    hostile_dumps::{HOSTILE, own_with},
    jobs, sessions, usage,
};

/// Restores a dump into the database.
pub(crate) async fn restore(db: &Database, text: &[u8], drop_existing: bool) -> Result<(), StoreError> {
    let dir = tempfile::tempdir().unwrap();
    let scratch = db.store.load(text, dir.path(), &name(), None).await?;
    let done = db.store.swap(scratch, drop_existing, None).await;
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the scratch file is gone");
    done
}

/// Returns the schemas that restores left.
pub(crate) async fn left_schemas(db: &Database) -> Vec<String> {
    match db.store.kind() {
        DatabaseKind::Sqlite => Vec::new(),
        DatabaseKind::Postgres => {
            let sql = "SELECT nspname::text FROM pg_namespace \
                       WHERE nspname LIKE 'gantry_restore_' || LEFT(MD5(current_schema()), 8) || '_%'";
            db.texts(sql).await
        }
    }
}

async fn round_trip(from: &Database, to: &Database) {
    fill(&from.store).await;
    add_large(&from.store).await;
    let (text, proof) = dump(from, DumpSecrets::Sealed).await;
    assert!(text.len() > 1_500_000);
    restore(to, &text, false).await.unwrap();
    let (again, proven) = dump(to, DumpSecrets::Sealed).await;
    // The installation keeps its own id, if it had one; here it had none.
    assert_eq!(proven.differences(&proof), [""; 0]);
    let data = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap().split_once('\n').unwrap().1.to_owned();
    let (one, two) = (data(&text), data(&again));
    let differing =
        one.lines().zip(two.lines()).find(|(one, two)| one != two && !one.starts_with("-- gantry-proof"));
    assert_eq!(differing, None);
}

on_both! {
    async fn everything_comes_back(db: &Database) {
        let other = if db.store.kind() == DatabaseKind::Sqlite { Database::sqlite().await } else { Database::postgres().await.unwrap() };
        let last = async || db.store.read().await.unwrap().last_restore().await.unwrap();
        assert_eq!(last().await, LastRestore::default());
        round_trip(&other, db).await;
        let first = last().await;
        // The same database takes its own dump again, over what is in it.
        let (text, proof) = dump(db, DumpSecrets::Sealed).await;
        restore(db, &text, true).await.unwrap();
        let second = last().await;
        assert!(first != LastRestore::default() && first != second, "each restore is another one");
        assert_eq!(dump(db, DumpSecrets::Sealed).await.1.differences(&proof), [""; 0]);
        // Reads and writes go on, with numbers that nobody had.
        let mut tx = db.store.write().await.unwrap();
        let org = tx.insert_org("New", NOW).await.unwrap();
        assert_eq!(org.id.0, proof.sequences["orgs"] + 1);
        tx.insert_user(&new_user(org.id, "eve", Role::User), NOW).await.unwrap();
        tx.insert_usage(&[usage::row(at(7), 99_999)]).await.unwrap();
        tx.commit().await.unwrap();
        audit::write(&db.store, Action::KeyCreate, "9", at(9)).await;
        assert!(dump(db, DumpSecrets::Redacted).await.1.audit.verifies);
        other.remove().await;
    }

    async fn what_belongs_to_the_running_gateway_stays(db: &Database) {
        fill(&db.store).await;
        let (text, _) = dump(db, DumpSecrets::Redacted).await;
        let gateway = Candidate {
            gateway: "me".to_owned(),
            name: "host".to_owned(),
            runtime: None,
            machine: "m".to_owned(),
        };
        let mut tx = db.store.write().await.unwrap();
        let ended = tx.jobs(10).await.unwrap().into_iter().find(|it| it.state == JobState::Failed).unwrap();
        let runs = jobs::begin(&mut tx, "two").await;
        let epoch = tx.set_supervisor(&gateway, NOW).await.unwrap();
        let id = tx.renew_instance_id().await.unwrap();
        tx.insert_session(&sessions::session(77, gantry_domain::UserId(1), at(1_000_000_000))).await.unwrap();
        let late = tx.insert_org("Late", NOW).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        let changes = tx.change_counter().await.unwrap();
        drop(tx);

        restore(db, &text, true).await.unwrap();
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.instance_id().await.unwrap(), id);
        assert_eq!(tx.claim_home("home", None).await.unwrap(), (id, false), "it is no copy");
        let supervisor = tx.supervisor().await.unwrap();
        assert_eq!((supervisor.epoch, supervisor.who), (epoch, Some(gateway)));
        let running = tx.running_jobs("two").await.unwrap();
        assert_eq!(running.iter().map(|it| it.id).collect::<Vec<_>>(), [runs]);
        assert!(tx.jobs(10).await.unwrap().iter().any(|it| it.id == ended.id && it.error == ended.error));
        assert_eq!(tx.change_counter().await.unwrap(), changes + 1, "other gateways notice");
        assert!(tx.live_sessions(NOW).await.unwrap().rows.is_empty(), "everybody signs in again");
        assert_eq!(tx.password_link_user(&[1; 32], NOW).await.unwrap(), None);
        assert!(tx.meta_get("secret/engine-key").await.unwrap().is_some(), "the dump had none");
        assert_eq!(tx.org(late.id).await.unwrap(), None);
        assert!(tx.insert_org("Later", NOW).await.unwrap().id > late.id, "its number is not given again");
        assert!(jobs::end(&mut tx, runs, JobState::Completed, None, NOW).await);
        tx.commit().await.unwrap();
    }

    async fn a_database_with_users_is_replaced_only_if_asked(db: &Database) {
        fill(&db.store).await;
        let (text, _) = dump(db, DumpSecrets::Redacted).await;
        let error = db.store.check_unused().await.unwrap_err();
        assert!(error.to_string().contains("relation already exists"), "{error}");
        assert!(error.to_string().contains("drop_existing"), "{error}");
        let error = restore(db, &text, false).await.unwrap_err();
        assert!(matches!(error, StoreError::Exists), "{error}");
        assert!(dump(db, DumpSecrets::Redacted).await.0 == text);
        assert_eq!(left_schemas(db).await, [""; 0]);
    }

    async fn hostile_dumps_change_nothing(db: &Database) {
        fill_small(&db.store).await;
        let (before, _) = dump(db, DumpSecrets::Redacted).await;
        let text = String::from_utf8(before.clone()).unwrap();
        // The reader is the same for both databases; a new schema takes longer than a new file.
        let step = if db.store.kind() == DatabaseKind::Sqlite { 1 } else { 7 };
        for hostile in HOSTILE.iter().step_by(step) {
            let error = restore(db, own_with(&text, hostile).0.as_bytes(), true).await.unwrap_err();
            assert!(matches!(error, StoreError::Dump(_)), "{hostile}: {error}");
        }
        // A dump of `pg_dump` has no proof in it, so only the new database can notice.
        let foreign = as_pg_dump(&text, TOP).await;
        let twice = foreign.lines().find(|it| it.contains("\tada\t")).unwrap();
        for (replaced, by, why) in [
            ("\tfailed\t", "\tdancing\t", "check"),
            ("\towner\tt\t", "\towner\tf\t", "no owner"),
            ("\t$argon2id$…\towner\t", "\tsecret\towner\t", "no owner"),
            ("\tgenerate\t", "\tdance\t", "check"),
            ("\tkey.create\t", "\tkey.revoke\t", "audit log"),
            ("2\t1\tbob\t", "2\t7\tbob\t", ""),
            (twice, &format!("{twice}\n{twice}"), "unique"),
        ] {
            let harmed = foreign.replace(replaced, by);
            assert_ne!(harmed, foreign, "{by}");
            if why == "no owner" {
                // What a look at the dump alone can tell, it tells.
                let problems = check_dump(harmed.as_bytes()).problems;
                assert!(problems.iter().any(|it| it.to_lowercase().contains(why)), "{by}: {problems:?}");
            }
            let error = restore(db, harmed.as_bytes(), true).await.unwrap_err();
            assert!(matches!(error, StoreError::Unproven(_)), "{by}: {error}");
            assert!(error.to_string().to_lowercase().contains(why), "{error}");
        }
        assert!(dump(db, DumpSecrets::Redacted).await.0 == before);
        assert!(!std::path::Path::new("canary").exists());
        assert_eq!(left_schemas(db).await, [""; 0]);
    }

    async fn rows_that_no_gateway_could_read_are_told_and_do_not_prevent_a_restore(db: &Database) {
        fill_small(&db.store).await;
        let (text, _) = dump(db, DumpSecrets::Redacted).await;
        let foreign = as_pg_dump(&String::from_utf8(text).unwrap(), TOP).await;
        // The first brace of a row begins its `config`.
        let at = foreign.find("COPY public.models ").unwrap();
        let at = at + foreign[at..].find('{').unwrap();
        let harmed = format!("{}x{}", &foreign[..at], &foreign[at..]);
        let report = check_dump(harmed.as_bytes());
        assert_eq!(report.problems, [""; 0]);
        assert_eq!(report.warnings, ["a row of `models` can't be read: it has a text that is no JSON"]);
        assert_eq!(check_dump(foreign.as_bytes()).warnings, [""; 0]);
        restore(db, harmed.as_bytes(), true).await.unwrap();
    }

    async fn a_dump_other_than_the_expected_one_is_refused(db: &Database) {
        fill(&db.store).await;
        let (text, mut proof) = dump(db, DumpSecrets::Redacted).await;
        let dir = tempfile::tempdir().unwrap();
        db.store.load(&text[..], dir.path(), &name(), Some(&proof)).await.unwrap();
        proof.usage.prompt_tokens += 1;
        let error = db.store.load(&text[..], dir.path(), &name(), Some(&proof)).await.unwrap_err();
        assert!(error.to_string().contains("prompt tokens"), "{error}");
    }

    async fn dumps_of_every_version_are_brought_up_to_date(db: &Database) {
        for version in 1..=16 {
            let old = Database::sqlite().await;
            old.go_back_to(version).await;
            for sql in [
                "INSERT INTO orgs (name, name_lower, enabled, created_at) VALUES ('Acme', 'acme', TRUE, 1)",
                "INSERT INTO users (org_id, username, username_lower, password_hash, role, enabled, created_at) \
                 VALUES (1, 'Ada', 'ada', '$argon2id$…', 'owner', TRUE, 1)",
                "INSERT INTO usage (id, req_id, created_at, model_name, task, endpoint, stream, prompt_tokens, \
                 completion_tokens, estimated, latency_ms, status_code, outcome) VALUES \
                 (x'0192f0c1000070008000000000000000', 'r', 1730616033280, 'm', 'generate', '/v1/chat/completions', TRUE, \
                 7, 8, FALSE, 9, 200, 'ok')",
            ] {
                old.tamper(sql).await.unwrap();
            }
            let mut text = Vec::new();
            dump_file(&old.dir().join("gantry.db"), NOW, &mut text).await.unwrap();
            assert_eq!(check_dump(&text[..]).schema_version, Some(version));
            restore(db, &text, true).await.unwrap();
            let (_, proof) = dump(db, DumpSecrets::Redacted).await;
            assert_eq!((proof.usage.prompt_tokens, proof.enabled_owners, proof.rows["users"]), (7, 1, 1));
            let added = if version == 1 { Some(&1) } else { None };
            assert_eq!(proof.rollups.get(&1), added, "version 1 had no roll-ups: they are made after the swap");
            old.remove().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_kind_of_database_restores_into_the_other() {
    let sqlite = Database::sqlite().await;
    let Some(postgres) = Database::postgres().await else { return };
    round_trip(&sqlite, &postgres).await;
    let back = Database::sqlite().await;
    let (text, proof) = dump(&postgres, DumpSecrets::Sealed).await;
    restore(&back, &text, false).await.unwrap();
    assert_eq!(dump(&back, DumpSecrets::Sealed).await.1.differences(&proof), [""; 0]);
    let dir = tempfile::tempdir().unwrap();
    let scratch = Scratch::in_file(&text[..], &dir.path().join("x.db"), Some(&proof)).await.unwrap();
    assert_eq!(scratch.header().unwrap().database, DatabaseKind::Postgres);
    let error = postgres.store.swap(scratch, true, None).await.unwrap_err();
    assert!(matches!(error, StoreError::KindDiffers), "{error}");
    for db in [sqlite, postgres, back] {
        db.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pg_dump_wrote_is_restored() {
    let Some(url) = postgres_url() else { return };
    let db = Database::postgres().await.unwrap();
    let runs = fill(&db.store).await;
    let mut tx = db.store.write().await.unwrap();
    jobs::end(&mut tx, runs, JobState::Cancelled, None, NOW).await;
    tx.commit().await.unwrap();
    let proof = dump(&db, DumpSecrets::AsStored).await.1;
    let schema = db.texts("SELECT current_schema()::text").await.remove(0);
    for how in [
        "--format=plain",
        "--inserts",
        "--column-inserts",
        "--rows-per-insert=7",
        "--no-owner",
        "--data-only",
    ] {
        let mut command = Command::new("pg_dump");
        let output = match command.arg(how).arg("--schema").arg(&schema).arg("--dbname").arg(&url).output() {
            Ok(output) => output,
            Err(error) => panic!("pg_dump: {error}"),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report = check_dump(&output.stdout[..]);
        assert_eq!((report.problems, report.kind), (vec![], DumpKind::PgDump), "{how}");
        assert_eq!(report.proof.unwrap().differences(&proof), [""; 0], "{how}");
        let to = Database::sqlite().await;
        restore(&to, &output.stdout, false).await.unwrap();
        assert_eq!(dump(&to, DumpSecrets::AsStored).await.1.differences(&proof), [""; 0], "{how}");
        to.remove().await;
    }
    let clean =
        Command::new("pg_dump").args(["--clean", "--schema", &schema, "--dbname", &url]).output().unwrap();
    let problem = check_dump(&clean.stdout[..]).problems.remove(0);
    assert!(
        problem.contains("without --clean") || problem.contains("DROP") || problem.contains("ALTER"),
        "{problem}"
    );
    db.remove().await;
}

#[tokio::test]
async fn what_a_killed_restore_left_is_removed() {
    let db = Database::sqlite().await;
    let dir = tempfile::tempdir().unwrap();
    for name in ["gantry_restore_a.db", "gantry_restore_a.db-wal", "kept.db", "gantry_restore_b.txt"] {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    db.store.remove_scratch(dir.path()).await.unwrap();
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["gantry_restore_b.txt", "kept.db"]);
    db.remove().await;

    let Some(db) = Database::postgres().await else { return };
    let mark = db.texts("SELECT LEFT(MD5(current_schema()), 8)").await.remove(0);
    db.tamper_text(&format!("CREATE SCHEMA gantry_restore_{mark}_x")).await;
    db.tamper_text(&format!("CREATE TABLE gantry_restore_{mark}_x.users (id BIGINT)")).await;
    assert_eq!(left_schemas(&db).await.len(), 1);
    // Not while a restore is under way, which might need it.
    fill(&db.store).await;
    let (text, _) = dump(&db, DumpSecrets::Redacted).await;
    let runs = db.store.load(&text[..], dir.path(), "one", None).await.unwrap();
    db.tamper_text(&format!("CREATE SCHEMA gantry_restore_{mark}_x")).await;
    db.store.remove_scratch(dir.path()).await.unwrap();
    assert_eq!(left_schemas(&db).await.len(), 1);
    let error = db.store.load(&text[..], dir.path(), "two", None).await.unwrap_err();
    assert!(matches!(error, StoreError::RestoreRuns), "{error}");
    drop(runs);
    removed_soon(&db, dir.path()).await;
    db.remove().await;
}

/// The server notices a moment later that the connection is gone.
async fn removed_soon(db: &Database, dir: &std::path::Path) {
    for _ in 0..1000 {
        db.store.remove_scratch(dir).await.unwrap();
        if left_schemas(db).await.is_empty() {
            return;
        }
    }
    panic!("the schema stays");
}

#[tokio::test]
async fn a_sqlite_file_restores_like_a_dump() {
    let from = Database::sqlite().await;
    fill(&from.store).await;
    let proof = dump(&from, DumpSecrets::AsStored).await.1;
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup.db");
    gantry_store::back_up(&from.url, &backup).await.unwrap();
    let to = Database::sqlite().await;
    let source = gantry_store::open_dump(&backup, dir.path(), NOW).await.unwrap();
    let scratch = to.store.load(source, dir.path(), &name(), None).await.unwrap();
    to.store.swap(scratch, false, None).await.unwrap();
    assert_eq!(dump(&to, DumpSecrets::AsStored).await.1.differences(&proof), [""; 0]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only the backup");
    to.remove().await;
    from.remove().await;
}
