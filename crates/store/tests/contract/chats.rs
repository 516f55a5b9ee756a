//! Chats of the playground.

use gantry_domain::{
    Role, UserId,
    chat::{ChatMessage, ChatRole, ChatSession},
    model::EngineKind,
};
use gantry_store::ChatSize;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Database, NOW, at, new_user, on_both};

pub(crate) fn chat(n: i64, user: UserId) -> ChatSession {
    ChatSession {
        id: Uuid::now_v7(),
        user_id: user,
        title: "New chat".to_owned(),
        own_title: None,
        model_name: "org/m".to_owned(),
        // The second chat is with an engine of the registry.
        engine: (n != 2).then_some(EngineKind::Vllm),
        constraints: json!({ "max_model_len": n }).as_object().unwrap().clone(),
        pinned: false,
        created_at: at(n),
        updated_at: at(n),
    }
}

on_both! {
    async fn chats_belong_to_their_user(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let org = tx.insert_org("Acme", NOW).await.unwrap().id;
        let mine = tx.insert_user(&new_user(org, "ada", Role::User), NOW).await.unwrap().id;
        let other = tx.insert_user(&new_user(org, "bob", Role::User), NOW).await.unwrap().id;
        let (first, second, foreign) = (chat(1, mine), chat(2, mine), chat(3, other));
        for it in [&first, &second, &foreign] {
            tx.insert_chat(it).await.unwrap();
        }
        let said = ChatMessage {
            id: 0,
            role: ChatRole::User,
            content: "a\0b".to_owned(),
            metrics: json!({ "ttft_ms": 8 }).as_object().cloned(),
            created_at: at(9),
        };
        assert_eq!(tx.newest_chat_message(first.id).await.unwrap(), 0);
        let id = tx.insert_chat_message(first.id, &said, Some("a title")).await.unwrap();
        assert_eq!(tx.newest_chat_message(first.id).await.unwrap(), id);
        assert_eq!(tx.newest_chat_message(second.id).await.unwrap(), 0);
        let read = tx.chat_messages(first.id, 0, 10).await.unwrap();
        assert_eq!(read, [ChatMessage { id, content: "a\u{fffd}b".to_owned(), ..said.clone() }]);
        assert_eq!(tx.chat_messages(first.id, id, 10).await.unwrap(), [], "what comes after it");
        let longer = ChatMessage { id, content: "ab".to_owned(), metrics: None, ..said.clone() };
        assert!(tx.change_chat_message(first.id, &longer).await.unwrap());
        assert!(!tx.change_chat_message(second.id, &longer).await.unwrap(), "it is in another chat");
        assert_eq!(tx.chat_messages(first.id, 0, 10).await.unwrap(), [longer]);
        assert!(tx.change_chat_message(first.id, &ChatMessage { id, ..said.clone() }).await.unwrap());
        // The text takes three bytes for U+FFFD and two more, and the metrics are stored as JSON.
        let size = ChatSize { messages: 1, bytes: 5 + 13 };
        assert_eq!(tx.chat_size(first.id).await.unwrap(), size);
        let found = tx.chat(mine, first.id).await.unwrap().unwrap();
        let changed = ChatSession { title: "a title".to_owned(), updated_at: at(9), ..first.clone() };
        assert_eq!(found, changed);

        let (listed, total) = tx.chats(mine, 10, 0).await.unwrap();
        assert_eq!((listed, total), (vec![(second.clone(), 0), (changed.clone(), 1)], 2));
        assert_eq!(tx.chats(mine, 1, 1).await.unwrap().0, [(changed, 1)]);

        // No user reaches the chats of another one.
        tx.insert_chat_message(second.id, &ChatMessage { metrics: None, ..said.clone() }, None).await.unwrap();
        let all = ChatSize { messages: 2, bytes: 5 + 13 + 5 };
        assert_eq!(tx.chats_size(mine).await.unwrap(), all);
        assert_eq!(tx.chats_size(other).await.unwrap(), ChatSize { messages: 0, bytes: 0 });
        assert_eq!(tx.chat(mine, foreign.id).await.unwrap(), None);
        assert!(!tx.delete_chat(mine, foreign.id).await.unwrap());
        assert!(tx.delete_chat(mine, second.id).await.unwrap());
        assert_eq!(tx.delete_chats(mine).await.unwrap(), 1);
        assert_eq!(tx.chat_size(first.id).await.unwrap().messages, 0, "messages go with their chat");
        assert_eq!(tx.chats(other, 10, 0).await.unwrap().1, 1);
    }

    async fn a_chat_is_renamed_and_pinned(db: &Database) {
        let mut tx = db.store.write().await.unwrap();
        let org = tx.insert_org("Acme", NOW).await.unwrap().id;
        let mine = tx.insert_user(&new_user(org, "ada", Role::User), NOW).await.unwrap().id;
        let other = tx.insert_user(&new_user(org, "bob", Role::User), NOW).await.unwrap().id;
        let (first, second) = (chat(1, mine), chat(2, mine));
        for it in [&first, &second] {
            tx.insert_chat(it).await.unwrap();
        }
        let own = ChatSession { own_title: Some("mi\0ne".to_owned()), pinned: true, ..first.clone() };
        assert!(tx.label_chat(&own).await.unwrap());
        let own = ChatSession { own_title: Some("mi\u{fffd}ne".to_owned()), ..own };
        assert_eq!(tx.chat(mine, first.id).await.unwrap().unwrap(), own, "the automatic title stays");
        let listed = [(own.clone(), 0), (second.clone(), 0)];
        assert_eq!(tx.chats(mine, 10, 0).await.unwrap().0, listed, "pinned first");
        assert_eq!(tx.chats(mine, 1, 1).await.unwrap().0, [(second.clone(), 0)]);
        assert!(!tx.label_chat(&ChatSession { user_id: other, pinned: false, ..own.clone() }).await.unwrap());
        assert_eq!(tx.chat(mine, first.id).await.unwrap().unwrap(), own);
        assert!(tx.label_chat(&first).await.unwrap());
        assert_eq!(tx.chats(mine, 10, 0).await.unwrap().0, [(second, 0), (first, 0)]);
        let kept = ChatSession { own_title: Some("kept".to_owned()), pinned: true, ..chat(3, other) };
        tx.insert_chat(&kept).await.unwrap();
        assert_eq!(tx.chat(other, kept.id).await.unwrap(), Some(kept));
    }
}
