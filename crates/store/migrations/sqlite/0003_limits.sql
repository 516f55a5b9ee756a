-- The same columns and version as ../postgres/0003_limits.sql. NULL is without limit; budgets are tokens in a day or month of UTC.

ALTER TABLE orgs ADD COLUMN rpm_limit INTEGER;
ALTER TABLE orgs ADD COLUMN tpm_limit INTEGER;
ALTER TABLE orgs ADD COLUMN max_concurrency INTEGER;
ALTER TABLE orgs ADD COLUMN max_streams INTEGER;
ALTER TABLE orgs ADD COLUMN budget_tokens_day INTEGER;
ALTER TABLE orgs ADD COLUMN budget_tokens_month INTEGER;

ALTER TABLE api_keys ADD COLUMN max_streams INTEGER;
ALTER TABLE api_keys ADD COLUMN budget_tokens_day INTEGER;
ALTER TABLE api_keys ADD COLUMN budget_tokens_month INTEGER;
ALTER TABLE api_keys ADD COLUMN limit_mode TEXT NOT NULL DEFAULT 'enforce' CHECK (limit_mode IN ('enforce', 'shadow'));
