//! `/v1/chat/sessions`: the playground's chats. They belong to the signed-in user, for whom the chats of others do not
//! exist.

use axum::{
    BoxError, Json,
    body::Body,
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use gantry_domain::{
    ApiError, Timestamp,
    chat::{ChatMessage, ChatRole, ChatSession, UNTITLED, title_of},
    model::EngineKind,
};
use gantry_store::ChatSize;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    App,
    app::Parts,
    error::{Outcome, Problem},
    operation::{Created, Fields, Listed, Object, Params, UuidId, deleted, read},
    policy::Caller,
};

/// Most chats of one user, and most messages of one chat.
const MAX_CHATS: i64 = 1000;
const MAX_MESSAGES: i64 = 2000;
/// Longest message, in characters.
const MAX_CONTENT: usize = 200_000;
/// Most bytes that the messages of one chat, and those of all chats of a user, may take. Each message counts
/// [`MESSAGE_COST`] bytes more than it has, so that many short messages are bounded too.
const MAX_CHAT_BYTES: i64 = 4 << 20;
const MAX_USER_BYTES: i64 = 64 << 20;
const MESSAGE_COST: i64 = 512;
/// The header with the number of entries on all pages, as every list has it.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");
/// Most messages in memory at once when a chat is shown.
const BATCH: i64 = 16;
/// Most bytes of `constraints` or `metrics` as JSON.
const MAX_OBJECT: usize = 8 << 10;

/// List your chats
///
/// Newest first, with their messages unless `messages` is false.
pub(crate) async fn list(app: State<App>, caller: Caller, mut params: Params) -> Outcome<Response> {
    let page = params.page()?;
    let with_messages = params.flag_or("messages", true)?;
    params.finish()?;
    let (chats, total) = app.store.read().await?.chats(caller.user.id, page.limit, page.offset).await?;
    let head = |(chat, n): (ChatSession, i64)| {
        let mut head = view(&chat);
        head["message_count"] = json!(n);
        (chat.id, head)
    };
    let chats = chats.into_iter().map(head);
    if !with_messages {
        return Ok(Listed(chats.map(|it| it.1).collect::<Vec<_>>(), total).into_response());
    }
    // The list is written while it is read, as a single chat is.
    let each = chats.enumerate().map(move |(n, (id, head))| {
        let comma = if n > 0 { "," } else { "" };
        stream::once(async move { Ok(comma.to_owned()) }).chain(with_its_messages(
            app.0.clone(),
            id,
            &head,
            None,
        ))
    });
    let quoted = |text: &'static str| stream::once(async move { Ok(text.to_owned()) });
    let body = quoted("[").chain(stream::iter(each).flatten()).chain(quoted("]"));
    let headers = [(CONTENT_TYPE, "application/json".to_owned()), (TOTAL, total.to_string())];
    Ok((headers, Body::from_stream(told(body))).into_response())
}

/// The chat `id` as JSON: `head`, and its messages as they are read. `first` is the first batch of them, if it was
/// read.
fn with_its_messages(
    app: App,
    id: Uuid,
    head: &Value,
    first: Option<Vec<ChatMessage>>,
) -> impl Stream<Item = Result<String, BoxError>> + Send + use<> {
    let head = head.to_string();
    let head = format!("{},\"messages\":[", head.strip_suffix('}').unwrap_or(&head));
    stream::try_unfold((app, Some((head, first))), move |(app, batch)| async move {
        let Some((mut text, messages)) = batch else { return Ok(None) };
        let messages = match messages {
            Some(messages) => messages,
            None => app.store.read().await?.chat_messages(id, 0, BATCH).await?,
        };
        for (n, message) in messages.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            text += comma;
            text += &serde_json::to_string(&MessageView::of(message))?;
        }
        let next = match messages.last() {
            Some(last) if messages.len() as i64 == BATCH => {
                app.store.read().await?.chat_messages(id, last.id, BATCH).await?
            }
            _ => Vec::new(),
        };
        let next = if next.is_empty() {
            text += "]}";
            None
        } else {
            Some((",".to_owned(), Some(next)))
        };
        Ok::<_, BoxError>(Some((text, (app, next))))
    })
}

