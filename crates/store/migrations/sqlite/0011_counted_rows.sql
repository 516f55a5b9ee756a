-- The same columns as ../postgres/0011_counted_rows.sql.

-- A row may stand for several requests that were refused alike, see docs/limits.md.
ALTER TABLE usage ADD COLUMN requests INTEGER NOT NULL DEFAULT 1 CHECK (requests > 0);
