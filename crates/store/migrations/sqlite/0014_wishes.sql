-- The same columns as ../postgres/0014_wishes.sql.

-- Whether somebody wants the job to end. The gateway that does it looks here; others can't reach it.
ALTER TABLE jobs ADD COLUMN cancel_wanted INTEGER NOT NULL DEFAULT 0 CHECK (cancel_wanted IN (0, 1));
