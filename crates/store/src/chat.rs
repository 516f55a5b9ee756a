//! Chats of the playground. Every function takes the user, so that no user can reach the chats of another one.

use gantry_domain::{
    Timestamp, UserId,
    chat::{ChatMessage, ChatRole, ChatSession},
    model::EngineKind,
};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    Decoded, StoreError, StoreResult, Tx,
    page::clean,
    tx::{Both, on_db, row},
};

row! {
    struct SessionRow {
        id: String,
        user_id: i64,
        title: String,
        own_title: Option<String>,
        model_name: String,
        engine_type: Option<String>,
        constraints: String,
        pinned: bool,
        created_at: i64,
        updated_at: i64,
    }
}

row! {
    struct Count {
        message_count: i64,
    }
}

/// Number and size of stored messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatSize {
    pub messages: i64,
    /// Bytes of their texts and metrics.
    pub bytes: i64,
}

impl<'r, R> sqlx::FromRow<'r, R> for ChatSize
where
    R: sqlx::Row,
    for<'a> &'a str: sqlx::ColumnIndex<R>,
    i64: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
{
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Self { messages: row.try_get("messages")?, bytes: row.try_get("bytes")? })
    }
}

row! {
    struct MessageRow {
        id: i64,
        role: String,
        content: String,
        metrics: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<SessionRow> for ChatSession {
    type Error = StoreError;

    fn try_from(row: SessionRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "chat_sessions", id: row.id.clone(), what };
        let engine = row.engine_type.as_deref();
        let engine = engine.map(|it| EngineKind::parse(it).ok_or_else(|| corrupt("engine_type")));
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            user_id: UserId(row.user_id),
            engine: engine.transpose()?,
            constraints: serde_json::from_str(&row.constraints).map_err(|_| corrupt("constraints"))?,
            title: row.title,
            own_title: row.own_title,
            model_name: row.model_name,
            pinned: row.pinned,
            created_at: Timestamp(row.created_at),
            updated_at: Timestamp(row.updated_at),
        })
    }
}

impl TryFrom<MessageRow> for ChatMessage {
    type Error = StoreError;

    fn try_from(row: MessageRow) -> StoreResult<Self> {
        let corrupt = |what| StoreError::Corrupt { table: "chat_messages", id: row.id.to_string(), what };
        let metrics = row.metrics.as_deref().map(serde_json::from_str).transpose();
        Ok(Self {
            id: row.id,
            role: ChatRole::parse(&row.role).ok_or_else(|| corrupt("role"))?,
            metrics: metrics.map_err(|_| corrupt("metrics"))?,
            content: row.content,
            created_at: Timestamp(row.created_at),
        })
    }
}

fn json(map: &Map<String, Value>) -> StoreResult<String> {
    serde_json::to_string(map).map_err(|error| StoreError::Database(sqlx::Error::Encode(error.into())))
}

/// The columns of [`SessionRow`].
macro_rules! columns {
    () => {
        "s.id, s.user_id, s.title, s.own_title, s.model_name, s.engine_type, s.constraints, s.pinned, \
         s.created_at, s.updated_at"
    };
}

/// Selects the number and size of messages. Both databases know the length of a text without reading it.
macro_rules! size {
    () => {
        "SELECT COUNT(*) AS messages, CAST(COALESCE(SUM(OCTET_LENGTH(m.content) \
         + COALESCE(OCTET_LENGTH(m.metrics), 0)), 0) AS BIGINT) AS bytes"
    };
}

