//! The swap while others work, restores that are dropped half-way, and files that are replaced without a gateway.

use std::{
    collections::BTreeSet,
    fs,
    future::Future,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::Poll,
};

use gantry_domain::{
    Role,
    audit::Action,
    job::{Job, JobState},
};
use gantry_store::{
    DatabaseKind, DumpSecrets, OrgFilter, Proof, Sort, Store, StoreError, SwapRecord, finish_pending,
    restore_file,
};
use serde_json::json;

use crate::{
    audit,
    filled::{dump, fill_small, name},
    harness::{Database, NOW, at, new_user, on_both},
    restores::left_schemas,
    usage,
};

/// Polls a future up to `polls` times and then drops it.
fn dropped_after<T>(future: impl Future<Output = T>, polls: usize) -> impl Future<Output = Option<T>> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
}

/// Makes a dump with one user more than the database has.
async fn dump_of_another(db: &Database) -> (Vec<u8>, Proof) {
    let mut tx = db.store.write().await.unwrap();
    let org = tx.insert_org("Acme", NOW).await.unwrap();
    let user = tx.insert_user(&new_user(org.id, "zoe", Role::Owner), NOW).await.unwrap();
    tx.commit().await.unwrap();
    let (text, mut new) = dump(db, DumpSecrets::Redacted).await;
    let mut tx = db.store.write().await.unwrap();
    assert!(tx.delete_user(user.id).await.unwrap());
    assert!(tx.delete_org(org.id).await.unwrap());
    tx.commit().await.unwrap();
    // Their names are kept, and a restore gives no number again that was given.
    let counted = dump(db, DumpSecrets::Redacted).await.1.sequences["deleted_names"];
    new.sequences.insert("deleted_names".to_owned(), counted);
    (text, new)
}

