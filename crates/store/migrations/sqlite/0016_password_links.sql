-- The same columns and index names as ../postgres/0016_password_links.sql. Times are epoch milliseconds.

-- One-time links with which users set their own password: at most one for each user. Only the hash of the token is kept.
CREATE TABLE password_links (
    user_id    INTEGER NOT NULL PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    token_hash BLOB    NOT NULL CHECK (LENGTH(token_hash) = 32),
    expires_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX password_links_hash ON password_links (token_hash);
