//! Tokens of people, and what ends them.

use gantry_domain::{Role, TokenId, UserId, account_token::TokenScopes};
use gantry_store::{NewToken, OrgChange, StoreError, TokenFilter};

use crate::harness::{Database, NOW, at, on_both};

pub(crate) fn token(number: u8, user_id: UserId, ends: i64) -> NewToken {
    NewToken {
        user_id,
        name: format!("script {number}"),
        prefix: format!("gta_{number}"),
        token_hash: [number; 32],
        scopes: TokenScopes::from_stored("keys:read,models:write"),
        expires_at: at(ends),
    }
}

on_both! {
    async fn a_token_is_found_by_its_hash_with_its_user(db: &Database) {
        let org = db.org("Acme").await;
        let ann = db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let made = tx.insert_token(&token(1, ann.id, 50), NOW).await.unwrap();
        let found = tx.token(&[1; 32]).await.unwrap().unwrap();
        assert_eq!((&found.token, &found.user, found.org_enabled), (&made, &ann, true));
        assert_eq!(found.token.scopes.to_string(), "keys:read,models:write");
        assert_eq!(tx.token(&[9; 32]).await.unwrap(), None);
        tx.update_org(org.id, &OrgChange { enabled: Some(false), ..OrgChange::default() }).await.unwrap();
        assert!(!tx.token(&[1; 32]).await.unwrap().unwrap().org_enabled);

        tx.touch_tokens(&[(made.id, at(7)), (TokenId(999), at(7))]).await.unwrap();
        tx.touch_tokens(&[(made.id, at(5))]).await.unwrap();
        assert_eq!(tx.token(&[1; 32]).await.unwrap().unwrap().token.last_used_at, Some(at(7)));
        assert!(tx.delete_token(made.id).await.unwrap() && !tx.delete_token(made.id).await.unwrap());
        let nobody = tx.insert_token(&token(2, UserId(999), 50), NOW).await;
        assert!(matches!(nobody, Err(StoreError::Reference)), "{nobody:?}");
    }

    async fn tokens_are_listed_and_counted_by_their_holders(db: &Database) {
        let (org, other) = (db.org("Acme").await, db.org("Other").await);
        let ann = db.user(org.id, "ann", Role::User).await;
        let bob = db.user(org.id, "bob", Role::User).await;
        let eve = db.user(other.id, "eve", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        for (number, user, ends) in [(1, &ann, 10), (2, &bob, 20), (3, &ann, 30), (4, &eve, 40)] {
            tx.insert_token(&token(number, user.id, ends), NOW).await.unwrap();
        }
        let of_org = TokenFilter { org_id: Some(org.id), ..TokenFilter::default() };
        let (page, total) = tx.tokens(&of_org, 2, 1).await.unwrap();
        assert_eq!((page.iter().map(|it| it.user.id).collect::<Vec<_>>(), total), (vec![bob.id, ann.id], 3));
        let first = page[0].token.id;
        let one = TokenFilter { id: Some(first), org_id: Some(other.id), user_id: None };
        assert_eq!(tx.tokens(&one, 1, 0).await.unwrap(), (Vec::new(), 0));
        let of_ann = TokenFilter { user_id: Some(ann.id), ..TokenFilter::default() };
        assert_eq!(tx.tokens(&of_ann, 10, 0).await.unwrap().1, 2);
        // The token that ends at this very instant has ended.
        assert_eq!(tx.count_live_tokens(ann.id, at(10)).await.unwrap(), 1);
        assert_eq!(tx.purge_tokens(at(10)).await.unwrap(), 1);
        assert_eq!(tx.delete_user_tokens(ann.id).await.unwrap(), 1);
        assert_eq!(tx.delete_org_tokens(other.id).await.unwrap(), 1);
        assert_eq!(tx.tokens(&TokenFilter::default(), 10, 0).await.unwrap().1, 1);
        tx.delete_user(bob.id).await.unwrap();
        assert_eq!(tx.tokens(&TokenFilter::default(), 10, 0).await.unwrap().1, 0);
    }
}
