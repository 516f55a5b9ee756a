//! What several callers do at the same moment is as if one came after the other.

use gantry_testkit::{Client, Database};
use serde_json::{Value, json};

use crate::{
    support::gateway,
    team::{id, make_key, make_model},
};

/// Each of them may come out right by chance.
const ROUNDS: usize = 20;

fn model(served_name: &str, adapter: Option<&str>) -> Value {
    let adapters = adapter.map(|it| vec![format!("{it}=adapter")]);
    json!({ "served_name": served_name, "engine_type": "vllm", "local_path": "m", "lora_adapters": adapters })
}

/// How many audit rows there are of this action on this object.
async fn rows(owner: &Client, action: &str, object: i64) -> usize {
    let path = format!("/admin/audit?action={action}&object_id={object}");
    owner.get(&path).await.expect(200).as_array().unwrap().len()
}

#[tokio::test]
async fn a_name_leads_to_one_place() {
    for database in Database::all("at once: names") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        for n in 0..ROUNDS {
            let name = format!("both-{n}");
            let entry = json!({ "served_name": name, "url": "http://127.0.0.1:9" });
            let (managed, manual) = (model(&name, None), owner.post("/admin/models/registry", &entry));
            let (a, b) = tokio::join!(owner.post("/admin/models", &managed), manual);
            let mut both = [a.status, b.status];
            both.sort_unstable();
            assert_eq!(both, [201, 409], "{a:?} {b:?}");

            let adapter = format!("adapter-{n}");
            let twins = [0, 1].map(|it| model(&format!("twin-{it}-{n}"), Some(&adapter)));
            let (a, b) =
                tokio::join!(owner.post("/admin/models", &twins[0]), owner.post("/admin/models", &twins[1]));
            let mut both = [a.status, b.status];
            both.sort_unstable();
            assert_eq!(both, [201, 409], "{a:?} {b:?}");
            let refused = if a.status == 409 { a } else { b };
            assert_eq!(refused.code(), "served_name_conflict");
        }
    }
}

#[tokio::test]
async fn one_deletion_is_one_row_of_the_audit_log() {
    for database in Database::all("at once: deletions") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        for n in 0..ROUNDS {
            let model = make_model(&owner, &format!("m{n}")).await;
            let path = format!("/admin/models/{model}");
            let (a, b) = tokio::join!(owner.delete(&path), owner.delete(&path));
            let mut both = [a.status, b.status];
            both.sort_unstable();
            assert_eq!(both, [200, 404], "as one after the other: {a:?} {b:?}");
            assert_eq!(rows(&owner, "model.delete", model).await, 1);

            let key = id(&make_key(&owner, &json!({ "name": format!("k{n}") })).await);
            let path = format!("/admin/keys/{key}");
            let (a, b) = tokio::join!(owner.delete(&path), owner.delete(&path));
            assert_eq!([a.status, b.status], [200, 200]);
            assert_eq!(rows(&owner, "key.revoke", key).await, 1);

            let entry = json!({ "served_name": format!("r{n}"), "url": "http://127.0.0.1:9" });
            owner.post("/admin/models/registry", &entry).await.expect(201);
            let path = format!("/admin/models/registry?served_name=r{n}");
            let (a, b) = tokio::join!(owner.delete(&path), owner.delete(&path));
            let mut both = [a.status, b.status];
            both.sort_unstable();
            assert_eq!(both, [200, 404], "{a:?} {b:?}");
        }
    }
}

#[tokio::test]
async fn right_sign_ins_are_never_called_failed() {
    let gateway = gateway(Database::Sqlite).await;
    let login = json!({ "username": "owner", "password": "owner-password" });
    let clients: Vec<_> = (0..12).map(|_| gateway.client()).collect();
    let all = futures_util::future::join_all(clients.iter().map(|it| it.post("/auth/login", &login))).await;
    assert!(all.iter().any(|it| it.status == 200));
    for answer in all.iter().filter(|it| it.status != 200) {
        assert_eq!((answer.status, answer.code()), (429, "too_many_attempts"), "{answer:?}");
        assert!(!answer.text.contains("failed") && answer.text.contains("being checked"), "{}", answer.text);
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn nobody_has_more_chats_than_he_may() {
    const MAX: usize = 1000;
    for database in Database::all("at once: chats") {
        let gateway = gateway(database).await;
        let owner = gateway.owner().await;
        let chat = json!({ "model_name": "m", "engine_type": "vllm" });
        let mut statuses = Vec::new();
        // The last ones do not all fit: 30 are sent at a time.
        for n in [30; 34] {
            let begin = (0..n).map(|_| owner.post("/v1/chat/sessions", &chat));
            statuses.extend(futures_util::future::join_all(begin).await.into_iter().map(|it| it.status));
        }
        let n = |status| statuses.iter().filter(|it| **it == status).count();
        assert_eq!((n(201), n(409)), (MAX, statuses.len() - MAX));
    }
}
