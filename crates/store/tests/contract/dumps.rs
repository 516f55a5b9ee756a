//! Dumps: what is in them, and that they are read as they were written.

use std::collections::BTreeMap;

use gantry_domain::{OrgId, Role};
use gantry_store::{DumpKind, DumpSecrets, Seal, Store, StoreError, check_dump, dump_file};

use crate::{
    filled::{SECRET, dump, evil, fill},
    harness::{Database, NOW, at, new_user, on_both},
    usage,
};

on_both! {
    async fn a_dump_is_read_as_it_was_written(db: &Database) {
        fill(&db.store).await;
        let (text, proof) = dump(db, DumpSecrets::Redacted).await;
        let report = check_dump(&text[..]);
        assert_eq!(report.problems, [""; 0]);
        assert_eq!(report.kind, DumpKind::Gantry);
        let header = report.header.unwrap();
        assert_eq!((header.created_at.as_str(), header.database), (NOW.rfc3339().as_str(), db.store.kind()));
        assert_eq!(header.schema_version, gantry_store::migration_versions().last().unwrap().0);
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(header.instance, Some(tx.instance_id().await.unwrap().to_string()));
        drop(tx);
        let read = report.proof.unwrap();
        assert_eq!(read.differences(&proof), [""; 0]);
        let rows = |table: &str| read.rows[table];
        assert_eq!((rows("usage"), rows("users"), rows("chat_messages"), rows("audit")), (1000, 2, 20, 5));
        assert_eq!((rows("sessions"), rows("supervisor"), rows("changes")), (0, 0, 0));
        assert_eq!(rows("password_links"), 0, "a copy of the database gives nobody a link");
        assert_eq!(rows("jobs"), 1, "the one that runs belongs to the gateway");
        assert_eq!((read.usage.requests, read.usage.prompt_tokens), (1999, 12_000));
        assert_eq!((read.audit.head, read.audit.verifies, read.enabled_owners), (5, true, 1));
        assert_eq!((read.rollups[&1], read.rollups[&24]), (1999, 1999));
        let one = |table: &str| (table.to_owned(), 1);
        let secrets = [one("meta"), ("models".to_owned(), 2), one("registry")];
        assert_eq!(proof.redacted, BTreeMap::from(secrets));
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(SECRET));
        assert!(!text.contains("HF_TOKEN"), "the variable would have a wrong value");
        assert!(db.store.size_bytes().await.unwrap() > text.len() as u64 / 10);
        assert!(!text.contains("\nhome\t"), "the data directory is the live gateway's");
    }

    async fn a_backup_keeps_secrets_encrypted_and_nothing_in_clear(db: &Database) {
        fill(&db.store).await;
        let key = || Seal::parse(&"7".repeat(64).into()).unwrap();
        // Before there was encryption, the rows held the secrets in clear. A backup encrypts them.
        let sealing = db.store.clone().with_seal(key());
        let mut text = Vec::new();
        let proof = sealing.dump(DumpSecrets::Sealed, NOW, &mut text).await.unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("gantry-sealed:1:").count(), 4, "two models, an engine, a shared secret");
        assert_eq!(proof.redacted, BTreeMap::new());
        // Environment variables are in clear in the database, and a backup has to bring them back.
        assert_eq!(text.matches(SECRET).count(), 2, "in `config` and `launched`");
        // Without a key they are left out.
        let (text, proof) = dump(db, DumpSecrets::Sealed).await;
        assert!(!String::from_utf8(text).unwrap().contains("gantry-sealed:"));
        assert_eq!(proof.redacted.values().sum::<u64>(), 4);
    }

    async fn numbers_that_were_given_are_not_given_again(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let orgs = [tx.insert_org("a", NOW).await.unwrap().id, tx.insert_org("b", NOW).await.unwrap().id];
        assert!(tx.delete_org(orgs[1]).await.unwrap());
        tx.commit().await.unwrap();
        let (text, proof) = dump(db, DumpSecrets::Redacted).await;
        assert_eq!(proof.sequences.get("orgs"), Some(&orgs[1].0));
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(&format!("setval('public.orgs_id_seq', {}, true)", orgs[1].0)));
        assert!(text.contains("setval('public.models_id_seq', 1, false)"));
        let problems = check_dump(text.as_bytes()).problems;
        assert_eq!(problems, ["no owner is in it who could sign in"]);
    }

    async fn a_dump_is_of_one_moment(db: &Database) {
        // Each transaction adds a user and a usage row. Whatever the dump sees, it sees as many of both.
        let org = db.org("Acme").await.id;
        let store = db.store.clone();
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let writer = tokio::task::JoinSet::from_iter([async move {
            let mut n = 0;
            while stopped.try_recv().is_err() {
                n += 1;
                write_both(&store, org, n).await;
            }
            n
        }]);
        let mut seen = Vec::new();
        while seen.last().is_none_or(|it| *it < 30) {
            let (text, proof) = dump(db, DumpSecrets::Redacted).await;
            assert_eq!(proof.rows["users"], proof.rows["usage"]);
            assert_eq!(check_dump(&text[..]).proof.unwrap().differences(&proof), [""; 0]);
            seen.push(proof.rows["usage"]);
        }
        stop.send(()).unwrap();
        let written = writer.join_all().await[0];
        assert!(seen.is_sorted() && written >= *seen.last().unwrap(), "{seen:?} {written}");
    }

    async fn tables_that_were_changed_by_hand_are_not_dumped(db: &Database) {
        db.tamper("ALTER TABLE users ADD COLUMN shoe_size INTEGER").await.unwrap();
        let error = db.store.dump(DumpSecrets::Redacted, NOW, &mut std::io::sink()).await.unwrap_err();
        assert!(matches!(error, StoreError::Schema(_)), "{error}");
        assert!(error.to_string().contains("shoe_size"), "{error}");
    }

    async fn a_full_disk_is_an_error(db: &Database) {
        fill(&db.store).await;
        let mut small = [0; 4096];
        let error = db.store.dump(DumpSecrets::Redacted, NOW, &mut &mut small[..]).await.unwrap_err();
        assert!(matches!(error, StoreError::Sink(_)), "{error}");
    }

    async fn a_broken_chain_is_noticed(db: &Database) {
        fill(&db.store).await;
        for (damage, repair) in [
            ("UPDATE audit SET action = 'x' WHERE seq = 3", "UPDATE audit SET action = 'key.create' WHERE seq = 3"),
            ("UPDATE audit_chain SET seq = 6 WHERE name = 'head'", "UPDATE audit_chain SET seq = 5 WHERE name = 'head'"),
            ("DELETE FROM audit WHERE seq = 5", "SELECT 1"),
        ] {
            assert_eq!(db.tamper(damage).await.unwrap(), 1);
            let (text, proof) = dump(db, DumpSecrets::Redacted).await;
            assert!(!proof.audit.verifies, "{damage}");
            let problems = check_dump(&text[..]).problems;
            assert!(problems.len() == 1 && problems[0].contains("audit log"), "{problems:?}");
            db.tamper(repair).await.unwrap();
        }
    }
}

