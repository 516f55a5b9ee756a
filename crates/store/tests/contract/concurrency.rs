//! Many transactions at once.

use std::{task::Poll, time::Duration};

use gantry_domain::Role;
use gantry_store::{DatabaseKind, NewKey, OrgChange, OrgFilter, Sort, Store, StoreResult, UsageFilter};
use tokio::task::JoinSet;

use crate::{
    harness::{Database, NOW, at, new_key, new_user, on_both},
    usage::row,
};

/// Creates the first owner as the API does: `false` if there was one.
async fn bootstrap(store: Store, n: usize) -> StoreResult<bool> {
    let mut tx = store.write().await?;
    tx.exclusive().await?;
    if tx.any_owner().await? {
        return Ok(false);
    }
    let org = tx.insert_org(&format!("org {n}"), NOW).await?;
    tx.insert_user(&new_user(org.id, &format!("owner {n}"), Role::Owner), NOW).await?;
    tx.commit().await?;
    Ok(true)
}

/// Polls a future at most `n` times, each time when it was woken, and then drops it, as `select!` drops the futures
/// that lost.
async fn polled<F: Future>(n: usize, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut left = n;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

on_both! {
    /// A connection that was given back in the middle of its work must not break its next user.
    async fn whoever_is_cancelled_leaves_nothing_to_the_next(db: &Database) {
        let mut cancelled = 0;
        for n in 1..60 {
            let begun = if n % 2 == 0 {
                polled(1 + n / 6, db.store.read()).await
            } else {
                polled(1 + n / 6, db.store.write()).await
            };
            cancelled += usize::from(begun.is_none());
            drop(begun);
            // These are all connections; on SQLite writers queue for one.
            let at_once = if db.store.kind() == DatabaseKind::Sqlite { 1 } else { 6 };
            let mut writers = Vec::new();
            for i in 0..at_once {
                let mut tx = db.store.write().await.unwrap();
                tx.insert_org(&format!("org {n} {i}"), NOW).await.unwrap();
                writers.push(tx);
            }
            for tx in writers {
                tx.commit().await.unwrap();
            }
        }
        assert!(cancelled > 0);
    }

    async fn of_two_that_wait_for_each_other_one_may_try_again(db: &Database) {
        if db.store.kind() == DatabaseKind::Sqlite {
            // SQLite does not run writers at the same time.
            return;
        }
        let orgs = [db.org("one").await.id, db.org("two").await.id];
        let both = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let mut tasks = JoinSet::new();
        for n in 0..2 {
            let (store, both) = (db.store.clone(), std::sync::Arc::clone(&both));
            tasks.spawn(async move {
                let change = OrgChange { enabled: Some(false), ..OrgChange::default() };
                let mut tx = store.write().await.unwrap();
                tx.update_org(orgs[n], &change).await.unwrap();
                both.wait().await;
                tx.update_org(orgs[1 - n], &change).await.map(drop)
            });
        }
        let done = tasks.join_all().await;
        let errors: Vec<_> = done.into_iter().filter_map(Result::err).collect();
        assert!(errors.len() == 1 && errors[0].is_unavailable(), "{errors:?}");
    }

    async fn of_fifty_bootstraps_one_wins(db: &Database) {
        let mut tasks = JoinSet::new();
        for n in 0..50 {
            tasks.spawn(bootstrap(db.store.clone(), n));
        }
        let won = tasks.join_all().await.into_iter().map(Result::unwrap).filter(|it| *it).count();
        let mut tx = db.store.read().await.unwrap();
        assert_eq!((won, tx.owner_count_enabled().await.unwrap()), (1, 1));
        assert_eq!(tx.org_lookup(None, None).await.unwrap().len(), 1);
    }

    async fn writers_and_readers_do_not_lock_each_other_out(db: &Database) {
        // This is like a second program on the same database: its writers don't queue behind ours.
        let other = Store::open(&db.url).await.unwrap();
        let mut tasks = JoinSet::new();
        for task in 0..8_u32 {
            let store = if task % 2 == 0 { db.store.clone() } else { other.clone() };
            tasks.spawn(async move {
                for n in 0..20_u32 {
                    let mut tx = store.write().await.unwrap();
                    tx.insert_org(&format!("org {task} {n}"), NOW).await.unwrap();
                    let rows: Vec<_> =
                        (0..10).map(|i| row(at(n.into()), u128::from(task * 1000 + n * 10 + i))).collect();
                    tx.insert_usage(&rows).await.unwrap();
                    tx.commit().await.unwrap();
                }
            });
            let store = db.store.clone();
            tasks.spawn(async move {
                for _ in 0..20 {
                    let mut tx = store.read().await.unwrap();
                    let (_, orgs) = tx.orgs(&OrgFilter::default(), Sort::default(), 5, 0).await.unwrap();
                    assert!(orgs <= 160);
                }
            });
        }
        tasks.join_all().await;
        let mut tx = db.store.read().await.unwrap();
        assert_eq!(tx.org_lookup(None, None).await.unwrap().len(), 160);
        assert_eq!(tx.usage(&UsageFilter::default(), 1, 0).await.unwrap().1, 1600);
        drop(tx);
        other.close().await;
    }

    /// Both transactions change the same keys: one in the order of their use, the other in an order that the database
    /// chooses.
    async fn an_organisation_can_be_deleted_while_the_use_of_its_keys_is_noted(db: &Database) {
        const WAITS: &str = "SELECT 1 FROM pg_locks WHERE relation = 'orgs'::regclass AND mode = 'RowExclusiveLock' \
             OR locktype = 'advisory' AND NOT granted AND objid::bigint::bit(32)::int = hashtext(current_schema())";
        let org = db.org("Acme").await;
        let user = db.user(org.id, "ann", Role::User).await;
        let mut keys = Vec::new();
        let mut tx = db.store.write().await.unwrap();
        for n in 0..2 {
            let key = NewKey { user_id: Some(user.id), ..new_key(org.id, n, "key") };
            keys.push(tx.insert_key(&key, NOW).await.unwrap().id);
        }
        tx.commit().await.unwrap();

        let mut noting = db.store.write().await.unwrap();
        noting.touch_keys(&[(keys[1], at(1))], at(9)).await.unwrap();
        let store = db.store.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut tx = store.write().await.unwrap();
            tx.exclusive().await.unwrap();
            assert!(tx.delete_org(org.id).await.unwrap());
            tx.commit().await.unwrap();
        });
        while db.store.kind() == DatabaseKind::Postgres && db.tamper(WAITS).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        noting.touch_keys(&[(keys[0], at(1))], at(9)).await.unwrap();
        noting.commit().await.unwrap();
        tasks.join_all().await;
    }

    async fn the_instance_id_is_made_once(db: &Database) {
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let store = db.store.clone();
            tasks.spawn(async move {
                let mut tx = store.write().await.unwrap();
                let id = tx.instance_id().await.unwrap();
                tx.commit().await.unwrap();
                id
            });
        }
        let ids = tasks.join_all().await;
        assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    }

    async fn a_cancelled_writer_frees_its_place(db: &Database) {
        for n in 0..40 {
            let store = db.store.clone();
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                let mut tx = store.write().await.unwrap();
                tx.insert_org(&format!("gone {n}"), NOW).await.unwrap();
                std::future::pending::<()>().await;
            });
            // The tasks are cancelled at different places: in the queue, while they begin, after they wrote.
            tokio::time::sleep(Duration::from_micros(n * 100)).await;
            tasks.shutdown().await;
        }
        assert_eq!(db.org("Acme").await.name, "Acme");
        assert_eq!(db.store.read().await.unwrap().org_lookup(None, None).await.unwrap().len(), 1);
    }
}
