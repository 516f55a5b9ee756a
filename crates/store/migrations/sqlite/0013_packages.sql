-- The same columns and index names as ../postgres/0013_packages.sql.

-- What a job made, as JSON; and when its record was written last, by which others notice that its gateway is gone.
ALTER TABLE jobs ADD COLUMN artifacts TEXT;
ALTER TABLE jobs ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;

-- Jobs on packages and on the whole database run one at a time, whichever gateway does them.
CREATE UNIQUE INDEX jobs_deployment ON jobs (state)
    WHERE state = 'running' AND kind IN ('export', 'model_export', 'import', 'db_restore');