on_both! {
    async fn a_restore_that_is_dropped_leaves_the_old_or_the_new_state(db: &Database) {
        fill_small(&db.store).await;
        let (text, new) = dump_of_another(db).await;
        let old = dump(db, DumpSecrets::Redacted).await.1;
        let dir = tempfile::tempdir().unwrap();
        let mut ends = BTreeSet::new();
        let step = if db.store.kind() == DatabaseKind::Sqlite { 3 } else { 43 };
        for polls in (1..).step_by(step) {
            let scratch = dropped_after(db.store.load(&text[..], dir.path(), &name(), None), polls).await;
            let Some(scratch) = scratch else {
                assert_eq!(dump(db, DumpSecrets::Redacted).await.1.differences(&old), [""; 0], "{polls} polls");
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{polls} polls");
                ends.insert("load");
                continue;
            };
            scratch.unwrap().remove().await;
            break;
        }
        let step = if db.store.kind() == DatabaseKind::Sqlite { 1 } else { 2 };
        for polls in (1..).step_by(step) {
            let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
            let swapped = dropped_after(db.store.swap(scratch, true, None), polls).await;
            db.store.remove_scratch(dir.path()).await.unwrap();
            let now = dump(db, DumpSecrets::Redacted).await.1;
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{polls} polls");
            if now.differences(&new).is_empty() {
                ends.insert(if swapped.is_some() { "all" } else { "new" });
            } else {
                assert_eq!(now.differences(&old), [""; 0], "{polls} polls");
                ends.insert("swap");
            }
            if let Some(swapped) = swapped {
                swapped.unwrap();
                break;
            }
        }
        // A drop in mid-swap leaves either: SQLite's own thread may have done what it was told before the drop.
        let in_swap = ends.contains("swap") || ends.contains("new");
        assert!(ends.contains("load") && in_swap && ends.contains("all"), "{ends:?}");
        assert_eq!(left_schemas(db).await, [""; 0]);
    }

    async fn a_restore_its_jobs_end_and_its_row_of_the_audit_log_are_one(db: &Database) {
        let id = fill_small(&db.store).await;
        let (text, _) = dump_of_another(db).await;
        let dir = tempfile::tempdir().unwrap();
        let did = audit::entry(Action::DatabaseRestore, "p");
        let running = db.store.read().await.unwrap().job(id).await.unwrap().unwrap();
        let made = Job { artifacts: Some(json!({ "proof": 1 })), log: vec!["loaded".to_owned()], ..running };
        let job = made.ended(JobState::Completed, None, at(7));
        let record = SwapRecord { job: &job, did: &did, now: at(7) };
        let step = if db.store.kind() == DatabaseKind::Sqlite { 3 } else { 5 };
        for polls in (1..).step_by(step) {
            let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
            let swapped = dropped_after(db.store.swap(scratch, true, Some(&record)), polls).await;
            db.store.remove_scratch(dir.path()).await.unwrap();
            audit::verify(&db.store).await.unwrap();
            let mut tx = db.store.read().await.unwrap();
            let is_new = tx.user_by_name("zoe").await.unwrap().is_some();
            let last = tx.audit_ends().await.unwrap().1.seq;
            let action = tx.audit_after(last - 1, 1).await.unwrap().remove(0).action;
            let found = tx.job(id).await.unwrap().unwrap();
            assert_eq!(action == Action::DatabaseRestore.as_str(), is_new, "{polls} polls");
            if is_new {
                assert_eq!(found, job);
                break;
            }
            assert_eq!(found.state, JobState::Running, "{polls} polls");
            assert!(swapped.is_none(), "{polls} polls");
        }
        // Somebody has cancelled the job since it was loaded.
        let old = dump(db, DumpSecrets::Redacted).await.1;
        let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
        let error = db.store.swap(scratch, true, Some(&record)).await.unwrap_err();
        assert!(matches!(error, StoreError::JobEnded), "{error}");
        assert_eq!(dump(db, DumpSecrets::Redacted).await.1.differences(&old), [""; 0]);
        assert_eq!(left_schemas(db).await, [""; 0]);
    }

    async fn others_go_on_working_while_everything_is_replaced(db: &Database) {
        fill_small(&db.store).await;
        let (text, new) = dump_of_another(db).await;
        let dir = tempfile::tempdir().unwrap();
        let (stop, n_read, n_written) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        let (stop, n_read, n_written) = (&stop, &n_read, &n_written);
        let reader = |n: usize| async move {
            // The same statements again and again, on connections that have them prepared.
            while !stop.load(SeqCst) {
                let mut tx = if n.is_multiple_of(2) { db.store.read().await } else { db.store.read_quick().await }.unwrap();
                let (_, orgs) = tx.orgs(&OrgFilter::default(), Sort::default(), 100, 0).await.unwrap();
                let zoe = tx.user_by_name("zoe").await.unwrap();
                let keys = tx.usable_keys(NOW).await.unwrap().rows.len();
                assert_eq!((orgs == 3, keys), (zoe.is_some(), 5), "old or new, never between");
                assert!(tx.change_counter().await.unwrap() > 0);
                tx.rollback().await.unwrap();
                n_read.fetch_add(1, SeqCst);
            }
        };
        let writer = async {
            let mut n = 10_000;
            while !stop.load(SeqCst) {
                n += 1;
                let mut tx = db.store.write().await.unwrap();
                tx.insert_usage(&[usage::row(at(n), n as u128)]).await.unwrap();
                tx.commit().await.unwrap();
                n_written.fetch_add(1, SeqCst);
            }
        };
        let swaps = async {
            for _ in 0..3 {
                let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
                let before = (n_read.load(SeqCst), n_written.load(SeqCst));
                db.store.swap(scratch, true, None).await.unwrap();
                while n_read.load(SeqCst) < before.0 + 5 || n_written.load(SeqCst) < before.1 + 5 {
                    tokio::task::yield_now().await;
                }
            }
            stop.store(true, SeqCst);
        };
        tokio::join!(reader(0), reader(1), reader(2), reader(3), writer, swaps);
        let mut now = dump(db, DumpSecrets::Redacted).await.1;
        assert!(now.rows["usage"] >= new.rows["usage"], "rows that came after the swap are there");
        (now.usage, now.rollups) = (new.usage.clone(), new.rollups.clone());
        for table in ["usage", "usage_rollups"] {
            now.rows.insert(table.to_owned(), new.rows[table]);
            now.digests.insert(table.to_owned(), new.digests[table].clone());
        }
        now.sequences.clone_from(&new.sequences);
        assert_eq!(now.differences(&new), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_waits_for_a_transaction_that_reads_the_old_tables() {
    let Some(db) = Database::postgres().await else { return };
    fill_small(&db.store).await;
    let (text, new) = dump_of_another(&db).await;
    let dir = tempfile::tempdir().unwrap();
    let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
    let done = AtomicBool::new(false);
    let mut tx = db.store.read().await.unwrap();
    let old = tx.orgs(&OrgFilter::default(), Sort::default(), 100, 0).await.unwrap();
    let reads = async {
        for _ in 0..60 {
            // Others get their turn between the tries of the swap.
            let mut other = db.store.read().await.unwrap();
            let seen = other.orgs(&OrgFilter::default(), Sort::default(), 100, 0).await.unwrap();
            other.rollback().await.unwrap();
            assert_eq!(seen, old);
            assert!(!done.load(SeqCst));
        }
        assert!(tx.user_by_name("zoe").await.unwrap().is_none());
        tx.rollback().await.unwrap();
    };
    let swap = async {
        db.store.swap(scratch, true, None).await.unwrap();
        done.store(true, SeqCst);
    };
    tokio::join!(reads, swap);
    assert_eq!(dump(&db, DumpSecrets::Redacted).await.1.differences(&new), [""; 0]);
    db.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restored_rows_are_never_read_with_the_mark_of_the_restore_before() {
    let Some(db) = Database::postgres().await else { return };
    fill_small(&db.store).await;
    let (text, _) = dump_of_another(&db).await;
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let mut tx = db.store.write().await.unwrap();
        if let Some(zoe) = tx.user_by_name("zoe").await.unwrap() {
            assert!(tx.delete_user(zoe.id).await.unwrap());
        }
        tx.commit().await.unwrap();
        let before = db.store.read().await.unwrap().last_restore().await.unwrap();
        let scratch = db.store.load(&text[..], dir.path(), &name(), None).await.unwrap();
        let done = AtomicBool::new(false);
        let (store, before, done) = (&db.store, &before, &done);
        let reader = || async move {
            while !done.load(SeqCst) {
                let mut tx = store.read().await.unwrap();
                let model = tx.models_for_reconcile().await.unwrap().rows.remove(0);
                let is_new = tx.user_by_name("zoe").await.unwrap().is_some();
                tx.rollback().await.unwrap();
                assert_eq!(is_new, model.restored != *before, "round {round}");
            }
        };
        let swap = async {
            db.store.swap(scratch, true, None).await.unwrap();
            done.store(true, SeqCst);
        };
        tokio::join!(reader(), reader(), reader(), swap);
    }
    db.remove().await;
}

/// A dump asks `meta` first, which is what a swap locks and changes.
#[tokio::test]
async fn a_dump_that_waits_for_a_swap_shows_what_came_with_it() {
    const SWAP: &str = "BEGIN; LOCK TABLE meta IN ACCESS EXCLUSIVE MODE; \
         DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'meta'::regclass AND NOT granted) \
         LOOP PERFORM pg_sleep(0.01); END LOOP; END $$; \
         UPDATE orgs SET name = 'Brought'; COMMIT";
    const SWAPS: &str = "SELECT 1 FROM pg_locks WHERE relation = 'meta'::regclass AND mode = 'AccessExclusiveLock' AND granted";
    let Some(db) = Database::postgres().await else { return };
    db.org("Acme").await;
    let dump = async {
        while db.tamper(SWAPS).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        let mut text = Vec::new();
        db.store.dump(DumpSecrets::Redacted, NOW, &mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    };
    let ((), text) = tokio::join!(db.tamper_text(SWAP), dump);
    assert!(text.contains("Brought") && !text.contains("Acme"), "{text}");
    db.remove().await;
}

/// Makes a database file with an owner, and returns its dump too.
async fn file_with_owner(path: &Path, username: &str) -> Vec<u8> {
    let store = Store::open(&format!("sqlite://{}", path.display())).await.unwrap();
    let mut tx = store.write().await.unwrap();
    let org = tx.insert_org("Acme", NOW).await.unwrap();
    tx.insert_user(&new_user(org.id, username, Role::Owner), NOW).await.unwrap();
    tx.commit().await.unwrap();
    let mut text = Vec::new();
    store.dump(DumpSecrets::Redacted, NOW, &mut text).await.unwrap();
    store.close().await;
    text
}

/// Returns the only user of a database file.
async fn user_of(path: &Path) -> String {
    let store = Store::open(&format!("sqlite://{}", path.display())).await.unwrap();
    let mut tx = store.read().await.unwrap();
    let mut names = Vec::new();
    for name in ["old", "new"] {
        names.extend(tx.user_by_name(name).await.unwrap().map(|_| name.to_owned()));
    }
    drop(tx);
    store.close().await;
    assert_eq!(names.len(), 1);
    names.remove(0)
}

#[tokio::test]
async fn a_damaged_file_is_replaced_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("gantry.db");
    let text = file_with_owner(&dir.path().join("other.db"), "new").await;
    fs::remove_file(dir.path().join("other.db")).unwrap();
    fs::write(&target, "no database at all").unwrap();
    // A log that belongs to the old file must never be applied to the new one.
    fs::write(dir.path().join("gantry.db-wal"), "an old log").unwrap();
    fs::write(dir.path().join("gantry.db-shm"), "x").unwrap();
    let done = restore_file(&text[..], &target, None, NOW).await.unwrap();
    assert_eq!(done.proof.enabled_owners, 1);
    let kept = done.kept.unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "no database at all");
    let log = kept.with_file_name(format!("{}-wal", kept.file_name().unwrap().to_str().unwrap()));
    assert_eq!(fs::read_to_string(log).unwrap(), "an old log");
    assert_eq!(user_of(&target).await, "new");

    // A second one that is refused leaves everything.
    let names =
        |dir: &Path| fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name()).collect::<BTreeSet<_>>();
    let before = names(dir.path());
    let error = restore_file(&text[..text.len() / 2], &target, None, NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Dump(_)), "{error}");
    assert_eq!(names(dir.path()), before);
    // Where nothing was, nothing is kept.
    let fresh = dir.path().join("fresh.db");
    assert_eq!(restore_file(&text[..], &fresh, None, NOW).await.unwrap().kept, None);
    assert_eq!(user_of(&fresh).await, "new");
}

