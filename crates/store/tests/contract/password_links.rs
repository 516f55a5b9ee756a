//! One-time links with which users set their password, and what ends them.

use gantry_domain::{Role, UserId, identity::NO_PASSWORD};
use gantry_store::{NewUser, StoreError, UserChange};

use crate::harness::{Database, NOW, at, new_user, on_both};

const ONE: [u8; 32] = [1; 32];
const TWO: [u8; 32] = [2; 32];

on_both! {
    async fn a_user_has_one_link_until_it_expires(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        tx.put_password_link(ann.id, &ONE, at(10)).await.unwrap();
        tx.put_password_link(bob.id, &TWO, at(10)).await.unwrap();
        assert_eq!(tx.password_link_user(&ONE, at(9)).await.unwrap(), Some(ann.id));
        assert_eq!(tx.password_link_user(&ONE, at(10)).await.unwrap(), None, "it ends at this very instant");
        assert_eq!(tx.password_link_user(&[9; 32], NOW).await.unwrap(), None);
        // A new link takes the place of the old one.
        tx.put_password_link(ann.id, &[3; 32], at(20)).await.unwrap();
        assert_eq!(tx.password_link_user(&ONE, NOW).await.unwrap(), None);
        assert_eq!(tx.password_link_user(&[3; 32], at(10)).await.unwrap(), Some(ann.id));
        assert_eq!(tx.password_link_user(&TWO, NOW).await.unwrap(), Some(bob.id));
        tx.delete_user(bob.id).await.unwrap();
        assert_eq!(tx.password_link_user(&TWO, NOW).await.unwrap(), None);
        let nobody = tx.put_password_link(UserId(999), &TWO, at(10)).await;
        assert!(matches!(nobody, Err(StoreError::Reference)), "{nobody:?}");
    }

    async fn a_link_ends_with_what_it_was_made_for(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        tx.put_password_link(bob.id, &TWO, at(10)).await.unwrap();
        let nothing = UserChange::default;
        for (what, change, ends) in [
            ("password", UserChange { password_hash: Some("new".to_owned()), ..nothing() }, true),
            ("role", UserChange { role: Some(Role::OrgAdmin), ..nothing() }, true),
            ("organisation", UserChange { org_id: Some(other.id), ..nothing() }, true),
            ("disabled", UserChange { enabled: Some(false), ..nothing() }, true),
            ("enabled", UserChange { enabled: Some(true), ..nothing() }, false),
            ("name", UserChange { username: Some("anna".to_owned()), ..nothing() }, false),
            ("models", UserChange { models: Some(None), ..nothing() }, false),
        ] {
            tx.put_password_link(ann.id, &ONE, at(10)).await.unwrap();
            tx.update_user(ann.id, &change).await.unwrap();
            assert_eq!(tx.password_link_user(&ONE, NOW).await.unwrap().is_none(), ends, "{what}");
        }
        assert_eq!(tx.password_link_user(&TWO, NOW).await.unwrap(), Some(bob.id), "another user's");
    }

    async fn an_owner_without_a_password_can_not_sign_in(db: &Database) {
        let org = db.org("Acme").await;
        let mut tx = db.store.write().await.unwrap();
        let invited = NewUser { password_hash: NO_PASSWORD.to_owned(), ..new_user(org.id, "ann", Role::Owner) };
        let ann = tx.insert_user(&invited, NOW).await.unwrap();
        assert_eq!((ann.password_hash.as_str(), tx.owner_count_enabled().await.unwrap()), (NO_PASSWORD, 0));
        let change = UserChange { password_hash: Some("$argon2id$…".to_owned()), ..UserChange::default() };
        tx.update_user(ann.id, &change).await.unwrap();
        assert_eq!(tx.owner_count_enabled().await.unwrap(), 1);
    }
}
