-- The same columns and index names as ../sqlite/0015_chat_labels.sql.

-- The title that the user gave to a chat. `title` goes on to be the one that its first message gave.
ALTER TABLE chat_sessions ADD COLUMN own_title TEXT;
ALTER TABLE chat_sessions ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT FALSE;

-- Lists show pinned chats first, then the newest.
DROP INDEX chat_sessions_user;
CREATE INDEX chat_sessions_user ON chat_sessions (user_id, pinned, created_at, id);