impl Tx {
    /// Adds a chat without messages.
    pub async fn insert_chat(&mut self, chat: &ChatSession) -> StoreResult<()> {
        const SQL: &str = "INSERT INTO chat_sessions \
                           (id, user_id, title, model_name, engine_type, constraints, created_at, updated_at, \
                           own_title, pinned) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let constraints = json(&chat.constraints)?;
        on_db!(self, |conn| {
            sqlx::query(SQL)
                .bind(chat.id.to_string())
                .bind(chat.user_id.0)
                .bind(clean(&chat.title))
                .bind(clean(&chat.model_name))
                .bind(chat.engine.map(EngineKind::as_str))
                .bind(clean(&constraints))
                .bind(chat.created_at.0)
                .bind(chat.updated_at.0)
                .bind(chat.own_title.as_deref().map(clean))
                .bind(chat.pinned)
                .execute(conn)
                .await
                .map(drop)
        })?;
        Ok(())
    }

    /// Returns a page of the user's chats, pinned ones first and then the newest first, each with the number of its
    /// messages, and how many chats there are. Leaves out chats that can't be read ([`Decoded::shown`]).
    pub async fn chats(
        &mut self,
        user: UserId,
        limit: i64,
        offset: i64,
    ) -> StoreResult<(Vec<(ChatSession, i64)>, i64)> {
        const SQL: &str = concat!(
            "SELECT ",
            columns!(),
            ", (SELECT COUNT(*) FROM chat_messages m WHERE m.session_id = s.id) AS message_count \
             FROM chat_sessions s WHERE s.user_id = $1 \
             ORDER BY s.pinned DESC, s.created_at DESC, s.id DESC LIMIT $2 OFFSET $3"
        );
        const TOTAL: &str = "SELECT COUNT(*) FROM chat_sessions WHERE user_id = $1";
        let rows: Vec<Both<SessionRow, Count>> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(user.0).bind(limit).bind(offset).fetch_all(conn).await
        })?;
        let total = on_db!(self, |conn| sqlx::query_scalar(TOTAL).bind(user.0).fetch_one(conn).await)?;
        let read = |Both(row, it): Both<SessionRow, Count>| Ok((row.try_into()?, it.message_count));
        Ok((Decoded::of(rows, read)?.shown(), total))
    }

    /// Returns the chat if it belongs to the user.
    pub async fn chat(&mut self, user: UserId, id: Uuid) -> StoreResult<Option<ChatSession>> {
        const SQL: &str =
            concat!("SELECT ", columns!(), " FROM chat_sessions s WHERE s.id = $1 AND s.user_id = $2");
        let row: Option<SessionRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(id.to_string()).bind(user.0).fetch_optional(conn).await
        })?;
        row.map(ChatSession::try_from).transpose()
    }

    /// Stores the user's own title of the chat and whether it is pinned. Returns `false` if the user has no such chat.
    pub async fn label_chat(&mut self, chat: &ChatSession) -> StoreResult<bool> {
        const SQL: &str =
            "UPDATE chat_sessions SET own_title = $3, pinned = $4 WHERE id = $1 AND user_id = $2";
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(chat.id.to_string()).bind(chat.user_id.0);
            let query = query.bind(chat.own_title.as_deref().map(clean)).bind(chat.pinned);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Returns the first `limit` messages of a chat that come after message `after` (0: all), oldest first. The caller
    /// has checked with [`Tx::chat`] that the chat belongs to the user.
    pub async fn chat_messages(&mut self, id: Uuid, after: i64, limit: i64) -> StoreResult<Vec<ChatMessage>> {
        const SQL: &str = "SELECT id, role, content, metrics, created_at FROM chat_messages \
                           WHERE session_id = $1 AND id > $2 ORDER BY id LIMIT $3";
        let rows: Vec<MessageRow> = on_db!(self, |conn| {
            sqlx::query_as(SQL).bind(id.to_string()).bind(after).bind(limit).fetch_all(conn).await
        })?;
        rows.into_iter().map(ChatMessage::try_from).collect()
    }

    /// Returns the id of the newest message of a chat; 0 if it has none.
    pub async fn newest_chat_message(&mut self, id: Uuid) -> StoreResult<i64> {
        const SQL: &str =
            "SELECT CAST(COALESCE(MAX(id), 0) AS BIGINT) FROM chat_messages WHERE session_id = $1";
        Ok(on_db!(self, |conn| sqlx::query_scalar(SQL).bind(id.to_string()).fetch_one(conn).await)?)
    }

    /// Returns the number and size of the messages of a chat.
    pub async fn chat_size(&mut self, id: Uuid) -> StoreResult<ChatSize> {
        const SQL: &str = concat!(size!(), " FROM chat_messages m WHERE m.session_id = $1");
        Ok(on_db!(self, |conn| sqlx::query_as(SQL).bind(id.to_string()).fetch_one(conn).await)?)
    }

    /// Returns the number and size of the messages of all chats of a user.
    pub async fn chats_size(&mut self, user: UserId) -> StoreResult<ChatSize> {
        const SQL: &str = concat!(
            size!(),
            " FROM chat_messages m JOIN chat_sessions s ON s.id = m.session_id WHERE s.user_id = $1"
        );
        Ok(on_db!(self, |conn| sqlx::query_as(SQL).bind(user.0).fetch_one(conn).await)?)
    }

    /// Adds a message, and sets the chat's title if one is given. Returns the `id` of the message.
    ///
    /// # Errors
    /// [`StoreError::Reference`] if the chat is gone.
    pub async fn insert_chat_message(
        &mut self,
        chat: Uuid,
        message: &ChatMessage,
        title: Option<&str>,
    ) -> StoreResult<i64> {
        const SQL: &str = "INSERT INTO chat_messages (session_id, role, content, metrics, created_at) \
                           VALUES ($1, $2, $3, $4, $5) RETURNING id";
        const TOUCH: &str =
            "UPDATE chat_sessions SET updated_at = $2, title = COALESCE($3, title) WHERE id = $1";
        let metrics = message.metrics.as_ref().map(json).transpose()?;
        let id = on_db!(self, |conn| {
            sqlx::query_scalar(SQL)
                .bind(chat.to_string())
                .bind(message.role.as_str())
                .bind(clean(&message.content))
                .bind(metrics.as_deref().map(clean))
                .bind(message.created_at.0)
                .fetch_one(conn)
                .await
        })?;
        on_db!(self, |conn| {
            let query = sqlx::query(TOUCH).bind(chat.to_string()).bind(message.created_at.0);
            query.bind(title.map(clean)).execute(conn).await.map(drop)
        })?;
        Ok(id)
    }

    /// Replaces the text and the metrics of a message. Returns `false` if it is gone.
    pub async fn change_chat_message(&mut self, chat: Uuid, message: &ChatMessage) -> StoreResult<bool> {
        const SQL: &str =
            "UPDATE chat_messages SET content = $3, metrics = $4 WHERE session_id = $1 AND id = $2";
        let metrics = message.metrics.as_ref().map(json).transpose()?;
        let rows = on_db!(self, |conn| {
            let query =
                sqlx::query(SQL).bind(chat.to_string()).bind(message.id).bind(clean(&message.content));
            let query = query.bind(metrics.as_deref().map(clean));
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Deletes the chat with its messages. Returns `false` if the user has no such chat.
    pub async fn delete_chat(&mut self, user: UserId, id: Uuid) -> StoreResult<bool> {
        const SQL: &str = "DELETE FROM chat_sessions WHERE id = $1 AND user_id = $2";
        let rows = on_db!(self, |conn| {
            let query = sqlx::query(SQL).bind(id.to_string()).bind(user.0);
            query.execute(conn).await.map(|done| done.rows_affected())
        })?;
        Ok(rows > 0)
    }

    /// Deletes all chats of the user and returns how many.
    pub async fn delete_chats(&mut self, user: UserId) -> StoreResult<u64> {
        const SQL: &str = "DELETE FROM chat_sessions WHERE user_id = $1";
        Ok(on_db!(self, |conn| {
            sqlx::query(SQL).bind(user.0).execute(conn).await.map(|done| done.rows_affected())
        })?)
    }
}
