//! The audit log and its chain, and the count of changes.

use gantry_domain::{
    OrgId, Role, Timestamp, UserId,
    audit::{Action, Actor, AuditEntry, Broken, Chain, ObjectType, Origin},
    identity::Session,
};
use gantry_store::{AuditFilter, OrgChange, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::harness::{Database, NOW, at, new_key, on_both};

pub(crate) fn entry(action: Action, object: &str) -> AuditEntry {
    AuditEntry {
        actor: Actor::User { id: UserId(7), username: "ann\0".to_owned() },
        action,
        object_id: object.to_owned(),
        before: Some(json!({ "name": "ä\u{0}\"\\" })),
        after: Some(json!({ "ratio": 0.1, "n": 1e21, "none": null })),
        origin: Origin {
            token: None,
            ip: Some("::1".to_owned()),
            request_id: Some("r".to_owned()),
            user_agent: Some("agent\0 ☃".to_owned()),
        },
    }
}

pub(crate) async fn write(store: &Store, action: Action, object: &str, now: Timestamp) -> i64 {
    let mut tx = store.write().await.unwrap();
    let seq = tx.audit(&entry(action, object), now).await.unwrap();
    tx.commit().await.unwrap();
    seq
}

/// Checks the chain as the verifier does, and returns how many rows are correct.
pub(crate) async fn verify(store: &Store) -> Result<u64, Broken> {
    let mut tx = store.read().await.unwrap();
    let (anchor, head) = tx.audit_ends().await.unwrap();
    let mut chain = Chain::after(anchor);
    loop {
        let rows = tx.audit_after(chain.last().seq, 7).await.unwrap();
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            chain.take(row)?;
        }
    }
    chain.end(head)?;
    Ok(chain.count())
}

