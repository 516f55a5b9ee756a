//! Secrets in rows: how they are stored, and what happens to those that can't be opened.

use gantry_domain::model::{ModelDraft, Task};
use gantry_store::{RegistryEntry, Seal, Store, StoreError};
use secrecy::{ExposeSecret, SecretString};

use crate::{
    harness::{Database, NOW, on_both},
    models::draft,
};

fn seal(digits: &[&str]) -> Seal {
    let keys: Vec<String> = digits.iter().map(|it| it.repeat(64)).collect();
    Seal::parse(&keys.join(",").into()).unwrap()
}

fn clear(secret: Option<&SecretString>) -> Option<&str> {
    secret.map(ExposeSecret::expose_secret)
}

fn entry() -> RegistryEntry {
    RegistryEntry {
        served_name: "far".to_owned(),
        urls: vec!["http://far".to_owned()],
        task: Task::Generate,
        upstream_model: None,
        api_key: Some("sk-far".to_owned().into()),
        sealed_api_key: None,
        created_at: NOW,
    }
}

/// Adds a model and a registry entry with secrets, and a secret that gateways share.
async fn fill(store: &Store) {
    let mut tx = store.write().await.unwrap();
    tx.insert_model(&draft("qwen"), NOW).await.unwrap();
    tx.upsert_registry(&entry()).await.unwrap();
    tx.shared_secret("engine-key", &"engine-secret".to_owned().into()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns how many of the three secrets are in clear.
async fn in_clear(db: &Database) -> u64 {
    let mut n = 0;
    for sql in [
        "UPDATE models SET name = name WHERE hub_token LIKE '%hf_secret%'",
        "UPDATE registry SET urls = urls WHERE api_key LIKE '%sk-far%'",
        "UPDATE meta SET key = key WHERE value LIKE '%engine-secret%'",
    ] {
        n += db.tamper(sql).await.unwrap();
    }
    n
}

/// Returns all three secrets as a gateway with these keys reads them.
async fn read(store: &Store) -> [Option<String>; 3] {
    let mut tx = store.write().await.unwrap();
    let models = tx.models(false).await.unwrap();
    let registry = tx.registry().await.unwrap();
    let shared = tx.shared_secret("engine-key", &"another".to_owned().into()).await.ok();
    let [model, entry] = [clear(models[0].hub_token.as_ref()), clear(registry[0].api_key.as_ref())];
    [model.map(str::to_owned), entry.map(str::to_owned), shared.map(|it| it.expose_secret().to_owned())]
}

fn all() -> [Option<String>; 3] {
    ["hf_secret", "sk-far", "engine-secret"].map(|it| Some(it.to_owned()))
}

on_both! {
    async fn what_was_in_clear_is_sealed_once_and_reads_as_before(db: &Database) {
        fill(&db.store).await;
        assert_eq!(in_clear(db).await, 3);
        let store = db.store.clone().with_seal(seal(&["1"]));
        assert_eq!(read(&store).await, all());
        let done = store.reseal().await.unwrap();
        assert_eq!((done.sealed, done.unreadable), (3, Vec::new()));
        assert_eq!((in_clear(db).await, read(&store).await), (0, all()));
        assert_eq!(store.reseal().await.unwrap().sealed, 0);
        // Secrets that are written from now on are never in clear.
        let mut tx = store.write().await.unwrap();
        tx.insert_model(&draft("other"), NOW).await.unwrap();
        tx.upsert_registry(&RegistryEntry { served_name: "near".to_owned(), ..entry() }).await.unwrap();
        let model = tx.models(false).await.unwrap().remove(0);
        tx.update_model(model.id, &draft("qwen"), NOW).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        assert_eq!((in_clear(db).await, read(&store).await), (0, all()));
    }

    async fn a_new_key_takes_over_and_the_old_one_is_no_longer_needed(db: &Database) {
        let old = db.store.clone().with_seal(seal(&["1"]));
        fill(&old).await;
        let both = db.store.clone().with_seal(seal(&["2", "1"]));
        assert_eq!(read(&both).await, all());
        assert_eq!(both.reseal().await.unwrap().sealed, 3);
        assert_eq!(read(&db.store.clone().with_seal(seal(&["2"]))).await, all());
        assert_eq!(read(&old).await, [None, None, None]);
    }

    async fn what_cant_be_opened_is_told_kept_and_refused_alone(db: &Database) {
        fill(&db.store.clone().with_seal(seal(&["1"]))).await;
        let wrong = db.store.clone().with_seal(seal(&["2"]));
        let told = wrong.reseal().await.unwrap();
        assert_eq!((told.sealed, told.unreadable.len()), (0, 3), "{told:?}");
        assert!(told.unreadable[1].contains("`far`") && told.unreadable[1].contains("key 0"), "{told:?}");
        let mut tx = wrong.write().await.unwrap();
        let shared = tx.shared_secret("engine-key", &"another".to_owned().into()).await.unwrap_err();
        assert!(matches!(&shared, StoreError::Sealed { .. }) && shared.to_string().contains("database-keys"));
        drop(tx);
        // Lists contain the rows. An entry whose engine would be called without its key is not among the usable ones.
        let mut tx = wrong.write().await.unwrap();
        let model = tx.models(false).await.unwrap().remove(0);
        assert!(model.hub_token.is_none() && model.sealed_hub_token.is_some());
        assert_eq!(tx.registry().await.unwrap().len(), 1);
        let readable = tx.readable_registry().await.unwrap();
        assert_eq!((readable.rows.len(), readable.bad.len()), (0, 1));
        assert_eq!((tx.readable_models().await.unwrap().rows.len(), clear(model.hub_token.as_ref())), (1, None));
        // A change of another field keeps the secret.
        let sealed = model.sealed_hub_token.clone();
        let edit = ModelDraft { name: "new".to_owned(), hub_token: None, sealed_hub_token: sealed, ..draft("qwen") };
        tx.update_model(model.id, &edit, NOW).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        let right = db.store.clone().with_seal(seal(&["2", "1"]));
        assert_eq!(read(&right).await, all());

        // Secrets that no key opens any more can be deleted.
        let mut tx = wrong.write().await.unwrap();
        assert_eq!(tx.forget_unreadable().await.unwrap().len(), 3);
        tx.commit().await.unwrap();
        assert_eq!(read(&wrong).await, [None, None, Some("another".to_owned())]);
    }
}
