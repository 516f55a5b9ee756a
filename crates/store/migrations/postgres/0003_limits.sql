-- The same columns and version as ../sqlite/0003_limits.sql. NULL is without limit; budgets are tokens in a day or month of UTC.

ALTER TABLE orgs ADD COLUMN rpm_limit BIGINT;
ALTER TABLE orgs ADD COLUMN tpm_limit BIGINT;
ALTER TABLE orgs ADD COLUMN max_concurrency BIGINT;
ALTER TABLE orgs ADD COLUMN max_streams BIGINT;
ALTER TABLE orgs ADD COLUMN budget_tokens_day BIGINT;
ALTER TABLE orgs ADD COLUMN budget_tokens_month BIGINT;

ALTER TABLE api_keys ADD COLUMN max_streams BIGINT;
ALTER TABLE api_keys ADD COLUMN budget_tokens_day BIGINT;
ALTER TABLE api_keys ADD COLUMN budget_tokens_month BIGINT;
ALTER TABLE api_keys ADD COLUMN limit_mode TEXT NOT NULL DEFAULT 'enforce' CHECK (limit_mode IN ('enforce', 'shadow'));
