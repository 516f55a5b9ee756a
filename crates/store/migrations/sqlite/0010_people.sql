-- The same columns, index names and version as ../postgres/0010_people.sql. Times are epoch milliseconds.

-- Tokens of people for the admin API; see crates/domain/src/account_token.rs.
CREATE TABLE account_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,
    token_hash   BLOB NOT NULL CHECK (LENGTH(token_hash) = 32),
    scopes       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER
) STRICT;
CREATE UNIQUE INDEX account_tokens_hash ON account_tokens (token_hash);
CREATE INDEX account_tokens_user ON account_tokens (user_id);

-- What an administrator allows a user, over all keys and sessions of the user. NULL is without limit; `models` is a JSON
-- array of served names, NULL for all.
ALTER TABLE users ADD COLUMN rpm_limit INTEGER;
ALTER TABLE users ADD COLUMN tpm_limit INTEGER;
ALTER TABLE users ADD COLUMN max_concurrency INTEGER;
ALTER TABLE users ADD COLUMN max_streams INTEGER;
ALTER TABLE users ADD COLUMN budget_tokens_day INTEGER;
ALTER TABLE users ADD COLUMN budget_tokens_month INTEGER;
ALTER TABLE users ADD COLUMN models TEXT;
