//! `/v1/chat/sessions`: the playground's chats. They belong to the signed-in user; nobody else's exist for him.

use axum::{Json, extract::State, response::IntoResponse};
use gantry_domain::{
    ApiError, Timestamp,
    chat::{ChatMessage, ChatRole, ChatSession, UNTITLED, title_of},
    model::EngineKind,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    extract::{Created, Fields, Listed, Object, Params, UuidId, deleted, read},
    policy::Caller,
};

/// Chats of one user, and messages of one chat.
const MAX_CHATS: i64 = 1000;
const MAX_MESSAGES: i64 = 2000;
/// Characters of a message.
const MAX_CONTENT: usize = 200_000;
/// Bytes of `constraints` or `metrics` as JSON.
const MAX_OBJECT: usize = 8 << 10;

/// List your chats
///
/// Newest first, without their messages.
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<impl IntoResponse> {
    let page = params.page()?;
    params.finish()?;
    let (chats, total) = app.store.read().await?.chats(caller.user.id, page.limit, page.offset).await?;
    let view = |(chat, n): &(ChatSession, i64)| {
        let mut view = view(chat);
        view["message_count"] = json!(n);
        view
    };
    Ok(Listed(chats.iter().map(view).collect::<Vec<_>>(), total))
}

/// Begin a chat
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let model_name = fields.required("model_name", "text of 1 to 200 characters", read::name(200));
    let engine = fields.required("engine_type", "`vllm` or `llamacpp`", |it| EngineKind::parse(it.as_str()?));
    let constraints = fields.optional("constraints", "an object of at most 8 KiB", object);
    fields.finish()?;
    let (Some(model_name), Some(engine)) = (model_name, engine) else {
        return Err(ApiError::internal().into());
    };
    let now = app.clock.now();
    let chat = ChatSession {
        id: Uuid::now_v7(),
        user_id: caller.user.id,
        title: UNTITLED.to_owned(),
        model_name,
        engine,
        constraints: constraints.unwrap_or_default(),
        created_at: now,
        updated_at: now,
    };
    let mut tx = app.store.write().await?;
    if tx.chats(caller.user.id, 0, 0).await?.1 >= MAX_CHATS {
        return Err(Parts::invalid_state(format!("you have {MAX_CHATS} chats: delete some first")));
    }
    tx.insert_chat(&chat).await?;
    tx.commit().await?;
    Ok(Created(whole(&chat, &[])))
}

/// One chat with its messages
pub(crate) async fn show(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    params: Params,
) -> Outcome<Json<Value>> {
    params.finish()?;
    let mut tx = app.store.read().await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let messages = tx.chat_messages(chat.id).await?;
    Ok(Json(whole(&chat, &messages)))
}

/// Add a message
///
/// The first one of the user gives the chat its title.
pub(crate) async fn add_message(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    body: Object,
) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let role = fields.required("role", "`user` or `assistant`", |it| ChatRole::parse(it.as_str()?));
    let content = fields.required("content", "text of at most 200000 characters without NUL", |it| {
        let fits = |it: &&str| it.chars().count() <= MAX_CONTENT && !it.contains('\0');
        it.as_str().filter(fits).map(str::to_owned)
    });
    let metrics = fields.optional("metrics", "an object of at most 8 KiB", object);
    fields.finish()?;
    let (Some(role), Some(content)) = (role, content) else { return Err(ApiError::internal().into()) };
    let mut message = ChatMessage { id: 0, role, content, metrics, created_at: app.clock.now() };
    let mut tx = app.store.write().await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let n = tx.count_chat_messages(id).await?;
    if n >= MAX_MESSAGES {
        return Err(Parts::invalid_state(format!("the chat has {MAX_MESSAGES} messages: begin another one")));
    }
    let untitled = chat.title == UNTITLED && role == ChatRole::User;
    let title = untitled.then(|| title_of(&message.content));
    message.id = tx.insert_chat_message(id, &message, title.as_deref()).await?;
    tx.commit().await?;
    Ok(Created(message_view(&message)))
}

/// Delete a chat
pub(crate) async fn delete(app: State<App>, caller: Caller, UuidId(id): UuidId) -> Outcome<Json<Value>> {
    let mut tx = app.store.write().await?;
    if !tx.delete_chat(caller.user.id, id).await? {
        return Err(missing(id));
    }
    tx.commit().await?;
    Ok(deleted(id))
}

/// Delete all your chats
pub(crate) async fn clear(app: State<App>, caller: Caller) -> Outcome<Json<Value>> {
    let mut tx = app.store.write().await?;
    let n = tx.delete_chats(caller.user.id).await?;
    tx.commit().await?;
    Ok(Json(json!({ "status": "cleared", "deleted_count": n })))
}

fn missing(id: Uuid) -> Problem {
    Parts::not_found("chat", id)
}

fn object(value: &Value) -> Option<Map<String, Value>> {
    let map = value.as_object()?;
    (value.to_string().len() <= MAX_OBJECT).then(|| map.clone())
}

fn view(chat: &ChatSession) -> Value {
    json!({
        "id": chat.id,
        "title": chat.title,
        "model_name": chat.model_name,
        "engine_type": chat.engine,
        "constraints": chat.constraints,
        "created_at": epoch_ms(chat.created_at),
        "updated_at": epoch_ms(chat.updated_at),
    })
}

fn whole(chat: &ChatSession, messages: &[ChatMessage]) -> Value {
    let mut view = view(chat);
    view["messages"] = messages.iter().map(message_view).collect();
    view
}

fn message_view(message: &ChatMessage) -> Value {
    json!({
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "metrics": message.metrics,
        "timestamp": epoch_ms(message.created_at),
    })
}

fn epoch_ms(at: Timestamp) -> i64 {
    at.0
}
