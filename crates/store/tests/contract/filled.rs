//! A database with rows in every table, some of them with text that looks like parts of a dump.

use gantry_domain::{
    JobId, Role, UserId,
    audit::Action,
    chat::{ChatMessage, ChatRole, ChatSession},
    job::JobState,
    model::{ModelConfig, ModelDraft, Phase, Task},
    usage::UsageRow,
};
use gantry_store::{DumpSecrets, Proof, RegistryEntry, Store};
use serde_json::json;
use uuid::Uuid;

use crate::{
    audit, chats,
    harness::{Database, NOW, at, new_key, new_user},
    jobs,
    models::draft,
    sessions, tokens, usage,
};

/// A secret that no redacted dump may contain.
pub(crate) const SECRET: &str = "s3cr3t-canary";

/// Texts that a careless reader takes for something else.
const EVIL: &[&str] = &[
    "\\.",
    "\n\\.\n",
    "\\N",
    "\\restrict x",
    "\n\\unrestrict `touch /tmp/canary`\n",
    "\n\\! touch canary\n",
    "');\nDROP TABLE users; --",
    "$$; $x$",
    "/* */ --\n",
    "\t\r\n\u{8}\u{b}\u{c}\\t\\\\x41",
    "COPY public.users FROM PROGRAM 'id';\n",
    "Ünïcödé 模型 🦀 \u{202e}\u{feff}",
    "",
    " '\"\"' ",
];

/// Returns texts that differ for each `n`, the same in each run.
pub(crate) fn evil(n: usize) -> String {
    let mut state = n as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = EVIL[n % EVIL.len()].to_owned();
    for _ in 0..n % 13 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let code = (state >> 33) as u32 % 0x2fff;
        text.extend(char::from_u32(code).filter(|it| *it != '\0'));
        text.push_str(EVIL[(state >> 20) as usize % EVIL.len()]);
    }
    text
}

fn evil_usage(n: usize) -> UsageRow {
    UsageRow {
        req_id: evil(n),
        model_name: evil(n + 7),
        key_prefix: (!n.is_multiple_of(3)).then(|| evil(n + 1)),
        user_id: (!n.is_multiple_of(4)).then_some(UserId(n as i64)),
        stream: n.is_multiple_of(2),
        task: if n.is_multiple_of(5) { Task::Embed } else { Task::Generate },
        requests: 1 + n as i64 % 3,
        ..usage::row(at(n as i64 * 60_000), n as u128)
    }
}

fn model_with_secrets() -> ModelDraft {
    let config = json!({"repo_id": "a/b", "x": 1.50, "extra_env": {"HF_TOKEN": SECRET, "B": ""}});
    ModelDraft {
        hub_token: Some(SECRET.to_owned().into()),
        config: ModelConfig::from_stored(config.as_object().unwrap().clone()),
        ..draft("secretive")
    }
}

/// Fills the database, with a thousand usage rows. Returns the id of the job that runs.
pub(crate) async fn fill(store: &Store) -> JobId {
    let runs = fill_small(store).await;
    let mut tx = store.write().await.unwrap();
    let rows: Vec<_> = (SMALL..1000).map(evil_usage).collect();
    tx.insert_usage(&rows).await.unwrap();
    tx.commit().await.unwrap();
    runs
}

/// Number of usage rows of a small database.
const SMALL: usize = 40;

/// Fills the database with few rows in each table.
pub(crate) async fn fill_small(store: &Store) -> JobId {
    let mut tx = store.write().await.unwrap();
    tx.instance_id().await.unwrap();
    tx.claim_home("home", None).await.unwrap();
    tx.set_models_dir(Some("/srv/\\models\t")).await.unwrap();
    tx.shared_secret("engine-key", &SECRET.to_owned().into()).await.unwrap();
    let org = tx.insert_org("Acme \\.", NOW).await.unwrap().id;
    tx.insert_org(&evil(3), NOW).await.unwrap();
    let ada = tx.insert_user(&new_user(org, "ada", Role::Owner), NOW).await.unwrap().id;
    let bob = tx.insert_user(&new_user(org, "bob", Role::User), NOW).await.unwrap().id;
    for n in 0..5_u8 {
        tx.insert_key(&new_key(org, n + 1, &evil(n.into())), NOW).await.unwrap();
        tx.insert_token(&tokens::token(n, bob, 50), NOW).await.unwrap();
        tx.insert_session(&sessions::session(n, ada, at(1_000_000_000))).await.unwrap();
    }
    tx.put_password_link(bob, &[1; 32], at(1_000_000_000)).await.unwrap();
    let model = tx.insert_model(&model_with_secrets(), NOW).await.unwrap();
    let starting = Phase::Starting { generation: 0, since: NOW };
    tx.record_phase(&model, &starting, "boot").await.unwrap();
    tx.insert_model(&draft("qwen"), NOW).await.unwrap();
    let entry = RegistryEntry {
        served_name: "far".to_owned(),
        urls: vec!["http://far".to_owned()],
        task: Task::Generate,
        upstream_model: Some(evil(8)),
        api_key: Some(SECRET.to_owned().into()),
        sealed_api_key: None,
        created_at: NOW,
    };
    tx.upsert_registry(&entry).await.unwrap();
    let chat = chats::chat(1, ada);
    tx.insert_chat(&chat).await.unwrap();
    let labelled = ChatSession { own_title: Some(evil(5)), pinned: true, ..chats::chat(2, bob) };
    tx.insert_chat(&labelled).await.unwrap();
    for n in 0..20 {
        let content = evil(n);
        let said = ChatMessage { id: 0, role: ChatRole::User, content, metrics: None, created_at: at(9) };
        tx.insert_chat_message(chat.id, &said, None).await.unwrap();
    }
    let ended = jobs::begin(&mut tx, "one").await;
    jobs::end(&mut tx, ended, JobState::Failed, Some(&evil(4)), at(5)).await;
    let runs = jobs::begin(&mut tx, "one").await;
    let rows: Vec<_> = (0..SMALL).map(evil_usage).collect();
    tx.insert_usage(&rows).await.unwrap();
    tx.commit().await.unwrap();
    for n in 0..5 {
        audit::write(store, Action::KeyCreate, &n.to_string(), at(n)).await;
    }
    runs
}

/// Adds a message of a megabyte, whose dump is larger still.
pub(crate) async fn add_large(store: &Store) {
    let mut tx = store.write().await.unwrap();
    let chat = chats::chat(3, UserId(1));
    tx.insert_chat(&chat).await.unwrap();
    let content = "\\\t\n🦀".repeat(150_000);
    let said = ChatMessage { id: 0, role: ChatRole::User, content, metrics: None, created_at: at(9) };
    tx.insert_chat_message(chat.id, &said, None).await.unwrap();
    tx.commit().await.unwrap();
}

/// Makes a dump, which has to be accepted.
pub(crate) async fn dump(db: &Database, secrets: DumpSecrets) -> (Vec<u8>, Proof) {
    let mut dump = Vec::new();
    let proof = db.store.dump(secrets, NOW, &mut dump).await.unwrap();
    (dump, proof)
}

/// A name for a scratch database.
pub(crate) fn name() -> String {
    format!("t{}", &Uuid::now_v7().simple().to_string()[20..])
}