#[tokio::test]
async fn a_replacement_that_was_killed_is_completed_by_the_next_start() {
    let source = tempfile::tempdir().unwrap();
    file_with_owner(&source.path().join("old.db"), "old").await;
    file_with_owner(&source.path().join("new.db"), "new").await;
    // Each row is a moment at which the process may be killed: names in the folder, and who counts.
    let marker = r#"{"kept":"gantry.db.before"}"#;
    for (files, user) in [
        (&[("gantry.db", "old"), ("gantry.db.restored", "half")][..], "old"),
        (
            &[("gantry.db", "old"), ("gantry.db.restored", "new"), ("gantry.db.restore-pending.part", "{")],
            "old",
        ),
        (
            &[("gantry.db", "old"), ("gantry.db-wal", "log"), ("gantry.db.restored", "new"), ("marker", "")],
            "new",
        ),
        (
            &[
                ("gantry.db.before", "old"),
                ("gantry.db-wal", "log"),
                ("gantry.db.restored", "new"),
                ("marker", ""),
            ],
            "new",
        ),
        (
            &[
                ("gantry.db.before", "old"),
                ("gantry.db.before-wal", "log"),
                ("gantry.db.restored", "new"),
                ("marker", ""),
            ],
            "new",
        ),
        (
            &[
                ("gantry.db", "new"),
                ("gantry.db.before", "old"),
                ("gantry.db.before-wal", "log"),
                ("marker", ""),
            ],
            "new",
        ),
        (&[("gantry.db", "new"), ("gantry.db.before", "old")], "new"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, what) in files {
            let to = dir.path().join(name);
            match *what {
                "old" | "new" => drop(fs::copy(source.path().join(format!("{what}.db")), to).unwrap()),
                "" => fs::write(dir.path().join("gantry.db.restore-pending"), marker).unwrap(),
                text => fs::write(to, text).unwrap(),
            }
        }
        let target = dir.path().join("gantry.db");
        assert_eq!(user_of(&target).await, user, "{files:?}");
        if user == "new" {
            assert!(dir.path().join("gantry.db.before").exists());
            assert!(!dir.path().join("gantry.db.restored").exists());
        }
        assert!(!dir.path().join("gantry.db.restore-pending").exists());
        finish_pending(&target).unwrap();
        assert_eq!(user_of(&target).await, user);
    }
}
