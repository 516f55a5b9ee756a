-- The same tables, columns, index names and version as ../postgres/0001_initial.sql. Times are epoch milliseconds.
-- Columns `*_lower` are folded by the program, so that "without regard to case" means the same on both databases.

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE orgs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL,
    name_lower TEXT    NOT NULL,
    enabled    INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX orgs_name ON orgs (name_lower);

CREATE TABLE users (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    org_id         INTEGER NOT NULL REFERENCES orgs (id) ON DELETE CASCADE,
    username       TEXT    NOT NULL,
    username_lower TEXT    NOT NULL,
    password_hash  TEXT    NOT NULL,
    role           TEXT    NOT NULL CHECK (role IN ('user', 'org_admin', 'admin', 'owner')),
    enabled        INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    created_at     INTEGER NOT NULL,
    last_login_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX users_username ON users (username_lower);
CREATE UNIQUE INDEX users_id_org ON users (id, org_id);
CREATE INDEX users_org ON users (org_id);

CREATE TABLE sessions (
    id_hash    BLOB    NOT NULL PRIMARY KEY CHECK (LENGTH(id_hash) = 32),
    user_id    INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expires ON sessions (expires_at);

-- The pair (user_id, org_id) keeps a key in its user's organisation, also when the user moves to another one.
CREATE TABLE api_keys (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    prefix          TEXT    NOT NULL,
    token_hash      BLOB    NOT NULL CHECK (LENGTH(token_hash) = 32),
    org_id          INTEGER NOT NULL REFERENCES orgs (id) ON DELETE CASCADE,
    user_id         INTEGER,
    name            TEXT    NOT NULL,
    name_lower      TEXT    NOT NULL,
    scopes          TEXT    NOT NULL,
    models          TEXT,
    ip_allowlist    TEXT    NOT NULL,
    rpm_limit       INTEGER,
    tpm_limit       INTEGER,
    max_concurrency INTEGER,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    last_used_at    INTEGER,
    revoked_at      INTEGER,
    FOREIGN KEY (user_id, org_id) REFERENCES users (id, org_id) ON DELETE CASCADE ON UPDATE CASCADE
) STRICT;
CREATE UNIQUE INDEX api_keys_token_hash ON api_keys (token_hash);
CREATE INDEX api_keys_user ON api_keys (user_id, org_id);
CREATE INDEX api_keys_org ON api_keys (org_id);

CREATE TABLE models (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    served_name TEXT    NOT NULL,
    task        TEXT    NOT NULL CHECK (task IN ('generate', 'embed')),
    engine      TEXT    NOT NULL CHECK (engine IN ('vllm', 'llamacpp')),
    config      TEXT    NOT NULL,
    hub_token   TEXT,
    archived    INTEGER NOT NULL CHECK (archived IN (0, 1)),
    deleting    INTEGER NOT NULL CHECK (deleting IN (0, 1)),
    wanted      TEXT    NOT NULL CHECK (wanted IN ('running', 'stopped')),
    generation  INTEGER NOT NULL,
    phase       TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX models_served_name ON models (served_name) WHERE NOT archived AND NOT deleting;

CREATE TABLE model_events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id   INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
    at         INTEGER NOT NULL,
    from_state TEXT    NOT NULL CHECK (from_state IN ('stopped', 'starting', 'loading', 'running', 'stopping', 'failed')),
    to_state   TEXT    NOT NULL CHECK (to_state IN ('stopped', 'starting', 'loading', 'running', 'stopping', 'failed')),
    reason     TEXT,
    detail     TEXT
) STRICT;
CREATE INDEX model_events_model ON model_events (model_id, id);

CREATE TABLE registry (
    served_name TEXT    NOT NULL PRIMARY KEY,
    url         TEXT    NOT NULL,
    task        TEXT    NOT NULL CHECK (task IN ('generate', 'embed')),
    api_key     TEXT,
    created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- No foreign keys: the ledger outlives keys, users and organisations. Filters by time are ranges over the id.
CREATE TABLE usage (
    id                BLOB    NOT NULL PRIMARY KEY CHECK (LENGTH(id) = 16),
    req_id            TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    key_id            INTEGER,
    key_prefix        TEXT,
    user_id           INTEGER,
    org_id            INTEGER,
    model_name        TEXT    NOT NULL,
    task              TEXT    NOT NULL CHECK (task IN ('generate', 'embed')),
    endpoint          TEXT    NOT NULL,
    stream            INTEGER NOT NULL CHECK (stream IN (0, 1)),
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cached_tokens     INTEGER,
    estimated         INTEGER NOT NULL CHECK (estimated IN (0, 1)),
    latency_ms        INTEGER NOT NULL,
    ttft_ms           INTEGER,
    status_code       INTEGER NOT NULL,
    outcome           TEXT    NOT NULL
        CHECK (outcome IN ('ok', 'client_error', 'upstream_error', 'client_closed', 'timeout', 'rejected'))
) STRICT, WITHOUT ROWID;
