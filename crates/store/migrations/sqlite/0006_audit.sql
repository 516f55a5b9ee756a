-- Who did what. The rows are chained by their hashes and have no gaps; see crates/domain/src/audit.rs. Times are epoch
-- milliseconds; before and after are JSON, hashed as they stand.
CREATE TABLE audit (
    seq         INTEGER NOT NULL PRIMARY KEY,
    at          INTEGER NOT NULL,
    actor_type  TEXT   NOT NULL CHECK (actor_type IN ('user', 'anonymous', 'settings')),
    actor_id    INTEGER,
    actor       TEXT,
    action      TEXT   NOT NULL,
    object_type TEXT   NOT NULL,
    object_id   TEXT   NOT NULL,
    before      TEXT,
    after       TEXT,
    ip          TEXT,
    request_id  TEXT,
    user_agent  TEXT,
    prev_hash   BLOB   NOT NULL CHECK (LENGTH(prev_hash) = 32),
    hash        BLOB   NOT NULL CHECK (LENGTH(hash) = 32)
) STRICT;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_object ON audit (object_type, object_id);

-- Both ends of the chain: the row that was written last ('head', the lock of all who append), and the last one that
-- retention deleted ('anchor').
CREATE TABLE audit_chain (
    name TEXT   NOT NULL PRIMARY KEY CHECK (name IN ('head', 'anchor')),
    seq  INTEGER NOT NULL,
    hash BLOB  NOT NULL CHECK (LENGTH(hash) = 32)
) STRICT;
INSERT INTO audit_chain (name, seq, hash) VALUES ('head', 0, ZEROBLOB(32)), ('anchor', 0, ZEROBLOB(32));

-- Counts transactions that changed what gateways keep in memory, so that others on this database notice soon.
CREATE TABLE changes (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
) STRICT;
INSERT INTO changes (id, n) VALUES (1, 0);
