//! API keys.

use gantry_domain::{
    KeyId, Role, Timestamp,
    key::{KeySettings, KeyStatus, Scopes},
    limit::{LimitMode, Limits},
    net::IpList,
};
use gantry_store::{
    Constraint, KeyColumn, KeyFilter, NewKey, Order, OrgChange, Sort, StoreError, Tx, UserChange,
};

use crate::harness::{Database, NOW, at, new_key, on_both};

const DAY_MS: i64 = 24 * 3600 * 1000;

fn full_limits() -> Limits {
    Limits {
        rpm_limit: Some(60),
        tpm_limit: Some(i64::MAX),
        max_concurrency: Some(1),
        max_streams: Some(2),
        budget_tokens_day: Some(3),
        budget_tokens_month: Some(4),
    }
}

fn full_settings() -> KeySettings {
    KeySettings {
        name: "CI, Größe".to_owned(),
        scopes: Scopes::parse("chat,embeddings").unwrap(),
        models: Some(vec!["Qwen/Qwen3-8B".to_owned(), "with, comma \"quoted\"".to_owned()]),
        ip_allowlist: IpList::parse(["10.0.0.0/8", "::1"]).unwrap(),
        expires_at: Some(at(1000)),
        limits: full_limits(),
        limit_mode: LimitMode::Shadow,
    }
}

async fn ids(tx: &mut Tx, filter: &KeyFilter, sort: Sort<KeyColumn>) -> Vec<i64> {
    let (keys, total) = tx.keys(filter, sort, 100, 0).await.unwrap();
    assert_eq!(keys.len() as i64, total);
    keys.into_iter().map(|it| it.id.0).collect()
}