on_both! {
    async fn rows_are_read_as_they_were_written(db: &Database) {
        assert_eq!(verify(&db.store).await, Ok(0));
        assert_eq!(write(&db.store, Action::KeyCreate, "3", NOW).await, 1);
        assert_eq!(write(&db.store, Action::OrgChange, "4", at(5)).await, 2);
        let mut tx = db.store.write().await.unwrap();
        tx.audit(&AuditEntry { actor: Actor::Settings, ..entry(Action::KeyCreate, "5") }, at(9)).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(verify(&db.store).await, Ok(2));

        let mut tx = db.store.read().await.unwrap();
        let (rows, total) = tx.audit_rows(&AuditFilter::default(), 10, 0).await.unwrap();
        assert_eq!((total, rows[0].seq, rows[1].seq), (2, 2, 1));
        assert_eq!((rows[1].actor_id, rows[1].actor.as_deref()), (Some(7), Some("ann\u{fffd}")));
        assert_eq!(rows[1].after.as_deref(), Some(r#"{"ratio":0.1,"n":1e+21,"none":null}"#));
        assert_eq!((rows[1].object_type, rows[1].at), (ObjectType::Key, NOW));
        let text = |it: &str| Some(it.to_owned());
        let all = AuditFilter::default;
        for (filter, found) in [
            (AuditFilter { from: Some(at(5)), ..all() }, vec![2]),
            (AuditFilter { to: Some(at(5)), ..all() }, vec![1]),
            (AuditFilter { actor_id: Some(7), ..all() }, vec![2, 1]),
            (AuditFilter { actor_id: Some(8), ..all() }, vec![]),
            (AuditFilter { actor: text("ann\0"), ..all() }, vec![2, 1]),
            (AuditFilter { actor: text("an"), ..all() }, vec![]),
            (AuditFilter { action: Some(Action::KeyCreate), ..all() }, vec![1]),
            (AuditFilter { object_type: Some(ObjectType::Org), ..all() }, vec![2]),
            (AuditFilter { object_type: Some(ObjectType::Key), object_id: text("3"), ..all() }, vec![1]),
        ] {
            let (rows, total) = tx.audit_rows(&filter, 10, 0).await.unwrap();
            let seqs: Vec<_> = rows.iter().map(|it| it.seq).collect();
            assert_eq!((&seqs, total), (&found, found.len() as i64), "{filter:?}");
        }
        assert_eq!(tx.audit_rows(&all(), 1, 1).await.unwrap().0[0].seq, 1);
    }

    async fn gateways_that_write_at_once_leave_no_gap(db: &Database) {
        let other = Store::open(&db.url).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..8_u32 {
            let store = if task % 2 == 0 { db.store.clone() } else { other.clone() };
            tasks.spawn(async move {
                for n in 0..10_u32 {
                    let mut tx = store.write().await.unwrap();
                    // The transactions do what handlers do: some take the first lock, some are rolled back.
                    if n % 2 == 0 {
                        tx.exclusive().await.unwrap();
                    }
                    tx.insert_org(&format!("org {task} {n}"), NOW).await.unwrap();
                    tx.audit(&entry(Action::OrgCreate, &n.to_string()), NOW).await.unwrap();
                    if n % 5 == 0 { tx.rollback().await.unwrap() } else { tx.commit().await.unwrap() }
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(verify(&db.store).await, Ok(64));
        other.close().await;
    }

    async fn what_was_changed_or_removed_is_found(db: &Database) {
        for n in 0..20 {
            write(&db.store, Action::ModelStart, &n.to_string(), at(n)).await;
        }
        assert_eq!(verify(&db.store).await, Ok(20));
        db.tamper("UPDATE audit SET object_id = '99' WHERE seq = 4").await.unwrap();
        assert_eq!(verify(&db.store).await, Err(Broken::Hash(4)));
        db.tamper("UPDATE audit SET object_id = '3' WHERE seq = 4").await.unwrap();
        assert_eq!(verify(&db.store).await, Ok(20));
        db.tamper("DELETE FROM audit WHERE seq = 20").await.unwrap();
        assert_eq!(verify(&db.store).await, Err(Broken::Cut { found: 19, wanted: 20 }));
        db.tamper("DELETE FROM audit WHERE seq = 8").await.unwrap();
        assert_eq!(verify(&db.store).await, Err(Broken::Gap { missing: 8, found: 9 }));
        db.tamper("DELETE FROM audit WHERE seq <= 8").await.unwrap();
        assert_eq!(verify(&db.store).await, Err(Broken::Gap { missing: 1, found: 9 }));
    }

    async fn a_word_that_nobody_writes_is_named(db: &Database) {
        for n in 0..3 {
            write(&db.store, Action::ModelStart, &n.to_string(), at(n)).await;
        }
        // The database itself allows only the known values of `actor_type`.
        db.tamper("UPDATE audit SET actor_type = 'robot' WHERE seq = 2").await.unwrap_err();
        db.tamper("UPDATE audit SET object_type = '' WHERE seq = 2").await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        let wanted = "row `2` of table `audit` does not decode: object_type";
        let (rows, _) = tx.audit_rows(&AuditFilter::default(), 9, 0).await.unwrap();
        assert!(rows.iter().all(|it| it.seq != 2) && !rows.is_empty(), "a list comes without it");
        assert_eq!(tx.audit_after(0, 9).await.unwrap_err().to_string(), wanted);
        assert_eq!(tx.audit_after(0, 1).await.unwrap().len(), 1);
        drop(tx);
        db.tamper("UPDATE audit SET object_type = 'model'").await.unwrap();
        assert_eq!(verify(&db.store).await, Ok(3));
    }

    async fn old_rows_go_and_the_rest_still_holds(db: &Database) {
        // Row 6 is older than its neighbours: the clock was set back.
        for ms in [0, 10, 20, 30, 40, 5, 50, 60] {
            write(&db.store, Action::ModelStart, "1", at(ms)).await;
        }
        let delete = async |ms: i64, limit: i64| {
            let mut tx = db.store.write().await.unwrap();
            let n = tx.delete_audit_before(at(ms), at(10_000), limit).await.unwrap();
            tx.commit().await.unwrap();
            let left = verify(&db.store).await;
            let mut tx = db.store.read().await.unwrap();
            let (rows, total) = tx.audit_rows(&AuditFilter::default(), 100, 0).await.unwrap();
            assert_eq!((Ok(total as u64), total), (left.clone(), rows.len() as i64));
            (n, left)
        };
        assert_eq!(delete(0, 100).await, (0, Ok(8)));
        assert_eq!(delete(25, 2).await, (2, Ok(6)));
        assert_eq!(delete(25, 100).await, (1, Ok(5)));
        assert_eq!(delete(25, 100).await, (0, Ok(5)));
        assert_eq!(delete(55, 100).await, (4, Ok(1)));
        // The newest row stays: it is the end of the chain.
        assert_eq!(delete(1000, 100).await, (0, Ok(1)));
        assert_eq!(write(&db.store, Action::ModelStart, "1", at(2000)).await, 9);
        assert_eq!(delete(1000, 1).await, (1, Ok(1)));
        let mut tx = db.store.read().await.unwrap();
        assert_eq!(tx.audit_ends().await.unwrap().0.seq, 8);
        drop(tx);
        db.tamper("UPDATE audit_chain SET seq = 7 WHERE name = 'anchor'").await.unwrap();
        assert_eq!(verify(&db.store).await, Err(Broken::Gap { missing: 8, found: 9 }));
    }

    async fn a_row_of_a_clock_that_was_ahead_keeps_no_other(db: &Database) {
        for ms in [0, 9_000_000, 10, 20, 30, 40] {
            write(&db.store, Action::ModelStart, "1", at(ms)).await;
        }
        let delete = async |ms: i64| {
            let mut tx = db.store.write().await.unwrap();
            let n = tx.delete_audit_before(at(ms), at(1000), 100).await.unwrap();
            tx.commit().await.unwrap();
            (n, verify(&db.store).await)
        };
        assert_eq!(delete(0).await, (0, Ok(6)));
        assert_eq!(delete(25).await, (4, Ok(2)));
        assert_eq!(delete(1000).await, (1, Ok(1)));
    }

    async fn what_gateways_keep_in_memory_is_counted_when_it_changes(db: &Database) {
        let org = db.org("Acme").await;
        let user = db.user(org.id, "ann", Role::User).await;
        let count = async || db.store.read().await.unwrap().change_counter().await.unwrap();
        let mut last = count().await;
        let session =
            Session { id_hash: [1; 32], user_id: user.id, created_at: NOW, expires_at: at(1000) };
        let off = OrgChange { enabled: Some(false), ..OrgChange::default() };
        for step in 0..6 {
            let mut tx = db.store.write().await.unwrap();
            match step {
                0 => drop(tx.insert_key(&new_key(org.id, 1, ""), NOW).await.unwrap()),
                1 => tx.insert_session(&session).await.unwrap(),
                2 => drop(tx.update_org(org.id, &off).await.unwrap()),
                3 => drop(tx.delete_session(&session.id_hash).await.unwrap()),
                4 => drop(tx.delete_user(user.id).await.unwrap()),
                _ => drop(tx.delete_org(org.id).await.unwrap()),
            }
            assert_eq!(count().await, last, "not before it is committed: {step}");
            tx.commit().await.unwrap();
            assert_eq!(count().await, last + 1, "step {step}");
            last += 1;
        }
        let mut tx = db.store.write().await.unwrap();
        tx.update_org(OrgId(1), &off).await.unwrap();
        tx.rollback().await.unwrap();
        db.org("Nobody's").await;
        write(&db.store, Action::OrgCreate, "1", NOW).await;
        assert_eq!(count().await, last, "nothing that is kept in memory");
    }
}