/// Logs it if an answer ends early, since its status was sent long ago.
fn told(
    body: impl Stream<Item = Result<String, BoxError>> + Send,
) -> impl Stream<Item = Result<String, BoxError>> + Send {
    body.inspect_err(|error| {
        tracing::warn!(error = &**error as &dyn std::error::Error, "a chat could not be read to its end");
    })
}

/// Begin a chat
pub(crate) async fn create(app: State<App>, caller: Caller, body: Object) -> Outcome<impl IntoResponse> {
    let mut fields = Fields::new(body);
    let model_name = fields.required("model_name", "text of 1 to 200 characters", read::line(200));
    let allowed = "`vllm`, `llamacpp`, or `null` for an engine of the registry";
    if !fields.has("engine_type") {
        fields.problem("engine_type", format!("`engine_type` is required: {allowed}"));
    }
    let engine = fields.optional("engine_type", allowed, |it| EngineKind::parse(it.as_str()?));
    let constraints = fields.optional("constraints", "an object of at most 8 KiB", object);
    fields.finish()?;
    let model_name = model_name.ok_or_else(ApiError::internal)?;
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
    // If two requests come at once, the later one must count what the earlier one made.
    tx.lock_user(caller.user.id).await?;
    if tx.chats(caller.user.id, 0, 0).await?.1 >= MAX_CHATS {
        return Err(Parts::invalid_state(format!("you have {MAX_CHATS} chats: delete some first")));
    }
    tx.insert_chat(&chat).await?;
    tx.commit().await?;
    let mut view = view(&chat);
    view["messages"] = json!([]);
    Ok(Created(view))
}

/// One chat with its messages
pub(crate) async fn show(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    params: Params,
) -> Outcome<impl IntoResponse> {
    params.finish()?;
    let mut tx = app.store.read().await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let first = tx.chat_messages(id, 0, BATCH).await?;
    drop(tx);
    // The chat is written while it is read: it may be large, and a client that reads slowly must not hold a transaction
    // open.
    let body = with_its_messages(app.0, id, &view(&chat), Some(first));
    Ok(([(CONTENT_TYPE, "application/json")], Body::from_stream(told(body))))
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
    let more = message.content.len() + metrics_len(&message);
    // The size of all of the user's chats is read before the transaction that others wait for begins. Messages that are
    // added at the same moment may therefore go a little over the limit.
    if full(app.store.read().await?.chats_size(caller.user.id).await?, more, MAX_USER_BYTES) {
        let mib = MAX_USER_BYTES >> 20;
        return Err(Parts::invalid_state(format!("your chats have {mib} MiB together: delete some first")));
    }
    let mut tx = app.store.write().await?;
    tx.lock_user(caller.user.id).await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let size = tx.chat_size(id).await?;
    if size.messages >= MAX_MESSAGES {
        return Err(Parts::invalid_state(format!("the chat has {MAX_MESSAGES} messages: begin another one")));
    }
    if full(size, more, MAX_CHAT_BYTES) {
        let mib = MAX_CHAT_BYTES >> 20;
        return Err(Parts::invalid_state(format!(
            "the chat would have more than {mib} MiB: begin another one"
        )));
    }
    let untitled = chat.title == UNTITLED && role == ChatRole::User;
    let title = untitled.then(|| title_of(&message.content));
    message.id = tx.insert_chat_message(id, &message, title.as_deref()).await?;
    tx.commit().await?;
    Ok(Created(json!(MessageView::of(&message))))
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

/// Returns whether the messages counted in `size` and one more of `more` bytes take more than `max` bytes.
fn full(size: ChatSize, more: usize, max: i64) -> bool {
    size.bytes + (size.messages + 1) * MESSAGE_COST + more as i64 > max
}

fn metrics_len(message: &ChatMessage) -> usize {
    message.metrics.as_ref().map_or(0, |it| json!(it).to_string().len())
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

/// A message as the API shows it.
#[derive(Serialize)]
struct MessageView<'a> {
    id: i64,
    role: ChatRole,
    content: &'a str,
    metrics: Option<&'a Map<String, Value>>,
    timestamp: i64,
}

impl<'a> MessageView<'a> {
    fn of(message: &'a ChatMessage) -> Self {
        let ChatMessage { id, role, content, metrics, created_at } = message;
        let timestamp = epoch_ms(*created_at);
        Self { id: *id, role: *role, content, metrics: metrics.as_ref(), timestamp }
    }
}

fn epoch_ms(at: Timestamp) -> i64 {
    at.0
}
