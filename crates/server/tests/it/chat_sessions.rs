//! Chats of the playground: kept for their user alone.

use gantry_testkit::{Database, Gateway, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{support::assert_invalid, team::Team};

const GANTRY: &str = env!("CARGO_BIN_EXE_gantry");
const CHATS: &str = "/v1/chat/sessions";

async fn begin(client: &gantry_testkit::Client) -> Value {
    let body =
        json!({ "model_name": "org/m", "engine_type": "primary", "constraints": { "max_model_len": 4096 } });
    client.post(CHATS, &body).await.expect(201)
}

#[tokio::test]
async fn a_chat_is_begun_filled_read_and_deleted() {
    for database in Database::one("chat_sessions: life") {
        let gateway = Gateway::start(GANTRY, Options::default().on(database)).await;
        let owner = gateway.owner().await;
        let (first, second) = (begin(&owner).await, begin(&owner).await);
        let id = first["id"].as_str().unwrap();
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{first}");
        assert_eq!((&first["title"], &first["messages"]), (&json!("New chat"), &json!([])));
        assert_eq!((&first["engine_type"], &first["model_name"]), (&json!("vllm"), &json!("org/m")));
        assert_eq!(first["constraints"], json!({ "max_model_len": 4096 }));
        let now = gantry_testkit::now().0;
        assert!((now - 60_000..=now).contains(&first["created_at"].as_i64().unwrap()), "epoch milliseconds");

        let path = format!("{CHATS}/{id}");
        let messages = format!("{path}/messages");
        let question = json!({ "role": "user", "content": "  What is a gantry?\nPlease." });
        let said = owner.post(&messages, &question).await.expect(201);
        assert_eq!((&said["role"], &said["metrics"]), (&json!("user"), &Value::Null));
        let metrics = json!({ "tokens_per_second": 12.5, "ttft_ms": 80 });
        let answer = json!({ "role": "assistant", "content": "A crane.", "metrics": metrics });
        let answered = owner.post(&messages, &answer).await.expect(201);
        assert!(answered["id"].as_i64() > said["id"].as_i64());

        let read = owner.get(&path).await.expect(200);
        assert_eq!(read["title"], "What is a gantry?");
        assert_eq!(read["messages"][0], said);
        assert_eq!(read["messages"][1]["metrics"], metrics);
        assert!(read["updated_at"].as_i64() >= read["created_at"].as_i64());
        let listed = owner.get(CHATS).await;
        assert_eq!(listed.header("x-total-count"), Some("2"));
        let listed = listed.expect(200);
        assert_eq!((&listed[0]["id"], &listed[1]["id"]), (&second["id"], &first["id"]), "newest first");
        assert_eq!((&listed[1]["message_count"], &listed[0]["messages"]), (&json!(2), &json!([])));
        assert_eq!(listed[1]["messages"], read["messages"], "as the chat itself shows them");
        let short = owner.get(&format!("{CHATS}?messages=false")).await;
        assert_eq!(short.header("x-total-count"), Some("2"));
        assert_eq!((short.json[1].get("messages"), &short.json[1]["message_count"]), (None, &json!(2)));
        assert_eq!(owner.get(&format!("{CHATS}?limit=1&offset=1")).await.expect(200)[0]["id"], id);

        assert_eq!(owner.delete(&path).await.expect(200), json!({ "id": id, "status": "deleted" }));
        assert_eq!(owner.get(&path).await.code(), "not_found");
        begin(&owner).await;
        let cleared = owner.delete(CHATS).await.expect(200);
        assert_eq!(cleared, json!({ "status": "cleared", "deleted_count": 2 }));
        assert_eq!(owner.get(CHATS).await.expect(200), json!([]));
    }
}

#[tokio::test]
async fn a_chat_is_renamed_and_pinned() {
    for database in Database::all("chat_sessions: labels") {
        let gateway = Gateway::start(GANTRY, Options::default().on(database)).await;
        let owner = gateway.owner().await;
        let (first, second) = (begin(&owner).await, begin(&owner).await);
        let path = format!("{CHATS}/{}", first["id"].as_str().unwrap());
        let titles = async || {
            let listed = owner.get(&format!("{CHATS}?messages=false")).await.expect(200);
            let of = |it: &Value| it["title"].as_str().unwrap().to_owned();
            listed.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(first["pinned"], false);

        let renamed = owner.patch(&path, &json!({ "title": "\u{202e}Mine" })).await.expect(200);
        assert_eq!((&renamed["title"], &renamed["pinned"]), (&json!("Mine"), &json!(false)));
        assert_eq!((&renamed["message_count"], renamed.get("messages")), (&json!(0), None));
        assert_eq!(titles().await, ["New chat", "Mine"]);
        // The first message still makes the automatic title, which comes back once the user's own title is gone.
        let question = json!({ "role": "user", "content": "What is a gantry?" });
        owner.post(&format!("{path}/messages"), &question).await.expect(201);
        let said = owner.get(&path).await.expect(200);
        let pinned = owner.patch(&path, &json!({ "pinned": true })).await.expect(200);
        assert_eq!((&pinned["title"], &pinned["message_count"]), (&json!("Mine"), &json!(1)));
        assert_eq!(pinned["updated_at"], said["updated_at"], "the time of the last message");
        assert_eq!(titles().await, ["Mine", "New chat"], "pinned first");
        let page = owner.get(&format!("{CHATS}?limit=1&offset=1")).await.expect(200);
        assert_eq!(page[0]["id"], second["id"]);
        let same = owner.patch(&path, &json!({})).await.expect(200);
        assert_eq!(same, pinned, "an empty change changes nothing");

        for nothing in [json!(null), json!("\u{200b}")] {
            owner.patch(&path, &json!({ "title": "Again" })).await.expect(200);
            let automatic = owner.patch(&path, &json!({ "title": nothing })).await.expect(200);
            assert_eq!(
                (&automatic["title"], &automatic["pinned"]),
                (&json!("What is a gantry?"), &json!(true))
            );
        }
        owner.patch(&path, &json!({ "title": "x".repeat(100), "pinned": false })).await.expect(200);
        assert_eq!(owner.get(&path).await.expect(200)["title"], "x".repeat(100));
        assert_eq!(titles().await, ["New chat".to_owned(), "x".repeat(100)]);
        for wrong in [json!(""), json!(" a"), json!("a\nb"), json!("x".repeat(101)), json!(1)] {
            assert_invalid(&owner.patch(&path, &json!({ "title": wrong })).await, &["title"]);
        }
        assert_invalid(&owner.patch(&path, &json!({ "pinned": null })).await, &["pinned"]);
        let none = format!("{CHATS}/{}", uuid::Uuid::nil());
        assert_eq!(owner.patch(&none, &json!({ "pinned": true })).await.code(), "not_found");
    }
}

#[tokio::test]
async fn nobody_reaches_the_chats_of_another_and_no_key_reaches_any() {
    let team = Team::with(Options::default()).await;
    let chat = begin(&team.user).await;
    let path = format!("{CHATS}/{}", chat["id"].as_str().unwrap());
    let message = json!({ "role": "user", "content": "x" });
    for other in [&team.owner, &team.admin] {
        assert_eq!(other.get(&path).await.code(), "not_found");
        let change = json!({ "title": "theirs", "pinned": true });
        assert_eq!(other.patch(&path, &change).await.code(), "not_found");
        assert_eq!(other.delete(&path).await.code(), "not_found");
        assert_eq!(other.post(&format!("{path}/messages"), &message).await.code(), "not_found");
        assert_eq!(other.delete(CHATS).await.expect(200)["deleted_count"], 0);
    }
    assert_eq!(team.user.get(&path).await.expect(200), chat, "nobody changed it");
    let (_, key) = team.owner.new_key(&json!({})).await;
    assert_eq!(key.get(CHATS).await.status, 401);
    assert_eq!(team.user.get(&format!("{CHATS}/not-a-uuid")).await.code(), "not_found");
}

#[tokio::test]
async fn chats_have_bounds() {
    let gateway = Gateway::start(GANTRY, Options::default()).await;
    let owner = gateway.owner().await;
    let path = format!("{CHATS}/{}/messages", begin(&owner).await["id"].as_str().unwrap());
    let say = async |content: String, metrics: Value| {
        owner.post(&path, &json!({ "role": "user", "content": content, "metrics": metrics })).await
    };
    assert_eq!(say("x".repeat(200_000), Value::Null).await.status, 201);
    let long = say("x".repeat(200_001), Value::Null).await;
    assert_eq!((long.code(), &long.json["error"]["param"]), ("validation_error", &json!("content")));
    let big = say("x".to_owned(), json!({ "a": "x".repeat(9000) })).await;
    assert_eq!((big.code(), &big.json["error"]["param"]), ("validation_error", &json!("metrics")));
    let system = owner.post(&path, &json!({ "role": "system", "content": "x" })).await;
    assert_eq!(system.json["error"]["param"], "role");
}

#[tokio::test]
async fn the_bytes_of_a_chat_and_of_a_user_have_bounds() {
    for database in Database::one("the_bytes_of_a_chat_and_of_a_user_have_bounds") {
        let gateway = Gateway::start(GANTRY, Options::default().on(database)).await;
        let owner = gateway.owner().await;
        // Four bytes each.
        let long = json!({ "role": "user", "content": "\u{1f6dd}".repeat(200_000) });
        // As programs write it that send ASCII only.
        let chat = format!("{CHATS}/{}", begin(&owner).await["id"].as_str().unwrap());
        let escaped = format!(r#"{{"role":"user","content":"{}"}}"#, r"\ud83e\udedd".repeat(200_000));
        let request = owner.request(Method::POST, &format!("{chat}/messages"));
        owner.send(request.header("content-type", "application/json").body(escaped)).await.expect(201);
        owner.delete(&chat).await.expect(200);
        let said = async |path: &str| {
            let mut n = 0;
            loop {
                let answer = owner.post(&format!("{path}/messages"), &long).await;
                if answer.status != 201 {
                    return (n, answer);
                }
                n += 1;
            }
        };
        let refusal = loop {
            let chat = format!("{CHATS}/{}", begin(&owner).await["id"].as_str().unwrap());
            let (n, answer) = said(&chat).await;
            assert_eq!(answer.code(), "invalid_state");
            let message = answer.json["error"]["message"].as_str().unwrap().to_owned();
            if message.starts_with("your chats") {
                break message;
            }
            assert_eq!((n, message.as_str()), (5, "the chat would have more than 4 MiB: begin another one"));
            let read = owner.get(&chat).await.expect(200);
            assert_eq!(read["messages"].as_array().unwrap().len(), 5);
        };
        assert_eq!(refusal, "your chats have 64 MiB together: delete some first");
        // Other users are not concerned, and deleting helps.
        owner.delete(CHATS).await.expect(200);
        assert_eq!(said(&format!("{CHATS}/{}", begin(&owner).await["id"].as_str().unwrap())).await.0, 5);
    }
}

#[tokio::test]
async fn a_chat_of_many_messages_is_shown_whole_and_in_order() {
    for database in Database::all("chat_sessions: many messages") {
        let gateway = Gateway::start(GANTRY, Options::default().on(database)).await;
        let owner = gateway.owner().await;
        let path = format!("{CHATS}/{}", begin(&owner).await["id"].as_str().unwrap());
        for n in 1..=33 {
            let body = json!({ "role": "user", "content": format!("\"{n}\"\n"), "metrics": { "n": n } });
            owner.post(&format!("{path}/messages"), &body).await.expect(201);
            if [1, 15, 16, 17, 32, 33].contains(&n) {
                let answer = owner.get(&path).await;
                assert_eq!(answer.header("content-type"), Some("application/json"));
                let chat = answer.expect(200);
                let told: Vec<_> =
                    chat["messages"].as_array().unwrap().iter().map(|it| &it["metrics"]["n"]).collect();
                assert_eq!(json!(told), json!((1..=n).collect::<Vec<_>>()));
                assert_eq!(chat["title"], "\"1\"");
            }
        }
    }
}
