-- The same columns as ../sqlite/0014_wishes.sql.

-- Whether somebody wants the job to end. The gateway that does it looks here; others can't reach it.
ALTER TABLE jobs ADD COLUMN cancel_wanted BOOLEAN NOT NULL DEFAULT FALSE;
