-- The same columns and index names as ../postgres/0017_deleted_names.sql.

-- The last names of organisations, users and keys that were deleted: the ledger, which outlives them, has numbers only.
-- `org_id` is the organisation that they belonged to; of an organisation it is its own number.
CREATE TABLE deleted_names (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind      TEXT    NOT NULL CHECK (kind IN ('org', 'user', 'key')),
    former_id INTEGER NOT NULL,
    org_id    INTEGER NOT NULL,
    name      TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX deleted_names_former ON deleted_names (kind, former_id);
