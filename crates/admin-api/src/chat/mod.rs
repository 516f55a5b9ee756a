//! `/v1/chat/sessions`: the playground's chats. They belong to the signed-in user, for whom the chats of others do not
//! exist.

pub(crate) mod answering;
mod answers;
mod fields;
mod view;
mod writer;
mod written;

use axum::{
    BoxError, Json,
    body::Body as HttpBody,
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use gantry_domain::{
    ErrorCode, UserId,
    chat::{ChatMessage, ChatRole, ChatSession, MAX_OWN_TITLE, UNTITLED, own_title_of, title_of},
    schema, view,
};
use gantry_store::{ChatSize, StoreResult};
use serde_json::{Value, json};
use uuid::Uuid;

pub use self::answers::Answers;
use self::{
    fields::{ChatEngine, Content, SmallObject},
    view::{ChatHead, ChatSummary, ChatView, MessageView},
};

use crate::{
    App,
    app::Parts,
    caller::Caller,
    error::{Outcome, Problem},
    operation::{
        Body, Created, Deleted, Line, Listed, Operation, Page, Query, Switch, UuidId, Written, form, query,
    },
};

/// Most chats of one user, and most messages of one chat.
const MAX_CHATS: i64 = 1000;
const MAX_MESSAGES: i64 = 2000;
/// Most bytes that the messages of one chat, and those of all chats of a user, may take. Each message counts
/// [`MESSAGE_COST`] bytes more than it has, so that many short messages are bounded too.
const MAX_CHAT_BYTES: i64 = 4 << 20;
const MAX_USER_BYTES: i64 = 64 << 20;
const MESSAGE_COST: i64 = 512;
/// The header with the number of entries on all pages, as every list has it.
const TOTAL: HeaderName = HeaderName::from_static("x-total-count");
/// Most messages in memory at once when a chat is shown. One may have 1.2 MB as JSON.
const BATCH: i64 = 2;

query! {
    pub(crate) struct ChatQuery {
        page: Page,
        /// `false` leaves the messages out.
        messages: Switch<true>,
    }
}

pub(crate) const LIST: Operation = Operation::new("listChats", "List your chats")
    .about("Pinned chats come first, then the newest. Each has its messages.");

pub(crate) async fn list(
    app: State<App>,
    caller: Caller,
    Query(ChatQuery { page, messages: Switch(with_messages) }): Query<ChatQuery>,
) -> Outcome<Written<Listed<ChatSummary>>> {
    let (chats, total) = app.store.read().await?.chats(caller.user.id, page.limit, page.offset).await?;
    let answers = app.answers.clone();
    let chats = chats.into_iter().map(move |(chat, stored)| ChatSummary::of(chat, stored, &answers));
    if !with_messages {
        return Ok(Written::new(Listed(chats.collect(), total)));
    }
    // The list is written while it is read, as a single chat is.
    let each = chats.enumerate().map(move |(n, chat)| {
        let comma = if n > 0 { "," } else { "" };
        let id = chat.head.id;
        stream::once(async move { Ok(comma.to_owned()) }).chain(with_its_messages(
            app.0.clone(),
            id,
            &json!(chat),
            Batch::default(),
        ))
    });
    let quoted = |text: &'static str| stream::once(async move { Ok(text.to_owned()) });
    let body = quoted("[").chain(stream::iter(each).flatten()).chain(quoted("]"));
    let headers = [(CONTENT_TYPE, "application/json".to_owned()), (TOTAL, total.to_string())];
    Ok(Written::new((headers, HttpBody::from_stream(logged(body)))))
}

/// Messages of a chat that are in memory.
#[derive(Default)]
struct Batch {
    /// Those that were read; `None`: nothing yet.
    read: Option<Vec<ChatMessage>>,
    /// Ids of those that are not shown, because their answer has not ended: the client follows it.
    unfinished: Vec<i64>,
}

impl Batch {
    /// Reads the messages that follow `after`.
    async fn after(app: &App, id: Uuid, after: i64, mut unfinished: Vec<i64>) -> StoreResult<Self> {
        // Before they are read: what is there already is shown by the answer's events.
        unfinished.extend(app.answers.unfinished(id));
        let read = app.store.read().await?.chat_messages(id, after, BATCH).await?;
        Ok(Self { read: Some(read), unfinished })
    }
}

/// The chat `id` as JSON: `head`, and its messages as they are read. `first` is the first batch of them, if it was
/// read.
fn with_its_messages(
    app: App,
    id: Uuid,
    head: &Value,
    first: Batch,
) -> impl Stream<Item = Result<String, BoxError>> + Send + use<> {
    let head = head.to_string();
    let head = format!("{},\"messages\":[", head.strip_suffix('}').unwrap_or(&head));
    // Its text, the batch that follows, and whether a message was written.
    stream::try_unfold((app, Some((head, first, false))), move |(app, batch)| async move {
        let Some((mut text, batch, mut any)) = batch else { return Ok(None) };
        let Batch { read, unfinished } = match batch.read {
            Some(_) => batch,
            None => Batch::after(&app, id, 0, batch.unfinished).await?,
        };
        let messages = read.unwrap_or_default();
        for message in messages.iter().filter(|it| !unfinished.contains(&it.id)) {
            text += if std::mem::replace(&mut any, true) { "," } else { "" };
            text += &serde_json::to_string(&MessageView::of(message.clone()))?;
        }
        let next = match messages.last() {
            Some(last) if messages.len() as i64 == BATCH => {
                Some((String::new(), Batch::after(&app, id, last.id, unfinished).await?, any))
            }
            _ => {
                text += "]}";
                None
            }
        };
        Ok::<_, BoxError>(Some((text, (app, next))))
    })
}

/// Logs it if an answer ends early, since its status was sent long ago.
fn logged(
    body: impl Stream<Item = Result<String, BoxError>> + Send,
) -> impl Stream<Item = Result<String, BoxError>> + Send {
    body.inspect_err(|error| {
        tracing::warn!(error = &**error as &dyn std::error::Error, "a chat could not be read to its end");
    })
}

form! {
    pub(crate) struct NewChat {
        model_name: required Line<200>,
        /// `null`: an engine of the registry.
        engine_type: nullable ChatEngine,
        /// Limits of the model as the client saw them. At most 8 KiB of JSON.
        constraints: optional SmallObject,
    }
}

pub(crate) const CREATE: Operation =
    Operation::new("createChat", "Begin a chat").errors(&[ErrorCode::InvalidState]);

pub(crate) async fn create(
    app: State<App>,
    caller: Caller,
    Body(NewChat { model_name, engine_type: engine, constraints }): Body<NewChat>,
) -> Outcome<Created<ChatView>> {
    let now = app.clock.now();
    let chat = ChatSession {
        id: Uuid::now_v7(),
        user_id: caller.user.id,
        title: UNTITLED.to_owned(),
        own_title: None,
        model_name,
        engine,
        constraints: constraints.unwrap_or_default(),
        pinned: false,
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
    Ok(Created(ChatView { head: ChatHead::of(chat, &app.answers), messages: Vec::new() }))
}

pub(crate) const SHOW: Operation = Operation::new("getChat", "One chat with its messages");

pub(crate) async fn show(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
) -> Outcome<Written<Json<ChatView>>> {
    let mut tx = app.store.read().await?;
    let chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    let unfinished = app.answers.unfinished(id);
    let first = Batch { read: Some(tx.chat_messages(id, 0, BATCH).await?), unfinished };
    drop(tx);
    // The chat is written while it is read: it may be large, and a client that reads slowly must not hold a transaction
    // open.
    let head = json!(ChatHead::of(chat, &app.answers));
    let body = with_its_messages(app.0, id, &head, first);
    Ok(Written::new(([(CONTENT_TYPE, "application/json")], HttpBody::from_stream(logged(body)))))
}

form! {
    pub(crate) struct ChangedChat {
        /// `null` gives back the title that the user's first message gave. Invisible characters are left out; a title
        /// that has no others counts as `null`.
        title: change Line<MAX_OWN_TITLE>,
        /// The list shows pinned chats first.
        pinned: given bool,
    }
}

pub(crate) const CHANGE: Operation = Operation::new("changeChat", "Rename a chat, or pin it")
    .about("The answer has no messages. `updated_at` stays: it is the time of the last message.");

pub(crate) async fn change(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    Body(ChangedChat { title, pinned }): Body<ChangedChat>,
) -> Outcome<Json<ChatSummary>> {
    let mut tx = app.store.write().await?;
    // If two requests come at once, the later one must keep what the earlier one changed.
    tx.lock_user(caller.user.id).await?;
    let mut chat = tx.chat(caller.user.id, id).await?.ok_or_else(|| missing(id))?;
    if let Some(title) = title {
        chat.own_title = title.as_deref().and_then(own_title_of);
    }
    chat.pinned = pinned.unwrap_or(chat.pinned);
    tx.label_chat(&chat).await?;
    let stored = tx.chat_size(id).await?.messages;
    tx.commit().await?;
    Ok(Json(ChatSummary::of(chat, stored, &app.answers)))
}

form! {
    pub(crate) struct NewMessage {
        role: required ChatRole,
        content: required Content,
        /// How fast the answer came, as the client measured it. At most 8 KiB of JSON.
        metrics: optional SmallObject,
    }
}

pub(crate) const ADD_MESSAGE: Operation = Operation::new("addChatMessage", "Add a message")
    .about(
        "The first message of the user gives the chat its title. A chat has at most 2000 messages and 4 MiB, and all chats \
         of a user have at most 64 MiB; 512 bytes are added to those of each message.",
    )
    .errors(&[ErrorCode::InvalidState]);

pub(crate) async fn add_message(
    app: State<App>,
    caller: Caller,
    UuidId(id): UuidId,
    Body(NewMessage { role, content, metrics }): Body<NewMessage>,
) -> Outcome<Created<MessageView>> {
    let message = ChatMessage { id: 0, role, content, metrics, created_at: app.clock.now() };
    let message = store_message(&app, caller.user.id, id, message).await?;
    Ok(Created(MessageView::of(message)))
}

/// Adds a message to a chat of the user, and returns it with its id.
///
/// # Errors
/// 404 if the user has no such chat, 409 `invalid_state` if it is full.
async fn store_message(app: &App, user: UserId, id: Uuid, mut message: ChatMessage) -> Outcome<ChatMessage> {
    let more = message.content.len() + metrics_len(&message);
    // The size of all of the user's chats is read before the transaction that others wait for begins. Messages that are
    // added at the same moment may therefore go a little over the limit.
    if full(app.store.read().await?.chats_size(user).await?, more, MAX_USER_BYTES) {
        let mib = MAX_USER_BYTES >> 20;
        return Err(Parts::invalid_state(format!("your chats have {mib} MiB together: delete some first")));
    }
    let mut tx = app.store.write().await?;
    tx.lock_user(user).await?;
    let chat = tx.chat(user, id).await?.ok_or_else(|| missing(id))?;
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
    let untitled = chat.title == UNTITLED && message.role == ChatRole::User;
    let title = untitled.then(|| title_of(&message.content));
    message.id = tx.insert_chat_message(id, &message, title.as_deref()).await?;
    tx.commit().await?;
    Ok(message)
}

/// Replaces the text and the metrics of a message in a chat of the user. The text may have grown by as much as one message
/// holds; that is not counted against the chat's bounds, which hold for each message that is added.
///
/// # Errors
/// 404 if the user has no such chat.
async fn change_message(app: &App, user: UserId, id: Uuid, message: &ChatMessage) -> Outcome<()> {
    let mut tx = app.store.write().await?;
    if tx.chat(user, id).await?.is_none() || !tx.change_chat_message(id, message).await? {
        return Err(missing(id));
    }
    tx.commit().await?;
    Ok(())
}

pub(crate) const DELETE: Operation = Operation::new("deleteChat", "Delete a chat");

pub(crate) async fn delete(app: State<App>, caller: Caller, UuidId(id): UuidId) -> Outcome<Deleted<Uuid>> {
    let mut tx = app.store.write().await?;
    if !tx.delete_chat(caller.user.id, id).await? {
        return Err(missing(id));
    }
    tx.commit().await?;
    if let Some(answer) = app.answers.of(caller.user.id, id) {
        answer.stop();
    }
    Ok(Deleted(id))
}

view! {
    pub(crate) struct Cleared {
        status: &'static str as schema::constant("cleared"),
        deleted_count: u64,
    }
}

pub(crate) const CLEAR: Operation = Operation::new("deleteAllChats", "Delete all your chats");

pub(crate) async fn clear(app: State<App>, caller: Caller) -> Outcome<Json<Cleared>> {
    let mut tx = app.store.write().await?;
    let deleted_count = tx.delete_chats(caller.user.id).await?;
    tx.commit().await?;
    app.answers.stop_all(caller.user.id);
    Ok(Json(Cleared { status: "cleared", deleted_count }))
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