async fn write_both(store: &Store, org: OrgId, n: u64) {
    let mut tx = store.write().await.unwrap();
    tx.insert_user(&new_user(org, &format!("user{n}"), Role::Owner), NOW).await.unwrap();
    tx.insert_usage(&[usage::row(at(n as i64), n.into())]).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn both_databases_write_the_same_rows() {
    let sqlite = Database::sqlite().await;
    let Some(postgres) = Database::postgres().await else { return };
    let mut dumps = Vec::new();
    for db in [&sqlite, &postgres] {
        let mut tx = db.store.write().await.unwrap();
        let org = tx.insert_org(&evil(5), NOW).await.unwrap().id;
        tx.insert_user(&new_user(org, "ada", Role::Owner), NOW).await.unwrap();
        let rows: Vec<_> = (0..50).map(|n| usage::row(at(n), n as u128)).collect();
        tx.insert_usage(&rows).await.unwrap();
        tx.commit().await.unwrap();
        let (text, proof) = dump(db, DumpSecrets::Redacted).await;
        let text = String::from_utf8(text).unwrap();
        dumps.push((text.split_once('\n').unwrap().1.to_owned(), proof));
    }
    assert!(dumps[0] == dumps[1], "{}\n{}", dumps[0].0, dumps[1].0);
    sqlite.remove().await;
    postgres.remove().await;
}

#[tokio::test]
async fn a_backup_file_of_any_version_is_dumped_without_being_changed() {
    let db = Database::sqlite().await;
    db.go_back_to(8).await;
    db.tamper("INSERT INTO registry (served_name, url, task, api_key, created_at) VALUES ('a', 'http://b', 'generate', 'sk-old', 7)")
        .await
        .unwrap();
    let file = db.dir().join("gantry.db");
    let before = std::fs::read(&file).unwrap();
    let mut text = Vec::new();
    let proof = dump_file(&file, NOW, &mut text).await.unwrap();
    assert!(std::fs::read(&file).unwrap() == before);
    let report = check_dump(&text[..]);
    assert_eq!(report.schema_version, Some(8));
    assert_eq!((proof.rows["registry"], proof.rows.get("jobs")), (1, None));
    assert!(String::from_utf8(text).unwrap().contains("sk-old"), "it is restored on the same machine");

    db.tamper("UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 2").await.unwrap();
    let error = dump_file(&file, NOW, &mut std::io::sink()).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema(_)), "{error}");
    std::fs::write(&file, "no database").unwrap();
    assert!(dump_file(&file, NOW, &mut std::io::sink()).await.is_err());
}
