//! Sessions, and what ends them.

use gantry_domain::{Role, Timestamp, UserId, identity::Session};
use gantry_store::{OrgChange, StoreError, UserChange};

use crate::harness::{Database, NOW, at, on_both};

pub(crate) fn session(number: u8, user_id: UserId, expires_at: Timestamp) -> Session {
    Session { id_hash: [number; 32], user_id, created_at: NOW, expires_at }
}

on_both! {
    async fn a_session_lives(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let one = session(1, ann.id, at(10));
        tx.insert_session(&one).await.unwrap();
        let found = tx.session(&one.id_hash).await.unwrap();
        assert_eq!(found, Some((one.clone(), ann.clone(), true)));
        assert_eq!(tx.session(&[9; 32]).await.unwrap(), None);

        assert!(tx.touch_session(&one.id_hash, at(20)).await.unwrap());
        assert!(!tx.touch_session(&[9; 32], at(20)).await.unwrap());
        tx.update_org(org.id, &OrgChange { enabled: Some(false), ..OrgChange::default() }).await.unwrap();
        let (moved, _, org_enabled) = tx.session(&one.id_hash).await.unwrap().unwrap();
        assert_eq!((moved.expires_at, moved.created_at, org_enabled), (at(20), NOW, false));

        assert!(tx.delete_session(&one.id_hash).await.unwrap());
        assert!(!tx.delete_session(&one.id_hash).await.unwrap());
        assert_eq!(tx.session(&one.id_hash).await.unwrap(), None);
    }

    async fn sessions_end_by_user_and_by_time(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, end) in [(1, &ann, 10), (2, &ann, 20), (3, &ann, 30), (4, &bob, 10), (5, &bob, 30)] {
            tx.insert_session(&session(number, user.id, at(end))).await.unwrap();
        }
        let of_ann = tx.user_sessions(ann.id, at(10)).await.unwrap();
        assert_eq!(of_ann, [session(2, ann.id, at(20)), session(3, ann.id, at(30))]);
        assert_eq!(tx.delete_user_sessions(ann.id, Some([2; 32])).await.unwrap(), 2);
        assert!(tx.session(&[2; 32]).await.unwrap().is_some());
        // The session that ends at this very instant has ended.
        assert_eq!(tx.purge_sessions(at(10)).await.unwrap(), 1);
        assert!(tx.session(&[5; 32]).await.unwrap().is_some());
        assert_eq!(tx.delete_user_sessions(ann.id, None).await.unwrap(), 1);
        tx.delete_user(bob.id).await.unwrap();
        assert!(tx.session(&[5; 32]).await.unwrap().is_none());
    }

    async fn the_sessions_of_an_organisation_that_end_last_are_kept(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let eve = db.user(db.org("Other").await.id, "eve", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, end) in [(1, &ann, 40), (2, &ann, 10), (3, &bob, 30), (4, &bob, 20), (5, &eve, 5)] {
            tx.insert_session(&session(number, user.id, at(end))).await.unwrap();
        }
        assert_eq!(tx.org_user_count(org.id).await.unwrap(), 2);
        assert_eq!(tx.org_session_count(org.id).await.unwrap(), 4);
        assert_eq!(tx.trim_org_sessions(org.id, 4).await.unwrap(), 0);
        assert_eq!(tx.trim_org_sessions(org.id, 2).await.unwrap(), 2);
        for (number, is_there) in [(1, true), (2, false), (3, true), (4, false), (5, true)] {
            assert_eq!(tx.session(&[number; 32]).await.unwrap().is_some(), is_there, "{number}");
        }
    }

    async fn the_sessions_that_end_last_are_kept(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, end) in [(1, &ann, 40), (2, &ann, 10), (3, &ann, 30), (4, &ann, 20), (5, &bob, 5)] {
            tx.insert_session(&session(number, user.id, at(end))).await.unwrap();
        }
        assert_eq!(tx.trim_user_sessions(ann.id, 4).await.unwrap(), 0);
        assert_eq!(tx.trim_user_sessions(ann.id, 2).await.unwrap(), 2);
        let mut left = Vec::new();
        for number in 1..=5 {
            left.push(tx.session(&[number; 32]).await.unwrap().is_some());
        }
        assert_eq!(left, [true, false, true, false, true]);
        assert_eq!(tx.trim_user_sessions(ann.id, 0).await.unwrap(), 2);
    }

    async fn sessions_end_with_their_organisation(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(other.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user) in [(1, &ann), (2, &ann), (3, &bob)] {
            tx.insert_session(&session(number, user.id, at(10))).await.unwrap();
        }
        assert_eq!(tx.delete_org_sessions(org.id).await.unwrap(), 2);
        assert_eq!(tx.live_sessions(NOW).await.unwrap().rows, [(session(3, bob.id, at(10)), bob)]);
    }

    async fn live_sessions_are_those_that_work(db: &Database) {
        let org = db.org("Acme").await;
        let closed = db.org("Closed").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let off = db.user(org.id, "off", Role::User).await;
        let shut = db.user(closed.id, "shut", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, end) in [(1, &ann, 10), (2, &ann, 11), (3, &off, 30), (4, &shut, 30)] {
            tx.insert_session(&session(number, user.id, at(end))).await.unwrap();
        }
        let disable = UserChange { enabled: Some(false), ..UserChange::default() };
        tx.update_user(off.id, &disable).await.unwrap();
        tx.update_org(closed.id, &OrgChange { enabled: Some(false), ..OrgChange::default() }).await.unwrap();
        // This session was made by a clock that was years ahead.
        let ahead = Session { created_at: at(9_000_000), ..session(5, ann.id, at(9_000_100)) };
        tx.insert_session(&ahead).await.unwrap();
        assert_eq!(tx.live_sessions(at(10)).await.unwrap().rows, [(session(2, ann.id, at(11)), ann.clone())]);
        assert_eq!(tx.live_sessions(at(9_000_000)).await.unwrap().rows, [(ahead, ann)]);
    }

    async fn a_session_needs_a_user(db: &Database) {
        let orphan = session(1, UserId(99), at(10));
        let error = db.store.write().await.unwrap().insert_session(&orphan).await.unwrap_err();
        assert!(matches!(error, StoreError::Reference), "{error:?}");
    }
}
