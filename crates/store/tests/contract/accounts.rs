//! Organisations and users.

use gantry_domain::{OrgId, Role, UserId};
use gantry_store::{
    Constraint, NewKey, Order, OrgChange, OrgColumn, OrgFilter, Sort, StoreError, UserChange, UserColumn,
    UserFilter,
};

use crate::harness::{Database, NOW, at, new_key, new_user, on_both};

on_both! {
    async fn an_organisation_lives(db: &Database) {
        let org = db.org("Acme 100%").await;
        assert_eq!((org.name.as_str(), org.enabled, org.created_at), ("Acme 100%", true, NOW));
        let other = db.org("Übermut").await;
        db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        tx.insert_key(&new_key(org.id, 1, ""), NOW).await.unwrap();
        tx.insert_key(&new_key(org.id, 2, ""), NOW).await.unwrap();

        let (all, total) = tx.orgs(&OrgFilter::default(), Sort::default(), 10, 0).await.unwrap();
        assert_eq!((all.len(), total), (2, 2));
        assert_eq!((&all[0].org, all[0].n_users, all[0].n_keys), (&org, 1, 2));
        let (page, total) = tx.orgs(&OrgFilter::default(), Sort::default(), 1, 1).await.unwrap();
        assert_eq!((page.len(), page[0].org.id, total), (1, other.id, 2));
        for (q, n) in [("0%", 1), ("_", 0), ("ÜBER", 1), ("e", 2)] {
            let (_, total) = tx.orgs(&OrgFilter { q: Some(q.to_owned()), only: None }, Sort::default(), 10, 0).await.unwrap();
            assert_eq!(total, n, "{q}");
        }
        let (one, total) = tx.orgs(&OrgFilter { only: Some(other.id), q: None }, Sort::default(), 10, 0).await.unwrap();
        assert_eq!((one.len(), one[0].org.id, total), (1, other.id, 1));
        let neither = OrgFilter { only: Some(other.id), q: Some("acme".to_owned()) };
        assert_eq!(tx.orgs(&neither, Sort::default(), 10, 0).await.unwrap().1, 0);

        let change = OrgChange { enabled: Some(false), ..OrgChange::default() };
        let changed = tx.update_org(org.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.name.as_str(), changed.enabled), ("Acme 100%", false));
        let change = OrgChange { name: Some("Zenith".to_owned()), ..OrgChange::default() };
        let changed = tx.update_org(org.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.name.as_str(), changed.enabled), ("Zenith", false));
        assert_eq!(tx.org(org.id).await.unwrap(), Some(changed));
        assert_eq!(tx.update_org(OrgId(99), &change).await.unwrap(), None);

        let names = tx.org_lookup(None, None).await.unwrap();
        assert_eq!(names, [(org.id, "Zenith".to_owned()), (other.id, "Übermut".to_owned())]);
        assert_eq!(tx.org_lookup(Some(other.id), None).await.unwrap(), [(other.id, "Übermut".to_owned())]);

        assert!(tx.delete_org(other.id).await.unwrap());
        assert!(!tx.delete_org(other.id).await.unwrap());
        assert_eq!(tx.org(other.id).await.unwrap(), None);
        tx.commit().await.unwrap();
    }

    async fn names_are_unique_in_any_case(db: &Database) {
        let org = db.org("Müller").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "Änn", Role::User).await;
        let bob = db.user(other.id, "bob", Role::User).await;
        let store = &db.store;

        let error = store.write().await.unwrap().insert_org("MÜLLER", NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::OrgName)), "{error:?}");
        let change = OrgChange { name: Some("mÜLLER".to_owned()), ..OrgChange::default() };
        let error = store.write().await.unwrap().update_org(other.id, &change).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::OrgName)), "{error:?}");

        let twin = new_user(other.id, "äNN", Role::User);
        let error = store.write().await.unwrap().insert_user(&twin, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::Username)), "{error:?}");
        assert_eq!(error.to_string(), "the username is taken");
        let change = UserChange { username: Some("ÄNN".to_owned()), ..UserChange::default() };
        let error = store.write().await.unwrap().update_user(bob.id, &change).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::Username)), "{error:?}");
        // Changing the case of one's own name is not a conflict.
        let mut tx = store.write().await.unwrap();
        assert_eq!(tx.update_user(ann.id, &change).await.unwrap().unwrap().username, "ÄNN");
    }

    async fn a_name_has_one_form_and_old_ones_are_still_found(db: &Database) {
        let apart = "Zoe\u{308}";
        let org = db.org("Acme").await;
        let zoe = db.user(org.id, apart, Role::User).await;
        assert_eq!(zoe.username, "Zo\u{eb}");
        assert_eq!(db.org("e\u{301}").await.name, "\u{e9}");
        // These rows are as older versions wrote them, in which names had more than one form.
        db.tamper("UPDATE users SET username = 'Ole\u{301}', username_lower = 'ole\u{301}'").await.unwrap();
        db.tamper("UPDATE orgs SET name = 'e\u{301}', name_lower = 'e\u{301}' WHERE id = 2").await.unwrap();
        let mut tx = db.store.read().await.unwrap();
        for name in ["Ole\u{301}", "ol\u{e9}", "OL\u{c9}"] {
            assert_eq!(tx.user_by_name(name).await.unwrap().map(|it| it.id), Some(zoe.id), "{name:?}");
        }
        drop(tx);
        let twin = new_user(org.id, "Ol\u{e9}", Role::User);
        let error = db.store.write().await.unwrap().insert_user(&twin, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::Username)), "{error:?}");
        let error = db.store.write().await.unwrap().insert_org("\u{c9}", NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::OrgName)), "{error:?}");
        let change = OrgChange { name: Some("\u{c9}".to_owned()), ..OrgChange::default() };
        let error = db.store.write().await.unwrap().update_org(org.id, &change).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(Constraint::OrgName)), "{error:?}");
        // Two names that were different then: each user signs in with their own spelling.
        let mut tx = db.store.write().await.unwrap();
        let other = tx.insert_user(&new_user(org.id, "later", Role::User), NOW).await.unwrap();
        tx.commit().await.unwrap();
        db.tamper("UPDATE users SET username = 'Ol\u{e9}', username_lower = 'ol\u{e9}' WHERE username = 'later'")
            .await
            .unwrap();
        let mut tx = db.store.write().await.unwrap();
        for (name, id) in [("ole\u{301}", zoe.id), ("ol\u{e9}", other.id)] {
            assert_eq!(tx.user_by_name(name).await.unwrap().map(|it| it.id), Some(id), "{name:?}");
        }
        // A user's own name in the other form is not a conflict with the user.
        tx.delete_user(other.id).await.unwrap();
        let change = UserChange { username: Some("Ol\u{e9}".to_owned()), ..UserChange::default() };
        assert_eq!(tx.update_user(zoe.id, &change).await.unwrap().unwrap().username, "Ol\u{e9}");
    }

    async fn organisations_are_sorted_and_looked_up(db: &Database) {
        for name in ["b_c", "Bac", "abc"] {
            db.org(name).await;
        }
        let mut tx = db.store.read().await.unwrap();
        for (by, up) in [
            (OrgColumn::Id, ["b_c", "Bac", "abc"]),
            (OrgColumn::Name, ["abc", "b_c", "Bac"]),
            // All have the same time, so they are sorted by id.
            (OrgColumn::CreatedAt, ["b_c", "Bac", "abc"]),
        ] {
            let mut want = up.to_vec();
            for order in [Order::Asc, Order::Desc] {
                let (orgs, _) = tx.orgs(&OrgFilter::default(), Sort { by, order }, 10, 0).await.unwrap();
                let got: Vec<_> = orgs.iter().map(|it| it.org.name.as_str()).collect();
                assert_eq!(got, want, "{by:?} {order:?}");
                want.reverse();
            }
        }
        for (q, n) in [("AC", 1), ("_", 1), ("%", 0), ("b", 3)] {
            assert_eq!(tx.org_lookup(None, Some(q)).await.unwrap().len(), n, "{q}");
        }
    }

    async fn a_user_lives(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let ann = db.user(org.id, "Ann", Role::OrgAdmin).await;
        assert_eq!((ann.org_id, ann.role, ann.last_login_at), (org.id, Role::OrgAdmin, None));
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.user(ann.id).await.unwrap().as_ref(), Some(&ann));
        assert_eq!(tx.user_by_name("aNN").await.unwrap().as_ref(), Some(&ann));
        assert_eq!(tx.user_by_name("an\0").await.unwrap(), None);

        assert!(tx.record_login(ann.id, at(5)).await.unwrap());
        assert!(!tx.record_login(UserId(99), at(5)).await.unwrap());
        assert!(tx.lock_user(ann.id).await.unwrap() && !tx.lock_user(UserId(99)).await.unwrap());
        let change = UserChange { role: Some(Role::Admin), enabled: Some(false), ..UserChange::default() };
        let changed = tx.update_user(ann.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.username.as_str(), changed.role, changed.enabled), ("Ann", Role::Admin, false));
        assert_eq!((changed.last_login_at, &changed.password_hash), (Some(at(5)), &ann.password_hash));
        let change = UserChange {
            username: Some("Anna".to_owned()),
            password_hash: Some("new".to_owned()),
            org_id: Some(other.id),
            ..UserChange::default()
        };
        let changed = tx.update_user(ann.id, &change).await.unwrap().unwrap();
        assert_eq!((changed.username.as_str(), changed.password_hash.as_str()), ("Anna", "new"));
        assert_eq!(changed.org_id, other.id);
        assert_eq!(tx.update_user(UserId(99), &change).await.unwrap(), None);
        assert_eq!(tx.user_by_name("ann").await.unwrap(), None);

        assert!(tx.delete_user(ann.id).await.unwrap());
        assert!(!tx.delete_user(ann.id).await.unwrap());
        assert_eq!(tx.user(ann.id).await.unwrap(), None);
    }

    async fn who_is_looked_for_elsewhere_is_not_found(db: &Database) {
        let (org, other) = (db.org("Acme").await, db.org("Other").await);
        let ann = db.user(org.id, "ann", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        let key = NewKey { user_id: Some(ann.id), ..new_key(org.id, 1, "") };
        let key = tx.insert_key(&key, NOW).await.unwrap().id;
        for (scope, there) in [(None, true), (Some(org.id), true), (Some(other.id), false)] {
            assert_eq!(tx.user_in(ann.id, scope).await.unwrap().is_some(), there, "{scope:?}");
            assert_eq!(tx.key_in(key, scope, None).await.unwrap().is_some(), there, "{scope:?}");
        }
        assert!(tx.key_in(key, None, Some(ann.id)).await.unwrap().is_some());
        assert!(tx.key_in(key, None, Some(UserId(99))).await.unwrap().is_none());
        assert!(tx.user_in(UserId(99), None).await.unwrap().is_none());
    }

    async fn a_user_needs_an_organisation(db: &Database) {
        let user = new_user(OrgId(99), "ann", Role::User);
        let error = db.store.write().await.unwrap().insert_user(&user, NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Reference), "{error:?}");
    }

    async fn users_are_filtered_sorted_and_paged(db: &Database) {
        let org = db.org("Acme").await;
        let other = db.org("Other").await;
        let mut ids = Vec::new();
        // On Postgres an ordinary collation would put `_` and upper case elsewhere.
        for (n, (name, role)) in
            [("b_c", Role::User), ("Bac", Role::Admin), ("abc", Role::User)].into_iter().enumerate()
        {
            let mut tx = db.store.write().await.unwrap();
            let user = tx.insert_user(&new_user(org.id, name, role), at(-(n as i64))).await.unwrap();
            tx.commit().await.unwrap();
            ids.push(user.id);
        }
        let zoe = db.user(other.id, "zoe", Role::User).await;
        let mut tx = db.store.write().await.unwrap();
        tx.record_login(ids[1], at(9)).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.store.read().await.unwrap();

        let all = UserFilter::default();
        let (b_c, bac, abc) = (ids[0], ids[1], ids[2]);
        for (by, up) in [
            (UserColumn::Id, [b_c, bac, abc, zoe.id]),
            (UserColumn::Username, [abc, b_c, bac, zoe.id]),
            (UserColumn::CreatedAt, [abc, bac, b_c, zoe.id]),
            (UserColumn::LastLoginAt, [b_c, abc, zoe.id, bac]),
        ] {
            let mut want = up.to_vec();
            for order in [Order::Asc, Order::Desc] {
                let (users, total) = tx.users(&all, Sort { by, order }, 10, 0).await.unwrap();
                let got: Vec<_> = users.iter().map(|(user, _)| user.id).collect();
                assert_eq!((got, total), (want.clone(), 4), "{by:?} {order:?}");
                want.reverse();
            }
        }

        let count = async |tx: &mut gantry_store::Tx, filter: UserFilter| {
            let (users, total) = tx.users(&filter, Sort::default(), 10, 0).await.unwrap();
            assert_eq!(users.len() as i64, total);
            total
        };
        assert_eq!(count(&mut tx, UserFilter { org_id: Some(org.id), ..UserFilter::default() }).await, 3);
        assert_eq!(count(&mut tx, UserFilter { role: Some(Role::User), ..UserFilter::default() }).await, 3);
        assert_eq!(count(&mut tx, UserFilter { q: Some("_".into()), ..UserFilter::default() }).await, 1);
        assert_eq!(count(&mut tx, UserFilter { q: Some("AC".into()), ..UserFilter::default() }).await, 1);
        let both = UserFilter { org_id: Some(org.id), role: Some(Role::User), q: Some("a".into()) };
        assert_eq!(count(&mut tx, both).await, 1);

        let (page, total) = tx.users(&all, Sort::default(), 2, 3).await.unwrap();
        assert_eq!((page.as_slice(), total), (&[(zoe.clone(), "Other".to_owned())][..], 4));
        let names = tx.user_lookup(None, None).await.unwrap();
        assert_eq!(names.iter().map(|it| it.1.as_str()).collect::<Vec<_>>(), ["abc", "b_c", "Bac", "zoe"]);
        assert_eq!(tx.user_lookup(Some(other.id), None).await.unwrap(), [(zoe.id, "zoe".to_owned(), other.id)]);
        assert_eq!(tx.user_lookup(None, Some("AC")).await.unwrap().len(), 1);
        assert_eq!(tx.user_lookup(Some(other.id), Some("a")).await.unwrap(), []);
    }

    async fn owners_are_counted_while_they_can_sign_in(db: &Database) {
        let org = db.org("Acme").await;
        let mut tx = db.store.write().await.unwrap();
        tx.exclusive().await.unwrap();
        assert!(!tx.any_owner().await.unwrap());
        let owner = tx.insert_user(&new_user(org.id, "ann", Role::Owner), NOW).await.unwrap();
        tx.insert_user(&new_user(org.id, "bob", Role::Admin), NOW).await.unwrap();
        assert_eq!(tx.owner_count_enabled().await.unwrap(), 1);
        let off = UserChange { enabled: Some(false), ..UserChange::default() };
        tx.update_user(owner.id, &off).await.unwrap();
        assert_eq!((tx.owner_count_enabled().await.unwrap(), tx.any_owner().await.unwrap()), (0, true));
        let on = UserChange { enabled: Some(true), ..UserChange::default() };
        tx.update_user(owner.id, &on).await.unwrap();
        tx.update_org(org.id, &OrgChange { enabled: Some(false), ..OrgChange::default() }).await.unwrap();
        assert_eq!((tx.owner_count_enabled().await.unwrap(), tx.any_owner().await.unwrap()), (0, true));
    }
}

#[test]
fn columns_are_a_closed_set() {
    assert_eq!(UserColumn::parse("username"), Some(UserColumn::Username));
    assert_eq!(UserColumn::parse("id; DROP TABLE users"), None);
}
