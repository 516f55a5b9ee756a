-- gantry-dump: {"format":1,"schema_version":12,"instance":null,"created_at":"2026-11-21T00:10:04.123Z","gateway_version":"0.1.0","database":"sqlite","secrets":"redacted"}
--
-- The data of a Gantry installation. `gantry restore` reads it, into SQLite or Postgres.
-- The last line proves that it is complete and unchanged.
--

COPY public.account_tokens (id, user_id, name, prefix, token_hash, scopes, created_at, expires_at, last_used_at) FROM stdin;
\.

COPY public.api_keys (id, prefix, token_hash, org_id, user_id, name, name_lower, scopes, models, ip_allowlist, rpm_limit, tpm_limit, max_concurrency, created_at, expires_at, last_used_at, revoked_at, max_streams, budget_tokens_day, budget_tokens_month, limit_mode) FROM stdin;
\.

COPY public.audit (seq, at, actor_type, actor_id, actor, action, object_type, object_id, before, after, ip, request_id, user_agent, prev_hash, hash) FROM stdin;
1	1795219804123	user	7	ann�	key.create	key	1	{"name":"ä\\u0000\\"\\\\"}	{"ratio":0.1,"n":1e+21,"none":null}	::1	r	agent� ☃	\\x0000000000000000000000000000000000000000000000000000000000000000	\\xbe416ce661fd6819adef197bb2fb45bfd17e08cf77207b8801fc8ffe775d33d2
\.

COPY public.audit_chain (name, seq, hash) FROM stdin;
anchor	0	\\x0000000000000000000000000000000000000000000000000000000000000000
head	1	\\xbe416ce661fd6819adef197bb2fb45bfd17e08cf77207b8801fc8ffe775d33d2
\.

COPY public.changes (id, n) FROM stdin;
\.

COPY public.chat_messages (id, session_id, role, content, metrics, created_at) FROM stdin;
\.

COPY public.chat_sessions (id, user_id, title, model_name, engine_type, constraints, created_at, updated_at) FROM stdin;
\.

COPY public.jobs (id, kind, object, gateway, state, step, done_bytes, total_bytes, started_at, finished_at, error, log) FROM stdin;
\.

COPY public.meta (key, value) FROM stdin;
\.

COPY public.model_events (id, model_id, at, from_state, to_state, reason, detail) FROM stdin;
\.

COPY public.models (id, name, served_name, task, engine, config, hub_token, archived, deleting, wanted, generation, phase, created_at, updated_at, diagnosis, launched, last_good, apply, starts) FROM stdin;
\.

COPY public.orgs (id, name, name_lower, enabled, created_at, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month) FROM stdin;
1	Acme	acme	t	1795219804123	\N	\N	\N	\N	\N	\N
\.

COPY public.registry (served_name, task, api_key, created_at, urls, upstream_model) FROM stdin;
\.

COPY public.sessions (id_hash, user_id, created_at, expires_at) FROM stdin;
\.

COPY public.supervisor (id, epoch, gateway, name, runtime, machine, since) FROM stdin;
\.

COPY public.usage (id, req_id, created_at, key_id, key_prefix, user_id, org_id, model_name, task, endpoint, stream, prompt_tokens, completion_tokens, cached_tokens, estimated, latency_ms, ttft_ms, status_code, outcome, requests) FROM stdin;
01a1fb70-4fdb-7000-8000-000000000001	req-1	1795219804123	7	gty_Ab000001	\N	1	qwen	generate	/v1/chat/completions	t	12	34	\N	f	56	7	200	ok	1
01a1fb70-4fdb-7000-8000-000000000002	req-2	1795219804123	7	gty_Ab000001	\N	1	qwen	generate	/v1/chat/completions	t	12	34	\N	f	56	7	200	ok	1
\.

COPY public.usage_rollups (id, hours, start_at, requests, sums, times) FROM stdin;
1	1	1795219200000	2	\\x0301047177656e010e0c6774795f41623030303030310100010002c80100043088010000e001041c0004b6df4900	\\x0301380203010702
2	24	1795219200000	2	\\x0301047177656e010e0c6774795f41623030303030310100010002c80100043088010000e001041c0004b6df4900	\\x0301380203010702
\.

COPY public.usage_unrolled (start_at) FROM stdin;
\.

COPY public.users (id, org_id, username, username_lower, password_hash, role, enabled, created_at, last_login_at, rpm_limit, tpm_limit, max_concurrency, max_streams, budget_tokens_day, budget_tokens_month, models) FROM stdin;
1	1	ada	ada	$argon2id$…	owner	t	1795219804123	\N	\N	\N	\N	\N	\N	\N	\N
\.

SELECT pg_catalog.setval('public.account_tokens_id_seq', 1, false);
SELECT pg_catalog.setval('public.api_keys_id_seq', 1, false);
SELECT pg_catalog.setval('public.chat_messages_id_seq', 1, false);
SELECT pg_catalog.setval('public.jobs_id_seq', 1, false);
SELECT pg_catalog.setval('public.model_events_id_seq', 1, false);
SELECT pg_catalog.setval('public.models_id_seq', 1, false);
SELECT pg_catalog.setval('public.orgs_id_seq', 1, true);
SELECT pg_catalog.setval('public.usage_rollups_id_seq', 2, true);
SELECT pg_catalog.setval('public.users_id_seq', 1, true);

-- gantry-proof: {"rows":{"account_tokens":0,"api_keys":0,"audit":1,"audit_chain":2,"changes":0,"chat_messages":0,"chat_sessions":0,"jobs":0,"meta":0,"model_events":0,"models":0,"orgs":1,"registry":0,"sessions":0,"supervisor":0,"usage":2,"usage_rollups":2,"usage_unrolled":0,"users":1},"digests":{"account_tokens":"00000000000000000000000000000000","api_keys":"00000000000000000000000000000000","audit":"dd09b33937577d13d3072f7750b515c4","audit_chain":"937f5bdf4f185c174ac94907fb54a2b4","changes":"00000000000000000000000000000000","chat_messages":"00000000000000000000000000000000","chat_sessions":"00000000000000000000000000000000","jobs":"00000000000000000000000000000000","meta":"00000000000000000000000000000000","model_events":"00000000000000000000000000000000","models":"00000000000000000000000000000000","orgs":"aba9a5caefdb6bd148ab65ca2c6cb3c4","registry":"00000000000000000000000000000000","sessions":"00000000000000000000000000000000","supervisor":"00000000000000000000000000000000","usage":"4d31c95619fdc0a53ac59df35b3517b2","usage_rollups":"5a3ba21b5e3c387ebca05f0034dba9da","usage_unrolled":"00000000000000000000000000000000","users":"34d411be0d5697bf59ac17bb55e61db5"},"sequences":{"orgs":1,"usage_rollups":2,"users":1},"usage":{"requests":2,"prompt_tokens":24,"completion_tokens":68},"rollups":{"1":2,"24":2},"audit":{"rows":1,"head":1,"head_hash":"be416ce661fd6819adef197bb2fb45bfd17e08cf77207b8801fc8ffe775d33d2","verifies":true},"enabled_owners":1,"redacted":{}}
