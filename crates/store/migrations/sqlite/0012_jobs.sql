-- The same columns as ../postgres/0012_jobs.sql.

-- Work that may take minutes. A row that is `running` while its gateway does not do it was interrupted.
CREATE TABLE jobs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT    NOT NULL,
    object      TEXT    NOT NULL,
    gateway     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('running', 'completed', 'failed', 'cancelled')),
    step        TEXT    NOT NULL DEFAULT '',
    done_bytes  INTEGER NOT NULL DEFAULT 0 CHECK (done_bytes >= 0),
    total_bytes INTEGER CHECK (total_bytes >= 0),
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    error       TEXT,
    log         TEXT    NOT NULL DEFAULT '[]'
) STRICT;
