-- Chats of the playground. Times are epoch milliseconds; constraints and metrics are JSON, read and written whole.

CREATE TABLE chat_sessions (
    id          TEXT   NOT NULL PRIMARY KEY,
    user_id     INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    title       TEXT   NOT NULL,
    model_name  TEXT   NOT NULL,
    engine_type TEXT   NOT NULL,
    constraints TEXT   NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_sessions_user ON chat_sessions (user_id, created_at, id);

CREATE TABLE chat_messages (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT   NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
    role       TEXT   NOT NULL CHECK (role IN ('user', 'assistant')),
    content    TEXT   NOT NULL,
    metrics    TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_messages_session ON chat_messages (session_id, id);