on_both! {
    async fn a_key_lives(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let new = NewKey { settings: full_settings(), user_id: Some(ann.id), ..new_key(org.id, 1, "") };
        let key = tx.insert_key(&new, NOW).await.unwrap();
        assert_eq!((&key.settings, key.token_hash, &key.prefix), (&new.settings, [1; 32], &new.prefix));
        assert_eq!((key.org_name.as_str(), key.username.as_deref()), ("Acme", Some("ann")));
        assert_eq!((key.user_id, key.holder_enabled, key.created_at), (Some(ann.id), true, NOW));
        assert_eq!((key.last_used_at, key.revoked_at), (None, None));
        assert_eq!(tx.key(key.id).await.unwrap().as_ref(), Some(&key));
        assert_eq!(tx.key(KeyId(99)).await.unwrap(), None);

        let plain = KeySettings { models: Some(Vec::new()), ..KeySettings::default() };
        let changed = tx.update_key(key.id, &plain).await.unwrap().unwrap();
        assert_eq!((&changed.settings, changed.token_hash), (&plain, [1; 32]));
        let changed = tx.update_key(key.id, &KeySettings::default()).await.unwrap().unwrap();
        assert_eq!(changed.settings, KeySettings::default());
        assert_eq!(tx.update_key(KeyId(99), &plain).await.unwrap(), None);

        assert_eq!(tx.revoke_key(key.id, at(5)).await.unwrap().unwrap().revoked_at, Some(at(5)));
        assert_eq!(tx.revoke_key(key.id, at(6)).await.unwrap().unwrap().revoked_at, Some(at(5)));
        assert_eq!(tx.revoke_key(KeyId(99), at(5)).await.unwrap(), None);
    }

    async fn a_token_is_given_out_once(db: &Database) {
        let org = db.org("Acme").await;
        let mut tx = db.store.write().await.unwrap();
        tx.insert_key(&new_key(org.id, 1, "a"), NOW).await.unwrap();
        let error = tx.insert_key(&new_key(org.id, 1, "b"), NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::KeyHash)), "{error:?}");
    }

    async fn a_key_stays_with_its_user(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let foreign = NewKey { user_id: Some(ann.id), ..new_key(other.id, 1, "") };
        let error = db.store.write().await.unwrap().insert_key(&foreign, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Reference), "{error:?}");

        let mut tx = db.store.write().await.unwrap();
        let own = NewKey { user_id: Some(ann.id), ..new_key(org.id, 2, "") };
        let key = tx.insert_key(&own, NOW).await.unwrap();
        let shared = tx.insert_key(&new_key(org.id, 3, ""), NOW).await.unwrap();
        let moved = UserChange { org_id: Some(other.id), ..UserChange::default() };
        tx.update_user(ann.id, &moved).await.unwrap();
        assert_eq!(tx.key(key.id).await.unwrap().unwrap().org_name, "Other");
        assert_eq!(tx.key(shared.id).await.unwrap().unwrap().org_name, "Acme");
        tx.delete_user(ann.id).await.unwrap();
        assert_eq!(tx.key(key.id).await.unwrap(), None);
        tx.delete_org(org.id).await.unwrap();
        assert_eq!(tx.key(shared.id).await.unwrap(), None);
    }

    async fn keys_are_filtered_sorted_and_paged(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let mut made = Vec::new();
        for (number, name, org, user, at_ms) in [
            (1, "b_üro", &org, Some(ann.id), 3),
            (2, "Alpha", &org, Some(bob.id), 2),
            (3, "bag", &org, None, 1),
            (4, "100%", &other, None, 4),
        ] {
            let new = NewKey { user_id: user, ..new_key(org.id, number, name) };
            made.push(tx.insert_key(&new, at(at_ms)).await.unwrap().id);
        }
        tx.touch_keys(&[(made[2], at(50)), (made[0], at(60))], at(100)).await.unwrap();

        let all = KeyFilter::default();
        for (by, up) in [
            (KeyColumn::Id, [1, 2, 3, 4]),
            (KeyColumn::CreatedAt, [3, 2, 1, 4]),
            (KeyColumn::LastUsedAt, [2, 4, 3, 1]),
            (KeyColumn::Name, [4, 2, 1, 3]),
        ] {
            let mut want = up.to_vec();
            for order in [Order::Asc, Order::Desc] {
                assert_eq!(ids(&mut tx, &all, Sort { by, order }).await, want, "{by:?} {order:?}");
                want.reverse();
            }
        }
        let sort = Sort::default();
        let with = |q: &str| KeyFilter { q: Some(q.to_owned()), ..KeyFilter::default() };
        assert_eq!(ids(&mut tx, &with("ÜRO"), sort).await, [1]);
        assert_eq!(ids(&mut tx, &with("%"), sort).await, [4]);
        // The text occurs in the prefixes `gty_Ab000002` …
        assert_eq!(ids(&mut tx, &with("ab000002"), sort).await, [2]);
        assert_eq!(ids(&mut tx, &with("y_a"), sort).await, [1, 2, 3, 4]);
        assert_eq!(ids(&mut tx, &KeyFilter { org_id: Some(org.id), ..all.clone() }, sort).await, [1, 2, 3]);
        assert_eq!(ids(&mut tx, &KeyFilter { user_id: Some(ann.id), ..all.clone() }, sort).await, [1]);
        let mine = KeyFilter { scope_user: Some(bob.id), ..all.clone() };
        assert_eq!(ids(&mut tx, &mine, sort).await, [2]);
        tx.revoke_key(made[1], at(70)).await.unwrap();
        let key = tx.key(made[2]).await.unwrap().unwrap();
        tx.update_key(key.id, &KeySettings { expires_at: Some(at(100)), ..key.settings }).await.unwrap();
        let off = OrgChange { enabled: Some(false), ..OrgChange::default() };
        tx.update_org(other.id, &off).await.unwrap();
        for (now, active, expired) in [(99, vec![1, 3], vec![]), (100, vec![1], vec![3])] {
            for (status, want) in [
                (KeyStatus::Active, active),
                (KeyStatus::Expired, expired),
                (KeyStatus::Revoked, vec![2]),
                (KeyStatus::HolderDisabled, vec![4]),
            ] {
                let filter = KeyFilter { status: Some((status, at(now))), ..all.clone() };
                assert_eq!(ids(&mut tx, &filter, sort).await, want, "{status:?} {now}");
                for id in want {
                    assert_eq!(tx.key(KeyId(id)).await.unwrap().unwrap().status(at(now)), status, "{id}");
                }
            }
        }
        let theirs = KeyFilter { user_id: Some(ann.id), ..mine };
        assert_eq!(ids(&mut tx, &theirs, sort).await, Vec::<i64>::new());

        let (page, total) = tx.keys(&all, sort, 2, 3).await.unwrap();
        assert_eq!((page.len(), page[0].id.0, total), (1, 4, 4));
    }

    async fn usable_keys_can_be_presented(db: &Database) {
        let org = db.org("Acme").await;
        let closed = db.org("Closed").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let off = db.user(org.id, "off", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let disable = UserChange { enabled: Some(false), ..UserChange::default() };
        tx.update_user(off.id, &disable).await.unwrap();
        tx.update_org(closed.id, &OrgChange { enabled: Some(false), ..OrgChange::default() }).await.unwrap();
        let mut add = async |number: u8, org, user, expires_at: Option<Timestamp>| {
            let mut new = NewKey { user_id: user, ..new_key(org, number, "") };
            new.settings.expires_at = expires_at;
            tx.insert_key(&new, NOW).await.unwrap().id
        };
        let of_org = add(1, org.id, None, None).await;
        let of_user = add(2, org.id, Some(ann.id), Some(at(DAY_MS))).await;
        let expired = add(3, org.id, None, Some(at(-DAY_MS))).await;
        add(4, org.id, None, Some(at(-31 * DAY_MS))).await;
        let of_disabled = add(5, org.id, Some(off.id), None).await;
        let of_closed = add(6, closed.id, None, None).await;
        let revoked = add(7, org.id, None, None).await;
        tx.revoke_key(revoked, NOW).await.unwrap();

        let usable: Vec<_> = tx.usable_keys(NOW).await.unwrap().rows.into_iter().map(|it| it.id).collect();
        assert_eq!(usable, [of_org, of_user, expired]);
        let counts = [(None, None, 5), (Some(org.id), None, 4), (Some(org.id), Some(ann.id), 1)];
        for (org, user, n) in counts {
            // Keys whose holder may be enabled again count.
            assert_eq!(tx.count_usable_keys(org, user, NOW).await.unwrap(), n, "{org:?} {user:?}");
        }
        for id in [of_disabled, of_closed] {
            assert!(!tx.key(id).await.unwrap().unwrap().holder_enabled);
        }
    }

    async fn keys_are_counted_by_when_they_were_made(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, made) in
            [(1, Some(ann.id), 0), (2, Some(ann.id), 10), (3, Some(ann.id), 20), (4, None, 10)]
        {
            let new = NewKey { user_id: user, ..new_key(org.id, number, "") };
            let id = tx.insert_key(&new, at(made)).await.unwrap().id;
            tx.revoke_key(id, at(made)).await.unwrap();
        }
        for (since, now, n) in [(-1, 20, 3), (0, 20, 2), (0, 19, 1), (20, 99, 0)] {
            assert_eq!(tx.count_keys_made(ann.id, at(since), at(now)).await.unwrap(), n, "{since} {now}");
        }
    }

    async fn the_last_use_never_goes_backwards(db: &Database) {
        let org = db.org("Acme").await;
        let mut tx = db.store.write().await.unwrap();
        let mut made = Vec::new();
        for number in 0..130_u8 {
            made.push(tx.insert_key(&new_key(org.id, number, ""), NOW).await.unwrap().id);
        }
        // The uses fill more than two statements, and contain a key twice and one that is gone.
        let mut uses: Vec<_> = made.iter().rev().map(|id| (*id, at(id.0))).collect();
        uses.extend([(made[0], at(500)), (made[0], at(400)), (KeyId(999), at(1))]);
        let now = at(10_000);
        tx.touch_keys(&uses, now).await.unwrap();
        tx.touch_keys(&[], now).await.unwrap();
        tx.touch_keys(&[(made[1], at(0)), (made[2], at(700))], now).await.unwrap();
        let last = async |tx: &mut Tx, id| tx.key(id).await.unwrap().unwrap().last_used_at.unwrap();
        assert_eq!(last(&mut tx, made[0]).await, at(500));
        assert_eq!(last(&mut tx, made[1]).await, at(made[1].0));
        assert_eq!(last(&mut tx, made[2]).await, at(700));
        for id in &made[3..] {
            assert_eq!(last(&mut tx, *id).await, at(id.0));
        }
        // The first time is from a clock that was ahead, the second from one that is right.
        tx.touch_keys(&[(made[0], at(90_000))], at(90_000)).await.unwrap();
        tx.touch_keys(&[(made[0], at(9_000))], now).await.unwrap();
        assert_eq!(last(&mut tx, made[0]).await, at(9_000));
    }
}

#[test]
fn columns_are_a_closed_set() {
    assert_eq!(KeyColumn::parse("last_used_at"), Some(KeyColumn::LastUsedAt));
    assert_eq!(KeyColumn::parse("token_hash"), None);
}
