-- The same tables, columns and index names as ../postgres/0002_usage.sql.

-- Sums of usage rows by hour and by day (UTC), kept for ever. Any number of rows may stand for one span: their sums
-- add up. `sums` and `times` are packed, see src/usage/cells.rs.
CREATE TABLE usage_rollups (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    hours    INTEGER NOT NULL CHECK (hours IN (1, 24)),
    start_at INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    sums     BLOB    NOT NULL,
    times    BLOB    NOT NULL
) STRICT;
CREATE INDEX usage_rollups_span ON usage_rollups (hours, start_at);

-- Days whose rows were written before there were roll-ups. The program rolls them up when it opens the database.
CREATE TABLE usage_unrolled (
    start_at INTEGER NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
INSERT INTO usage_unrolled SELECT DISTINCT created_at / 86400000 * 86400000 FROM usage;

-- One index for each filter, all in the order of lists: newest first within the filter.
CREATE INDEX usage_key ON usage (key_id, id);
CREATE INDEX usage_user ON usage (user_id, id);
CREATE INDEX usage_org ON usage (org_id, id);
CREATE INDEX usage_model ON usage (model_name, id);
CREATE INDEX usage_trouble ON usage (id) WHERE status_code >= 400 OR outcome <> 'ok';
CREATE INDEX usage_embed ON usage (id) WHERE task = 'embed';
