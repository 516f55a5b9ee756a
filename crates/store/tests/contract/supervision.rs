//! Only the gateway that supervises may write.

use std::time::{Duration, Instant};

use gantry_domain::{
    Role,
    model::{ModelDraft, Phase},
};
use gantry_store::{Candidate, DatabaseKind, StoreError};
use serde_json::json;

use crate::harness::{Database, NOW, PATIENCE, at, on_both};

fn candidate(name: &str) -> Candidate {
    Candidate {
        gateway: format!("dir-{name}"),
        name: name.to_owned(),
        runtime: (name != "blind").then(|| "docker:x".to_owned()),
        machine: "m".to_owned(),
    }
}

on_both! {
    async fn what_is_written_in_an_earlier_epoch_is_refused(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.supervisor().await.unwrap().who, None);
        let epoch = tx.set_supervisor(&candidate("one"), NOW).await.unwrap();
        let body = json!({ "served_name": "m", "engine_type": "vllm", "local_path": "x" });
        let draft = ModelDraft::create(body.as_object().unwrap(), Role::Owner).unwrap();
        let model = tx.insert_model(&draft, NOW).await.unwrap();
        tx.commit().await.unwrap();
        let starting = |since| Phase::Starting { generation: model.generation, since };

        let mut tx = db.store.write().await.unwrap();
        tx.fence(epoch);
        assert!(tx.record_phase(&model, &starting(NOW), "boot").await.unwrap());
        tx.commit().await.unwrap();

        let mut tx = db.store.write().await.unwrap();
        let next = tx.set_supervisor(&candidate("blind"), at(1)).await.unwrap();
        assert!(next > epoch);
        tx.commit().await.unwrap();
        let mut tx = db.store.write().await.unwrap();
        tx.fence(epoch);
        assert!(tx.record_phase(&model, &starting(at(5)), "boot").await.unwrap());
        assert!(matches!(tx.commit().await, Err(StoreError::Overtaken)));
        let mut tx = db.store.write().await.unwrap();
        assert_eq!(tx.model(model.id).await.unwrap().unwrap().phase, starting(NOW));
        let now = tx.supervisor().await.unwrap();
        assert_eq!((now.epoch, now.who, now.since), (next, Some(candidate("blind")), Some(at(1))));

        tx.release_supervisor().await.unwrap();
        let released = tx.supervisor().await.unwrap();
        assert_eq!((released.who, released.since), (None, None));
        assert!(released.epoch > next);
        tx.commit().await.unwrap();
    }

    async fn one_connection_has_the_lock(db: &Database) {
        let silence = Duration::from_mins(1);
        let first = db.store.claim(silence).await.unwrap();
        assert_eq!(first.is_some(), db.store.kind() == DatabaseKind::Postgres);
        let Some(mut first) = first else {
            assert!(!db.store.read().await.unwrap().is_claimed().await.unwrap());
            return;
        };
        let mut second = db.store.claim(silence).await.unwrap().unwrap();
        assert!(!first.holds().await.unwrap());
        assert!(first.take().await.unwrap() && first.holds().await.unwrap());
        assert!(!second.take().await.unwrap() && !second.holds().await.unwrap());
        assert!(db.store.read().await.unwrap().is_claimed().await.unwrap());
        // Another installation in the same database has a lock of its own.
        let other = Database::postgres().await.unwrap();
        let mut elsewhere = other.store.claim(silence).await.unwrap().unwrap();
        assert!(!other.store.read().await.unwrap().is_claimed().await.unwrap());
        assert!(elsewhere.take().await.unwrap());
        elsewhere.give_back().await.unwrap();
        other.remove().await;
        first.give_back().await.unwrap();
        assert!(second.take().await.unwrap());
    }

    async fn a_silent_connection_loses_the_lock(db: &Database) {
        let mut silence = Duration::from_millis(200);
        let mut first = loop {
            let Some(mut first) = db.store.claim(silence).await.unwrap() else { return };
            match first.take().await {
                Ok(taken) => {
                    assert!(taken, "nobody else wants it");
                    break first;
                }
                // The server closes a silent connection after `silence`, and this machine let more time pass before the
                // statement.
                Err(error) => assert!(silence < Duration::from_mins(1), "{error:?}"),
            }
            silence *= 2;
        };
        let mut second = db.store.claim(Duration::from_mins(1)).await.unwrap().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !second.take().await.unwrap() {
            assert!(Instant::now() < deadline, "the server keeps the lock of a silent connection");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(first.holds().await.is_err(), "it learns so at its next question");
    }

    async fn a_copy_gets_an_id_of_its_own(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        // An earlier version made this database and left its id in the data directory.
        let old = tx.instance_id().await.unwrap();
        assert_eq!(tx.claim_home("a", Some(&old.to_string())).await.unwrap(), (old, false));
        assert_eq!(tx.claim_home("a", None).await.unwrap(), (old, false));
        let (copy, renewed) = tx.claim_home("b", None).await.unwrap();
        assert!(renewed && copy != old);
        assert_eq!(tx.claim_home("b", None).await.unwrap(), (copy, false));
        assert_ne!(tx.renew_instance_id().await.unwrap(), copy);
        tx.commit().await.unwrap();
    }

    async fn a_database_that_is_not_bound_belongs_to_who_knows_its_id(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let old = tx.instance_id().await.unwrap();
        let (new, renewed) = tx.claim_home("a", Some("something else")).await.unwrap();
        assert!(renewed && new != old);
    }

    async fn the_first_secret_is_everybody_s(db: &Database) {
        use secrecy::ExposeSecret;
        let mut tx = db.store.write().await.unwrap();
        for own in ["first", "second"] {
            let secret = tx.shared_secret("engine-key", &own.into()).await.unwrap();
            assert_eq!(secret.expose_secret(), "first");
        }
    }
}
